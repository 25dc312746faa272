// SPDX-License-Identifier: Apache-2.0
// Several kubelets in one program: each runs the pods of its node, and they share pod addresses.
#include "local/kubelet_fixture.h"

#include "local/cluster.h"

#define SECOND         "node-2"
#define SECOND_ADDRESS "127.98.7.9"

static struct kubelet *second;

static void start_second(struct fixture *f, const char *not_ready)
{
    GS_AUTO_FREE char *dir = gs_format("%s/second", f->dir);
    GS_AUTO_FREE char *socket = gs_format("%s/second.sock", f->dir);
    CODEC_AUTO_JSON json_t *capacity = json_pack("{s:s, s:s}", "cpu", "4", "memory", "26Gi");
    CODEC_AUTO_JSON json_t *labels = json_pack("{s:s}", "pool", "a");
    const char *const env[] = {"EXTRA=of-second", NULL};
    const struct local_kubelet_config cfg = {.first = f->kubelet,
                                             .node_name = SECOND,
                                             .address = SECOND_ADDRESS,
                                             .data_dir = dir,
                                             .self_exe = f->exe,
                                             .node_labels = labels,
                                             .podresources_socket = socket,
                                             .extra_env = env,
                                             .work_dir = f->dir,
                                             .capacity = capacity,
                                             .provider_id = "gpuscale://a/node-2",
                                             .slices_renamed = true,
                                             .slices_single = true,
                                             .not_ready = not_ready};
    struct gs_error *err = kubelet_new(f->cluster, f->h.api, &cfg, &second);
    if (err)
        fail_msg("%s", gs_error_message(err));
}

static int close_second(void **state)
{
    struct fixture *f = *state;
    f->stopped = false;
    kubelet_stop(second, 200, fixture_stopped, f);
    while (!f->stopped)
        tick(f);
    kubelet_free(second);
    return fixture_close(state);
}

static void create_on_second(struct fixture *f, const char *name, const char *spec)
{
    GS_AUTO_FREE char *text = gs_format("{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s'},"
                                        "'spec':{'nodeName':'" SECOND "',%s}}",
                                        name, spec);
    GS_AUTO_FREE char *body = requote(text);
    AUTO_REPLY struct reply r = request(&f->h, "POST", "/api/v1/namespaces/default/pods", body);
    assert_status(r, 201);
}

static json_t *node_named(struct fixture *f, const char *name)
{
    GS_AUTO_FREE char *path = gs_format("/api/v1/nodes/%s", name);
    AUTO_REPLY struct reply r = request(&f->h, "GET", path, NULL);
    return r.status == 200 ? json_incref(r.body) : NULL;
}

static bool node_has(struct fixture *f, const char *condition, const char *cpu, const char *gpus)
{
    CODEC_AUTO_JSON json_t *n = node_named(f, SECOND);
    const json_t *c = kube_condition(n, "Ready");
    return n && gs_streq(codec_json_str(c, "status", NULL), condition) &&
           gs_streq(codec_json_str(n, "status", "capacity", "cpu", NULL), cpu) &&
           gs_streq(codec_json_str(n, "status", "allocatable", "nvidia.com/gpu", NULL), gpus);
}

static void wait_node(struct fixture *f, const char *condition, const char *gpus)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; tick(f))
        if (node_has(f, condition, "4", gpus))
            return;
    CODEC_AUTO_JSON json_t *n = node_named(f, SECOND);
    GS_AUTO_BUF struct gs_buf text = {0};
    if (n)
        codec_json_dump(n, &text);
    fail_msg("the node is not Ready=%s with GPUs %s: %s", condition, gpus ? gpus : "none",
             text.data ? text.data : "there is no such node");
}

#define TALKER                                                                                     \
    "'terminationGracePeriodSeconds':1,'containers':[{'name':'c','image':'any','command':['sh',"   \
    "'-c','echo $HOST_IP $NODE_NAME $EXTRA; exec sleep 1000'],'env':[{'name':'HOST_IP',"           \
    "'valueFrom':{'fieldRef':{'fieldPath':'status.hostIP'}}},{'name':'NODE_NAME','valueFrom':"     \
    "{'fieldRef':{'fieldPath':'spec.nodeName'}}}]}]"

static void test_each_kubelet_runs_the_pods_of_its_node(void **state)
{
    struct fixture *f = *state;
    start_second(f, NULL);
    wait_node(f, "True", NULL);
    create_pod(f, "on-first", "", TALKER);
    create_on_second(f, "on-second", TALKER);
    await_pod(f, "on-first", "ready", is_ready, NULL);
    await_log(f, "on-first", LOCAL_NODE_IP " " NODE " from-up\n");
    await_log(f, "on-second", SECOND_ADDRESS " " SECOND " of-second\n");
    CODEC_AUTO_JSON json_t *a = wait_pod(f, "on-first", "ready", is_ready, NULL);
    CODEC_AUTO_JSON json_t *b = wait_pod(f, "on-second", "ready", is_ready, NULL);
    assert_string_equal(codec_json_str(a, "status", "hostIP", NULL), LOCAL_NODE_IP);
    assert_string_equal(codec_json_str(b, "status", "hostIP", NULL), SECOND_ADDRESS);
    assert_string_not_equal(codec_json_str(a, "status", "podIP", NULL),
                            codec_json_str(b, "status", "podIP", NULL));
    GS_AUTO_BUF struct gs_buf metrics = {0};
    kubelet_write_metrics(f->kubelet, &metrics);
    assert_non_null(strstr(metrics.data, "pod=\"on-first\"} "));
    assert_non_null(
        strstr(metrics.data, "pod=\"on-second\",instance=\"" SECOND "\",node=\"" SECOND "\"} "));
    assert_non_null(strstr(metrics.data, "node_cpu_usage_seconds_total{instance=\"" SECOND));
    delete_pod(f, "on-second", "");
    wait_pod_gone(f, "on-second");
}

static void test_a_node_becomes_ready_in_steps(void **state)
{
    struct fixture *f = *state;
    static const char *const ids[] = {"GPU-x", "GPU-y"};
    start_second(f, "the machine is starting");
    wait_node(f, "False", NULL);
    CODEC_AUTO_JSON json_t *n = node_named(f, SECOND);
    assert_string_equal(codec_json_str(kube_condition(n, "Ready"), "reason", NULL),
                        "KubeletNotReady");
    assert_string_equal(codec_json_str(kube_condition(n, "Ready"), "message", NULL),
                        "the machine is starting");
    assert_string_equal(codec_json_str(n, "spec", "providerID", NULL), "gpuscale://a/node-2");
    assert_null(kube_label(n, "node-role.kubernetes.io/control-plane"));
    const json_t *taint = json_array_get(codec_json_get(n, "spec", "taints", NULL), 0);
    assert_string_equal(codec_json_str(taint, "key", NULL), "node.kubernetes.io/not-ready");
    assert_string_equal(codec_json_str(taint, "effect", NULL), "NoSchedule");
    CODEC_AUTO_JSON json_t *labels = json_pack("{s:s}", "driver", "570");
    kubelet_add_labels(second, labels);
    kubelet_set_devices(second, ids, GS_ARRAY_LEN(ids));
    wait_node(f, "False", "2");
    kubelet_set_ready(second, NULL);
    wait_node(f, "True", "2");
    CODEC_AUTO_JSON json_t *ready = node_named(f, SECOND);
    assert_int_equal(json_array_size(codec_json_get(ready, "spec", "taints", NULL)), 0);
    assert_string_equal(kube_label(ready, "driver"), "570");
    assert_string_equal(kube_label(ready, "pool"), "a");
}

static bool is_rejected(const json_t *pod, const void *arg)
{
    (void)arg;
    return gs_streq(codec_json_str(pod, "status", "reason", NULL), "UnexpectedAdmissionError");
}

// renameByDefault and failRequestsGreaterThanOne of NVIDIA's device plug-in.
static void test_renamed_time_slices_are_a_resource_of_their_own(void **state)
{
    struct fixture *f = *state;
    static const char *const ids[] = {"GPU-x::0", "GPU-x::1", "GPU-y"};
    start_second(f, NULL);
    kubelet_set_devices(second, ids, GS_ARRAY_LEN(ids));
    wait_node(f, "True", "1");
    CODEC_AUTO_JSON json_t *n = node_named(f, SECOND);
    assert_string_equal(codec_json_str(n, "status", "allocatable", "nvidia.com/gpu.shared", NULL),
                        "2");
    AUTO_REPLY struct reply made =
        request(&f->h, "POST", "/api/v1/namespaces/default/pods",
                "{\"metadata\":{\"name\":\"greedy\",\"annotations\":{\"" LOCAL_ANN_GPUS
                "\":\"{\\\"c\\\":[\\\"GPU-x::0\\\",\\\"GPU-x::1\\\"]}\"}},\"spec\":{\"nodeName\":"
                "\"" SECOND "\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}");
    assert_status(made, 201);
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "greedy", "rejected", is_rejected, NULL);
    assert_string_equal(codec_json_str(pod, "status", "phase", NULL), "Failed");
    assert_non_null(strstr(codec_json_str(pod, "status", "message", NULL),
                           "maximum request size for shared resources is 1; found 2"));
}

static void test_logs_of_a_pod_whose_node_has_no_kubelet(void **state)
{
    struct fixture *f = *state;
    start_second(f, NULL);
    wait_node(f, "True", NULL);
    AUTO_REPLY struct reply made =
        request(&f->h, "POST", "/api/v1/namespaces/default/pods",
                "{\"metadata\":{\"name\":\"lost\"},\"spec\":{\"nodeName\":\"gone\",\"containers\":"
                "[{\"name\":\"c\",\"image\":\"i\"}]}}");
    assert_status(made, 201);
    AUTO_REPLY struct reply r = get_log(f, "lost", "");
    assert_status(r, 503);
    assert_non_null(strstr(r.text, "no kubelet runs the node \\\"gone\\\""));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_open, close_second)
    const struct CMUnitTest tests[] = {
        T(test_each_kubelet_runs_the_pods_of_its_node),
        T(test_a_node_becomes_ready_in_steps),
        T(test_renamed_time_slices_are_a_resource_of_their_own),
        T(test_logs_of_a_pod_whose_node_has_no_kubelet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
