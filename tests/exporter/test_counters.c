// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "exporter/counters.h"
#include "unit.h"

#include <string.h>

static const struct exporter_counter *find(const struct exporter_counters *c, const char *name)
{
    for (size_t i = 0; i < c->len; i++)
        if (gs_streq(c->rows[i].name, name))
            return &c->rows[i];
    return NULL;
}

static void test_rows_comments_quotes_and_order(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    const char *text = "# Format\n"
                       "\n"
                       "DCGM_FI_DEV_FB_USED, gauge, \"Used, in MiB.\"\r\n"
                       "DCGM_FI_DEV_DEC_UTIL ,     gauge, Decoder utilization (in %).\n"
                       "DCGM_FI_DEV_SM_CLOCK,gauge,a \"\"no\n";
    // A stray quote ends it.
    assert_error(exporter_counters_parse(gs_slice_of(text), &c), GS_EINVAL, "line 5");
    text = "# Format\n"
           "\n"
           "DCGM_FI_DEV_FB_USED, gauge, Used.\r\n"
           "DCGM_FI_DEV_DEC_UTIL ,     gauge, Decoder utilization (in %).\n"
           "DCGM_FI_DRIVER_VERSION, label, Driver version.\n"
           "DCGM_EXP_XID_ERRORS_COUNT, counter, Of the window.\n"
           "dcgm_sm_clock,gauge,\"Clock, \"\"SM\"\".\"";
    assert_ok(exporter_counters_parse(gs_slice_of(text), &c));
    assert_int_equal(c.len, 5);
    assert_int_equal(c.n_families, 4);
    assert_string_equal(c.rows[0].name, "dcgm_sm_clock");
    assert_string_equal(c.rows[0].help, "Clock, \"SM\".");
    assert_string_equal(c.rows[1].name, "DCGM_FI_DEV_DEC_UTIL");
    assert_string_equal(c.rows[2].help, "Used.");
    assert_int_equal(c.rows[3].kind, EXPORTER_COUNTER_EXP_XIDS);
    assert_int_equal(c.rows[4].kind, EXPORTER_COUNTER_LABEL);
    bool wanted[GPU_F_COUNT];
    exporter_counters_wanted(&c, wanted);
    assert_true(wanted[GPU_F_SM_CLOCK] && wanted[GPU_F_XID_ERRORS]);
    assert_false(wanted[GPU_F_MEM_CLOCK]);
}

static void test_wrong_files(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"DCGM_FI_DEV_FB_USED, gauge\n", "line 1 has 2 columns"},
        {"DCGM_FI_DEV_FB_USED, gauge, a, b\n", "line 1 has 4 columns"},
        {"\nDCGM_FI_DEV_FB_USED, guage, a\n", "line 2: type \"guage\""},
        {"DCGM_FI_DEV_fb_used, gauge, a\n", "unknown field \"DCGM_FI_DEV_fb_used\""},
        {"DCGM_FI_, gauge, a\n", "unknown field \"DCGM_FI_\""},
        {"DCGM_EXP_XID, gauge, a\n", "unknown field \"DCGM_EXP_XID\""},
        {"dcgm_fb_usd, gauge, a\n", "unknown field \"dcgm_fb_usd\""},
        {"DCGM_FI_DEV_OF_A_LATER_RELEASE, guage, a\n", "line 1: type \"guage\""},
        {"DCGM_FI_DEV_OF_A_LATER_RELEASE, gauge\n", "line 1 has 2 columns"},
        {"DCGM_FI_DEV_FB_USED, gauge, \"a\n", "line 1: unbalanced quotes"},
        {"# nothing\n", "defines no metrics"},
        {"", "defines no metrics"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct exporter_counters c = {0};
        assert_error(exporter_counters_parse(gs_slice_of(rows[i].text), &c), GS_EINVAL,
                     rows[i].says);
    }
}

static void test_what_nvml_does_not_give_is_left_out_with_a_word(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    const char *text = "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT, gauge, a\n"
                       "DCGM_FI_DEV_SERIAL, gauge, c\n"
                       "DCGM_FI_DEV_GPU_TEMP, gauge, d\n"
                       "DCGM_FI_DEV_GPU_TEMP, counter, e\n";
    assert_ok(exporter_counters_parse(gs_slice_of(text), &c));
    assert_int_equal(c.len, 1);
    assert_string_equal(c.rows[0].help, "d");
    assert_int_equal(c.n_warnings, 3);
    assert_int_equal(c.n_left_out, 3);
}

// Names of other releases of DCGM do not end the program. One line names them.
static void test_unknown_fields_are_left_out_with_a_word(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    assert_ok(exporter_counters_parse(gs_slice_of("DCGM_FI_DEV_COMPUTE_PIDS, gauge, a\n"
                                                  "DCGM_FI_DEV_GPU_TEMP, gauge, b\n"
                                                  "DCGM_FI_DEV_GPU_UTIL_SAMPLES, gauge, c\n"),
                                      &c));
    assert_int_equal(c.len, 1);
    assert_int_equal(c.n_left_out, 2);
    assert_int_equal(c.n_warnings, 1);
    assert_non_null(strstr(c.warnings[0], "2 fields are ignored (unknown to this version"));
    assert_non_null(
        strstr(c.warnings[0], "DCGM_FI_DEV_COMPUTE_PIDS, DCGM_FI_DEV_GPU_UTIL_SAMPLES"));
}

static void test_the_line_about_unknown_fields_is_bounded(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    GS_AUTO_BUF struct gs_buf text = {0};
    for (int i = 0; i < 1000; i++)
        gs_buf_addf(&text, "DCGM_FI_DEV_NVSWITCH_BANDWIDTH_RX_%d, gauge, x\n", i);
    assert_ok(exporter_counters_parse(gs_buf_slice(&text), &c)); // although nothing is left
    assert_int_equal(c.len, 0);
    assert_int_equal(c.n_left_out, 1000);
    assert_int_equal(c.n_warnings, 1);
    assert_true(strlen(c.warnings[0]) < 4096);
    assert_non_null(strstr(c.warnings[0], "1000 fields are ignored"));
    assert_non_null(strstr(c.warnings[0], " and 936 more"));
}

static void test_how_often_fields_are_read(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    int64_t every[GPU_F_COUNT];
    assert_ok(exporter_counters_parse(gs_slice_of("DCGM_FI_DEV_GPU_TEMP, gauge, a\n"
                                                  "DCGM_FI_DEV_GPU_UTIL, gauge, b\n"
                                                  "DCGM_FI_DEV_FB_FREE, gauge, c\n"
                                                  "DCGM_FI_DEV_XID_ERRORS, gauge, d\n"
                                                  "DCGM_EXP_XID_ERRORS_COUNT, gauge, e\n"),
                                      &c));
    for (size_t i = 0; i < c.len; i++)
        c.rows[i].every_ns = 1000 + (int64_t)i;
    exporter_counters_intervals(&c, every);
    assert_int_equal(every[GPU_F_GPU_TEMP], 1000); // the first by number
    assert_int_equal(every[GPU_F_SM_CLOCK], 0);
    assert_int_equal(every[GPU_F_XID_ERRORS], 1002); // the shorter of two
    // Processes' readings are settled with these, which must not be older.
    assert_int_equal(every[GPU_F_GPU_UTIL], 0);
    assert_int_equal(every[GPU_F_FB_FREE], 0);
}

// They bring the fields that they are made of.
static void test_health_and_peers(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    bool wanted[GPU_F_COUNT];
    assert_ok(exporter_counters_parse(gs_slice_of("DCGM_EXP_P2P_STATUS, anything, b\n"), &c));
    assert_false(exporter_counters_have(&c, EXPORTER_COUNTER_EXP_HEALTH));
    exporter_counters_wanted(&c, wanted);
    assert_true(wanted[GPU_F_NVLINK_P2P]);
    assert_false(wanted[GPU_F_THERMAL_VIOLATION]);
    exporter_counters_finish(&c);
    assert_ok(exporter_counters_parse(gs_slice_of("DCGM_EXP_GPU_HEALTH_STATUS, gauge, b\n"), &c));
    assert_true(exporter_counters_have(&c, EXPORTER_COUNTER_EXP_HEALTH));
    exporter_counters_wanted(&c, wanted);
    assert_true(wanted[GPU_F_THERMAL_VIOLATION] && wanted[GPU_F_ECC_DBE_VOL]);
    assert_int_equal(c.rows[0].id, 9003);
}

static void test_built_in_files(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    assert_true(exporter_counters_builtin("/etc/dcgm-exporter/default-counters.csv", &c));
    assert_int_equal(c.n_families, 25);
    assert_int_equal(c.len, 26);
    exporter_counters_finish(&c);
    assert_true(exporter_counters_builtin("dcp-metrics-included.csv", &c));
    assert_int_equal(c.len, 26);
    exporter_counters_finish(&c);
    assert_true(exporter_counters_builtin("/etc/dcgm-exporter/1.x-compatibility-metrics.csv", &c));
    assert_int_equal(c.len, 20);
    assert_non_null(find(&c, "dcgm_gpu_utilization"));
    assert_string_equal(find(&c, "dcgm_fi_prof_pcie_tx_bytes")->type, "counter");
    exporter_counters_finish(&c);
    assert_false(exporter_counters_builtin("/etc/mine.csv", &c));
}

// Who compares pages with dcgm-exporter's sees no difference.
static void test_help_of_built_in_files_is_that_of_nvidia(void **state)
{
    static const struct {
        const char *file, *name, *help;
    } rows[] = {
        {"default-counters.csv", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
         "Total energy consumption since boot (in mJ)."},
        {"default-counters.csv", "DCGM_FI_DEV_XID_ERRORS",
         "Value of the last XID error encountered."},
        {"default-counters.csv", "DCGM_FI_DEV_VGPU_LICENSE_STATUS", "vGPU License status"},
        {"default-counters.csv", "DCGM_FI_DEV_ROW_REMAP_FAILURE",
         "Whether remapping of rows has failed"},
        {"default-counters.csv", "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
         "Ratio of time the graphics engine is active."},
        {"default-counters.csv", "DCGM_FI_PROF_PCIE_TX_BYTES",
         "The rate of data transmitted over the PCIe bus - including both protocol headers and "
         "data payloads - in bytes per second."},
        {"1.x-compatibility-metrics.csv", "dcgm_nvlink_bandwidth_total",
         "Total number of NVLink bandwidth counters for all lanes"},
        {"1.x-compatibility-metrics.csv", "dcgm_fi_prof_gr_engine_active",
         "Ratio of time the graphics engine is active (in %)."},
        {"1.x-compatibility-metrics.csv", "dcgm_fi_prof_pcie_tx_bytes",
         "Total number of bytes transmitted through PCIe TX via NVML."},
        {"1.x-compatibility-metrics.csv", "dcgm_fb_used", "Framebuffer memory used (in MiB)."},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
        assert_true(exporter_counters_builtin(rows[i].file, &c));
        assert_string_equal(find(&c, rows[i].name)->help, rows[i].help);
    }
}

// The names of dcgm-exporter 4.9's default file.
static void test_default_file_of_dcgm_4_7(void **state)
{
    static const char *const names[] = {
        "DCGM_FI_DEV_SM_CLOCK_HERTZ",
        "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ",
        "DCGM_FI_DEV_GPU_TEMP_CELSIUS",
        "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS",
        "DCGM_FI_DEV_BOARD_POWER_WATTS",
        "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL",
        "DCGM_FI_DEV_GPU_UTIL_RATIO",
        "DCGM_FI_DEV_MEMORY_UTIL_RATIO",
        "DCGM_FI_DEV_ENC_UTIL_RATIO",
        "DCGM_FI_DEV_DEC_UTIL_RATIO",
        "DCGM_FI_DEV_FB_FREE_BYTES",
        "DCGM_FI_DEV_FB_USED_BYTES",
        "DCGM_FI_DEV_FB_RESERVED_BYTES",
        "DCGM_FI_DEV_FB_CAPACITY_BYTES",
        "DCGM_FI_DEV_PCIE_REPLAY_TOTAL",
        "DCGM_FI_DEV_XID_ERROR",
        "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
        "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL",
        "DCGM_FI_DEV_ROW_REMAP_FAILED",
        "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND",
        "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
        "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
        "DCGM_FI_PROF_DRAM_UTIL_RATIO",
        "DCGM_FI_SYSTEM_DRIVER_VERSION",
    };
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    GS_AUTO_BUF struct gs_buf text = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        gs_buf_addf(&text, "%s, %s, x\n", names[i],
                    gs_streq(names[i], "DCGM_FI_SYSTEM_DRIVER_VERSION") ? "label" : "gauge");
    assert_ok(exporter_counters_parse(gs_buf_slice(&text), &c));
    assert_int_equal(c.n_warnings, 0);
    assert_int_equal(c.len, GS_ARRAY_LEN(names));
    assert_int_equal(find(&c, "DCGM_FI_DEV_GPU_UTIL_RATIO")->id, 1613);
    assert_int_equal(find(&c, "DCGM_FI_DEV_BOARD_POWER_WATTS")->id, 155);
    assert_int_equal(find(&c, "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND")->id, 1648);
}

// Its fields in base units are consecutive, from 1600 on. NVML does not have 1649.
static void test_fields_of_dcgm_4_7_have_their_numbers(void **state)
{
    static const struct {
        const char *name;
        int id;
    } rows[] = {
        {"DCGM_FI_DEV_BAR1_CAPACITY_BYTES", 1600},
        {"DCGM_FI_DEV_VIDEO_CLOCK_HERTZ", 1605},
        {"DCGM_FI_DEV_VIDEO_MAX_CLOCK_HERTZ", 1610},
        {"DCGM_FI_DEV_FAN_SPEED_RATIO", 1612},
        {"DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL", 1617},
        {"DCGM_FI_DEV_GPU_BASE_THROTTLE_SECONDS_TOTAL", 1624},
        {"DCGM_FI_DEV_FB_CAPACITY_BYTES", 1625},
        {"DCGM_FI_DEV_C2C_MAX_BANDWIDTH_BYTES_PER_SECOND", 1629},
        {"DCGM_FI_DEV_NVLINK_THROUGHPUT_L0_BYTES_PER_SECOND", 1630},
        {"DCGM_FI_DEV_NVLINK_THROUGHPUT_L17_BYTES_PER_SECOND", 1647},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        assert_int_equal(gpu_field_info(gpu_field_by_name(rows[i].name))->id, rows[i].id);
    for (int i = 0; i < 49; i++)
        assert_int_equal(gpu_field_info(GPU_F_BAR1_TOTAL_BYTES + (unsigned)i)->id, 1600 + i);
    assert_true(gpu_field_is_dcgm_only("DCGM_FI_DEV_VGPU_FB_USED_BYTES"));
}

// DCGM 4.6 renamed fields; both names are the same field.
static void test_newer_names(void **state)
{
    assert_int_equal(gpu_field_by_name("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
                     GPU_F_PROF_GR_ENGINE_ACTIVE);
    assert_int_equal(gpu_field_by_name("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
                     GPU_F_PROF_GR_ENGINE_ACTIVE);
    assert_int_equal(gpu_field_by_name("DCGM_FI_NO_SUCH"), GPU_F_COUNT);
    assert_false(gpu_field_is_dcgm_only("DCGM_FI_DEV_GPU_TEMP"));
}

static const char *const changed[][2] = {
    {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"},
    {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"},
    {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND"},
    {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO"},
    {"DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"},
};

static void test_default_metrics_with_the_names_of_4_9(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0}, old = {0};
    assert_true(exporter_counters_builtin("/etc/x/default-counters-4.9.csv", &c));
    exporter_counters_default(&old);
    assert_int_equal(c.len, old.len + 1);
    assert_int_equal(find(&c, "DCGM_FI_DEV_FB_CAPACITY_BYTES")->field, GPU_F_FB_TOTAL_BYTES);
    for (size_t i = 0; i < GS_ARRAY_LEN(changed); i++) {
        assert_non_null(find(&old, changed[i][0]));
        assert_null(find(&c, changed[i][0]));
        assert_non_null(find(&c, changed[i][1]));
    }
    size_t same = 0;
    for (size_t i = 0; i < old.len; i++)
        same += find(&c, old.rows[i].name) != NULL;
    assert_int_equal(same, 3); // 23 of 26 are renamed
    assert_int_equal(c.n_families, c.len - 1);
    exporter_counters_finish(&old);
}

static void test_names_of_one_release(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    assert_ok(exporter_counters_parse(gs_slice_of("DCGM_FI_DEV_FB_USED,gauge,In MiB.\n"
                                                  "DCGM_FI_DEV_POWER_USAGE,gauge,My watts.\n"
                                                  "DCGM_FI_DEV_XID_ERROR,gauge,x\n"
                                                  "dcgm_gpu_temp,gauge,t\n"
                                                  "DCGM_EXP_XID_ERRORS_COUNT,counter,n\n"),
                                      &c));
    exporter_counters_rename(&c, EXPORTER_NAMES_4_9);
    assert_int_equal(c.len, 5);
    const struct exporter_counter *used = find(&c, "DCGM_FI_DEV_FB_USED_BYTES");
    assert_int_equal(used->field, GPU_F_FB_USED_BYTES);
    assert_int_equal(used->id, 1627);
    assert_null(strstr(used->help, "MiB"));
    assert_string_equal(find(&c, "DCGM_FI_DEV_BOARD_POWER_WATTS")->help, "My watts.");
    assert_non_null(find(&c, "DCGM_FI_DEV_XID_ERROR"));
    assert_non_null(find(&c, "dcgm_gpu_temp"));
    assert_non_null(find(&c, "DCGM_EXP_XID_ERRORS_COUNT"));
    exporter_counters_rename(&c, EXPORTER_NAMES_4_8);
    assert_int_equal(c.len, 5);
    assert_int_equal(find(&c, "DCGM_FI_DEV_FB_USED")->field, GPU_F_FB_USED);
    assert_non_null(find(&c, "DCGM_FI_DEV_XID_ERRORS"));
}

static void test_names_of_both_releases(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    exporter_counters_default(&c);
    size_t n = c.len;
    exporter_counters_rename(&c, EXPORTER_NAMES_BOTH);
    assert_int_equal(c.len, 2 * n - 3);
    for (size_t i = 0; i < GS_ARRAY_LEN(changed); i++)
        assert_true(find(&c, changed[i][0]) && find(&c, changed[i][1]));
    for (size_t i = 1; i < c.n_families; i++)
        assert_true(c.rows[i - 1].id <= c.rows[i].id);
    assert_int_equal(c.len - c.n_families, 2); // the label, twice
    exporter_counters_rename(&c, EXPORTER_NAMES_BOTH);
    assert_int_equal(c.len, 2 * n - 3);
}

static void test_names_of_metric_names(void **state)
{
    enum exporter_names names;
    assert_true(exporter_names_parse("4.8", &names) && names == EXPORTER_NAMES_4_8);
    assert_true(exporter_names_parse("4.9", &names) && names == EXPORTER_NAMES_4_9);
    assert_true(exporter_names_parse("both", &names) && names == EXPORTER_NAMES_BOTH);
    assert_false(exporter_names_parse("5", &names));
    assert_false(exporter_names_parse("", &names));
}

// Files of people who know both releases have both names.
static void test_two_names_of_one_field(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    assert_ok(exporter_counters_parse(gs_slice_of("DCGM_FI_DEV_GPU_TEMP_CELSIUS,gauge,a\n"
                                                  "DCGM_FI_DEV_GPU_TEMP,gauge,b\n"
                                                  "DCGM_FI_DEV_GPU_UTIL,gauge,c\n"
                                                  "DCGM_FI_DEV_GPU_UTIL_RATIO,gauge,d\n"
                                                  "DCGM_FI_DEV_FB_USED_BYTES,gauge,e\n"),
                                      &c));
    assert_int_equal(c.len, 5);
    assert_int_equal(c.n_warnings, 0);
    assert_int_equal(find(&c, "DCGM_FI_DEV_GPU_UTIL")->field, GPU_F_GPU_UTIL);
    assert_int_equal(find(&c, "DCGM_FI_DEV_GPU_UTIL_RATIO")->field, GPU_F_GPU_UTIL_RATIO);
    assert_int_equal(find(&c, "DCGM_FI_DEV_GPU_TEMP")->id, 150);
    assert_int_equal(find(&c, "DCGM_FI_DEV_GPU_TEMP_CELSIUS")->id, 150);
}

// DCGM 4.6 had the name for percent. A file without any other metric of 4.7 may mean that.
static void test_a_ratio_among_old_units_is_said(void **state)
{
    static const struct {
        const char *text;
        size_t warnings;
    } rows[] = {
        {"DCGM_FI_DEV_GPU_UTIL_RATIO,gauge,a\nDCGM_FI_DEV_FB_USED,gauge,b\n", 1},
        {"DCGM_FI_DEV_GPU_UTIL_RATIO,gauge,a\nDCGM_FI_DEV_GPU_TEMP_CELSIUS,gauge,b\n", 0},
        {"DCGM_FI_DEV_GPU_UTIL_RATIO,gauge,a\nDCGM_FI_DEV_FB_USED_BYTES,gauge,b\n", 0},
        {"DCGM_FI_DEV_GPU_UTIL,gauge,a\nDCGM_FI_DEV_FB_USED,gauge,b\n", 0},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
        assert_ok(exporter_counters_parse(gs_slice_of(rows[i].text), &c));
        assert_int_equal(c.n_warnings, rows[i].warnings);
        assert_int_equal(c.n_left_out, 0);
    }
}

static void test_rows_that_only_dcgm_has(void **state)
{
    GS_CLEANUP(exporter_counters_finish) struct exporter_counters c = {0};
    const char *text = "DCGM_FI_DEV_NVSWITCH_TEMP_CELSIUS,gauge,a\n"
                       "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT,gauge,b\n"
                       "DCGM_FI_DEV_CPU_UTIL_USER,gauge,c\n"
                       "DCGM_FI_DEV_CPU_MODEL,label,d\n"          // a text
                       "DCGM_FI_DEV_MIG_ATTRIBUTES,gauge,e\n"     // bytes
                       "DCGM_FI_DEV_OF_A_LATER_RELEASE,gauge,f\n" // unknown
                       "DCGM_FI_DEV_GPU_TEMP,gauge,g\n";
    assert_ok(exporter_counters_parse_with(gs_slice_of(text), true, &c));
    assert_int_equal(c.len, 4);
    assert_int_equal(c.n_left_out, 3);
    const struct exporter_counter *row = find(&c, "DCGM_FI_DEV_NVSWITCH_TEMP_CELSIUS");
    assert_int_equal(row->kind, EXPORTER_COUNTER_DCGM);
    assert_int_equal(row->field, GPU_F_COUNT);
    assert_int_equal(row->id, 858);
    uint16_t ids[8];
    assert_int_equal(exporter_counters_dcgm_ids(&c, ids, GS_ARRAY_LEN(ids)), 2);
    assert_true(ids[0] == 858 && ids[1] == 1101);
    assert_int_equal(exporter_counters_dcgm_ids(&c, ids, 1), 1);
    bool wanted[GPU_F_COUNT];
    int64_t every[GPU_F_COUNT];
    exporter_counters_wanted(&c, wanted);
    exporter_counters_intervals(&c, every);
    assert_true(wanted[GPU_F_GPU_TEMP]);
    exporter_counters_rename(&c, EXPORTER_NAMES_4_9);
    assert_non_null(find(&c, "DCGM_FI_DEV_CPU_UTIL_USER_RATIO"));
    assert_int_equal(c.len, 3); // the two names of 858 are one
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_comments_quotes_and_order),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_what_nvml_does_not_give_is_left_out_with_a_word),
        cmocka_unit_test(test_unknown_fields_are_left_out_with_a_word),
        cmocka_unit_test(test_the_line_about_unknown_fields_is_bounded),
        cmocka_unit_test(test_default_file_of_dcgm_4_7),
        cmocka_unit_test(test_fields_of_dcgm_4_7_have_their_numbers),
        cmocka_unit_test(test_how_often_fields_are_read),
        cmocka_unit_test(test_health_and_peers),
        cmocka_unit_test(test_built_in_files),
        cmocka_unit_test(test_help_of_built_in_files_is_that_of_nvidia),
        cmocka_unit_test(test_newer_names),
        cmocka_unit_test(test_default_metrics_with_the_names_of_4_9),
        cmocka_unit_test(test_names_of_one_release),
        cmocka_unit_test(test_names_of_both_releases),
        cmocka_unit_test(test_names_of_metric_names),
        cmocka_unit_test(test_two_names_of_one_field),
        cmocka_unit_test(test_a_ratio_among_old_units_is_said),
        cmocka_unit_test(test_rows_that_only_dcgm_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
