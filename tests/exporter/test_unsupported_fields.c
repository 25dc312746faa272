// SPDX-License-Identifier: Apache-2.0
// What may be absent when the program starts: each gives a line and a metric, and no end. What is a
// mistake is refused.
#include "program_fixture.h"

#include "base/file.h"

enum { NOT_SUPPORTED = 3, NO_PERMISSION = 4 };

struct row {
    const char *what;
    const char *args[4];
    const char *file;    // text of the file FILE of the arguments; NULL: it is not there
    const char *fail[2]; // calls that fail with `code`
    int code;
    const char *line; // of the log
    const char *metric, *part;
    double value;
};

static const struct row rows[] = {
    {
        .what = "the kubelet's socket",
        .args = {"--kubernetes", "--pod-resources-kubelet-socket=/nonexistent/kubelet.sock"},
        .line = "the kubelet's socket /nonexistent/kubelet.sock does not exist",
        .metric = "gpuscale_exporter_pods_missing",
        .part = "reason=\"socket_not_mounted\"",
        .value = 1,
    },
    {
        .what = "the API server, for labels of pods",
        .args = {"--kubernetes", "--kubernetes-enable-pod-labels",
                 "--pod-resources-kubelet-socket=/nonexistent/kubelet.sock"},
        .line = "labels of pods, shares of GPUs and claims need the API server",
        .metric = "gpuscale_exporter_pods_missing",
        .part = "reason=\"api_no_answer\"",
        .value = 1,
    },
    {
        .what = "the API server, for the ConfigMap",
        .args = {"--configmap-data=monitoring:families"},
        .line = "ConfigMap monitoring/families: connecting to the Kubernetes API: ",
        .metric = "gpuscale_exporter_source_up",
        .part = "source=\"configmap\"",
    },
    {
        .what = "the folder of jobs",
        .args = {"--hpc-job-mapping-dir=/nonexistent/jobs"},
        .line = "--hpc-job-mapping-dir /nonexistent/jobs: No such file",
        .metric = "gpuscale_exporter_source_up",
        .part = "source=\"hpc_job_mapping\"",
    },
    {
        .what = "the host's /proc",
        .args = {"--host-proc=/nonexistent/proc"},
        .line = "--host-proc /nonexistent/proc: No such file",
        .metric = "gpuscale_exporter_source_up",
        .part = "source=\"host_proc\"",
    },
    {
        .what = "a file of dcgm-exporter",
        .args = {"--collectors=/nonexistent/dcp-metrics-included.csv"},
        .line = "the built-in file of this name is used",
        .metric = "gpuscale_exporter_rows_left_out",
        .part = "",
    },
    {
        .what = "a field that only DCGM has",
        .args = {"--collectors=FILE", "--dcgm=off"},
        .file = "DCGM_FI_DEV_GPU_TEMP, gauge, t\nDCGM_FI_DEV_NVSWITCH_LINK_STATUS, gauge, x\n",
        .line = "1 field is ignored (not provided by NVML): "
                "DCGM_FI_DEV_NVSWITCH_LINK_STATUS",
        .metric = "gpuscale_exporter_rows_left_out",
        .part = "",
        .value = 1,
    },
    {
        .what = "performance counters of the GPU",
        .args = {"--collectors=FILE", "--dcgm=off"},
        .file = "DCGM_FI_DEV_GPU_TEMP, gauge, t\nDCGM_FI_PROF_SM_ACTIVE, gauge, x\n",
        .line = "(not supported): DCGM_FI_PROF_SM_ACTIVE",
        .metric = "gpuscale_exporter_driver_up",
        .part = "",
        .value = 1,
    },
    {
        .what = "the engine that has performance counters",
        .args = {"--collectors=FILE", "--dcgm=unix:/nonexistent/engine"},
        .file = "DCGM_FI_DEV_GPU_TEMP, gauge, t\nDCGM_FI_PROF_SM_ACTIVE, gauge, x\n",
        .line = "DCGM at unix:/nonexistent/engine: ",
        .metric = "gpuscale_exporter_source_up",
        .part = "source=\"dcgm\"",
    },
    {
        .what = "permission for the utilisation of processes",
        .fail = {"nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo"},
        .code = NO_PERMISSION,
        .line = "(no permission): DCGM_CUSTOM_PROCESS_SM_UTIL",
        .metric = "gpuscale_exporter_absent_fields",
        .part = "reason=\"no permission\"",
        .value = 1,
    },
    {
        .what = "permission for a field",
        .fail = {"nvmlDeviceGetPowerUsage"},
        .code = NO_PERMISSION,
        .line = "(no permission): DCGM_FI_DEV_POWER_USAGE",
        .metric = "gpuscale_exporter_absent_fields",
        .part = "reason=\"no permission\"",
        .value = 1,
    },
    {
        .what = "events",
        .fail = {"nvmlEventSetCreate"},
        .code = NOT_SUPPORTED,
        .line = "DCGM_FI_DEV_XID_ERRORS",
        .metric = "gpuscale_exporter_driver_up",
        .part = "",
        .value = 1,
    },
};

static void spawn_row(struct fixture *f, const struct row *r)
{
    GS_AUTO_FREE char *file = gs_format("%s/file", f->dir);
    GS_AUTO_FREE char *with_file = NULL;
    const char *args[12] = {"--simulate", "2xTesla-T4", "--address", "127.0.0.1:0"};
    for (size_t i = 0; i < GS_ARRAY_LEN(r->args) && r->args[i]; i++) {
        const char *at = strstr(r->args[i], "FILE");
        if (at)
            with_file = gs_format("%.*s%s", (int)(at - r->args[i]), r->args[i], file);
        args[4 + i] = at ? with_file : r->args[i];
    }
    unlink(file);
    if (r->file)
        assert_null(gs_file_write_atomic(file, 0600, gs_slice_of(r->file)));
    spawn(f, args);
}

static void test_optional_things(void **state)
{
    struct fixture *f = *state;
    setenv("KUBECONFIG", "/nonexistent/config", 1);
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        const struct row *r = &rows[i];
        for (size_t k = 0; k < GS_ARRAY_LEN(r->fail) && r->fail[k]; k++)
            assert_null(nvmlsim_fail_call(f->sim, r->fail[k], -1, r->code, 0));
        spawn_row(f, r);
        connect_exporter(f);
        if (!read_log(f, r->line))
            fail_msg("%s: nothing is said: %s", r->what, f->log.data);
        WAIT_FOR(f, "/metrics", value_of(f, r->metric, r->part, "") == r->value);
        if (!strstr(f->body.data, "DCGM_FI_DEV_GPU_TEMP{"))
            fail_msg("%s: what is there is missing, too", r->what);
        kill(f->exporter, SIGTERM);
        assert_int_equal(wait_exporter(f), 0);
        nvmlsim_clear_faults(f->sim);
    }
    unsetenv("KUBECONFIG");
}

static void test_name_of_the_node(void **state)
{
    struct fixture *f = *state;
    const char *args[] = {
        "--simulate",   "2xTesla-T4",
        "--address",    "127.0.0.1:0",
        "--kubernetes", "--pod-resources-kubelet-socket=/nonexistent/kubelet.sock",
        NULL,           NULL};
    setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1", 1); // as in a pod
    unsetenv("NODE_NAME");
    for (int named = 0; named < 2; named++) {
        args[6] = named ? "--node-name=node-1" : NULL;
        spawn(f, args);
        connect_exporter(f);
        assert_non_null(read_log(f, "first sample"));
        assert_true((strstr(f->log.data, "NODE_NAME is not set") == NULL) == named);
        kill(f->exporter, SIGTERM);
        assert_int_equal(wait_exporter(f), 0);
    }
    unsetenv("KUBERNETES_SERVICE_HOST");
}

// What comes later is taken without a restart.
static void test_folder_that_comes(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *jobs = gs_format("%s/jobs", f->dir), *job = gs_format("%s/0", jobs);
    GS_AUTO_FREE char *flag = gs_format("--hpc-job-mapping-dir=%s", jobs);
    const char *args[] = {"--simulate",         "2xTesla-T4", "--address", "127.0.0.1:0",
                          "--collect-interval", "200",        flag,        NULL};
    spawn(f, args);
    connect_exporter(f);
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_source_up", "hpc_job", "") == 0);
    assert_int_equal(mkdir(jobs, 0700), 0);
    assert_null(gs_file_write_atomic(job, 0600, gs_slice_of("job-17\n")));
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_source_up", "hpc_job", "") == 1);
    WAIT_FOR(f, "/metrics",
             value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[0], "hpc_job=\"job-17\"") > 1000);
    assert_non_null(read_log(f, "available again: hpc_job_mapping"));
    unlink(job);
    rmdir(jobs);
}

// As dcgm-exporter does.
static void test_devices_that_do_not_exist_are_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const wrong[][2] = {
        {"g:0,2", "--devices g:0,2: GPU 2 does not exist (this machine has 2 GPUs)"},
        {"g:1-3", "GPU 2 does not exist"},
        {"i:99", "GPU instance 99 does not exist"},
    };
    const char *args[] = {"--simulate", "2xTesla-T4", "--address", "127.0.0.1:0", "-d", NULL, NULL};
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        args[5] = wrong[i][0];
        spawn(f, args);
        assert_int_equal(wait_exporter(f), 2);
        if (!read_log(f, wrong[i][1]))
            fail_msg("%s: not in the log: %s", wrong[i][1], f->log.data);
    }
    args[5] = "g:0-1";
    spawn(f, args);
    connect_exporter(f);
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[1], "") > 1000);
}

// A protection that is asked for and cannot be had, a list that cannot be read: nobody would
// notice if it started without.
static void test_mistakes_are_refused(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *arg, *file, *line;
        int code;
    } mistakes[] = {
        {"--web-config-file=/nonexistent/web.yml", NULL, "/nonexistent/web.yml", 1},
        {"--config-file=/nonexistent/config.yaml", NULL, "/nonexistent/config.yaml", 1},
        {"--collectors=/nonexistent/own.csv", NULL, "/nonexistent/own.csv", 1},
        {"--collectors=FILE", "DCGM_GPU_TEMP, gauge, x\n", "unknown field", 2},
        {"--collectors=FILE", "DCGM_FI_DEV_GPU_TEMP, gauge\n", "line 1", 2},
        {"--configmap-data=families", NULL, "want NAMESPACE:NAME", 2},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(mistakes); i++) {
        const struct row r = {.args = {mistakes[i].arg}, .file = mistakes[i].file};
        spawn_row(f, &r);
        assert_int_equal(wait_exporter(f), mistakes[i].code);
        if (!read_log(f, mistakes[i].line))
            fail_msg("%s: %s", mistakes[i].arg, f->log.data);
    }
}

static int teardown_files(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *file = gs_format("%s/file", f->dir);
    unlink(file);
    return teardown(state);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown_files)
    const struct CMUnitTest tests[] = {
        TEST(test_optional_things),      TEST(test_name_of_the_node),
        TEST(test_folder_that_comes),    TEST(test_devices_that_do_not_exist_are_refused),
        TEST(test_mistakes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
