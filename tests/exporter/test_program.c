// SPDX-License-Identifier: Apache-2.0
#include "program_fixture.h"

static void test_pages(void **state)
{
    struct fixture *f = *state;
    start_exporter(f);
    assert_int_equal(get(f, "/metrics"), 200);
    assert_true(value_of(f, "gpuscale_exporter_simulated", "", "") == 1);
    assert_true(value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[0], "hostname=\"node-1\"") > 1000);
    assert_int_equal(get(f, "/healthz"), 200);
    assert_string_equal(f->body.data, "OK");
    assert_int_equal(get(f, "/"), 200);
    assert_non_null(strstr(f->body.data, "SIMULATED"));
    assert_int_equal(get(f, "/nothing"), 404);
    assert_non_null(read_log(f, "SIMULATED"));
    kill(f->exporter, SIGTERM);
    assert_int_equal(wait_exporter(f), 0);
}

static void test_load_is_seen_on_the_gpu_and_on_the_pod(void **state)
{
    struct fixture *f = *state;
    give(f, "web-0", f->uuid[0], NULL, NULL);
    start_exporter(f);
    start_load(f, 0, 0, "web-0");
    WAIT_FOR(f, "/metrics",
             value_of(f, "DCGM_CUSTOM_PROCESS_SM_UTIL", "PodName=\"web-0\"", f->uuid[0]) > 80);
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_GPU_UTIL", f->uuid[0], "pod=\"web-0\"") > 80);
    assert_true(value_of(f, "DCGM_FI_DEV_GPU_UTIL", f->uuid[1], "") == 0);
    assert_true(value_of(f, "DCGM_CUSTOM_PROCESS_MEM_USED", "AllocateMode=\"exclusive\"",
                         "PodName=\"web-0\"") >= 512);
    assert_true(value_of(f, "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED", "PodName=\"web-0\"", "") >
                10000);
    assert_true(value_of(f, "gpuscale_exporter_podresources_up", "", "") == 1);
    stop_load(f, 0);
    WAIT_FOR(f, "/metrics",
             value_of(f, "DCGM_FI_DEV_GPU_UTIL", f->uuid[0], "pod=\"web-0\"") == 0 &&
                 !strstr(f->body.data, "DCGM_CUSTOM_PROCESS_SM_UTIL"));
}

static void test_pods_share_a_gpu(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *a = gs_format("%s::0", f->uuid[0]), *b = gs_format("%s::1", f->uuid[0]);
    GS_AUTO_FREE char *all = gs_format("%s %s", a, b);
    give(f, "web-0", a, "web-1", b);
    pack_allocatable("nvidia.com/gpu", all, &f->allocatable);
    start_exporter(f);
    start_load(f, 0, 0, "web-0");
    start_load(f, 1, 0, "web-1");
    WAIT_FOR(f, "/metrics",
             value_of(f, "DCGM_CUSTOM_PROCESS_SM_UTIL", "share", "PodName=\"web-0\"") > 20 &&
                 value_of(f, "DCGM_CUSTOM_PROCESS_SM_UTIL", "share", "PodName=\"web-1\"") > 20);
    assert_true(__builtin_isnan(value_of(f, "DCGM_FI_DEV_", "pod=\"web", "")));
    WAIT_FOR(f, "/metrics",
             value_of(f, "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED", "share", "PodName=\"web-1\"") >
                 5000);
    assert_true(value_of(f, "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED", "share", "PodName=\"web-1\"") <
                9000);
}

static const char *const impatient[] = {"--driver-timeout", "500ms", NULL};

static void test_hanging_driver_stops_nothing_else(void **state)
{
    struct fixture *f = *state;
    start_exporter_with(f, impatient);
    assert_null(nvmlsim_hang_call(f->sim, "nvmlDeviceGetPowerUsage", -1, 600000, 0));
    WAIT_FOR(f, "/health", f->status == 503 && strstr(f->body.data, "driver"));
    // The second one may be found a pass later.
    WAIT_FOR(f, "/healthz", f->status == 503 && strstr(f->body.data, "2 of 2 GPUs do not respond"));
    assert_int_equal(get(f, "/"), 200); // what a liveness probe asks: a restart would not help
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_sampler_stuck", "", "") == 1);
    assert_int_equal(f->status, 200);
    assert_null(strstr(f->body.data, "DCGM_FI_DEV_")); // not repeated as if it were measured
    nvmlsim_clear_faults(f->sim);
    WAIT_FOR(f, "/health", f->status == 200);
    WAIT_FOR(f, "/metrics", strstr(f->body.data, "DCGM_FI_DEV_"));

    assert_null(nvmlsim_hang_call(f->sim, "nvmlDeviceGetPowerUsage", -1, 600000, 0));
    WAIT_FOR(f, "/health", f->status == 503);
    kill(f->exporter, SIGTERM); // nor the end
    assert_int_equal(wait_exporter(f), 0);
}

static void test_why_pods_are_missing(void **state)
{
    struct fixture *f = *state;
    const struct pod_row wrong[] = {{"default", "web-1", "main", "example.com/gpu", "card-0"}};
    pack_list(wrong, 1, &f->list);
    start_exporter(f);
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "resource_name_unknown", "") == 1);
    assert_non_null(
        read_log(f, "GPUs cannot be attributed to pods: pods have the resource example.com/gpu"));
    give(f, "web-1", "GPU-00000000-0000-0000-0000-000000000000", NULL, NULL);
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_pods_missing", "id_mismatch", "") == 1);
    give(f, "web-1", f->uuid[0], NULL, NULL);
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_pods_missing", "id_mismatch", "") == 0);
    assert_true(value_of(f, "gpuscale_exporter_pods_missing", "resource_name_unknown", "") == 0);
    grpc_server_free(f->kubelet);
    f->kubelet = NULL;
    uv_run(&f->loop, UV_RUN_NOWAIT);
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "socket_not_mounted", "") == 1);
    start_kubelet(f); // a kubelet that was restarted
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "socket_not_mounted", "") == 0);
}

// The device plug-in may give nvidia.com/gpu another name for each product.
static void test_renamed_resources(void **state)
{
    struct fixture *f = *state;
    const struct pod_row known[] = {{"default", "web-1", "main", "nvidia.com/a100", f->uuid[0]}};
    const struct pod_row unknown[] = {{"default", "web-1", "main", "nvidia.com/a100", "card-0"}};
    pack_list(known, 1, &f->list);
    start_exporter(f);
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[0], "pod=\"web-1\"") > 1000);
    assert_true(value_of(f, "gpuscale_exporter_pods_missing", "resource_name_unknown", "") == 0);
    // With another kind of id it may be a network card, unless a pod is seen to use the GPU.
    pack_list(unknown, 1, &f->list);
    start_load(f, 0, 0, "web-1");
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "resource_name_unknown", "") == 1);
    assert_non_null(read_log(f, "pods have the resource nvidia.com/a100, which does not count"));
}

// Answers that are wrong, too big or never come: the last good map stays in use.
static void test_kubelet_that_misbehaves(void **state)
{
    struct fixture *f = *state;
    give(f, "web-1", f->uuid[0], NULL, NULL);
    start_exporter(f);
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[0], "pod=\"web-1\"") > 1000);
    GS_AUTO_BUF struct gs_buf good = {0};
    gs_buf_add_slice(&good, gs_buf_slice(&f->list));
    for (int i = 0; i < 2; i++) {
        gs_buf_clear(&f->list);
        size_t size = i == 0 ? 3000 : (size_t)17 << 20; // nonsense; more than is taken
        memset(gs_buf_room(&f->list, size), 0xff, size);
        f->list.len += size;
        WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_podresources_up", "", "") == 0);
        assert_true(value_of(f, "gpuscale_exporter_pods_missing", "no_answer", "") >= 0);
        assert_true(value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[0], "pod=\"web-1\"") > 1000);
        assert_int_equal(get(f, "/health"), 200);
        gs_buf_clear(&f->list);
        gs_buf_add_slice(&f->list, gs_buf_slice(&good));
        WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_podresources_up", "", "") == 1);
    }
}

static void test_one_hanging_gpu_leaves_the_others(void **state)
{
    struct fixture *f = *state;
    start_exporter_with(f, impatient);
    assert_null(nvmlsim_hang_call(f->sim, "nvmlDeviceGetPowerUsage", 1, 600000, 0));
    // Where the machine stands still for a moment, the other one seems to hang too, until it goes
    // on.
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_gpu_hung", f->uuid[1], "") == 1 &&
                 value_of(f, "gpuscale_exporter_gpu_hung", f->uuid[0], "") == 0 &&
                 value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[0], "") > 1000);
    assert_true(__builtin_isnan(value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[1], "")));
    double before = value_of(f, "gpuscale_exporter_samples_total", "", "");
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_samples_total", "", "") > before + 3);
    WAIT_FOR(f, "/health",
             f->status == 200 &&
                 gs_starts(f->body.data, "OK, but 1 of 2 GPUs do not respond: GPU 1 (") &&
                 strstr(f->body.data, f->uuid[1]));
    GS_AUTO_FREE char *line = gs_format("GPU 1 (%s, ", f->uuid[1]);
    assert_non_null(read_log(f, line));
    assert_non_null(read_log(f, "does not respond: a driver call does not return"));
    assert_null(nvmlsim_report_xid(f->sim, 1, 119)); // what the driver reports all the same
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_XID_ERRORS", f->uuid[1], "") == 119);
    nvmlsim_clear_faults(f->sim);
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[1], "") > 1000);
    assert_non_null(read_log(f, " responds again"));
}

// The argument lists and variables of manifests for dcgm-exporter in the wild start it unchanged.
static void test_manifests_start_unchanged(void **state)
{
    struct fixture *f = *state;
    setenv("DCGM_EXPORTER_LISTEN", "127.0.0.1:0", 1);
    setenv("DCGM_EXPORTER_KUBERNETES", "true", 1);
    setenv("DCGM_POD_RESOURCES_KUBELET_SOCKET", f->socket, 1);
    const char *args[] = {"-c",
                          "10000",
                          "-f",
                          "/etc/dcgm-exporter/1.x-compatibility-metrics.csv",
                          "--kubernetes-gpu-id-type",
                          "device-name",
                          "--simulate",
                          "2xTesla-T4",
                          NULL};
    spawn(f, args);
    const char *url = read_log(f, "/metrics\n");
    unsetenv("DCGM_EXPORTER_LISTEN");
    unsetenv("DCGM_EXPORTER_KUBERNETES");
    unsetenv("DCGM_POD_RESOURCES_KUBELET_SOCKET");
    if (!url)
        fail_msg("no address in the log: %s", f->log.data ? f->log.data : "");
    url = strstr(f->log.data, "http://");
    snprintf(f->base_url, sizeof(f->base_url), "%.*s", (int)strcspn(url + 7, "/") + 7, url);
    struct http_client_config cfg = {.base_url = f->base_url};
    assert_null(http_client_new_curl(&f->loop, &cfg, &f->client));
    WAIT_FOR(f, "/metrics", f->status == 200);
    assert_non_null(strstr(f->body.data, "# TYPE dcgm_gpu_utilization gauge\n"));
    assert_non_null(strstr(f->body.data, "dcgm_fb_used{gpu=\"0\",UUID=\""));
    assert_null(strstr(f->body.data, "DCGM_FI_DEV_"));
}

static void test_every_flag_of_the_peer(void **state)
{
    struct fixture *f = *state;
    const char *args[] = {"--simulate",
                          "2xTesla-T4",
                          "-a",
                          "127.0.0.1:0",
                          "-o",
                          "-p",
                          "f",
                          "-s",
                          "f",
                          "-r",
                          "localhost:5555",
                          "-d",
                          "g:0",
                          "-n",
                          "-x",
                          "60000",
                          "--rbmn",
                          "--fake-gpus",
                          "--enable-dcgm-log",
                          "--disable-startup-validate",
                          "--watch-max-keep-age=10m",
                          "--watch-max-keep-samples=0",
                          "--max-concurrent-scrapes=16",
                          "--enable-exporter-metrics",
                          "--health-require-gpus",
                          NULL};
    spawn(f, args);
    if (!read_log(f, "first sample"))
        fail_msg("the log: %s", f->log.data ? f->log.data : "");
    assert_non_null(strstr(f->log.data, "--fake-gpus is accepted without effect"));
    assert_non_null(strstr(f->log.data, "--remote-hostengine-info is accepted without effect"));
    kill(f->exporter, SIGTERM);
    assert_int_equal(wait_exporter(f), 0);
    const char *unknown[] = {"--collecters", "x", NULL};
    spawn(f, unknown);
    assert_int_equal(wait_exporter(f), 2);
    assert_non_null(read_log(f, "collectors")); // what was meant
}

// An empty page without a word. What is named and does not exist is refused.
static void test_devices_that_are_not_there_are_told(void **state)
{
    struct fixture *f = *state;
    const char *args[] = {"--simulate", "2xTesla-T4", "-a", "127.0.0.1:0", "-d", "i", NULL};
    spawn(f, args);
    assert_non_null(read_log(f, "--devices i: no GPU of this machine matches"));
    kill(f->exporter, SIGTERM);
    assert_int_equal(wait_exporter(f), 0);
}

// The peer's default, as manifests spell it out.
static void test_configmap_none_is_no_configmap(void **state)
{
    struct fixture *f = *state;
    const char *none[] = {"--simulate", "2xTesla-T4", "-a", "127.0.0.1:0", "-m", "none", NULL};
    spawn(f, none);
    assert_non_null(read_log(f, "first sample"));
    assert_null(strstr(f->log.data, "--devices"));
    kill(f->exporter, SIGTERM);
    assert_int_equal(wait_exporter(f), 0);
    static const char *const wrong[] = {":", "a:", ":b", "a:b:c", "a"};
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        const char *args[] = {"--simulate", "2xTesla-T4", "-a", "127.0.0.1:0",
                              "-m",         wrong[i],     NULL};
        spawn(f, args);
        assert_int_equal(wait_exporter(f), 2);
        assert_non_null(read_log(f, "want NAMESPACE:NAME"));
    }
}

static void test_lost_gpu_leaves_the_others(void **state)
{
    struct fixture *f = *state;
    start_exporter(f);
    assert_null(nvmlsim_lose_gpu(f->sim, 0, true));
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_gpu_lost", f->uuid[0], "") == 1);
    assert_true(value_of(f, "gpuscale_exporter_gpu_lost", f->uuid[1], "") == 0);
    assert_true(value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[1], "") > 1000);
    assert_true(__builtin_isnan(value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[0], "")));
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_XID_ERRORS", f->uuid[0], "79") == 79);
    assert_true(value_of(f, "DCGM_FI_DEV_XID_ERRORS", f->uuid[1], "") == 0);
    assert_int_equal(get(f, "/health"), 200);
    GS_AUTO_FREE char *who = gs_format("OK, but 1 of 2 GPUs are lost: GPU 0 (%s, ", f->uuid[0]);
    assert_true(gs_starts(f->body.data, who));
    assert_non_null(read_log(f, "XID 79: GPU has fallen off the bus"));
    assert_non_null(read_log(f, " is lost: the driver returns GPU_IS_LOST; its last XID is 79"));
    GS_AUTO_FREE char *name = gs_format("GPU 0 (%s, ", f->uuid[0]);
    assert_non_null(read_log(f, name));
    assert_null(nvmlsim_lose_gpu(f->sim, 0, false));
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[0], "") > 1000);
    assert_true(value_of(f, "DCGM_FI_DEV_XID_ERRORS", f->uuid[0], "") == 79);
    assert_non_null(read_log(f, " is available again"));
}

static void test_xid_and_failing_call(void **state)
{
    struct fixture *f = *state;
    start_exporter(f);
    assert_null(nvmlsim_report_xid(f->sim, 1, 79));
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_XID_ERRORS", f->uuid[1], "") == 79);
    assert_true(value_of(f, "DCGM_FI_DEV_XID_ERRORS", f->uuid[0], "") == 0);
    assert_null(nvmlsim_fail_call(f->sim, "nvmlDeviceGetPowerUsage", 1, 999, 0));
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_nvml_errors_total", "nvmlDeviceGetPowerUsage", "999") >
                 0);
    assert_true(__builtin_isnan(value_of(f, "DCGM_FI_DEV_POWER_USAGE", f->uuid[1], "")));
    assert_false(__builtin_isnan(value_of(f, "DCGM_FI_DEV_POWER_USAGE", f->uuid[0], "")));
}

static void test_kubelet_goes_and_comes_back(void **state)
{
    struct fixture *f = *state;
    give(f, "web-0", f->uuid[0], NULL, NULL);
    start_exporter(f);
    WAIT_FOR(f, "/metrics", strstr(f->body.data, "pod=\"web-0\"") != NULL);
    grpc_server_free(f->kubelet);
    f->kubelet = NULL;
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_podresources_up", "", "") == 0);
    assert_non_null(strstr(f->body.data, "pod=\"web-0\"")); // the last good map stays
    give(f, "web-9", f->uuid[0], NULL, NULL);
    start_kubelet(f);
    WAIT_FOR(f, "/metrics", strstr(f->body.data, "pod=\"web-9\"") != NULL);
}

static void test_no_driver(void **state)
{
    struct fixture *f = *state;
    const char *args[] = {"--nvml-library", "/nonexistent/libnvidia-ml.so.1", "--address",
                          "127.0.0.1:0", NULL};
    spawn(f, args);
    assert_non_null(read_log(f, "/nonexistent/libnvidia-ml.so.1"));
    assert_non_null(read_log(f, "--simulate"));
    assert_int_equal(wait_exporter(f), 1);
}

static void test_busy_port(void **state)
{
    struct fixture *f = *state;
    start_exporter(f);
    pid_t first = f->exporter;
    const char *address = f->base_url + strlen("http://");
    const char *args[] = {"--simulate", "2xTesla-T4", "--address", address, NULL};
    spawn(f, args);
    const char *said = read_log(f, "already in use");
    int code = wait_exporter(f);
    f->exporter = first;
    assert_non_null(said);
    assert_int_equal(code, 1);
}

static void test_wrong_usage(void **state)
{
    struct fixture *f = *state;
    const char *const cases[][4] = {
        {"--address", "9400", "HOST:PORT"},
        {"--simulate", "2xNoSuchGPU", "Tesla-T4"},
        {"--hostname-label", "host", "Hostname"},
        {"--kubernetes-gpu-id-type", "serial", "device-name"},
        {"--metric-names", "4.7", "want 4.8, 4.9 or both"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        const char *args[] = {cases[i][0], cases[i][1], NULL};
        spawn(f, args);
        assert_non_null(read_log(f, cases[i][2]));
        assert_int_equal(wait_exporter(f), 2);
    }
}

// A parent that dies without a word takes the exporter with it.
static void test_ends_with_its_parent(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *exe = program();
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t parent = fork();
    if (parent == 0) {
        pid_t child = fork();
        if (child == 0) {
            dup2(pipe_fds[1], STDERR_FILENO);
            close(pipe_fds[0]);
            execl(exe, exe, "exporter", "--simulate", "2xTesla-T4", "--address", "127.0.0.1:0",
                  "--exit-with-parent", (char *)NULL);
            _exit(127);
        }
        ssize_t n = write(pipe_fds[1], &child, sizeof(child));
        pause();
        _exit(n > 0);
    }
    close(pipe_fds[1]);
    assert_int_equal(read(pipe_fds[0], &f->exporter, sizeof(f->exporter)), sizeof(f->exporter));
    f->log_fd = pipe_fds[0];
    assert_non_null(read_log(f, "first sample"));
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    assert_int_equal(wait_exporter(f), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "load") == 0)
        return run_load();
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_pages),
        TEST(test_load_is_seen_on_the_gpu_and_on_the_pod),
        TEST(test_pods_share_a_gpu),
        TEST(test_hanging_driver_stops_nothing_else),
        TEST(test_why_pods_are_missing),
        TEST(test_renamed_resources),
        TEST(test_kubelet_that_misbehaves),
        TEST(test_one_hanging_gpu_leaves_the_others),
        TEST(test_manifests_start_unchanged),
        TEST(test_every_flag_of_the_peer),
        TEST(test_devices_that_are_not_there_are_told),
        TEST(test_configmap_none_is_no_configmap),
        TEST(test_lost_gpu_leaves_the_others),
        TEST(test_xid_and_failing_call),
        TEST(test_kubelet_goes_and_comes_back),
        TEST(test_no_driver),
        TEST(test_busy_port),
        TEST(test_wrong_usage),
        TEST(test_ends_with_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
