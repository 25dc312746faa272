// SPDX-License-Identifier: Apache-2.0
// PCIe, ECC, retired and remapped memory, NVLink. The simulated boards have the counters of real
// ones; because nothing is transferred and nothing fails, they are 0.
#include "nvmlsim/nvml_lib.h"

#include <time.h>

#define PCIE_WINDOW_NS (20 * GS_NS_PER_MS)
#define PCIE_WIDTH     16
#define BUS_PCIE       2
#define ECC_LOCATIONS  8
#define ECC_DRAM       2

// Blocks for the sample window of 20 ms, as the driver does.
NVML_API nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int counter, unsigned *kbps)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_MAXWELL,
                                      kbps && (counter == 0 || counter == 1));
    if (c.rc)
        return c.rc;
    nanosleep(&(struct timespec){.tv_nsec = PCIE_WINDOW_NS}, NULL);
    *kbps = 0;
    return NVML_SUCCESS;
}

static nvmlReturn_t pcie_generation(const char *fn, nvmlDevice_t device, unsigned *ret)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_GPU, ret != NULL);
    if (!c.rc)
        *ret = c.board->model.pcie_gen;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *generation)
{
    return pcie_generation(__func__, device, generation);
}

NVML_API nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *generation)
{
    return pcie_generation(__func__, device, generation);
}

NVML_API nvmlReturn_t nvmlDeviceGetBusType(nvmlDevice_t device, int *type)
{
    return nvmlsim_give_choice(__func__, device, BUS_PCIE, type);
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device,
                                                            unsigned *generation)
{
    return pcie_generation(__func__, device, generation);
}

// Its numbers are those of the generations: 1 for 2.5 GT/s, 2 for 5, 3 for 8 …
NVML_API nvmlReturn_t nvmlDeviceGetPcieLinkMaxSpeed(nvmlDevice_t device, unsigned *speed)
{
    return pcie_generation(__func__, device, speed);
}

NVML_API nvmlReturn_t nvmlDeviceGetPcieSpeed(nvmlDevice_t device, unsigned *mbps)
{
    static const unsigned speeds[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    unsigned generation = 0;
    nvmlReturn_t rc = pcie_generation(__func__, device, mbps ? &generation : NULL);
    if (!rc)
        *mbps = generation < GS_ARRAY_LEN(speeds) ? speeds[generation] : 0;
    return rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *width)
{
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_GPU, PCIE_WIDTH, width);
}

NVML_API nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *width)
{
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_GPU, PCIE_WIDTH, width);
}

NVML_API nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned *count)
{
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_GPU, 0, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, int *current, int *pending)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ECC, current && pending);
    if (!c.rc)
        *current = *pending = 1;
    return c.rc;
}

static bool ecc_kind(int error, int counter)
{
    return (error == 0 || error == 1) && (counter == 0 || counter == 1);
}

NVML_API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int error, int counter,
                                                  unsigned long long *count)
{
    NVML_CALL c =
        nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ECC, count && ecc_kind(error, counter));
    if (!c.rc)
        *count = 0;
    return c.rc;
}

// A MIG instance only has the volatile uncorrected counters outside DRAM.
NVML_API nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, int error, int counter,
                                                      int location, unsigned long long *count)
{
    bool valid = count && ecc_kind(error, counter) && location >= 0 && location < ECC_LOCATIONS;
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ECC | NVMLSIM_CALL_ANY, valid);
    if (c.rc)
        return c.rc;
    if (nvmlsim_device_is_mig(&c) && (error != 1 || counter != 0 || location == ECC_DRAM))
        return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device,
                                                      nvmlEccSramErrorStatus_v1_t *status)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ECC | NVMLSIM_CALL_AMPERE,
                                      status != NULL);
    if (c.rc)
        return c.rc;
    uint32_t version = status->version;
    if (version != NVML_VERSION_WORD(nvmlEccSramErrorStatus_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!nvmlsim_is_privileged())
        return NVML_ERROR_NO_PERMISSION;
    uint64_t exceeded = 0;
    nvmlsim_read_set_value(&c, NVMLSIM_VALUE_SRAM_EXCEEDED, &exceeded);
    *status =
        (nvmlEccSramErrorStatus_v1_t){.version = version, .bThresholdExceeded = exceeded != 0};
    return NVML_SUCCESS;
}

// Boards up to Volta retire pages; newer boards remap rows.
static nvmlReturn_t retired_pages(const char *fn, nvmlDevice_t device, bool valid, unsigned *count)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_ECC, valid);
    if (c.rc)
        return c.rc;
    if (c.board->model.arch > NVMLSIM_VOLTA)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, int cause, unsigned *count,
                                                unsigned long long *addresses)
{
    return retired_pages(__func__, device, count && (cause == 0 || cause == 1), count);
}

NVML_API nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, int cause, unsigned *count,
                                                   unsigned long long *addresses,
                                                   unsigned long long *timestamps)
{
    return retired_pages(__func__, device, count && (cause == 0 || cause == 1), count);
}

NVML_API nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, int *pending)
{
    unsigned count = 0;
    nvmlReturn_t rc = retired_pages(__func__, device, pending != NULL, &count);
    if (!rc)
        *pending = 0;
    return rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *correctable,
                                                unsigned *uncorrectable, unsigned *pending,
                                                unsigned *failed)
{
    bool valid = correctable && uncorrectable && pending && failed;
    NVML_CALL c = nvmlsim_call_device(
        __func__, device, NVMLSIM_CALL_ECC | NVMLSIM_CALL_AMPERE | NVMLSIM_CALL_NO_MIG, valid);
    if (!c.rc)
        *correctable = *uncorrectable = *pending = *failed = 0;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
                                                        nvmlRowRemapperHistogramValues_t *values)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device,
                                      NVMLSIM_CALL_ECC | NVMLSIM_CALL_AMPERE | NVMLSIM_CALL_NO_MIG,
                                      values != NULL);
    enum { BANKS = 640 };
    uint64_t none = 0;
    if (c.rc)
        return c.rc;
    nvmlsim_read_set_value(&c, NVMLSIM_VALUE_BANKS_NONE, &none);
    none = none < BANKS ? none : BANKS;
    *values =
        (nvmlRowRemapperHistogramValues_t){.max = BANKS - (uint32_t)none, .none = (uint32_t)none};
    return NVML_SUCCESS;
}

// Boards with ECC have an InfoROM.
NVML_API nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
    NVML_CALL c =
        nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ECC | NVMLSIM_CALL_NO_MIG, true);
    return c.rc;
}

// Boards with 18 links are simulated behind NVSwitches; they are registered and healthy.
NVML_API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *info)
{
    enum { NVSWITCH_LINKS = 18, COMPLETED = 3, HEALTHY = 1, ALL_WELL = 0x1aa };
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_NO_MIG, info != NULL);
    if (c.rc)
        return c.rc;
    uint32_t size = info->version & 0xffffff, version = info->version >> 24;
    if (!(version == 3 && size == sizeof(*info)) &&
        !(version == 2 && size == offsetof(nvmlGpuFabricInfo_v3_t, healthSummary)))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlGpuFabricInfo_v3_t f = {.version = info->version};
    if (c.board->model.nvlinks >= NVSWITCH_LINKS) {
        f.state = COMPLETED;
        f.healthMask = ALL_WELL;
        f.healthSummary = HEALTHY;
        if (c.board->model.c2c_links) // part of a rack: its NVLinks reach other machines
            memcpy(f.clusterUuid, "gpuscale-cluster", sizeof(f.clusterUuid));
    }
    uint64_t set = 0;
    if (nvmlsim_read_set_value(&c, NVMLSIM_VALUE_FABRIC_STATE, &set))
        f.state = (unsigned char)set;
    if (nvmlsim_read_set_value(&c, NVMLSIM_VALUE_FABRIC_STATUS, &set))
        f.status = (nvmlReturn_t)set;
    if (nvmlsim_read_set_value(&c, NVMLSIM_VALUE_FABRIC_HEALTH, &set))
        f.healthMask = (uint32_t)set;
    if (nvmlsim_read_set_value(&c, NVMLSIM_VALUE_FABRIC_CLIQUE, &set))
        f.cliqueId = (uint32_t)set;
    memcpy(info, &f, size);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t device,
                                                             nvmlUnrepairableMemoryStatus_v1_t *s)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ECC, s != NULL);
    if (c.rc)
        return c.rc;
    if (c.board->model.arch < NVMLSIM_BLACKWELL)
        return NVML_ERROR_NOT_SUPPORTED;
    if (s->version != NVML_VERSION_WORD(nvmlUnrepairableMemoryStatus_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    uint64_t set = 0;
    nvmlsim_read_set_value(&c, NVMLSIM_VALUE_UNREPAIRABLE, &set);
    s->bUnrepairableMemory = set != 0;
    return NVML_SUCCESS;
}

static struct nvml_call nvlink(const char *fn, nvmlDevice_t device, unsigned link, bool valid)
{
    struct nvml_call c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_NO_MIG, valid);
    if (!c.rc && link >= c.board->model.nvlinks)
        c.rc = c.board->model.nvlinks ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
    return c;
}

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *active)
{
    NVML_CALL c = nvlink(__func__, device, link, active != NULL);
    uint64_t down = 0;
    if (c.rc)
        return c.rc;
    nvmlsim_read_set_value(&c, NVMLSIM_VALUE_LINKS_DOWN, &down);
    *active = !(down >> link & 1);
    return NVML_SUCCESS;
}

// All GPUs with NVLinks are on one fabric. index 2: NVLink; others: PCIe.
NVML_API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, int index,
                                             int *status)
{
    enum { STATUS_OK, STATUS_NOT_SUPPORTED = 5, INDEX_NVLINK = 2, N_INDICES = 5 };
    bool peer_links = false;
    {
        NVML_CALL peer = nvmlsim_call_device(__func__, other, NVMLSIM_CALL_ANY, true);
        if (peer.rc)
            return peer.rc;
        peer_links = peer.board->model.nvlinks > 0;
    }
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY,
                                      status && index >= 0 && index < N_INDICES);
    if (!c.rc)
        *status = index != INDEX_NVLINK || (peer_links && c.board->model.nvlinks)
                      ? STATUS_OK
                      : STATUS_NOT_SUPPORTED;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link,
                                                 unsigned *version)
{
    NVML_CALL c = nvlink(__func__, device, link, version != NULL);
    if (c.rc)
        return c.rc;
    uint32_t arch = c.board->model.arch;
    *version = arch >= NVMLSIM_BLACKWELL ? 5
               : arch >= NVMLSIM_HOPPER  ? 4
               : arch >= NVMLSIM_AMPERE  ? 3
                                         : 2;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link,
                                                      int counter, unsigned long long *count)
{
    NVML_CALL c = nvlink(__func__, device, link, count && counter >= 0 && counter <= 4);
    if (!c.rc)
        *count = 0;
    return c.rc;
}
