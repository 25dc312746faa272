// SPDX-License-Identifier: Apache-2.0
#include "cluster_harness.h"
#include "local/workloads.h"

static struct local_workloads *w;

static void setup(struct cluster *k)
{
    cluster_open(k);
    w = controllers_workloads_new(k->c);
    cluster_node(k, "1");
}

static void finish(struct cluster *k)
{
    controllers_workloads_free(w);
    cluster_close(k);
}

static void add_node(struct cluster *k, const char *name, const char *labels)
{
    GS_AUTO_FREE char *yaml =
        gs_format("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s}}}", name, labels);
    cluster_create(k, KUBE_NODES, yaml);
}

#define DAEMONSET(extra, pod, image)                                                               \
    "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n" extra                 \
    "  selector: {matchLabels: {app: agent}}\n"                                                    \
    "  template:\n    metadata: {labels: {app: agent}}\n"                                          \
    "    spec: {" pod "containers: [{name: c, image: '" image "'}]}\n"
#define IMAGE(image) "spec: {template: {spec: {containers: [{name: c, image: '" image "'}]}}}"

static const json_t *daemonset(struct cluster *k)
{
    return kube_cache_get(k->c->daemonsets, "default", "agent");
}

static int64_t number(struct cluster *k, const char *field)
{
    return codec_json_int(daemonset(k), 0, "status", field, NULL);
}

static bool settled(struct cluster *k, int64_t nodes)
{
    return daemonset(k) && number(k, "desiredNumberScheduled") == nodes &&
           number(k, "currentNumberScheduled") == nodes && number(k, "numberReady") == nodes &&
           number(k, "numberAvailable") == nodes && number(k, "updatedNumberScheduled") == nodes &&
           number(k, "numberUnavailable") == 0 && cluster_pods(k, NULL) == (size_t)nodes &&
           number(k, "observedGeneration") ==
               codec_json_int(daemonset(k), 0, "metadata", "generation", NULL);
}

static const json_t *only_pod(struct cluster *k)
{
    assert_int_equal(kube_cache_len(k->c->pods), 1);
    return kube_cache_next(k->c->pods, &(size_t){0});
}

static const char *target(const json_t *pod)
{
    const json_t *term = json_array_get(
        codec_json_get(pod, "spec", "affinity", "nodeAffinity",
                       "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", NULL),
        0);
    const json_t *field = json_array_get(json_object_get(term, "matchFields"), 0);
    return json_string_value(json_array_get(json_object_get(field, "values"), 0));
}

static bool tolerates(const json_t *pod, const char *key, const char *effect)
{
    size_t i;
    json_t *t;
    json_array_foreach (codec_json_get(pod, "spec", "tolerations", NULL), i, t) {
        if (gs_streq(codec_json_str(t, "key", NULL), key) &&
            gs_streq(codec_json_str(t, "operator", NULL), "Exists") &&
            gs_streq(codec_json_str(t, "effect", NULL), effect))
            return true;
    }
    return false;
}

static void test_each_node_gets_a_pod(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DAEMONSETS, DAEMONSET("", "", "one"));
    loop_until(&k.loop, settled(&k, 1));
    const json_t *pod = only_pod(&k);
    const json_t *revision = kube_cache_next(k.c->revisions, &(size_t){0});
    assert_string_equal(target(pod), "node-1");
    assert_true(gs_starts(kube_name(pod), "agent-"));
    assert_string_equal(codec_json_str(kube_controller_ref(pod), "kind", NULL), "DaemonSet");
    assert_string_equal(kube_label(pod, "controller-revision-hash"),
                        kube_label(revision, "controller-revision-hash"));
    assert_string_equal(kube_label(pod, "pod-template-generation"), "1");
    GS_AUTO_FREE char *name =
        gs_format("agent-%s", kube_label(revision, "controller-revision-hash"));
    assert_string_equal(kube_name(revision), name);
    assert_true(tolerates(pod, "node.kubernetes.io/not-ready", "NoExecute"));
    assert_true(tolerates(pod, "node.kubernetes.io/unreachable", "NoExecute"));
    assert_true(tolerates(pod, "node.kubernetes.io/disk-pressure", "NoSchedule"));
    assert_true(tolerates(pod, "node.kubernetes.io/memory-pressure", "NoSchedule"));
    assert_true(tolerates(pod, "node.kubernetes.io/pid-pressure", "NoSchedule"));
    assert_true(tolerates(pod, "node.kubernetes.io/unschedulable", "NoSchedule"));
    assert_false(tolerates(pod, "node.kubernetes.io/network-unavailable", "NoSchedule"));
    assert_true(cluster_event(&k, "SuccessfulCreate", "Created pod: agent-"));
    add_node(&k, "node-2", "");
    loop_until(&k.loop, settled(&k, 2));
    cluster_delete(&k, KUBE_DAEMONSETS, "default", "agent");
    loop_until(&k.loop, kube_cache_len(k.c->pods) == 0 && kube_cache_len(k.c->revisions) == 0);
    finish(&k);
}

static void test_node_selectors_and_taints_exclude_nodes(void **state)
{
    struct cluster k;
    setup(&k);
    add_node(&k, "node-2", "gpu: 'yes'");
    cluster_create(&k, KUBE_DAEMONSETS, DAEMONSET("", "nodeSelector: {gpu: 'yes'}, ", "one"));
    loop_until(&k.loop, settled(&k, 1));
    assert_string_equal(target(only_pod(&k)), "node-2");
    // A NoSchedule taint lets the pod run. A NoExecute taint removes it.
    cluster_patch(&k, KUBE_NODES, "node-2", NULL,
                  "spec: {taints: [{key: a, value: b, effect: NoSchedule}]}");
    loop_until(&k.loop, number(&k, "numberMisscheduled") == 1);
    assert_int_equal(cluster_pods(&k, NULL), 1);
    cluster_patch(&k, KUBE_NODES, "node-2", NULL,
                  "spec: {taints: [{key: a, value: b, effect: NoExecute}]}");
    loop_until(&k.loop, settled(&k, 0));
    cluster_patch(&k, KUBE_NODES, "node-2", NULL, "spec: {taints: null}");
    loop_until(&k.loop, settled(&k, 1));
    finish(&k);
}

static void test_selecting_no_node_is_an_event(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DAEMONSETS,
                   DAEMONSET("", "nodeSelector: {nvidia.com/gpu.present: 'true'}, ", "one"));
    loop_until(&k.loop, number(&k, "observedGeneration") == 1);
    loop_until(&k.loop,
               cluster_event(&k, "NoNodeSelected",
                             "The DaemonSet runs on no node. 0/1 nodes are available: 1 node(s) "
                             "didn't match Pod's node affinity/selector. Its nodeSelector is "
                             "nvidia.com/gpu.present=true."));
    cluster_patch(&k, KUBE_NODES, "node-1", NULL,
                  "metadata: {labels: {nvidia.com/gpu.present: 'true'}}");
    loop_until(&k.loop, settled(&k, 1));
    finish(&k);
}

static int64_t least_serving;
static int broken;

static void check_serving(struct cluster *k)
{
    broken += (int64_t)cluster_pods(k, pod_serves) < least_serving;
}

static void test_a_rolling_update_replaces_one_pod_at_a_time(void **state)
{
    struct cluster k;
    setup(&k);
    add_node(&k, "node-2", "");
    add_node(&k, "node-3", "");
    cluster_create(&k, KUBE_DAEMONSETS, DAEMONSET("", "", "one"));
    loop_until(&k.loop, settled(&k, 3));
    least_serving = 2;
    broken = 0;
    k.check = check_serving;
    cluster_patch(&k, KUBE_DAEMONSETS, "agent", NULL, IMAGE("two"));
    loop_until(&k.loop, settled(&k, 3) && number(&k, "observedGeneration") == 2);
    assert_int_equal(broken, 0);
    k.check = NULL;
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(k.c->pods, &pos))) {
        const json_t *c = json_array_get(codec_json_get(pod, "spec", "containers", NULL), 0);
        assert_string_equal(codec_json_str(c, "image", NULL), "two");
        assert_string_equal(kube_label(pod, "pod-template-generation"), "2");
    }
    assert_int_equal(kube_cache_len(k.c->revisions), 2);
    // The first template again: its revision becomes the latest.
    cluster_patch(&k, KUBE_DAEMONSETS, "agent", NULL, IMAGE("one"));
    loop_until(&k.loop, settled(&k, 3) && number(&k, "observedGeneration") == 3);
    assert_int_equal(kube_cache_len(k.c->revisions), 2);
    pos = 0;
    int64_t highest = 0;
    while ((pod = kube_cache_next(k.c->revisions, &pos)))
        highest = codec_json_int(pod, 0, "revision", NULL) > highest
                      ? codec_json_int(pod, 0, "revision", NULL)
                      : highest;
    assert_int_equal(highest, 3);
    finish(&k);
}

static void test_a_surge_starts_the_new_pod_first(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(
        &k, KUBE_DAEMONSETS,
        DAEMONSET("  updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n", "",
                  "one"));
    loop_until(&k.loop, settled(&k, 1));
    least_serving = 1;
    broken = 0;
    k.check = check_serving;
    cluster_patch(&k, KUBE_DAEMONSETS, "agent", NULL, IMAGE("two"));
    loop_until(&k.loop, settled(&k, 1) && number(&k, "observedGeneration") == 2);
    assert_int_equal(broken, 0);
    k.check = NULL;
    finish(&k);
}

static void test_on_delete_waits_for_the_user(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DAEMONSETS,
                   DAEMONSET("  updateStrategy: {type: OnDelete}\n", "", "one"));
    loop_until(&k.loop, settled(&k, 1));
    GS_AUTO_FREE char *name = gs_strdup(kube_name(only_pod(&k)));
    cluster_patch(&k, KUBE_DAEMONSETS, "agent", NULL, IMAGE("two"));
    loop_until(&k.loop, number(&k, "observedGeneration") == 2);
    loop_for_ms(&k.loop, 200);
    assert_string_equal(kube_name(only_pod(&k)), name);
    assert_int_equal(number(&k, "updatedNumberScheduled"), 0);
    cluster_delete(&k, KUBE_PODS, "default", name);
    loop_until(&k.loop, settled(&k, 1));
    finish(&k);
}

static void test_failed_pods_are_replaced(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DAEMONSETS, DAEMONSET("", "", "one"));
    loop_until(&k.loop, settled(&k, 1));
    GS_AUTO_FREE char *name = gs_strdup(kube_name(only_pod(&k)));
    cluster_patch(&k, KUBE_PODS, name, "status", "status: {phase: Failed}");
    loop_until(&k.loop, !kube_cache_get(k.c->pods, "default", name) && settled(&k, 1));
    assert_true(cluster_event(&k, "FailedDaemonPod", "Found failed daemon pod default/agent-"));
    finish(&k);
}

static void test_history_is_limited(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DAEMONSETS, DAEMONSET("  revisionHistoryLimit: 1\n", "", "0"));
    loop_until(&k.loop, settled(&k, 1));
    for (int64_t i = 1; i < 4; i++) {
        GS_AUTO_FREE char *patch = gs_format(IMAGE("%d"), (int)i);
        cluster_patch(&k, KUBE_DAEMONSETS, "agent", NULL, patch);
        loop_until(&k.loop, settled(&k, 1) && number(&k, "observedGeneration") == i + 1);
    }
    loop_until(&k.loop, kube_cache_len(k.c->revisions) == 2);
    finish(&k);
}

static void test_faults_only_delay(void **state)
{
    struct cluster k;
    setup(&k);
    add_node(&k, "node-2", "");
    cluster_create(&k, KUBE_DAEMONSETS, DAEMONSET("", "", "one"));
    k.fail_every = 3;
    loop_until(&k.loop, settled(&k, 2));
    k.fail_every = 0;
    finish(&k);
}

#define CONTROLLER                                                                                 \
    "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: old}\nspec:\n"                  \
    "  replicas: 2\n  template:\n    metadata: {labels: {app: old}}\n"                             \
    "    spec: {containers: [{name: c, image: x}]}\n"

static void test_replication_controllers_keep_their_pods(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_REPLICATIONCONTROLLERS, CONTROLLER);
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 2);
    cluster_patch(&k, KUBE_REPLICATIONCONTROLLERS, "old", "scale", "spec: {replicas: 3}");
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 3);
    loop_until(&k.loop,
               codec_json_int(kube_cache_get(k.c->replicationcontrollers, "default", "old"), 0,
                              "status", "availableReplicas", NULL) == 3);
    cluster_delete(&k, KUBE_REPLICATIONCONTROLLERS, "default", "old");
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0);
    finish(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_node_gets_a_pod),
        cmocka_unit_test(test_node_selectors_and_taints_exclude_nodes),
        cmocka_unit_test(test_selecting_no_node_is_an_event),
        cmocka_unit_test(test_a_rolling_update_replaces_one_pod_at_a_time),
        cmocka_unit_test(test_a_surge_starts_the_new_pod_first),
        cmocka_unit_test(test_on_delete_waits_for_the_user),
        cmocka_unit_test(test_failed_pods_are_replaced),
        cmocka_unit_test(test_history_is_limited),
        cmocka_unit_test(test_faults_only_delay),
        cmocka_unit_test(test_replication_controllers_keep_their_pods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
