// SPDX-License-Identifier: Apache-2.0
// The program with an API server: our embedded one for pods and ConfigMaps, with ResourceSlices
// beside it, and one that refuses. Processes of pods are those of a folder that stands for the
// host's /proc.
#include "program_fixture.h"

#include "base/file.h"
#include "local/api.h"
#include "net/http/server.h"
#include "unit.h"

#include <ftw.h>
#include <sys/stat.h>

#define POD_UID "0123abcd-1111-2222-3333-444455556666"
#define CID     "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd"

struct cluster_fixture {
    struct fixture base; // first: the tests of the program take it
    struct local_api *api;
    struct http_client *admin;
    struct http_server *server;
    const char *slices_version; // NULL: no such group
    char slices[2048];          // the items
    bool refuse;
    unsigned list_calls;
    char proc[128], kubeconfig[128];
    bool asked;
    int asked_status;
};

// --- the API server ---

static void on_abort(void *arg)
{
    (void)arg;
}

static void reply_slices(struct cluster_fixture *f, struct http_exchange *x)
{
    GS_AUTO_FREE char *text = NULL;
    const char *path = http_path(x);
    if (gs_streq(path, "/apis/resource.k8s.io"))
        text = gs_format("{\"kind\":\"APIGroup\",\"versions\":[{\"version\":\"v1alpha3\"},"
                         "{\"version\":\"%s\"}]}",
                         f->slices_version);
    else if (http_query(x, "watch")) {
        http_on_abort(x, on_abort, f); // silent until the peer leaves
        return;
    } else
        text = gs_format("{\"kind\":\"ResourceSliceList\",\"apiVersion\":\"resource.k8s.io/%s\","
                         "\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[%s]}",
                         f->slices_version, f->slices);
    http_reply(x, 200, "application/json", gs_slice_of(text));
}

static void on_request(void *ctx, struct http_exchange *x)
{
    struct cluster_fixture *f = ctx;
    f->list_calls += strstr(http_path(x), "/pods") != NULL;
    if (f->refuse)
        http_reply_text(x, 403, "no");
    else if (f->slices_version && gs_starts(http_path(x), "/apis/resource.k8s.io"))
        reply_slices(f, x);
    else
        local_api_handle(f->api, x);
}

static void start_api(struct cluster_fixture *f)
{
    static const char *const groups[] = {"system:masters"};
    const struct http_identity admin = {"system:admin", groups, 1};
    assert_ok(
        local_api_new(&f->base.loop, &(struct local_api_config){.node_name = "node-1"}, &f->api));
    f->admin = http_client_new_loopback(&f->base.loop, local_api_handle, f->api, &admin);
    const struct http_server_config cfg = {.address = "127.0.0.1", .bearer_token = "secret"};
    assert_ok(http_server_start(&f->base.loop, &cfg, on_request, f, &f->server));
    GS_AUTO_FREE char *text =
        gs_format("apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                  "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:%u'}}]\n"
                  "users: [{name: u, user: {token: secret}}]\n"
                  "contexts: [{name: c, context: {cluster: c, user: u}}]\n",
                  http_server_port(f->server));
    assert_ok(gs_file_write_atomic(f->kubeconfig, 0600, gs_slice_of(text)));
    setenv("KUBECONFIG", f->kubeconfig, 1);
}

static void on_asked(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct cluster_fixture *f = arg;
    f->asked = true;
    f->asked_status = err ? 0 : response->status;
    gs_error_free(err);
}

static void ask(struct cluster_fixture *f, const char *method, const char *path, const char *body)
{
    struct http_request request = {.method = method,
                                   .path = path,
                                   .content_type = gs_streq(method, "PATCH")
                                                       ? "application/merge-patch+json"
                                                       : "application/json",
                                   .body = gs_slice_of(body ? body : "")};
    struct http_callbacks callbacks = {.on_done = on_asked};
    f->asked = false;
    http_send(f->admin, &request, &callbacks, f);
    while (!f->asked)
        uv_run(&f->base.loop, UV_RUN_ONCE);
    if (f->asked_status < 200 || f->asked_status > 299)
        fail_msg("%s %s: %d", method, path, f->asked_status);
}

#define PODS "/api/v1/namespaces/default/pods"

static void make_pod(struct cluster_fixture *f, const char *name, const char *annotations)
{
    GS_AUTO_FREE char *text = gs_format(
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\",\"labels\":"
        "{\"app\":\"web\",\"example.com/tier\":\"x\"},\"annotations\":{%s}},\"spec\":{"
        "\"nodeName\":\"node-1\",\"containers\":[{\"name\":\"main\",\"image\":\"i\"}]}}",
        name, annotations);
    ask(f, "POST", PODS, text);
}

// --- set up ---

static int setup_cluster(void **state)
{
    setup(state);
    struct fixture *base = *state;
    struct cluster_fixture *f = gs_alloc(sizeof(*f));
    grpc_server_free(GS_TAKE(base->kubelet)); // its handlers have the old place
    uv_run(&base->loop, UV_RUN_DEFAULT);
    uv_loop_close(&base->loop);
    f->base = *base;
    free(base);
    uv_loop_init(&f->base.loop);
    start_kubelet(&f->base);
    snprintf(f->proc, sizeof(f->proc), "%s/proc", f->base.dir);
    snprintf(f->kubeconfig, sizeof(f->kubeconfig), "%s/config", f->base.dir);
    mkdir(f->proc, 0755);
    start_api(f);
    *state = &f->base;
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    remove(path);
    return 0;
}

static int teardown_cluster(void **state)
{
    struct cluster_fixture *f = *state;
    unsetenv("KUBECONFIG");
    if (f->base.exporter > 0) {
        kill(f->base.exporter, SIGKILL);
        waitpid(f->base.exporter, NULL, 0);
        f->base.exporter = 0;
    }
    http_server_stop(f->server);
    http_client_free(f->admin);
    local_api_free(f->api);
    nftw(f->base.dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return teardown(state);
}

static struct cluster_fixture *start(void **state, const char *const *flags)
{
    struct cluster_fixture *f = *state;
    const char *args[12] = {"--host-proc", f->proc};
    for (size_t i = 0; flags[i]; i++)
        args[2 + i] = flags[i];
    start_exporter_with(&f->base, args);
    return f;
}

static const char *const no_flags[] = {NULL};

// /proc/PID as a process of the pod has it.
static void put_in_pod(struct cluster_fixture *f, pid_t pid, const char *uid)
{
    GS_AUTO_FREE char *dir = gs_format("%s/%d", f->proc, (int)pid);
    GS_AUTO_FREE char *stat_path = gs_format("%s/stat", dir), *cgroup = gs_format("%s/cgroup", dir);
    GS_AUTO_FREE char *real = gs_format("/proc/%d/stat", (int)pid);
    GS_AUTO_FREE char *line =
        gs_format("0::/kubepods.slice/kubepods-pod%s.slice/cri-containerd-" CID ".scope\n", uid);
    GS_AUTO_BUF struct gs_buf text = {0};
    mkdir(dir, 0755);
    assert_ok(gs_file_read(real, 4096, &text));
    assert_ok(gs_file_write_atomic(cgroup, 0644, gs_slice_of(line)));
    assert_ok(gs_file_write_atomic(stat_path, 0644, gs_buf_slice(&text)));
}

static void give_units(struct fixture *f, const char *resource, const char *ids)
{
    const struct pod_row row = {"default", "web-0", "main", resource, ids};
    pack_list(&row, 1, &f->list);
}

// --- tests ---

static void test_labels_and_uids(void **state)
{
    static const char *const flags[] = {
        "--kubernetes-enable-pod-labels", "--kubernetes-enable-pod-uid",
        "--kubernetes-pod-label-allowlist-regex", "tier$,^app", NULL};
    struct fixture *f = *state;
    struct cluster_fixture *c = *state;
    give(f, "web-0", f->uuid[0], NULL, NULL);
    make_pod(c, "web-0", "");
    start(state, flags);
    WAIT_FOR(f, "/metrics",
             value_of(f, "DCGM_FI_DEV_FB_FREE",
                      "app=\"web\",example_com_tier=\"x\",container=", "pod_uid=\"") > 1000);
    // A label that changes while it runs; then another pod of the same name.
    ask(c, "PATCH", PODS "/web-0", "{\"metadata\":{\"labels\":{\"app\":\"shop\"}}}");
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_FB_FREE", "app=\"shop\"", "") > 1000);
    GS_AUTO_FREE char *uid = gs_strndup(strstr(f->body.data, "pod_uid=\""), 9 + 36);
    ask(c, "DELETE", PODS "/web-0?gracePeriodSeconds=0", NULL);
    WAIT_FOR(f, "/metrics",
             value_of(f, "DCGM_FI_DEV_FB_FREE", "app=", "") != 0 &&
                 !strstr(f->body.data, "pod_uid="));
    make_pod(c, "web-0", "");
    WAIT_FOR(f, "/metrics", strstr(f->body.data, "pod_uid=\"") != NULL);
    assert_null(strstr(f->body.data, uid));
}

static void test_families_of_a_configmap(void **state)
{
    static const char *const flags[] = {"--configmap-data", "default:families", NULL};
    struct fixture *f = *state;
    ask(*state, "POST", "/api/v1/namespaces/default/configmaps",
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"families\"},"
        "\"data\":{\"metrics\":\"# none\\nDCGM_FI_DEV_GPU_TEMP, gauge, Of the map.\\n\"}}");
    GS_AUTO_FREE char *url = NULL;
    (void)url;
    // The test's loop must run while the exporter waits for the answer at its start.
    const char *args[] = {"--simulate", "2xTesla-T4", "--address", "127.0.0.1:0",
                          flags[0],     flags[1],     NULL};
    spawn(f, args);
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end;) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        struct pollfd p = {f->log_fd, POLLIN, 0};
        char chunk[1024];
        ssize_t n = poll(&p, 1, 10) > 0 ? read(f->log_fd, chunk, sizeof(chunk)) : -1;
        if (n > 0)
            gs_buf_add(&f->log, chunk, (size_t)n);
        if (n == 0 || (f->log.data && strstr(f->log.data, "/metrics\n")))
            break;
    }
    const char *at = f->log.data ? strstr(f->log.data, "http://") : NULL;
    if (!at)
        fail_msg("the log: %s", f->log.data ? f->log.data : "");
    snprintf(f->base_url, sizeof(f->base_url), "%.*s", (int)strcspn(at + 7, "/") + 7, at);
    struct http_client_config cfg = {.base_url = f->base_url};
    assert_null(http_client_new_curl(&f->loop, &cfg, &f->client));
    WAIT_FOR(f, "/metrics", f->status == 200);
    // On a machine that is very slow it starts without it.
    WAIT_FOR(f, "/metrics", strstr(f->body.data, "# HELP DCGM_FI_DEV_GPU_TEMP Of the map.\n"));
    assert_null(strstr(f->body.data, "DCGM_FI_DEV_SM_CLOCK"));
}

// The rights come later, and the ConfigMap after them; a mistake in it changes nothing then.
static void test_configmap_that_comes_late(void **state)
{
    static const char maps[] = "/api/v1/namespaces/default/configmaps";
    static const char *const flags[] = {"--configmap-data", "default:families", NULL};
    struct fixture *f = *state;
    struct cluster_fixture *c = *state;
    c->refuse = true;
    start(state, flags);
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_source_up", "configmap", "") == 0);
    assert_non_null(strstr(f->body.data, "DCGM_FI_DEV_SM_CLOCK{"));
    assert_non_null(read_log(f, "the default metrics are exported"));
    c->refuse = false;
    ask(c, "POST", maps,
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"families\"},"
        "\"data\":{\"metrics\":\"DCGM_FI_DEV_GPU_TEMP, gauge, Of the map.\\n\"}}");
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_source_up", "configmap", "") == 1);
    WAIT_FOR(f, "/metrics", strstr(f->body.data, "# HELP DCGM_FI_DEV_GPU_TEMP Of the map.\n"));
    assert_null(strstr(f->body.data, "DCGM_FI_DEV_SM_CLOCK"));
    assert_non_null(read_log(f, "ConfigMap default/families: 1 metrics"));
}

static void test_without_need_it_is_not_asked(void **state)
{
    struct fixture *f = *state;
    struct cluster_fixture *c = *state;
    give(f, "web-0", f->uuid[0], NULL, NULL);
    start(state, no_flags);
    WAIT_FOR(f, "/metrics", value_of(f, "DCGM_FI_DEV_FB_FREE", "pod=\"web-0\"", "") > 1000);
    for (int i = 0; i < 20; i++) {
        get(f, "/metrics");
        usleep(20000);
    }
    assert_int_equal(c->list_calls, 0);
}

// The annotation comes after the pod, as schedulers write it; no flag asks for it.
static void test_annotations_of_a_shared_gpu(void **state)
{
    struct fixture *f = *state;
    struct cluster_fixture *c = *state;
    GS_AUTO_FREE char *ids = gs_format("%s-_-0 %s-_-1", f->uuid[1], f->uuid[1]);
    give_units(f, "aliyun.com/gpu-mem", ids);
    make_pod(c, "web-0", "");
    start(state, no_flags);
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "annotation_missing", "") == 1);
    assert_non_null(read_log(f, "default/web-0"));
    ask(c, "PATCH", PODS "/web-0",
        "{\"metadata\":{\"annotations\":{\"ALIYUN_COM_GPU_MEM_IDX\":\"0\","
        "\"ALIYUN_COM_GPU_MEM_DEV\":\"15\",\"ALIYUN_COM_GPU_MEM_ASSIGNED\":\"true\"}}}");
    WAIT_FOR(f, "/metrics",
             value_of(f, "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED", "PodName=\"web-0\"", f->uuid[0]) ==
                 2048);
    assert_true(value_of(f, "DCGM_CUSTOM_ALLOCATE_MODE", f->uuid[0], "") == 2);
    assert_true(value_of(f, "DCGM_CUSTOM_ALLOCATE_MODE", f->uuid[1], "") == 0);
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "annotation_missing", "") == 0);
}

static void test_claims_by_resource_slices(void **state)
{
    static const char *const flags[] = {"--kubernetes-enable-dra", NULL};
    static const char *const versions[] = {"v1", "v1beta2", "v1beta1"};
    struct fixture *f = *state;
    struct cluster_fixture *c = *state;
    for (size_t i = 0; i < 3; i++) {
        bool old = i == 2;
        c->slices_version = versions[i];
        // An outdated slice of the same pool names another GPU.
        snprintf(c->slices, sizeof(c->slices),
                 "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"},\"spec\":{\"driver\":"
                 "\"gpu.nvidia.com\",\"pool\":{\"name\":\"node-1\",\"generation\":1},\"devices\":["
                 "{\"name\":\"known\",%s\"attributes\":{\"uuid\":{\"string\":\"%s\"}}}%s]}},"
                 "{\"metadata\":{\"name\":\"b\",\"resourceVersion\":\"2\"},\"spec\":{\"driver\":"
                 "\"gpu.nvidia.com\",\"pool\":{\"name\":\"node-1\",\"generation\":2},\"devices\":["
                 "{\"name\":\"known\",%s\"attributes\":{\"uuid\":{\"string\":\"%s\"}}}%s]}}",
                 old ? "\"basic\":{" : "", f->uuid[0], old ? "}" : "", old ? "\"basic\":{" : "",
                 f->uuid[1], old ? "}" : "");
        const struct pod_row row = {.ns = "default",
                                    .pod = "web-0",
                                    .container = "main",
                                    .claim = "cl",
                                    .pool = "node-1",
                                    .device = "known"};
        pack_list(&row, 1, &f->list);
        start(state, flags);
        WAIT_FOR(f, "/metrics",
                 value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[1],
                          "dra_claim_name=\"cl\",dra_claim_namespace=\"default\","
                          "dra_device_name=\"known\",dra_driver_name=\"gpu.nvidia.com\","
                          "dra_pool_name=\"node-1\",namespace=\"default\",pod=\"web-0\"") > 1000);
        assert_true(__builtin_isnan(value_of(f, "DCGM_FI_DEV_FB_FREE", f->uuid[0], "pod=")));
        kill(f->exporter, SIGKILL);
        waitpid(f->exporter, NULL, 0);
        f->exporter = 0;
        http_client_free(GS_TAKE(f->client));
    }
}

static void test_claim_without_a_slice(void **state)
{
    struct fixture *f = *state;
    const struct pod_row row = {.ns = "default",
                                .pod = "web-0",
                                .container = "main",
                                .claim = "cl",
                                .pool = "node-1",
                                .device = "unheard-of"};
    pack_list(&row, 1, &f->list);
    start(state, no_flags); // this API server has no ResourceSlices
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "claim_unknown", "") == 1 &&
                 value_of(f, "gpuscale_exporter_pods_missing", "api_no_answer", "") == 1);
    assert_non_null(read_log(f, "default/cl (node-1/unheard-of)"));
    assert_non_null(read_log(f, "resource.k8s.io"));
}

static void test_refused(void **state)
{
    struct fixture *f = *state;
    struct cluster_fixture *c = *state;
    GS_AUTO_FREE char *ids = gs_format("%s-3", f->uuid[0]);
    give_units(f, "nvidia.com/gpu", ids);
    c->refuse = true;
    start(state, no_flags);
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "api_no_permission", "") == 1);
    assert_non_null(read_log(f, "allow the exporter to list and watch pods"));
    // HAMi's ids do not tell whose the GPU is.
    assert_true(__builtin_isnan(value_of(f, "DCGM_FI_DEV_FB_FREE", "pod=", "")));
    GS_AUTO_FREE char *annotation =
        gs_format("\"hami.io/vgpu-devices-allocated\":\"%s,NVIDIA,3000,30:;\"", f->uuid[1]);
    c->refuse = false;
    make_pod(c, "web-0", annotation);
    WAIT_FOR(f, "/metrics",
             value_of(f, "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED", "PodName=\"web-0\"", f->uuid[1]) ==
                 3000);
    assert_true(
        value_of(f, "DCGM_CUSTOM_CONTAINER_CP_ALLOCATED", "PodName=\"web-0\"", f->uuid[1]) == 0.3);
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "api_no_permission", "") == 0);
}

static void test_no_service_account(void **state)
{
    static const char *const flags[] = {"--kubernetes-enable-pod-labels", NULL};
    struct fixture *f = *state;
    setenv("KUBECONFIG", "/nonexistent/config", 1);
    give(f, "web-0", f->uuid[0], NULL, NULL);
    start(state, flags);
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "api_no_answer", "") == 1);
    assert_non_null(read_log(f, "/nonexistent/config"));
    assert_true(value_of(f, "DCGM_FI_DEV_FB_FREE", "pod=\"web-0\"", "") > 1000);
}

// Without the kubelet's log folders a cgroup gives a UID alone; the API server knows its pod.
static void test_names_of_uids(void **state)
{
    struct fixture *f = *state;
    struct cluster_fixture *c = *state;
    GS_AUTO_FREE char *a = gs_format("%s::0", f->uuid[0]), *b = gs_format("%s::1", f->uuid[0]);
    give(f, "web-0", a, "web-1", b);
    c->refuse = true;
    start(state, no_flags);
    pid_t pid = start_load(f, 0, 0, "not-this-name");
    put_in_pod(c, pid, POD_UID);
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "pod_names_unknown", "") == 1);
    assert_non_null(read_log(f, POD_UID));
    assert_null(strstr(f->body.data, "not-this-name")); // the cgroup counts, not the environment
    make_pod(c, "web-1", "\"kubernetes.io/config.hash\":\"" POD_UID "\"");
    c->refuse = false;
    WAIT_FOR(f, "/metrics",
             value_of(f, "DCGM_CUSTOM_PROCESS_SM_UTIL", "PodName=\"web-1\"", "share") > 50);
    assert_true(
        __builtin_isnan(value_of(f, "DCGM_CUSTOM_PROCESS_SM_UTIL", "PodName=\"web-0\"", "")));
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "pod_names_unknown", "") == 0);
}

static void test_processes_are_not_visible(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *a = gs_format("%s::0", f->uuid[0]);
    give(f, "web-0", a, NULL, NULL);
    start(state, no_flags); // the folder for /proc is empty
    start_load(f, 0, 0, "web-0");
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "processes_not_visible", "") == 1);
    assert_non_null(read_log(f, "hostPID"));
    assert_null(strstr(f->body.data, "DCGM_CUSTOM_PROCESS_SM_UTIL{"));
}

static void test_flag_is_not_set(void **state)
{
    struct fixture *f = *state;
    struct cluster_fixture *c = *state;
    const char *args[] = {"--simulate",         "2xTesla-T4",  "--address",
                          "127.0.0.1:0",        "--host-proc", c->proc,
                          "--collect-interval", "200",         NULL};
    spawn(f, args);
    connect_exporter(f);
    assert_true(value_of(f, "gpuscale_exporter_pods_missing", "flag_not_set", "") != 1);
    put_in_pod(c, start_load(f, 0, 0, "web-0"), POD_UID);
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_pods_missing", "flag_not_set", "") == 1);
    assert_non_null(read_log(f, "--kubernetes"));
    stop_load(f, 0);
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_pods_missing", "flag_not_set", "") == 0);
}

// As an ordinary user the socket's folder is closed.
static void test_no_permission(void **state)
{
    struct fixture *f = *state;
    if (getuid() != 0)
        skip_because("only root can run the exporter as another user");
    GS_AUTO_FREE char *segment = gs_format("/dev/shm%s", f->sim_name);
    assert_int_equal(chown(segment, 65534, 65534), 0);
    run_as(f, 65534);
    start(state, no_flags);
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "no_permission", "") == 1);
    assert_non_null(read_log(f, "no permission to connect to"));
    assert_int_equal(chmod(f->dir, 0755), 0);
    assert_int_equal(chmod(f->socket, 0666), 0);
    WAIT_FOR(f, "/metrics",
             value_of(f, "gpuscale_exporter_pods_missing", "no_permission", "") == 0);
}

static void test_kubelet_does_not_answer(void **state)
{
    struct fixture *f = *state;
    gs_buf_add(&f->list, "\xff\xff\xff", 3);
    start(state, no_flags);
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_pods_missing", "no_answer", "") == 1);
    assert_non_null(read_log(f, "cannot be decoded"));
    give(f, "web-0", f->uuid[0], NULL, NULL);
    WAIT_FOR(f, "/metrics", value_of(f, "gpuscale_exporter_pods_missing", "no_answer", "") == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "load") == 0)
        return run_load();
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_cluster, teardown_cluster)
    const struct CMUnitTest tests[] = {
        TEST(test_labels_and_uids),
        TEST(test_families_of_a_configmap),
        TEST(test_configmap_that_comes_late),
        TEST(test_without_need_it_is_not_asked),
        TEST(test_annotations_of_a_shared_gpu),
        TEST(test_claims_by_resource_slices),
        TEST(test_claim_without_a_slice),
        TEST(test_refused),
        TEST(test_no_service_account),
        TEST(test_names_of_uids),
        TEST(test_processes_are_not_visible),
        TEST(test_flag_is_not_set),
        TEST(test_no_permission),
        TEST(test_kubelet_does_not_answer),
    };
    (void)signal(SIGPIPE, SIG_IGN); // an exporter may end while it is answered
    return cmocka_run_group_tests(tests, NULL, NULL);
}
