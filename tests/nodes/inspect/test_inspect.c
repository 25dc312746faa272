// SPDX-License-Identifier: Apache-2.0
// Views of nodes and waiting pods, from objects as the Cluster Autoscaler, Karpenter and gpuscale
// write them.
#include "nodes/inspect/inspect_private.h"

#include "../../unit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "codec/yaml.h"

#define NOW 1767323045000 // 2026-01-02T03:04:05Z

struct world {
    struct codec_yaml_docs docs;
    struct inspect_input in;
};

// Documents of one member: nodes, pods, events, claims, status, autoscaler.
static void setup(struct world *w, const char *yaml)
{
    *w = (struct world){.in = {.now_ms = NOW}};
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "test.yaml", &w->docs));
    const json_t *doc = w->docs.items[0].value;
    w->in.nodes = json_object_get(doc, "nodes");
    w->in.pods = json_object_get(doc, "pods");
    w->in.events = json_object_get(doc, "events");
    w->in.claims = json_object_get(doc, "claims");
    w->in.status = json_object_get(doc, "status");
    w->in.autoscaler = json_object_get(doc, "autoscaler");
}

static void finish(struct world *w)
{
    codec_yaml_docs_finish(&w->docs);
}

static void assert_has(const struct gs_buf *text, const char *part)
{
    if (!text->data || !strstr(text->data, part))
        fail_msg("missing: %s\nin:\n%s", part, text->data ? text->data : "");
}

static void assert_pod(const struct world *w, const char *name, const char *const *parts)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *e = inspect_pod(&w->in, "ml", name);
    assert_non_null(e);
    inspect_pod_text(e, &text);
    for (size_t i = 0; parts[i]; i++)
        assert_has(&text, parts[i]);
}

static void assert_nodes(const struct world *w, bool wide, const char *const *parts)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *view = inspect_nodes(&w->in);
    inspect_nodes_text(view, wide, &text);
    for (size_t i = 0; parts[i]; i++)
        assert_has(&text, parts[i]);
}

#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})

#define NODE(name, pool, created, ready, gpus, more)                                               \
    "- {metadata: {name: " name ", labels: {gpuscale.dev/pool: " pool "}, creationTimestamp: '"    \
    "2026-01-02T" created "Z'}, spec: {" more "}, status: {allocatable: {cpu: '8', memory: 32Gi, " \
    "pods: '110', nvidia.com/gpu: '" gpus "'}, conditions: [{type: Ready, status: 'True', "        \
    "lastTransitionTime: '2026-01-02T" ready "Z'}]}}\n"
#define POD(name, node, cpu, gpus)                                                                 \
    "- {metadata: {name: " name ", namespace: ml, uid: u-" name ", creationTimestamp: "            \
    "'2026-01-02T03:03:05Z'}, spec: {nodeName: '" node "', containers: [{name: c, resources: "     \
    "{requests: {cpu: '" cpu "', nvidia.com/gpu: '" gpus "'}, limits: {nvidia.com/gpu: '" gpus     \
    "'}}}]}, status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: " \
    "Unschedulable, message: '0/1 nodes are available: 1 Insufficient nvidia.com/gpu.'}]}}\n"
#define EVENT(pod, component, reason, time, message)                                               \
    "- {involvedObject: {kind: Pod, namespace: ml, name: " pod "}, source: {component: " component \
    "}, reason: " reason ", lastTimestamp: '2026-01-02T" time "Z', message: '" message "'}\n"
#define STATUS(groups)                                                                             \
    "status:\n  metadata: {name: cluster-autoscaler-status}\n  data:\n    status: |\n"             \
    "      autoscalerStatus: Running\n      nodeGroups:\n" groups
#define GROUP(name, target, max, up)                                                               \
    "      - name: " name "\n        health: {status: Healthy, nodeCounts: {registered: {total: "  \
    "0}}, cloudProviderTarget: " target ", minSize: 0, maxSize: " max "}\n"                        \
    "        scaleUp: {" up "}\n"

static void test_a_pool_of_the_cluster_autoscaler_is_coming(void **state)
{
    struct world w;
    setup(&w, "nodes:\n" NODE("t4-a", "t4", "02:50:40", "02:51:00", "1",
                              "") "pods:\n" POD("old", "t4-a", "1", "1")
                  POD("new", "", "1", "1") "events:\n" EVENT(
                      "old", "cluster-autoscaler", "TriggeredScaleUp", "02:50:00",
                      "pod triggered scale-up: [{t4 0->1 (max: 8)}]")
                      EVENT("new", "cluster-autoscaler", "TriggeredScaleUp", "03:03:30",
                            "pod triggered scale-up: [{t4 1->2 (max: 8)}]")
                          STATUS(GROUP("t4", "2", "8", "status: InProgress")));
    assert_pod(&w, "new",
               PARTS("Pod ml/new (pod/new, 1 GPU): Unschedulable, created 1m ago",
                     "Why: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
                     "Coming: a node of pool t4, 1->2 (max: 8), ordered by cluster-autoscaler at "
                     "2026-01-02T03:03:30Z (35s ago)",
                     "Expected: 2026-01-02T03:04:30Z (in 25s)"));
    assert_nodes(
        &w, false,
        PARTS("t4     1       1       1        0     8     1      1      0      0          "
              "1m         1 coming",
              "1 pod waits for a node:", "ml/new (1 GPU): Unschedulable"));
    finish(&w);
}

static void test_a_pod_that_cannot_run_has_a_cause_and_a_remedy(void **state)
{
    struct world w;
    (void)state;
    setup(&w, "nodes:\n" NODE("t4-a", "t4", "02:50:40", "02:51:00", "1", "") "pods:\n" POD(
                  "big", "", "1", "4") "autoscaler: {pools: [{name: t4, max: 2, gpus: 1, node: "
                                       "{status: {allocatable: {nvidia.com/gpu: '2'}}}}]}\n");
    assert_pod(&w, "big",
               PARTS("Why: it requests 4 nvidia.com/gpu, and the largest node or machine of a pool "
                     "has 2",
                     "What to do: request at most 2 for each pod"));
    CODEC_AUTO_JSON json_t *e = inspect_pod(&w.in, "ml", "big");
    assert_string_equal(codec_json_str(e, "cause", NULL), "too-large");
    finish(&w);
}

static void test_backoff_explains_why_nothing_comes(void **state)
{
    struct world w;
    setup(&w,
          "pods:\n" POD("p", "", "1", "4") "events:\n" EVENT(
              "p", "cluster-autoscaler", "NotTriggerScaleUp", "03:04:00",
              "pod didn''t trigger scale-up: 1 in backoff after failed scale-up")
              STATUS(GROUP("t4-4", "0", "8",
                           "status: Backoff, lastTransitionTime: '2026-01-02T03:02:00Z', "
                           "backoffInfo: {errorCode: QUOTA_EXCEEDED, errorMessage: no capacity}")));
    assert_pod(&w, "p",
               PARTS("Coming: nothing. cluster-autoscaler at 2026-01-02T03:04:00Z (5s ago): pod "
                     "didn't trigger scale-up: 1 in backoff after failed scale-up",
                     "Back-off: pool t4-4 since 2026-01-02T03:02:00Z, until at least "
                     "2026-01-02T03:07:00Z (in 2m55s): QUOTA_EXCEEDED: no capacity"));
    assert_nodes(&w, false,
                 PARTS("in back-off since 2026-01-02T03:02:00Z: QUOTA_EXCEEDED: no capacity"));
    finish(&w);
}

static void test_a_scale_up_that_failed_is_not_coming(void **state)
{
    static const char trigger[] = "pods:\n" POD("p", "", "1", "4") "events:\n" EVENT(
        "p", "cluster-autoscaler", "TriggeredScaleUp", "03:02:00",
        "pod triggered scale-up: [{t4-4 0->1 (max: 8)}]");
    static const char *const later[] = {
        EVENT("p", "cluster-autoscaler", "NotTriggerScaleUp", "03:02:10", "no"),
        STATUS(GROUP("t4-4", "0", "8",
                     "status: Backoff, lastTransitionTime: '2026-01-02T03:02:05Z'"))};
    struct world w;
    setup(&w, trigger);
    assert_pod(&w, "p", PARTS("Coming: a node of pool t4-4, 0->1 (max: 8)"));
    finish(&w);
    for (size_t i = 0; i < 2; i++) {
        GS_AUTO_FREE char *yaml = gs_format("%s%s", trigger, later[i]);
        setup(&w, yaml);
        assert_pod(&w, "p", PARTS("Coming: nothing."));
        finish(&w);
    }
}

static void test_groups_of_clouds_contain_the_name_of_the_pool(void **state)
{
    struct world w;
    setup(&w, "nodes:\n"
              "- {metadata: {name: a, labels: {cloud.google.com/gke-nodepool: t4}}}\n" STATUS(
                  GROUP("https://example/zones/z/instanceGroups/gke-main-t4-1a2b3c-grp", "3", "5",
                        "status: NoActivity")));
    assert_nodes(&w, false, PARTS("t4     1       0       2        0     5"));
    finish(&w);
}

static void test_a_node_claim_of_karpenter_is_coming(void **state)
{
    struct world w;
    setup(&w, "nodes:\n"
              "- {metadata: {name: k1, labels: {karpenter.sh/nodepool: gpu}, creationTimestamp: "
              "'2026-01-02T02:00:30Z'}, status: {conditions: [{type: Ready, status: 'True', "
              "lastTransitionTime: '2026-01-02T02:01:10Z'}]}}\n"
              "claims:\n"
              "- {metadata: {name: gpu-old, creationTimestamp: '2026-01-02T02:00:00Z', labels: "
              "{karpenter.sh/nodepool: gpu}}, status: {nodeName: k1, conditions: [{type: "
              "Consolidatable, status: 'True', lastTransitionTime: '2026-01-02T03:00:00Z'}]}}\n"
              "- {metadata: {name: gpu-new, creationTimestamp: '2026-01-02T03:03:50Z', labels: "
              "{karpenter.sh/nodepool: gpu}}, status: {conditions: [{type: Launched, status: "
              "Unknown, message: Node claim is launching}]}}\n"
              "pods:\n" POD("p", "", "1",
                            "1") "events:\n" EVENT("p", "karpenter", "Nominated", "03:03:51",
                                                   "Pod should schedule on: nodeclaim/gpu-new"));
    assert_pod(&w, "p",
               PARTS("Coming: a node of pool gpu (nodeclaim/gpu-new), ordered by karpenter at "
                     "2026-01-02T03:03:50Z (15s ago)",
                     "Expected: 2026-01-02T03:05:00Z (in 55s)"));
    assert_nodes(&w, true,
                 PARTS("gpu-new   gpu    Provisioning", "Node claim is launching",
                       "candidate since 2026-01-02T03:00:00Z"));
    finish(&w);
}

static void test_the_autoscaler_of_gpuscale_states_its_choice(void **state)
{
    struct world w;
    setup(&w,
          "pods:\n" POD("p", "", "1", "1") POD(
              "q", "", "1",
              "1") "autoscaler:\n"
                   "  pools: [{name: t4, min: 0, max: 3, target: 1}, {name: v100, min: 0, max: 2, "
                   "target: 0, backoffUntil: '2026-01-02T03:09:00Z', errorCode: CAPACITY}]\n"
                   "  pods: [{namespace: ml, name: p, pool: t4, since: '2026-01-02T03:04:00Z', "
                   "expected: "
                   "'2026-01-02T03:04:40Z'}, {namespace: ml, name: q}]\n"
                   "  decisions: [{time: '2026-01-02T03:04:00Z', text: 'Policy cost chose t4: it "
                   "is the "
                   "cheapest'}]\n"
                   "events:\n" EVENT("q", "cluster-autoscaler", "TriggeredScaleUp", "03:04:00",
                                     "pod triggered scale-up: [{v100 0->1 (max: 2)}]"));
    assert_pod(&w, "p",
               PARTS("Coming: a node of pool t4, ordered by gpuscale at 2026-01-02T03:04:00Z",
                     "Choice: Policy cost chose t4: it is the cheapest",
                     "Expected: 2026-01-02T03:04:40Z (in 35s)"));
    assert_pod(&w, "q", PARTS("Coming: nothing.")); // that scale-up has failed
    assert_nodes(&w, false,
                 PARTS("t4     0       0       1        0     3",
                       "in back-off until 2026-01-02T03:09:00Z: CAPACITY"));
    finish(&w);
}

static void test_states_of_nodes(void **state)
{
    struct world w;
    setup(&w,
          "nodes:\n" NODE("cordoned", "p", "02:00:00", "02:00:10", "4", "unschedulable: true")
              NODE("candidate", "p", "02:00:00", "02:00:10", "4",
                   "taints: [{key: DeletionCandidateOfClusterAutoscaler, value: '1767322800', "
                   "effect: PreferNoSchedule}]")
                  NODE("draining", "p", "02:00:00", "02:00:10", "4",
                       "taints: [{key: ToBeDeletedByClusterAutoscaler, value: '1767323000', "
                       "effect: NoSchedule}]") NODE("tainted", "p", "02:00:00", "02:00:10", "4",
                                                    "taints: [{key: "
                                                    "startup-taint.cluster-autoscaler.kubernetes."
                                                    "io/x}]") "- {metadata: {name: nogpu, labels: "
                                                              "{cloud.google.com/gke-accelerator: "
                                                              "t4}}, status: {conditions: [{type: "
                                                              "Ready, status: 'True'}]}}\n"
                                                              "- {metadata: {name: fresh, "
                                                              "creationTimestamp: "
                                                              "'2026-01-02T03:04:00Z'}, "
                                                              "status: {conditions: [{type: Ready, "
                                                              "status: 'False', message: 'no "
                                                              "network'}]}}\n");
    assert_nodes(&w, true,
                 PARTS("cordoned    p      Cordoned", "candidate   p      Ready",
                       "candidate since 2026-01-02T03:00:00Z", "draining    p      Draining",
                       "tainted     p      Starting", "nogpu       -      WaitingForGPUs",
                       "fresh       -      Starting", "no network"));
    finish(&w);
}

static void test_free_gpus_that_nobody_can_use_are_stranded(void **state)
{
    struct world w;
    setup(&w, "nodes:\n" NODE("full", "p", "02:00:00", "02:00:10", "4", "")
                  NODE("open", "p", "02:00:00", "02:00:10", "4",
                       "") "pods:\n" POD("a", "full", "7", "1") POD("b", "open", "2", "1"));
    assert_nodes(&w, false,
                 PARTS("full   p      Ready   4      1      3      3", // 1 CPU is left
                       "open   p      Ready   4      1      3      0", // pod b fits again
                       "Largest pod that fits now: 3 GPUs"));
    finish(&w);
}

static void test_starts_of_a_workload_are_learned(void **state)
{
#define STARTED(name, scheduled, started, ready)                                                   \
    "- {metadata: {name: web-1-" name                                                              \
    ", namespace: ml, creationTimestamp: '2026-01-02T03:00:00Z',"                                  \
    " labels: {pod-template-hash: '1'}, ownerReferences: [{kind: ReplicaSet, name: web-1, "        \
    "controller: true, uid: u, apiVersion: apps/v1}]}, spec: {nodeName: a, containers: [{name: "   \
    "c}]}, status: {phase: Running, containerStatuses: [{state: {running: {startedAt: "            \
    "'2026-01-02T" started "Z'}}}], conditions: [{type: PodScheduled, status: 'True', "            \
    "lastTransitionTime: '2026-01-02T" scheduled "Z'}, {type: Ready, status: 'True', "             \
    "lastTransitionTime: '2026-01-02T" ready "Z'}]}}\n"
    struct world w;
    setup(&w, "pods:\n" STARTED("a", "03:00:10", "03:00:15", "03:00:20")
                  STARTED("b", "03:00:40", "03:00:43", "03:00:44"));
    assert_pod(&w, "web-1-a",
               PARTS("Ready on node a",
                     "Start of a pod of deployment/web: p90 44s (pending 40s, image 5s, ready 5s), "
                     "from 2 pods"));
    finish(&w);
}

static void test_starts_of_nodes_are_learned(void **state)
{
    struct world w;
    GS_AUTO_BUF struct gs_buf text = {0};
    setup(&w, "nodes:\n" NODE("a", "t4", "03:00:30", "03:00:50", "4", "")
                  NODE("b", "t4", "03:00:30", "03:01:50", "4", ""));
    CODEC_AUTO_JSON json_t *pools = inspect_pool_startup(&w.in);
    inspect_pool_startup_text(json_object_get(pools, "t4"), &text);
    assert_string_equal(text.data, "p90 1m20s (ready 1m20s), from 2 nodes");
    finish(&w);
}

static void test_metrics_remember_starts_of_objects_that_are_gone(void **state)
{
    struct world w, started;
    setup(&w, "nodes:\n" NODE("a", "t4", "03:00:30", "03:00:50", "4",
                              "") "pods:\n" POD("p", "", "1", "2") POD("q", "a", "1", "1"));
    setup(&started, "pods:\n" STARTED("a", "03:00:10", "03:00:15", "03:00:20"));
    struct inspect_metrics *m = inspect_metrics_new();
    CODEC_AUTO_JSON json_t *node = json_deep_copy(json_array_get(w.in.nodes, 0));
    CODEC_AUTO_JSON json_t *fresh = json_deep_copy(node);
    CODEC_AUTO_JSON json_t *pod = json_deep_copy(json_array_get(started.in.pods, 0));
    codec_json_set(node, json_string("node-uid"), "metadata", "uid", NULL);
    codec_json_set(fresh, json_string("node-uid"), "metadata", "uid", NULL);
    codec_json_set(fresh, json_array(), "status", "conditions", NULL);
    codec_json_set(pod, json_string("pod-uid"), "metadata", "uid", NULL);
    inspect_metrics_node(m, NULL, fresh, NOW - 225000); // a pod waits since 03:00:20
    inspect_metrics_node(m, fresh, node, 0);
    inspect_metrics_node(m, node, node, 0); // learned once
    inspect_metrics_node(m, node, NULL, 0);
    inspect_metrics_pod(m, NULL, pod);
    inspect_metrics_pod(m, pod, NULL);
    GS_AUTO_BUF struct gs_buf text = {0};
    inspect_metrics_write(m, &w.in, &text);
    assert_has(&text, "gpuscale_pool_nodes{pool=\"t4\"} 1\n");
    assert_has(&text, "gpuscale_pool_gpus{pool=\"t4\"} 4\n");
    assert_has(&text, "gpuscale_pool_used_gpus{pool=\"t4\"} 1\n");
    assert_has(&text, "gpuscale_free_gpus 3\n");
    assert_has(&text, "gpuscale_largest_pod_gpus 3\n");
    assert_has(&text, "gpuscale_pending_pods{reason=\"Unschedulable\"} 1\n");
    assert_has(&text, "gpuscale_pending_gpus{reason=\"Unschedulable\"} 2\n");
#define POOL_START "gpuscale_pool_startup_seconds{pool=\"t4\",phase="
    assert_has(&text, POOL_START "\"provision\",quantile=\"0.9\"} 10\n");
    assert_has(&text, POOL_START "\"ready\",quantile=\"0.5\"} 20\n");
    assert_has(&text, POOL_START "\"total\",quantile=\"0.9\"} 30\n");
    assert_has(&text, "gpuscale_pool_startup_seconds_count{pool=\"t4\",phase=\"ready\"} 1\n");
    assert_has(&text, "gpuscale_workload_startup_seconds{namespace=\"ml\",workload="
                      "\"deployment/web\",phase=\"image\",quantile=\"0.9\"} 5\n");
    assert_has(&text, "gpuscale_workload_startup_seconds_sum{namespace=\"ml\",workload="
                      "\"deployment/web\",phase=\"total\"} 20\n");
    inspect_metrics_free(m);
    finish(&started);
    finish(&w);
}

static void test_hostile_texts(void **state)
{
    struct world w;
    setup(
        &w,
        "pods:\n" POD("p", "", "1", "1") "events:\n" EVENT(
            "p", "cluster-autoscaler", "TriggeredScaleUp", "03:04:00",
            "[{ 0->1 (max: 8)} {x 99999999999999999999->1 (max: )} {{}")
            EVENT("p", "cluster-autoscaler", "NotTriggerScaleUp", "03:04:01",
                  "no") "status: {data: {status: '{nodeGroups: [1, {name: 2}, {name: x, health: "
                        "3}]}'}}\n"
                        "autoscaler: {pools: [1, {}], pods: 7, nodes: [null]}\n"
                        "nodes: [{}, {metadata: {labels: 3}}, {metadata: {name: \"a\\e[2J\"}}]\n");
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *view = inspect_nodes(&w.in);
    inspect_nodes_text(view, true, &text);
    assert_null(memchr(text.data, '\033', text.len));
    assert_pod(&w, "p", PARTS("Coming: nothing. cluster-autoscaler at 2026-01-02T03:04:01Z"));
    assert_null(inspect_pod(&w.in, "ml", "other"));
    finish(&w);
}

static void test_an_empty_cluster(void **state)
{
    const struct inspect_input in = {.now_ms = NOW};
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *view = inspect_nodes(&in);
    inspect_nodes_text(view, false, &text);
    assert_has(&text, "Largest pod that fits now: 0 GPUs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pool_of_the_cluster_autoscaler_is_coming),
        cmocka_unit_test(test_a_pod_that_cannot_run_has_a_cause_and_a_remedy),
        cmocka_unit_test(test_backoff_explains_why_nothing_comes),
        cmocka_unit_test(test_a_scale_up_that_failed_is_not_coming),
        cmocka_unit_test(test_groups_of_clouds_contain_the_name_of_the_pool),
        cmocka_unit_test(test_a_node_claim_of_karpenter_is_coming),
        cmocka_unit_test(test_the_autoscaler_of_gpuscale_states_its_choice),
        cmocka_unit_test(test_states_of_nodes),
        cmocka_unit_test(test_free_gpus_that_nobody_can_use_are_stranded),
        cmocka_unit_test(test_starts_of_a_workload_are_learned),
        cmocka_unit_test(test_starts_of_nodes_are_learned),
        cmocka_unit_test(test_metrics_remember_starts_of_objects_that_are_gone),
        cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_an_empty_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
