// SPDX-License-Identifier: Apache-2.0
// The built-in counters files: the three of dcgm-exporter up to 4.8, and the default one of 4.9.
#include "exporter/counters_private.h"

struct name_row {
    const char *name;
    const char *type; // NULL: the field's own
    enum gpu_field field;
    bool listed;      // in 1.x-compatibility-metrics.csv
    const char *help; // help of that file; NULL: the field's own
};

// Names of dcgm-exporter 1.x.
static const struct name_row old_names[] = {
    {"dcgm_sm_clock", NULL, GPU_F_SM_CLOCK, true},
    {"dcgm_memory_clock", NULL, GPU_F_MEM_CLOCK, true},
    {"dcgm_memory_temp", NULL, GPU_F_MEMORY_TEMP, true},
    {"dcgm_gpu_temp", NULL, GPU_F_GPU_TEMP, true},
    {"dcgm_power_usage", NULL, GPU_F_POWER_USAGE, true},
    {"dcgm_total_energy_consumption", NULL, GPU_F_TOTAL_ENERGY, true},
    {"dcgm_pcie_tx_throughput", NULL, GPU_F_PCIE_TX, false},
    {"dcgm_pcie_rx_throughput", NULL, GPU_F_PCIE_RX, false},
    {"dcgm_pcie_replay_counter", NULL, GPU_F_PCIE_REPLAY, true},
    {"dcgm_gpu_utilization", NULL, GPU_F_GPU_UTIL, true},
    {"dcgm_mem_copy_utilization", NULL, GPU_F_MEM_COPY_UTIL, true},
    {"dcgm_enc_utilization", NULL, GPU_F_ENC_UTIL, true},
    {"dcgm_dec_utilization", NULL, GPU_F_DEC_UTIL, true},
    {"dcgm_xid_errors", NULL, GPU_F_XID_ERRORS, true},
    {"dcgm_power_violation", NULL, GPU_F_POWER_VIOLATION, false},
    {"dcgm_thermal_violation", NULL, GPU_F_THERMAL_VIOLATION, false},
    {"dcgm_sync_boost_violation", NULL, GPU_F_SYNC_BOOST_VIOLATION, false},
    {"dcgm_board_limit_violation", NULL, GPU_F_BOARD_LIMIT_VIOLATION, false},
    {"dcgm_low_util_violation", NULL, GPU_F_LOW_UTIL_VIOLATION, false},
    {"dcgm_reliability_violation", NULL, GPU_F_RELIABILITY_VIOLATION, false},
    {"dcgm_fb_free", NULL, GPU_F_FB_FREE, true},
    {"dcgm_fb_used", NULL, GPU_F_FB_USED, true},
    {"dcgm_ecc_sbe_volatile_total", NULL, GPU_F_ECC_SBE_VOL, false},
    {"dcgm_ecc_dbe_volatile_total", NULL, GPU_F_ECC_DBE_VOL, false},
    {"dcgm_ecc_sbe_aggregate_total", NULL, GPU_F_ECC_SBE_AGG, false},
    {"dcgm_ecc_dbe_aggregate_total", NULL, GPU_F_ECC_DBE_AGG, false},
    {"dcgm_retired_pages_sbe", NULL, GPU_F_RETIRED_SBE, false},
    {"dcgm_retired_pages_dbe", NULL, GPU_F_RETIRED_DBE, false},
    {"dcgm_retired_pages_pending", NULL, GPU_F_RETIRED_PENDING, false},
    {"dcgm_nvlink_flit_crc_error_count_total", NULL, GPU_F_NVLINK_CRC_FLIT, false},
    {"dcgm_nvlink_data_crc_error_count_total", NULL, GPU_F_NVLINK_CRC_DATA, false},
    {"dcgm_nvlink_replay_error_count_total", NULL, GPU_F_NVLINK_REPLAY, false},
    {"dcgm_nvlink_recovery_error_count_total", NULL, GPU_F_NVLINK_RECOVERY, false},
    {"dcgm_nvlink_bandwidth_total", NULL, GPU_F_NVLINK_BANDWIDTH, true,
     "Total number of NVLink bandwidth counters for all lanes"},
    {"dcgm_fi_prof_gr_engine_active", NULL, GPU_F_PROF_GR_ENGINE_ACTIVE, true,
     "Ratio of time the graphics engine is active (in %)."},
    {"dcgm_fi_prof_sm_active", NULL, GPU_F_PROF_SM_ACTIVE, false},
    {"dcgm_fi_prof_sm_occupancy", NULL, GPU_F_PROF_SM_OCCUPANCY, false},
    {"dcgm_fi_prof_pipe_tensor_active", NULL, GPU_F_PROF_PIPE_TENSOR_ACTIVE, true,
     "Ratio of cycles the tensor (HMMA) pipe is active (in %)."},
    {"dcgm_fi_prof_dram_active", NULL, GPU_F_PROF_DRAM_ACTIVE, true,
     "Ratio of cycles the device memory interface is active sending or receiving data (in %)."},
    {"dcgm_fi_prof_pcie_tx_bytes", "counter", GPU_F_PROF_PCIE_TX_BYTES, true,
     "Total number of bytes transmitted through PCIe TX via NVML."},
    {"dcgm_fi_prof_pcie_rx_bytes", "counter", GPU_F_PROF_PCIE_RX_BYTES, true,
     "Total number of bytes received through PCIe RX via NVML."},
};

// The active rows of default-counters.csv and dcp-metrics-included.csv, which are identical.
static const enum gpu_field default_fields[] = {
    GPU_F_DRIVER_VERSION,
    GPU_F_SM_CLOCK,
    GPU_F_MEM_CLOCK,
    GPU_F_MEMORY_TEMP,
    GPU_F_GPU_TEMP,
    GPU_F_POWER_USAGE,
    GPU_F_TOTAL_ENERGY,
    GPU_F_PCIE_REPLAY,
    GPU_F_GPU_UTIL,
    GPU_F_MEM_COPY_UTIL,
    GPU_F_ENC_UTIL,
    GPU_F_DEC_UTIL,
    GPU_F_XID_ERRORS,
    GPU_F_FB_FREE,
    GPU_F_FB_USED,
    GPU_F_FB_RESERVED,
    GPU_F_UNCORRECTABLE_REMAPPED,
    GPU_F_CORRECTABLE_REMAPPED,
    GPU_F_ROW_REMAP_FAILURE,
    GPU_F_NVLINK_BANDWIDTH,
    GPU_F_VGPU_LICENSE,
    GPU_F_PROF_GR_ENGINE_ACTIVE,
    GPU_F_PROF_PIPE_TENSOR_ACTIVE,
    GPU_F_PROF_DRAM_ACTIVE,
    GPU_F_PROF_PCIE_TX_BYTES,
    GPU_F_PROF_PCIE_RX_BYTES,
};

void exporter_counters_default(struct exporter_counters *ret)
{
    *ret = (struct exporter_counters){0};
    for (size_t i = 0; i < GS_ARRAY_LEN(default_fields); i++)
        exporter_counters_add_field(ret, default_fields[i], NULL, NULL, NULL);
    exporter_counters_sort(ret);
}

// The rows of 4.8 with the names and units of 4.9, and the size of the memory.
static void default_of_4_9(struct exporter_counters *ret)
{
    exporter_counters_default(ret);
    exporter_counters_rename(ret, EXPORTER_NAMES_4_9);
    exporter_counters_add_field(ret, GPU_F_FB_TOTAL_BYTES, NULL, NULL, NULL);
    exporter_counters_sort(ret);
}

bool exporter_counters_builtin(const char *path, struct exporter_counters *ret)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (gs_streq(name, "default-counters.csv") || gs_streq(name, "dcp-metrics-included.csv")) {
        exporter_counters_default(ret);
        return true;
    }
    if (gs_streq(name, "default-counters-4.9.csv")) {
        default_of_4_9(ret);
        return true;
    }
    if (!gs_streq(name, "1.x-compatibility-metrics.csv"))
        return false;
    *ret = (struct exporter_counters){0};
    for (size_t i = 0; i < GS_ARRAY_LEN(old_names); i++)
        if (old_names[i].listed)
            exporter_counters_add_field(ret, old_names[i].field, old_names[i].name,
                                        old_names[i].type, old_names[i].help);
    exporter_counters_sort(ret);
    return true;
}

enum gpu_field exporter_counters_find_field(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(old_names); i++)
        if (gs_streq(old_names[i].name, name))
            return old_names[i].field;
    return gpu_field_by_name(name);
}
