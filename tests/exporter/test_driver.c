// SPDX-License-Identifier: Apache-2.0
// The program without a driver: one that comes late, that goes and comes back, that never comes.
#include "program_fixture.h"

#include "base/file.h"

#include <sys/stat.h>

enum { NO_PERMISSION = 4, NOT_LOADED = 9, MISMATCH = 18, GPU_NOT_FOUND = 28, UNKNOWN = 999 };

static char *simulated_library(void)
{
    return gs_format("%s/src/simulation/nvmlsim/libgpuscale-nvmlsim.so",
                     getenv("GPUSCALE_BUILD_ROOT"));
}

// Folders of a /sys with one PCI device; returns the path of that /sys.
static char *make_sys(const struct fixture *f, const char *vendor, const char *class)
{
    static const char *const steps[] = {"sys", "sys/bus", "sys/bus/pci", "sys/bus/pci/devices",
                                        "sys/bus/pci/devices/0000:01:00.0"};
    for (size_t i = 0; i < GS_ARRAY_LEN(steps); i++) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", f->dir, steps[i]);
        mkdir(path, 0700);
    }
    const char *const files[][2] = {{"vendor", vendor}, {"class", class}};
    for (size_t i = 0; i < 2; i++) {
        GS_AUTO_FREE char *path =
            gs_format("%s/sys/bus/pci/devices/0000:01:00.0/%s", f->dir, files[i][0]);
        assert_null(gs_file_write_atomic(path, 0600, gs_slice_of(files[i][1])));
    }
    return gs_format("%s/sys", f->dir);
}

static void remove_sys(const struct fixture *f)
{
    static const char *const entries[] = {
        "bus/pci/devices/0000:01:00.0/vendor",
        "bus/pci/devices/0000:01:00.0/class",
        "bus/pci/devices/0000:01:00.0",
        "bus/pci/devices",
        "bus/pci",
        "bus",
        "",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(entries); i++) {
        GS_AUTO_FREE char *path = gs_format("%s/sys/%s", f->dir, entries[i]);
        remove(path);
    }
}

static void start_waiting(struct fixture *f, const char *library, const char *sys,
                          const char *extra, const char *value)
{
    const char *args[] = {
        "--nvml-library",     library, "--host-sys", sys,   "--address", "127.0.0.1:0",
        "--collect-interval", "100",   extra,        value, NULL};
    spawn(f, args);
}

static size_t count_in_log(const struct fixture *f, const char *text)
{
    size_t n = 0;
    for (const char *at = f->log.data; at && (at = strstr(at, text)); at++)
        n++;
    return n;
}

static void end_exporter(struct fixture *f)
{
    kill(f->exporter, SIGTERM);
    assert_int_equal(wait_exporter(f), 0);
}

static double problem(struct fixture *f, const char *reason)
{
    GS_AUTO_FREE char *label = gs_format("reason=\"%s\"", reason);
    return value_of(f, "gpuscale_exporter_driver_problem", label, "");
}

// The reasons that are 1.
static unsigned problems(struct fixture *f)
{
    unsigned n = 0;
    for (const char *at = f->body.data; (at = strstr(at, "gpuscale_exporter_driver_problem{"));) {
        at = strstr(at, "} ") + 2;
        n += *at == '1';
    }
    return n;
}

static void test_library_that_appears(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *sys = make_sys(f, "0x10de\n", "0x030200\n");
    GS_AUTO_FREE char *library = gs_format("%s/libnvidia-ml.so.1", f->dir);
    GS_AUTO_FREE char *simulated = simulated_library();
    start_waiting(f, library, sys, "--wait-for-driver", NULL);
    connect_listener(f);
    WAIT_FOR(f, "/metrics", f->status == 200);
    assert_true(value_of(f, "gpuscale_exporter_driver_up", "", "") == 0);
    assert_true(problem(f, "library_not_found") == 1);
    assert_int_equal(problems(f), 1);
    assert_null(strstr(f->body.data, "DCGM_FI_"));
    assert_int_equal(get(f, "/health"), 503);
    assert_non_null(strstr(f->body.data, library));
    assert_int_equal(get(f, "/"), 200);
    assert_non_null(strstr(f->body.data, library));
    // It goes on trying, and says it once.
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_sample_failures_total", "", "") > 3);
    assert_int_equal(symlink(simulated, library), 0);
    WAIT_FOR(f, "/health", f->status == 200);
    get(f, "/metrics");
    assert_true(value_of(f, "gpuscale_exporter_driver_up", "", "") == 1);
    assert_int_equal(problems(f), 0);
    assert_true(value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[0], "") > 1000);
    assert_non_null(read_log(f, "the driver is available after"));
    assert_int_equal(count_in_log(f, "waiting for the driver"), 1);
    unlink(library);
    end_exporter(f);
    remove_sys(f);
}

// As the kernel module comes: each reason has its name, and a line when it is another one.
static void test_initialisation_that_fails(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int code;
        const char *reason, *text;
    } rows[] = {
        {NOT_LOADED, "not_loaded", "kernel module is not loaded"},
        {MISMATCH, "version_mismatch", "driver was upgraded"},
        {NO_PERMISSION, "no_permission", "device nodes"},
        {GPU_NOT_FOUND, "no_gpu", "GPU_NOT_FOUND"},
        {UNKNOWN, "failed", "UNKNOWN (999)"},
    };
    GS_AUTO_FREE char *library = simulated_library();
    assert_null(nvmlsim_fail_call(f->sim, "nvmlInit_v2", -1, rows[0].code, 0));
    start_waiting(f, library, "/sys", "--wait-for-driver", NULL);
    connect_listener(f);
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        assert_null(nvmlsim_fail_call(f->sim, "nvmlInit_v2", -1, rows[i].code, 0));
        WAIT_FOR(f, "/metrics", problem(f, rows[i].reason) == 1);
        assert_int_equal(problems(f), 1);
        assert_true(value_of(f, "gpuscale_exporter_driver_up", "", "") == 0);
        assert_int_equal(get(f, "/health"), 503);
        assert_non_null(strstr(f->body.data, rows[i].text));
        assert_non_null(read_log(f, rows[i].text));
    }
    nvmlsim_clear_faults(f->sim);
    WAIT_FOR(f, "/health", f->status == 200);
    end_exporter(f);
}

// Who started it at a terminal is told at once; a pod is not restarted over and over.
static void test_waits_by_default_on_a_node_only(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *sys = make_sys(f, "0x10de\n", "0x030000\n");
    static const char missing[] = "/nonexistent/libnvidia-ml.so.1";
    setenv("DCGM_POD_RESOURCES_KUBELET_SOCKET", f->socket, 1);
    start_waiting(f, missing, sys, NULL, NULL);
    assert_int_equal(wait_exporter(f), 1);
    assert_non_null(read_log(f, "--simulate"));
    start_waiting(f, missing, sys, "--kubernetes", "--wait-for-driver=false");
    assert_int_equal(wait_exporter(f), 1);
    start_waiting(f, missing, sys, "--kubernetes", NULL);
    connect_listener(f);
    WAIT_FOR(f, "/metrics", f->status == 200);
    assert_true(problem(f, "library_not_found") == 1);
    assert_non_null(read_log(f, "waiting for the driver"));
    end_exporter(f);
    // Nor does it start when the library is there and gives nothing.
    GS_AUTO_FREE char *library = simulated_library();
    assert_null(nvmlsim_fail_call(f->sim, "nvmlDeviceGetHandleByIndex_v2", -1, NO_PERMISSION, 0));
    start_waiting(f, library, sys, NULL, NULL);
    assert_int_equal(wait_exporter(f), 1);
    assert_non_null(read_log(f, "no access to the device nodes"));
    nvmlsim_clear_faults(f->sim);
    // A file that is none is a mistake, whatever it waits for.
    start_waiting(f, "libc.so.6", sys, "--kubernetes", NULL);
    assert_int_equal(wait_exporter(f), 1);
    assert_non_null(read_log(f, "not an NVML library"));
    unsetenv("DCGM_POD_RESOURCES_KUBELET_SOCKET");
    remove_sys(f);
}

// A DaemonSet may run on nodes without a GPU: nothing is wrong there, and nothing to do.
static void test_machine_without_a_gpu(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *sys = make_sys(f, "0x10de\n", "0x068000\n"); // an NVSwitch is none
    start_waiting(f, "/nonexistent/libnvidia-ml.so.1", sys, "--wait-for-driver",
                  "--driver-wait-limit=1ms");
    connect_listener(f);
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_sample_failures_total", "", "") > 3);
    assert_true(problem(f, "no_device") == 1);
    assert_true(value_of(f, "gpuscale_exporter_driver_up", "", "") == 0);
    assert_int_equal(get(f, "/health"), 200);
    assert_string_equal(f->body.data, "OK, but there is no NVIDIA GPU in this machine");
    end_exporter(f);
    // Whoever expects a GPU on each node says so.
    start_waiting(f, "/nonexistent/libnvidia-ml.so.1", sys, "--wait-for-driver",
                  "--health-require-gpus");
    connect_listener(f);
    WAIT_FOR(f, "/metrics", problem(f, "no_device") == 1);
    assert_int_equal(get(f, "/health"), 503);
    end_exporter(f);
    remove_sys(f);
}

static void test_waiting_has_a_limit(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *sys = make_sys(f, "0x10de\n", "0x030200\n");
    GS_AUTO_FREE char *library = simulated_library();
    start_waiting(f, "/nonexistent/libnvidia-ml.so.1", sys, "--wait-for-driver",
                  "--driver-wait-limit=10ms");
    assert_int_equal(wait_exporter(f), 1);
    assert_non_null(read_log(f, "no driver for"));
    start_waiting(f, library, sys, "--driver-wait-limit", "10ms"); // also when it goes
    connect_exporter(f);
    assert_null(nvmlsim_fail_call(f->sim, "*", -1, MISMATCH, 0));
    assert_int_equal(wait_exporter(f), 1);
    assert_non_null(read_log(f, "LIB_RM_VERSION_MISMATCH"));
    remove_sys(f);
}

// The driver is there and has no GPU yet.
static void test_driver_without_gpus(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *sys = make_sys(f, "0x10de\n", "0x030200\n");
    GS_AUTO_FREE char *library =
        gs_format("%s/tests/gpu/libfakenvml2.so", getenv("GPUSCALE_BUILD_ROOT"));
    GS_AUTO_FREE char *gpus = gs_format("%s/gpus", f->dir);
    assert_null(gs_file_write_atomic(gpus, 0600, gs_slice_of("")));
    setenv("FAKE_NVML_GPUS", gpus, 1);
    start_waiting(f, library, sys, NULL, NULL);
    unsetenv("FAKE_NVML_GPUS");
    connect_listener(f);
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_driver_up", "", "") == 1);
    assert_true(problem(f, "no_gpu") == 1);
    assert_int_equal(get(f, "/health"), 503);
    assert_string_equal(f->body.data, "the driver knows no GPU");
    assert_non_null(read_log(f, "every sample checks for new ones"));
    assert_null(gs_file_write_atomic(gpus, 0600, gs_slice_of("xx")));
    WAIT_FOR(f, "/health", f->status == 200);
    assert_non_null(read_log(f, "the number of GPUs changed from 0 to 2"));
    get(f, "/metrics");
    assert_int_equal(problems(f), 0);
    end_exporter(f);
    unlink(gpus);
    remove_sys(f);
}

static void assert_goes(struct fixture *f, const char *call, int code, const char *reason)
{
    assert_null(nvmlsim_fail_call(f->sim, call, -1, code, 0));
    WAIT_FOR(f, "/metrics", problem(f, reason) == 1);
    assert_true(value_of(f, "gpuscale_exporter_driver_up", "", "") == 0);
    assert_null(strstr(f->body.data, "DCGM_FI_"));
    assert_int_equal(get(f, "/health"), 503);
    assert_non_null(read_log(f, "GPU metrics are absent until the driver responds"));
}

// An upgrade: other devices come back.
static void test_driver_that_is_replaced(void **state)
{
    struct fixture *f = *state;
    start_exporter(f);
    assert_goes(f, "*", NOT_LOADED, "not_loaded");
    GS_AUTO_FREE char *old = gs_strdup(f->uuid[0]);
    assert_null(nvmlsim_unlink(f->sim_name));
    nvmlsim_detach(f->sim);
    f->sim = NULL;
    struct nvmlsim_spec spec;
    assert_null(nvmlsim_spec_parse("1xTesla-T4,2xH100-80GB-HBM3", &spec));
    assert_null(nvmlsim_create(f->sim_name, &spec, &f->sim));
    struct nvmlsim_gpu_info info;
    nvmlsim_gpu_info(f->sim, 2, &info);
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_FB_FREE", info.uuid, "") > 1000);
    assert_true(value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[0], "Tesla T4") > 1000);
    nvmlsim_gpu_info(f->sim, 1, &info);
    assert_true(value_of(f, "DCGM_FI_DEV_FB_FREE", info.uuid, "H100") > 1000);
    assert_int_equal(get(f, "/health"), 200);
    assert_non_null(read_log(f, "3 GPUs"));
    // Events and performance counters are those of the new driver, too.
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_XID_ERRORS", info.uuid, "") == 0);
    assert_null(nvmlsim_report_xid(f->sim, 1, 31));
    assert_null(nvmlsim_report_xid(f->sim, 0, 13));
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_XID_ERRORS", info.uuid, "") == 31);
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_XID_ERRORS", f->uuid[0], "") == 13);
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", info.uuid, "") == 0);
}

// The same board has performance counters again, by samples of the new library.
static void test_counters_of_a_reloaded_driver(void **state)
{
    struct fixture *f = *state;
    static const char prof[] = "DCGM_FI_PROF_GR_ENGINE_ACTIVE";
    struct nvmlsim_spec spec;
    struct nvmlsim_gpu_info info;
    assert_null(nvmlsim_unlink(f->sim_name));
    nvmlsim_detach(f->sim);
    f->sim = NULL;
    assert_null(nvmlsim_spec_parse("1xH100-80GB-HBM3", &spec));
    assert_null(nvmlsim_create(f->sim_name, &spec, &f->sim));
    nvmlsim_gpu_info(f->sim, 0, &info);
    start_exporter(f);
    for (int i = 0; i < 3; i++) {
        WAIT_FOR(f, "/metrics", value_of(f, prof, info.uuid, "") == 0);
        assert_goes(f, "*", NOT_LOADED, "not_loaded");
        assert_true(__builtin_isnan(value_of(f, prof, "", "")));
        gs_buf_clear(&f->log);
        nvmlsim_clear_faults(f->sim);
    }
    WAIT_FOR(f, "/metrics", value_of(f, prof, info.uuid, "") == 0);
}

// The library still counts the GPUs of a driver that has gone, or knows their handles and names.
static void test_driver_that_goes_step_by_step(void **state)
{
    struct fixture *f = *state;
    static const char *const calls[] = {
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetEncoderUtilization",
        "nvmlDeviceGetDecoderUtilization",
        "nvmlDeviceGetPcieReplayCounter",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetProcessUtilization",
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetSupportedEventTypes",
        "nvmlDeviceGetMemoryInfo",
    };
    start_exporter(f);
    assert_goes(f, "nvmlDeviceGetHandleByIndex_v2", NOT_LOADED, "not_loaded");
    nvmlsim_clear_faults(f->sim);
    WAIT_FOR(f, "/health", f->status == 200);
    for (size_t i = 0; i < GS_ARRAY_LEN(calls); i++)
        assert_null(nvmlsim_fail_call(f->sim, calls[i], -1, MISMATCH, 0));
    assert_goes(f, "nvmlDeviceGetPowerUsage", MISMATCH, "version_mismatch");
    nvmlsim_clear_faults(f->sim);
    WAIT_FOR(f, "/health", f->status == 200);
    // One that fails for a single GPU is no missing driver.
    assert_null(nvmlsim_fail_call(f->sim, "nvmlDeviceGetHandleByIndex_v2", 0, NOT_LOADED, 0));
    WAIT_FOR(f, "/metrics", !strstr(f->body.data, f->uuid[0]));
    assert_true(value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[1], "") > 1000);
    assert_true(value_of(f, "gpuscale_exporter_gpus_not_opened", "", "") == 1);
    assert_int_equal(get(f, "/health"), 200);
    assert_non_null(read_log(f, "the number of GPUs changed from 2 to 1"));
    assert_non_null(read_log(f, "1 of 2 GPUs cannot be opened: DRIVER_NOT_LOADED (9)"));
}

// nvmlInit may wait for the kernel.
static void test_initialisation_that_hangs(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *library = simulated_library();
    assert_null(nvmlsim_hang_call(f->sim, "nvmlInit_v2", -1, 600000, 0));
    start_waiting(f, library, "/sys", "--driver-timeout", "300ms");
    connect_listener(f);
    WAIT_FOR(f, "/metrics", f->status == 200);
    assert_true(value_of(f, "gpuscale_exporter_driver_up", "", "") == 0);
    assert_true(problem(f, "no_answer") == 1);
    assert_int_equal(problems(f), 1);
    assert_int_equal(get(f, "/health"), 503);
    nvmlsim_clear_faults(f->sim);
    WAIT_FOR(f, "/health", f->status == 200);
    end_exporter(f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_library_that_appears),
        TEST(test_initialisation_that_fails),
        TEST(test_waits_by_default_on_a_node_only),
        TEST(test_machine_without_a_gpu),
        TEST(test_waiting_has_a_limit),
        TEST(test_driver_without_gpus),
        TEST(test_driver_that_is_replaced),
        TEST(test_counters_of_a_reloaded_driver),
        TEST(test_driver_that_goes_step_by_step),
        TEST(test_initialisation_that_hangs),
    };
    (void)signal(SIGPIPE, SIG_IGN); // an exporter may end while our kubelet answers it
    return cmocka_run_group_tests(tests, NULL, NULL);
}
