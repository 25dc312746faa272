// SPDX-License-Identifier: Apache-2.0
// The library as a foreign program sees it: loaded by name, called through its symbols.
#include "nvmltest.h"

#include "nvmlsim/nvml_unsupported.h"

#include <pthread.h>

// What the reference gives for each structure and version word.
static_assert(NVML_VERSION_WORD(nvmlMemory_v2_t, 2) == 0x02000028, "");
static_assert(NVML_VERSION_WORD(nvmlTemperature_v1_t, 1) == 0x0100000c, "");
static_assert(NVML_VERSION_WORD(nvmlMarginTemperature_v1_t, 1) == 0x01000008, "");
static_assert(NVML_VERSION_WORD(nvmlFanSpeedInfo_v1_t, 1) == 0x0100000c, "");
static_assert(NVML_VERSION_WORD(nvmlProcessesUtilizationInfo_v1_t, 1) == 0x01000018, "");
static_assert(NVML_VERSION_WORD(nvmlProcessDetailList_v1_t, 1) == 0x01000018, "");
static_assert(NVML_VERSION_WORD(nvmlEccSramErrorStatus_v1_t, 1) == 0x01000068, "");
static_assert(NVML_VERSION_WORD(nvmlGpuInstanceProfileInfo_v2_t, 2) == 0x02000098, "");
static_assert(NVML_VERSION_WORD(nvmlGpuInstanceProfileInfo_v3_t, 3) == 0x03000098, "");
static_assert(sizeof(nvmlProcessInfo_v1_t) == 16 && sizeof(nvmlProcessInfo_v2_t) == 24, "");
static_assert(offsetof(nvmlMemory_v2_t, total) == 8 && offsetof(nvmlMemory_v2_t, reserved) == 16 &&
                  offsetof(nvmlMemory_v2_t, free) == 24,
              "");
static_assert(offsetof(nvmlFieldValue_t, scopeId) == 4 &&
                  offsetof(nvmlFieldValue_t, timestamp) == 8 &&
                  offsetof(nvmlFieldValue_t, latencyUsec) == 16 &&
                  offsetof(nvmlFieldValue_t, valueType) == 24 &&
                  offsetof(nvmlFieldValue_t, nvmlReturn) == 28,
              "");
static_assert(offsetof(nvmlEventData_t, eventType) == 8 &&
                  offsetof(nvmlEventData_t, eventData) == 16 &&
                  offsetof(nvmlEventData_t, gpuInstanceId) == 24,
              "");
static_assert(offsetof(nvmlProcessUtilizationSample_t, timeStamp) == 8 &&
                  offsetof(nvmlProcessUtilizationSample_t, smUtil) == 16,
              "");
static_assert(offsetof(nvmlProcessUtilizationInfo_v1_t, pid) == 8 &&
                  offsetof(nvmlProcessUtilizationInfo_v1_t, smUtil) == 12,
              "");
static_assert(offsetof(nvmlGpmMetricsGet_t, sample1) == 8 &&
                  offsetof(nvmlGpmMetricsGet_t, metrics) == 24,
              "");
static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, memorySizeMB) == 40 &&
                  offsetof(nvmlGpuInstanceProfileInfo_v3_t, name) == 48,
              "");

static void test_every_call_is_exported(void **state)
{
#define CHECK_SYMBOL(name, arguments)                                                              \
    if (!nv.name)                                                                                  \
        fail_msg("%s is missing", #name);
    NVML_CALLS(CHECK_SYMBOL)
#undef CHECK_SYMBOL
    assert_non_null(nv.nvmlErrorString);
    assert_int_equal(nv.gpuscaleNvmlIsSimulated(), 1);
    assert_null(dlsym(nv.handle, "gs_error_new")); // nothing else shows
    assert_null(dlsym(nv.handle, "sim_attach"));
    assert_string_equal(nv.nvmlErrorString(0), "Success");
    assert_string_equal(nv.nvmlErrorString(15), "GPU is lost");
    assert_string_equal(nv.nvmlErrorString(12345), "Unknown Error");
}

// Programs take a function that is missing for an older driver.
static void test_functions_without_support_are_exported(void **state)
{
    struct nvmlsim *s = start("1xTesla-T4");
    nvmlDevice_t device = NULL;
    assert_int_equal(nv.nvmlDeviceGetHandleByIndex_v2(0, &device), 0);
#define CHECK_UNSUPPORTED(name)                                                                    \
    {                                                                                              \
        nvmlReturn_t (*call)(nvmlDevice_t) = NULL;                                                 \
        *(void **)&call = dlsym(nv.handle, #name);                                                 \
        assert_non_null(call);                                                                     \
        assert_int_equal(call(device), NVML_ERROR_NOT_SUPPORTED);                                  \
    }
    NVML_UNSUPPORTED_OF_DEVICE(CHECK_UNSUPPORTED)
    NVML_UNSUPPORTED_OF_SYSTEM(CHECK_UNSUPPORTED)
#undef CHECK_UNSUPPORTED
    nvmlReturn_t (*of_device)(nvmlDevice_t) = NULL;
    *(void **)&of_device = dlsym(nv.handle, "nvmlDeviceGetDriverModel");
    assert_int_equal(of_device(NULL), NVML_ERROR_INVALID_ARGUMENT);
    stop(s);
}

static void test_properties_of_a_board(void **state)
{
    struct nvmlsim *s = start("1xA100-SXM4-80GB,1xTesla-K80");
    static const struct {
        unsigned cores, bus_bits, gsp;
    } want[] = {{6912, 5120, 1}, {2496, 384, 0}};
    for (unsigned i = 0; i < GS_ARRAY_LEN(want); i++) {
        nvmlDevice_t device = NULL;
        unsigned value = 0, by_default = 0, clocks[200], n = 0;
        char text[80];
        assert_int_equal(nv.nvmlDeviceGetHandleByIndex_v2(i, &device), 0);
        assert_int_equal(nv.nvmlDeviceGetNumGpuCores(device, &value), 0);
        assert_int_equal(value, want[i].cores);
        assert_int_equal(nv.nvmlDeviceGetMemoryBusWidth(device, &value), 0);
        assert_int_equal(value, want[i].bus_bits);
        assert_int_equal(nv.nvmlDeviceGetGspFirmwareMode(device, &value, &by_default), 0);
        assert_int_equal(value, want[i].gsp);
        assert_int_equal(nv.nvmlDeviceGetVbiosVersion(device, text, sizeof(text)), 0);
        assert_string_equal(text, "SIMULATED");
        assert_int_equal(nv.nvmlDeviceGetVbiosVersion(device, text, 4),
                         NVML_ERROR_INSUFFICIENT_SIZE);
        assert_int_equal(nv.nvmlDeviceGetSupportedMemoryClocks(device, &n, NULL),
                         NVML_ERROR_INSUFFICIENT_SIZE);
        assert_true(n >= 1 && n <= 2);
        assert_int_equal(nv.nvmlDeviceGetSupportedMemoryClocks(device, &n, clocks), 0);
        unsigned highest = 0;
        assert_int_equal(nv.nvmlDeviceGetMaxClockInfo(device, 2, &highest), 0);
        assert_int_equal(clocks[0], highest);
        n = GS_ARRAY_LEN(clocks);
        assert_int_equal(nv.nvmlDeviceGetSupportedGraphicsClocks(device, highest, &n, clocks), 0);
        assert_true(n > 1 && clocks[0] > clocks[n - 1]);
        assert_int_equal(nv.nvmlDeviceGetSupportedGraphicsClocks(device, 1, &n, clocks),
                         NVML_ERROR_NOT_FOUND);
    }
    stop(s);
}

static void test_before_and_after_init(void **state)
{
    unsigned n = 0;
    char text[80];
    unsetenv(NVMLSIM_ENV);
    assert_int_equal(nv.nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nv.nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nv.nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
    setenv(NVMLSIM_ENV, "/gpuscale-test-nothing", 1);
    assert_int_equal(nv.nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
    struct nvmlsim *s = start("2xL4");
    assert_int_equal(nv.nvmlInitWithFlags(0), 0); // counted
    assert_int_equal(nv.nvmlShutdown(), 0);
    assert_int_equal(nv.nvmlDeviceGetCount_v2(&n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(nv.nvmlSystemGetDriverVersion(text, sizeof(text)), 0);
    assert_non_null(strstr(text, "simulated"));
    assert_int_equal(nv.nvmlSystemGetDriverVersion(text, 5), NVML_ERROR_INSUFFICIENT_SIZE);
    nvmlDevice_t d = device(0);
    stop(s);
    assert_int_equal(nv.nvmlDeviceGetName(d, text, sizeof(text)), NVML_ERROR_UNINITIALIZED);
}

static void test_identity(void **state)
{
    struct nvmlsim *s = start("1xA100-SXM4-80GB,1xGeForce-RTX-4090");
    struct nvmlsim_gpu_info info;
    nvmlsim_gpu_info(s, 0, &info);
    nvmlDevice_t d = device(0), same = NULL;
    char text[96];
    unsigned n = 0;
    assert_int_equal(nv.nvmlDeviceGetName(d, text, sizeof(text)), 0);
    assert_string_equal(text, "NVIDIA A100-SXM4-80GB");
    assert_int_equal(nv.nvmlDeviceGetUUID(d, text, sizeof(text)), 0);
    assert_string_equal(text, info.uuid);
    assert_int_equal(nv.nvmlDeviceGetHandleByUUID(text, &same), 0);
    assert_ptr_equal(same, d);
    assert_int_equal(nv.nvmlDeviceGetHandleByUUID("GPU-0", &same), NVML_ERROR_NOT_FOUND);
    nvmlPciInfo_t pci;
    assert_int_equal(nv.nvmlDeviceGetPciInfo_v3(d, &pci), 0);
    assert_string_equal(pci.busId, "00000000:10:00.0");
    assert_string_equal(pci.busIdLegacy, "0000:10:00.0");
    assert_int_equal(pci.pciDeviceId & 0xffff, 0x10de);
    assert_int_equal(nv.nvmlDeviceGetHandleByPciBusId_v2("0000:10:00.0", &same), 0);
    assert_ptr_equal(same, d);
    assert_int_equal(nv.nvmlDeviceGetMinorNumber(device(1), &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(nv.nvmlDeviceGetArchitecture(d, &n), 0);
    assert_int_equal(n, 7);
    assert_int_equal(nv.nvmlDeviceGetSerial(d, text, sizeof(text)), 0);
    assert_int_equal(nv.nvmlDeviceGetSerial(device(1), text, sizeof(text)),
                     NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nv.nvmlDeviceGetHandleByIndex_v2(2, &same), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nv.nvmlDeviceGetName((nvmlDevice_t)(void *)text, text, sizeof(text)),
                     NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nv.nvmlDeviceGetName(NULL, text, sizeof(text)), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nv.nvmlDeviceGetName(d, NULL, 0), NVML_ERROR_INVALID_ARGUMENT);
    stop(s);
}

static int field(nvmlDevice_t d, uint32_t id, nvmlFieldValue_t *ret)
{
    *ret = (nvmlFieldValue_t){.fieldId = id};
    assert_int_equal(nv.nvmlDeviceGetFieldValues(d, 1, ret), 0);
    return ret->nvmlReturn;
}

static void test_what_a_model_does_not_have(void **state)
{
    struct nvmlsim *s = start("Tesla-K80,Tesla-T4,A100-SXM4-40GB,GeForce-RTX-4090");
    unsigned n = 0, a = 0, b = 0, e = 0;
    int current = 0, pending = 0;
    unsigned long long mj = 0;
    nvmlFieldValue_t f;
    const int no = NVML_ERROR_NOT_SUPPORTED;
    assert_int_equal(nv.nvmlDeviceGetTotalEnergyConsumption(device(0), &mj), no);
    assert_int_equal(nv.nvmlDeviceGetTotalEnergyConsumption(device(1), &mj), 0);
    assert_int_equal(nv.nvmlDeviceGetFanSpeed(device(2), &n), no);
    assert_int_equal(nv.nvmlDeviceGetFanSpeed(device(3), &n), 0);
    assert_int_equal(nv.nvmlDeviceGetMigMode(device(1), &a, &b), no);
    assert_int_equal(nv.nvmlDeviceGetMigMode(device(2), &a, &b), 0);
    assert_int_equal(a, 0);
    assert_int_equal(nv.nvmlDeviceGetEccMode(device(3), &current, &pending), no);
    assert_int_equal(nv.nvmlDeviceGetEccMode(device(0), &current, &pending), 0);
    assert_int_equal(current, 1);
    assert_int_equal(nv.nvmlDeviceGetRemappedRows(device(1), &n, &a, &b, &e), no);
    assert_int_equal(nv.nvmlDeviceGetRemappedRows(device(2), &n, &a, &b, &e), 0);
    assert_int_equal(nv.nvmlDeviceGetRetiredPages(device(0), 0, &n, NULL), 0);
    assert_int_equal(nv.nvmlDeviceGetRetiredPages(device(2), 0, &n, NULL), no);
    assert_int_equal(field(device(1), 82, &f), no); // memory temperature
    assert_int_equal(field(device(2), 82, &f), 0);
    assert_int_equal(f.valueType, NVML_VALUE_U32);
    assert_in_range(f.value.u32, 20, 100);
    assert_int_equal(field(device(0), 83, &f), no); // energy
    assert_int_equal(field(device(2), 83, &f), 0);
    assert_int_equal(f.valueType, NVML_VALUE_U64);
    assert_int_equal(field(device(2), 9999, &f), no);
    assert_int_equal(field(device(2), 142, &f), 0);
    assert_int_equal(field(device(2), 185, &f), 0);
    assert_int_equal(f.value.u32, 52000);
    assert_true(f.timestamp > 1600000000LL * 1000000);
    nvmlProcessUtilizationSample_t sample;
    n = 1;
    assert_int_equal(nv.nvmlDeviceGetProcessUtilization(device(0), &sample, &n, 0), no);
    nvmlGpmSupport_t gpm = {.version = 1};
    assert_int_equal(nv.nvmlGpmQueryDeviceSupport(device(2), &gpm), 0);
    assert_int_equal(gpm.isSupportedDevice, 0);
    stop(s);
}

static void test_versions_are_checked(void **state)
{
    struct nvmlsim *s = start("L4");
    nvmlMemory_v2_t m = {.version = 2};
    assert_int_equal(nv.nvmlDeviceGetMemoryInfo_v2(device(0), &m),
                     NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    m.version = 0x02000028;
    assert_int_equal(nv.nvmlDeviceGetMemoryInfo_v2(device(0), &m), 0);
    assert_int_equal(m.version, 0x02000028);
    assert_true(m.reserved > 0);
    assert_int_equal(m.total, m.reserved + m.used + m.free);
    nvmlMemory_t old;
    assert_int_equal(nv.nvmlDeviceGetMemoryInfo(device(0), &old), 0);
    assert_int_equal(old.used, m.used + m.reserved);
    assert_int_equal(old.total, old.used + old.free);
    nvmlTemperature_v1_t t = {.version = 0x0100000c};
    assert_int_equal(nv.nvmlDeviceGetTemperatureV(device(0), &t), 0);
    assert_in_range(t.temperature, 20, 90);
    stop(s);
}

// --- faults ---

static void test_calls_fail_as_told(void **state)
{
    struct nvmlsim *s = start("2xL4");
    unsigned mw = 0, n = 0;
    nvmlDevice_t a = device(0), b = device(1);
    fails(nvmlsim_fail_call(s, "nvmlDeviceGetPowerUsag", -1, 4, 0), GS_EINVAL,
          "did you mean nvmlDeviceGetPowerUsage");
    fails(nvmlsim_fail_call(s, "nvmlDeviceGetPowerUsage", 2, 4, 0), GS_EINVAL, "no GPU 2");
    ok(nvmlsim_fail_call(s, "nvmlDeviceGetPowerUsage", 1, NVML_ERROR_NO_PERMISSION, 2));
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(a, &mw), 0);
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(b, &mw), NVML_ERROR_NO_PERMISSION);
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(b, &mw), NVML_ERROR_NO_PERMISSION);
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(b, &mw), 0); // used up
    ok(nvmlsim_fail_call(s, "*", -1, NVML_ERROR_UNKNOWN, 0));
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(a, &mw), NVML_ERROR_UNKNOWN);
    assert_int_equal(nv.nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNKNOWN);
    nvmlsim_clear_faults(s);
    assert_int_equal(nv.nvmlDeviceGetCount_v2(&n), 0);
    for (int i = 0; i < 100; i++) // replaces itself instead of filling the table
        ok(nvmlsim_fail_call(s, "nvmlDeviceGetName", -1, 4, 0));
    nvmlsim_clear_faults(s);
    stop(s);

    s = make_sim("L4");
    ok(nvmlsim_fail_call(s, "nvmlInit_v2", -1, NVML_ERROR_LIB_RM_VERSION_MISMATCH, 1));
    assert_int_equal(nv.nvmlInit_v2(), NVML_ERROR_LIB_RM_VERSION_MISMATCH);
    assert_int_equal(nv.nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nv.nvmlInit_v2(), 0);
    stop(s);
}

static void *call_power(void *arg)
{
    unsigned mw = 0;
    int rc = nv.nvmlDeviceGetPowerUsage(arg, &mw);
    return (void *)(intptr_t)rc;
}

static void test_calls_hang_as_told(void **state)
{
    struct nvmlsim *s = start("L4");
    nvmlDevice_t d = device(0);
    unsigned mw = 0;
    ok(nvmlsim_hang_call(s, "nvmlDeviceGetPowerUsage", 0, 150, 1));
    int64_t before = gs_mono_ns();
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(d, &mw), 0);
    assert_true(gs_mono_ns() - before >= 150 * GS_NS_PER_MS);
    // A rule of one GPU that fails does not hide one of all GPUs that hangs.
    ok(nvmlsim_fail_call(s, "nvmlDeviceGetPowerUsage", 0, NVML_ERROR_NO_PERMISSION, 2));
    ok(nvmlsim_hang_call(s, "nvmlDeviceGetPowerUsage", -1, 150, 1));
    before = gs_mono_ns();
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(d, &mw), NVML_ERROR_NO_PERMISSION);
    assert_true(gs_mono_ns() - before >= 150 * GS_NS_PER_MS);
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(d, &mw), NVML_ERROR_NO_PERMISSION);
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(d, &mw), 0); // both are used up
    // A hang ends when the faults are cleared, and does not stand in the way of others meanwhile.
    ok(nvmlsim_hang_call(s, "nvmlDeviceGetPowerUsage", 0, 3600000, 0));
    pthread_t t;
    void *rc = NULL;
    assert_int_equal(pthread_create(&t, NULL, call_power, (void *)(uintptr_t)d), 0);
    sleep_ms(50);
    assert_int_equal(nv.nvmlDeviceGetTemperature(d, 0, &mw), 0);
    nvmlsim_clear_faults(s);
    pthread_join(t, &rc);
    assert_ptr_equal(rc, NULL);
    // Nor in the way of the shutdown.
    ok(nvmlsim_hang_call(s, "nvmlDeviceGetPowerUsage", 0, 3600000, 0));
    assert_int_equal(pthread_create(&t, NULL, call_power, (void *)(uintptr_t)d), 0);
    sleep_ms(50);
    assert_int_equal(nv.nvmlShutdown(), 0);
    pthread_join(t, &rc);
    assert_int_equal((intptr_t)rc, NVML_ERROR_UNINITIALIZED);
    drop_sim(s);
}

static void test_a_lost_gpu(void **state)
{
    struct nvmlsim *s = start("2xL4");
    nvmlDevice_t a = device(0), b = device(1), again = NULL;
    unsigned n = 0;
    ok(nvmlsim_lose_gpu(s, 0, true));
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(a, &n), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(nv.nvmlDeviceGetHandleByIndex_v2(0, &again), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(b, &n), 0);
    assert_int_equal(nv.nvmlDeviceGetCount_v2(&n), 0);
    assert_int_equal(n, 2);
    ok(nvmlsim_lose_gpu(s, 0, false));
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(a, &n), 0);
    stop(s);
}

struct later {
    struct nvmlsim *sim;
    unsigned xid;
};

static void *report_later(void *arg)
{
    const struct later *l = arg;
    sleep_ms(50);
    return nvmlsim_report_xid(l->sim, 1, l->xid);
}

static void test_xid_events(void **state)
{
    struct nvmlsim *s = start("2xL4");
    nvmlDevice_t a = device(0), b = device(1);
    unsigned long long types = 0;
    nvmlEventSet_t set = NULL;
    nvmlEventData_t e;
    ok(nvmlsim_report_xid(s, 1, 13)); // before the registration: never seen
    assert_int_equal(nv.nvmlDeviceGetSupportedEventTypes(b, &types), 0);
    assert_true(types & NVML_EVENT_XID);
    assert_int_equal(nv.nvmlEventSetCreate(&set), 0);
    assert_int_equal(nv.nvmlDeviceRegisterEvents(b, ~0ULL, set), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nv.nvmlDeviceRegisterEvents(b, NVML_EVENT_XID, set), 0);
    assert_int_equal(nv.nvmlEventSetWait_v2(set, &e, 0), NVML_ERROR_TIMEOUT);
    assert_int_equal(nv.nvmlEventSetWait_v2(set, &e, 30), NVML_ERROR_TIMEOUT);
    ok(nvmlsim_report_xid(s, 0, 43)); // another GPU
    ok(nvmlsim_report_xid(s, 1, 31));
    ok(nvmlsim_report_xid(s, 1, 48));
    assert_int_equal(nv.nvmlEventSetWait_v2(set, &e, 1000), 0);
    assert_ptr_equal(e.device, b);
    assert_int_equal(e.eventType, NVML_EVENT_XID);
    assert_int_equal(e.eventData, 31);
    assert_int_equal(e.gpuInstanceId, UINT32_MAX);
    memset(&e, 0x5a, sizeof(e));
    assert_int_equal(nv.nvmlEventSetWait(set, &e, 1000), 0);
    assert_int_equal(e.eventData, 48);
    assert_int_equal(e.gpuInstanceId, 0x5a5a5a5a); // the first version has no more fields
    struct later l = {s, 62};
    pthread_t t;
    void *err = NULL;
    assert_int_equal(pthread_create(&t, NULL, report_later, &l), 0);
    assert_int_equal(nv.nvmlEventSetWait_v2(set, &e, 60000), 0); // woken up
    assert_int_equal(e.eventData, 62);
    pthread_join(t, &err);
    ok(err);
    for (unsigned i = 0; i < 200; i++) // more than are kept
        ok(nvmlsim_report_xid(s, 1, 1 + i));
    assert_int_equal(nv.nvmlEventSetWait_v2(set, &e, 1000), 0);
    assert_int_equal(e.eventData, 200 - 64 + 1);
    while (nv.nvmlEventSetWait_v2(set, &e, 0) == 0)
        continue;
    assert_int_equal(e.eventData, 200);
    ok(nvmlsim_lose_gpu(s, 1, true));
    assert_int_equal(nv.nvmlEventSetWait_v2(set, &e, 1000), 0);
    assert_int_equal(e.eventData, 79);
    assert_int_equal(nv.nvmlEventSetWait_v2(set, &e, 1000), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(nv.nvmlEventSetFree(set), 0);
    assert_int_equal(nv.nvmlDeviceRegisterEvents(a, NVML_EVENT_XID, NULL),
                     NVML_ERROR_INVALID_ARGUMENT);
    struct nvmlsim_gpu_info info;
    nvmlsim_gpu_info(s, 1, &info);
    assert_true(info.lost);
    assert_int_equal(info.last_xid, 79);
    stop(s);
}

// --- MIG ---

static void test_mig_identity(void **state)
{
    struct nvmlsim *s = start_mig();
    nvmlDevice_t d = device(0), mig = NULL, parent = NULL, by_uuid = NULL;
    unsigned a = 0, b = 0, n = 0;
    char text[96];
    assert_int_equal(nv.nvmlDeviceGetMigMode(d, &a, &b), 0);
    assert_int_equal(a, 1);
    assert_int_equal(nv.nvmlDeviceGetMaxMigDeviceCount(d, &n), 0);
    assert_int_equal(n, 7);
    assert_int_equal(nv.nvmlDeviceGetMigDeviceHandleByIndex(d, 1, &mig), 0);
    assert_int_equal(nv.nvmlDeviceGetMigDeviceHandleByIndex(d, 2, &parent), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nv.nvmlDeviceIsMigDeviceHandle(mig, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(nv.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig, &parent), 0);
    assert_ptr_equal(parent, d);
    assert_int_equal(nv.nvmlDeviceGetName(mig, text, sizeof(text)), 0);
    assert_string_equal(text, "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
    assert_int_equal(nv.nvmlDeviceGetUUID(mig, text, sizeof(text)), 0);
    assert_memory_equal(text, "MIG-", 4);
    assert_int_equal(nv.nvmlDeviceGetHandleByUUID(text, &by_uuid), 0);
    assert_ptr_equal(by_uuid, mig);
    assert_int_equal(nv.nvmlDeviceGetGpuInstanceId(mig, &n), 0);
    assert_int_equal(nv.nvmlDeviceGetGpuInstanceId(d, &n), NVML_ERROR_INVALID_ARGUMENT);
    nvmlDeviceAttributes_t attributes;
    assert_int_equal(nv.nvmlDeviceGetAttributes_v2(mig, &attributes), 0);
    assert_int_equal(attributes.multiprocessorCount, 60);
    assert_int_equal(attributes.gpuInstanceSliceCount, 3);
    nvmlMemory_t memory;
    assert_int_equal(nv.nvmlDeviceGetMemoryInfo(mig, &memory), 0);
    assert_int_equal(memory.total >> 20, attributes.memorySizeMB);
    // What MIG mode takes away.
    nvmlUtilization_t u;
    nvmlProcessUtilizationSample_t sample;
    nvmlSample_t value;
    int type = 0;
    const int no = NVML_ERROR_NOT_SUPPORTED;
    assert_int_equal(nv.nvmlDeviceGetUtilizationRates(d, &u), no);
    assert_int_equal(nv.nvmlDeviceGetUtilizationRates(mig, &u), no);
    assert_int_equal(nv.nvmlDeviceGetEncoderUtilization(d, &a, &b), no);
    n = 1;
    assert_int_equal(nv.nvmlDeviceGetProcessUtilization(d, &sample, &n, 0), no);
    assert_int_equal(nv.nvmlDeviceGetSamples(d, 1, 0, &type, &n, &value), no);
    assert_int_equal(nv.nvmlDeviceGetRemappedRows(d, &a, &b, &n, &n), no);
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(mig, &n), no);
    assert_int_equal(nv.nvmlDeviceGetPowerUsage(d, &n), 0);
    nvmlGpuInstanceProfileInfo_v2_t p = {.version = 0x02000098};
    unsigned found = 0;
    for (unsigned i = 0;; i++) {
        int rc = nv.nvmlDeviceGetGpuInstanceProfileInfoV(d, i, &p);
        if (rc == NVML_ERROR_INVALID_ARGUMENT)
            break;
        assert_true(rc == 0 || rc == no);
        found += rc == 0;
    }
    assert_int_equal(found, 7);
    stop(s);
}

// Calls from several threads while another one initialises and shuts down.
static void *hammer(void *arg)
{
    for (int i = 0; i < 300; i++) {
        nvmlDevice_t d = NULL;
        nvmlUtilization_t u;
        nvmlMemory_t m;
        if (nv.nvmlDeviceGetHandleByIndex_v2((unsigned)i % 2, &d) == 0) {
            nv.nvmlDeviceGetUtilizationRates(d, &u);
            nv.nvmlDeviceGetMemoryInfo(d, &m);
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct nvmlsim *s = start("2xL4");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, NULL), 0);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(nv.nvmlShutdown(), 0);
        assert_int_equal(nv.nvmlInit_v2(), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    stop(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_is_exported),
        cmocka_unit_test(test_functions_without_support_are_exported),
        cmocka_unit_test(test_properties_of_a_board),
        cmocka_unit_test(test_before_and_after_init),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_what_a_model_does_not_have),
        cmocka_unit_test(test_versions_are_checked),
        cmocka_unit_test(test_calls_fail_as_told),
        cmocka_unit_test(test_calls_hang_as_told),
        cmocka_unit_test(test_a_lost_gpu),
        cmocka_unit_test(test_xid_events),
        cmocka_unit_test(test_mig_identity),
        cmocka_unit_test(test_threads),
    };
    load_nvml(&nv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dlclose(nv.handle);
    return failed;
}
