// SPDX-License-Identifier: Apache-2.0
#include "cluster_harness.h"
#include "local/controllers/controllers_private.h"
#include "local/scheduler.h"
#include "nodes/scheduling.h"

static const char *const slices[] = {"GPU-a::0", "GPU-a::1", "GPU-b::0", "GPU-b::1"};
static struct local_scheduler *s;

static void setup(struct cluster *k, const char *gpus)
{
    cluster_open(k);
    k->bound_only = true;
    if (gpus)
        cluster_node(k, gpus);
    s = controllers_scheduler_new(k->c, slices, GS_ARRAY_LEN(slices));
}

static void finish(struct cluster *k)
{
    controllers_scheduler_free(s);
    cluster_close(k);
}

static void pod(struct cluster *k, const char *name, const char *resources, const char *extra)
{
    GS_AUTO_FREE char *yaml =
        gs_format("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c, "
                  "image: i, resources: {%s}}] %s}}",
                  name, resources, extra);
    cluster_create(k, KUBE_PODS, yaml);
}

static const json_t *get(struct cluster *k, const char *name)
{
    return kube_cache_get(k->c->pods, "default", name);
}

static bool is_bound(const json_t *p)
{
    return codec_json_str(p, "spec", "nodeName", NULL) != NULL;
}

static bool pending_with(struct cluster *k, const char *name, const char *message)
{
    const json_t *c = kube_condition(get(k, name), "PodScheduled");
    return !is_bound(get(k, name)) && gs_streq(codec_json_str(c, "status", NULL), "False") &&
           gs_streq(codec_json_str(c, "message", NULL), message);
}

#define GPU(n) "limits: {nvidia.com/gpu: '" n "'}"

// Every device of every live pod, each once; how many there are.
static size_t unique_devices(struct cluster *k)
{
    CODEC_AUTO_JSON json_t *seen = json_object();
    size_t pos = 0, n = 0, i;
    const json_t *p;
    while ((p = kube_cache_next(k->c->pods, &pos))) {
        const char *text = kube_annotation(p, LOCAL_ANN_GPUS), *container;
        CODEC_AUTO_JSON json_t *gpus = NULL;
        json_t *ids, *id;
        if (!text || kube_pod_has_ended(p))
            continue;
        assert_ok(codec_json_parse(gs_slice_of(text), true, &gpus));
        json_object_foreach (gpus, container, ids)
            json_array_foreach (ids, i, id) {
                assert_null(json_object_get(seen, json_string_value(id)));
                json_object_set_new(seen, json_string_value(id), json_true());
                n++;
            }
    }
    return n;
}

static void test_a_pod_with_resource_claims_stays_pending(void **state)
{
    struct cluster k;
    setup(&k, "4");
    pod(&k, "dra", "claims: [{name: gpu}]",
        ", resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]");
    pod(&k, "later", GPU("1"), "");
    loop_until(&k.loop, pending_with(&k, "dra",
                                     "0/1 nodes are available: 1 cannot allocate all claims "
                                     "(dynamic resource allocation is not supported here: request "
                                     "nvidia.com/gpu instead)."));
    loop_until(&k.loop, is_bound(get(&k, "later")));
    finish(&k);
}

static void test_pods_are_bound(void **state)
{
    struct cluster k;
    setup(&k, "4");
    pod(&k, "a", "", "");
    loop_until(&k.loop, is_bound(get(&k, "a")));
    assert_string_equal(codec_json_str(get(&k, "a"), "spec", "nodeName", NULL), "node-1");
    assert_true(kube_condition_true(get(&k, "a"), "PodScheduled"));
    assert_null(kube_annotation(get(&k, "a"), LOCAL_ANN_GPUS));
    loop_for_ms(&k.loop, 20);
    assert_true(cluster_event(&k, "Scheduled", "Successfully assigned default/a to node-1"));
    finish(&k);
}

static void test_each_node_has_its_devices(void **state)
{
    static const char *const others[] = {"GPU-x", "GPU-y"};
    struct cluster k;
    setup(&k, "4");
    cluster_create(&k, KUBE_NODES, "{apiVersion: v1, kind: Node, metadata: {name: node-2}}");
    cluster_patch(&k, KUBE_NODES, "node-2", "status",
                  "status: {allocatable: {cpu: '4', memory: 8Gi, pods: '110', nvidia.com/gpu: "
                  "'2'}, conditions: [{type: Ready, status: 'True'}]}");
    controllers_scheduler_set_devices(s, "node-2", others, GS_ARRAY_LEN(others));
    pod(&k, "a", GPU("4"), "");
    loop_until(&k.loop, is_bound(get(&k, "a")));
    pod(&k, "b", GPU("2"), "");
    loop_until(&k.loop, is_bound(get(&k, "b")));
    assert_string_equal(codec_json_str(get(&k, "b"), "spec", "nodeName", NULL), "node-2");
    assert_string_equal(kube_annotation(get(&k, "b"), LOCAL_ANN_GPUS),
                        "{\"c\":[\"GPU-x\",\"GPU-y\"]}");
    assert_int_equal(unique_devices(&k), 6);
    finish(&k);
}

static void test_no_node_and_then_one(void **state)
{
    struct cluster k;
    setup(&k, NULL);
    pod(&k, "a", "", "");
    loop_until(&k.loop, pending_with(&k, "a", "no nodes available to schedule pods"));
    cluster_node(&k, "4");
    loop_until(&k.loop, is_bound(get(&k, "a")));
    finish(&k);
}

static void test_anti_affinity_keeps_pods_apart(void **state)
{
    static const char apart[] =
        ", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "[{topologyKey: kubernetes.io/hostname, labelSelector: {}}]}}";
    struct cluster k;
    setup(&k, "4");
    pod(&k, "a", "", apart);
    loop_until(&k.loop, is_bound(get(&k, "a")));
    pod(&k, "b", "", apart);
    loop_until(&k.loop, pending_with(&k, "b",
                                     "0/1 nodes are available: 1 node(s) didn't match pod "
                                     "anti-affinity rules."));
    finish(&k);
}

static void test_gpus_run_out_and_come_back(void **state)
{
    struct cluster k;
    setup(&k, "4");
    pod(&k, "a", GPU("2"), "");
    loop_until(&k.loop, is_bound(get(&k, "a")));
    CODEC_AUTO_JSON json_t *gpus = NULL;
    const char *text = kube_annotation(get(&k, "a"), LOCAL_ANN_GPUS);
    assert_ok(codec_json_parse(gs_slice_of(text), true, &gpus));
    // Two different GPUs, not two slices of one.
    assert_string_equal(text, "{\"c\":[\"GPU-a::0\",\"GPU-b::0\"]}");
    pod(&k, "b", GPU("1"), "");
    pod(&k, "c", GPU("1"), "");
    loop_until(&k.loop, is_bound(get(&k, "b")) && is_bound(get(&k, "c")));
    assert_int_equal(unique_devices(&k), 4);
    pod(&k, "d", GPU("1"), "");
    loop_until(&k.loop,
               pending_with(&k, "d", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."));
    assert_true(cluster_event(&k, "FailedScheduling", "1 Insufficient nvidia.com/gpu."));
    assert_string_equal(cluster_reason(get(&k, "d"), "PodScheduled"), "Unschedulable");
    pod(&k, "e", "", ""); // what fits is not held up
    loop_until(&k.loop, is_bound(get(&k, "e")));
    k.hold_deletions = true;
    cluster_delete(&k, KUBE_PODS, "default", "a");
    loop_for_ms(&k.loop, 50);
    assert_false(is_bound(get(&k, "d"))); // its processes may still run
    k.hold_deletions = false;
    kubelet_look_all(&k);
    loop_until(&k.loop, is_bound(get(&k, "d")));
    assert_int_equal(unique_devices(&k), 3);
    finish(&k);
}

static void test_finished_pods_give_their_devices_back(void **state)
{
    struct cluster k;
    setup(&k, "4");
    pod(&k, "a", GPU("4"), "");
    loop_until(&k.loop, is_bound(get(&k, "a")));
    pod(&k, "b", GPU("4"), "");
    loop_until(&k.loop, kube_condition(get(&k, "b"), "PodScheduled"));
    cluster_patch(&k, KUBE_PODS, "a", "status", "status: {phase: Succeeded}");
    loop_until(&k.loop, is_bound(get(&k, "b")));
    finish(&k);
}

static void test_devices_stay_unique_over_restarts(void **state)
{
    struct cluster k;
    setup(&k, "4");
    for (int i = 0; i < 6; i++) {
        GS_AUTO_FREE char *name = gs_format("p%d", i);
        pod(&k, name, GPU("1"), "");
        controllers_scheduler_free(s);
        cluster_forget(&k);
        if (i % 2)
            loop_for_ms(&k.loop, 5);
        cluster_watch(&k);
        s = controllers_scheduler_new(k.c, slices, GS_ARRAY_LEN(slices));
        loop_until(&k.loop, local_cluster_synced(k.c));
    }
    loop_until(&k.loop, cluster_pods(&k, is_bound) == 4);
    loop_for_ms(&k.loop, 50);
    assert_int_equal(cluster_pods(&k, is_bound), 4);
    assert_int_equal(unique_devices(&k), 4);
    finish(&k);
}

static void test_messages_are_the_schedulers(void **state)
{
    static const struct {
        const char *resources, *extra, *message;
    } cases[] = {
        {"requests: {cpu: '5'}", "", "0/1 nodes are available: 1 Insufficient cpu."},
        {"requests: {cpu: '5', memory: 9Gi}, " GPU("9"), "",
         "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 Insufficient "
         "nvidia.com/gpu."},
        {"limits: {example.com/x: '1'}", "",
         "0/1 nodes are available: 1 Insufficient example.com/x."},
        {"", ", nodeSelector: {disk: ssd}",
         "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
        {"",
         ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
         "{nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]}}}",
         "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
    };
    struct cluster k;
    setup(&k, "4");
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *name = gs_format("p%zu", i);
        pod(&k, name, cases[i].resources, cases[i].extra);
        loop_until(&k.loop, pending_with(&k, name, cases[i].message));
    }
    cluster_patch(&k, KUBE_NODES, "node-1", NULL, "metadata: {labels: {disk: ssd}}");
    loop_until(&k.loop, is_bound(get(&k, "p3")) && is_bound(get(&k, "p4")));
    finish(&k);
}

static void test_taints_and_cordons_keep_pods_off(void **state)
{
    struct cluster k;
    setup(&k, "4");
    cluster_patch(&k, KUBE_NODES, "node-1", NULL, "spec: {unschedulable: true}");
    pod(&k, "a", "", "");
    loop_until(&k.loop,
               pending_with(&k, "a", "0/1 nodes are available: 1 node(s) were unschedulable."));
    cluster_patch(&k, KUBE_NODES, "node-1", NULL,
                  "spec: {unschedulable: null, taints: [{key: gpu, value: 'yes', effect: "
                  "NoSchedule}]}");
    loop_until(&k.loop, pending_with(&k, "a",
                                     "0/1 nodes are available: 1 node(s) had untolerated taint "
                                     "{gpu: yes}."));
    pod(&k, "b", "", ", tolerations: [{key: gpu, operator: Exists}]");
    loop_until(&k.loop, is_bound(get(&k, "b")));
    cluster_patch(&k, KUBE_NODES, "node-1", NULL, "spec: {taints: null}");
    loop_until(&k.loop, is_bound(get(&k, "a")));
    cluster_patch(&k, KUBE_NODES, "node-1", "status",
                  "status: {conditions: [{type: Ready, status: 'False'}]}");
    pod(&k, "c", "", "");
    loop_until(&k.loop, pending_with(&k, "c",
                                     "0/1 nodes are available: 1 node(s) had untolerated taint "
                                     "{node.kubernetes.io/not-ready: }."));
    finish(&k);
}

static void test_priority_and_age_decide_who_is_first(void **state)
{
    struct cluster k;
    setup(&k, "0");
    pod(&k, "low", GPU("1"), "");
    pod(&k, "high", GPU("1"), ", priorityClassName: system-node-critical");
    loop_until(&k.loop, kube_condition(get(&k, "low"), "PodScheduled") &&
                            kube_condition(get(&k, "high"), "PodScheduled"));
    cluster_patch(&k, KUBE_NODES, "node-1", "status",
                  "status: {allocatable: {nvidia.com/gpu: '1'}}");
    loop_until(&k.loop, is_bound(get(&k, "high")));
    loop_for_ms(&k.loop, 30);
    assert_false(is_bound(get(&k, "low")));
    finish(&k);
}

static void test_gated_and_foreign_pods_are_left(void **state)
{
    struct cluster k;
    setup(&k, "4");
    pod(&k, "foreign", "", ", schedulerName: mine");
    pod(&k, "ours", "", "");
    loop_until(&k.loop, is_bound(get(&k, "ours")));
    loop_for_ms(&k.loop, 30);
    assert_false(is_bound(get(&k, "foreign")));
    finish(&k);
}

// --- devices ---

static json_t *pod_wanting(const char *containers)
{
    json_t *p = NULL;
    GS_AUTO_FREE char *text = gs_format("{\"spec\":%s}", containers);
    assert_ok(codec_json_parse(gs_slice_of(text), true, &p));
    return p;
}

#define WANT(name, n)                                                                              \
    "{\"name\":\"" name "\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"" n "\"}}}"

static void test_the_least_used_gpu_first(void **state)
{
    struct controllers_filter_devices d = {0};
    controllers_filter_devices_init(&d, slices, GS_ARRAY_LEN(slices));
    CODEC_AUTO_JSON json_t *one = pod_wanting("{\"containers\":[" WANT("c", "1") "]}");
    static const char *const expected[] = {"GPU-a::0", "GPU-b::0", "GPU-a::1", "GPU-b::1"};
    for (size_t i = 0; i < 4; i++) {
        CODEC_AUTO_JSON json_t *got = NULL;
        assert_true(controllers_filter_devices_assign(&d, one, &got));
        assert_string_equal(json_string_value(json_array_get(json_object_get(got, "c"), 0)),
                            expected[i]);
    }
    CODEC_AUTO_JSON json_t *none = NULL;
    assert_false(controllers_filter_devices_assign(&d, one, &none));
    assert_null(none);
    controllers_filter_devices_finish(&d);
}

// Time slices that the node offers under another name are given for that name only.
static void test_renamed_slices_are_given_for_their_own_resource(void **state)
{
    static const char *const ids[] = {"GPU-a::0", "GPU-a::1", "GPU-b"};
    struct controllers_filter_devices d = {0};
    controllers_filter_devices_init(&d, ids, GS_ARRAY_LEN(ids));
    d.slices_renamed = true;
    CODEC_AUTO_JSON json_t *whole = pod_wanting("{\"containers\":[" WANT("c", "1") "]}");
    CODEC_AUTO_JSON json_t *shared =
        pod_wanting("{\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{"
                    "\"nvidia.com/gpu.shared\":2}}}]}");
    CODEC_AUTO_JSON json_t *got = NULL, *slices_of = NULL, *none = NULL;
    assert_true(controllers_filter_devices_assign(&d, whole, &got));
    assert_string_equal(json_string_value(json_array_get(json_object_get(got, "c"), 0)), "GPU-b");
    assert_false(controllers_filter_devices_assign(&d, whole, &none));
    assert_true(controllers_filter_devices_assign(&d, shared, &slices_of));
    assert_int_equal(json_array_size(json_object_get(slices_of, "c")), 2);
    controllers_filter_devices_finish(&d);
}

static void test_a_pod_gets_all_or_nothing(void **state)
{
    struct controllers_filter_devices d = {0};
    controllers_filter_devices_init(&d, slices, GS_ARRAY_LEN(slices));
    CODEC_AUTO_JSON json_t *big =
        pod_wanting("{\"containers\":[" WANT("c", "2") "," WANT("d", "3") "]}");
    CODEC_AUTO_JSON json_t *got = NULL;
    assert_false(controllers_filter_devices_assign(&d, big, &got));
    CODEC_AUTO_JSON json_t *all = pod_wanting("{\"containers\":[" WANT("c", "4") "]}");
    assert_true(controllers_filter_devices_assign(&d, all, &got));
    assert_int_equal(json_array_size(json_object_get(got, "c")), 4);
    controllers_filter_devices_finish(&d);
}

static void test_init_containers_share_the_pods_devices(void **state)
{
    struct controllers_filter_devices d = {0};
    controllers_filter_devices_init(&d, slices, GS_ARRAY_LEN(slices));
    CODEC_AUTO_JSON json_t *p = pod_wanting("{\"containers\":[" WANT(
        "c", "1") "],\"initContainers\":[" WANT("i", "3") "," WANT("j", "3") "]}");
    CODEC_AUTO_JSON json_t *got = NULL;
    assert_true(controllers_filter_devices_assign(&d, p, &got));
    assert_int_equal(json_array_size(json_object_get(got, "i")), 3);
    assert_int_equal(json_array_size(json_object_get(got, "j")), 3);
    size_t taken = 0;
    for (size_t i = 0; i < d.len; i++)
        taken += d.items[i].taken;
    assert_int_equal(taken, 3);
    controllers_filter_devices_finish(&d);
}

static void test_requests_are_the_larger_of_init_and_sum(void **state)
{
    CODEC_AUTO_JSON json_t *p = pod_wanting(
        "{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"500m\",\"memory\":\"1Gi\"}}},"
        "{\"resources\":{\"limits\":{\"cpu\":1}}}],"
        "\"initContainers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"2Gi\"}}}]}");
    CODEC_AUTO_JSON json_t *r = nodes_pod_requests(p);
    assert_int_equal(json_integer_value(json_object_get(r, "cpu")), 1500);
    assert_int_equal(json_integer_value(json_object_get(r, "memory")), (2LL << 30) * 1000);
}

static void test_events_say_why_waiting_does_not_help(void **state)
{
    struct cluster k;
    (void)state;
    setup(&k, "4");
    CODEC_AUTO_JSON json_t *pools =
        json_pack("[{s:s, s:i, s:{s:{s:{s:s}}}}]", "name", "big", "max", 1, "node", "status",
                  "allocatable", "nvidia.com/gpu", "8");
    controllers_scheduler_set_pools(s, pools);
    pod(&k, "shared", "limits: {nvidia.com/gpu.shared: '1'}", "");
    pod(&k, "large", GPU("16"), "");
    pod(&k, "other", "", ", schedulerName: volcano");
    loop_until(&k.loop, cluster_event(&k, "FailedScheduling",
                                      "1 Insufficient nvidia.com/gpu.shared. Cause: nothing here "
                                      "provides nvidia.com/gpu.shared: no node and no pool"));
    loop_until(&k.loop, cluster_event(&k, "FailedScheduling", "machine of a pool has 8"));
    loop_until(&k.loop,
               cluster_event(&k, "FailedScheduling", "no scheduler named volcano runs here"));
    assert_null(kube_condition(get(&k, "other"), "PodScheduled")); // Kubernetes sets none
    finish(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_are_bound),
        cmocka_unit_test(test_a_pod_with_resource_claims_stays_pending),
        cmocka_unit_test(test_no_node_and_then_one),
        cmocka_unit_test(test_each_node_has_its_devices),
        cmocka_unit_test(test_anti_affinity_keeps_pods_apart),
        cmocka_unit_test(test_gpus_run_out_and_come_back),
        cmocka_unit_test(test_finished_pods_give_their_devices_back),
        cmocka_unit_test(test_devices_stay_unique_over_restarts),
        cmocka_unit_test(test_messages_are_the_schedulers),
        cmocka_unit_test(test_taints_and_cordons_keep_pods_off),
        cmocka_unit_test(test_priority_and_age_decide_who_is_first),
        cmocka_unit_test(test_gated_and_foreign_pods_are_left),
        cmocka_unit_test(test_the_least_used_gpu_first),
        cmocka_unit_test(test_a_pod_gets_all_or_nothing),
        cmocka_unit_test(test_renamed_slices_are_given_for_their_own_resource),
        cmocka_unit_test(test_init_containers_share_the_pods_devices),
        cmocka_unit_test(test_requests_are_the_larger_of_init_and_sum),
        cmocka_unit_test(test_events_say_why_waiting_does_not_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
