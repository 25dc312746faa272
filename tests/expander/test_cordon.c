// SPDX-License-Identifier: Apache-2.0
// Early cordon beside the Cluster Autoscaler, on the embedded API: a node with four GPUs is idle.
#include "../local/cluster_harness.h"
#include "expander/expander_private.h"
#include "nodes/packing.h"

#define LEASE_NS "kube-system"

struct fixture {
    struct cluster k;
    struct nodes_pools pools;
    struct expander_cluster *cluster;
    struct expander_cordons *cordons;
};

static void start(struct fixture *f, bool enabled)
{
    const struct expander_cordons_config cfg = {.enabled = enabled,
                                                .lease_ns = LEASE_NS,
                                                .lease_name = "gpuscale-expander",
                                                .policy = NODES_POLICY_COST,
                                                .pools = &f->pools,
                                                .cluster = f->cluster};
    f->cordons = expander_cordons_new(&f->k.loop, f->k.client, &cfg);
}

// Pools as options, ending with NULL.
static void open_with(struct fixture *f, const char *const *pools)
{
    *f = (struct fixture){0};
    cluster_open(&f->k);
    f->k.bound_only = true;
    for (size_t i = 0; pools[i]; i++)
        assert_ok(nodes_pools_add_option(&f->pools, pools[i]));
    f->cluster = expander_cluster_new(&f->k.loop, f->k.client, true);
}
#define OPEN(f, ...) open_with((f), (const char *const[]){__VA_ARGS__, NULL})
#define SMALL        "gpu-1=0..8x1,price=0.85"
#define LARGE        "gpu-4=0..8x4,price=5.67"

static void finish(struct fixture *f)
{
    expander_cordons_free(f->cordons);
    expander_cluster_free(f->cluster);
    nodes_pools_finish(&f->pools);
    cluster_close(&f->k);
}

// --- objects ---

static void add_tainted_node(struct fixture *f, const char *name, const char *label, int gpus,
                             const char *taint)
{
    GS_AUTO_FREE char *node = gs_format("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: "
                                        "{%s}}, spec: {taints: [%s]}}",
                                        name, label, taint);
    GS_AUTO_FREE char *status =
        gs_format("status: {allocatable: {cpu: '32', memory: 128Gi, pods: '110', nvidia.com/gpu: "
                  "'%d'}, conditions: [{type: Ready, status: 'True'}]}",
                  gpus);
    cluster_create(&f->k, KUBE_NODES, node);
    cluster_patch(&f->k, KUBE_NODES, name, "status", status);
}

static void add_pod(struct fixture *f, const char *name, int gpus)
{
    GS_AUTO_FREE char *yaml = gs_format(
        "{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c, image: i, "
        "resources: {limits: {nvidia.com/gpu: %d}}}]}}",
        name, gpus);
    cluster_create(&f->k, KUBE_PODS, yaml);
}

static void add_node(struct fixture *f, const char *name, const char *label, int gpus)
{
    add_tainted_node(f, name, label, gpus, "");
}

// The status of the Cluster Autoscaler with two node groups; small: of the one with small nodes.
static void set_status(struct fixture *f, const char *small)
{
    GS_AUTO_FREE char *text =
        gs_format("autoscalerStatus: Running\nnodeGroups:\n"
                  "- {name: eks-small-1a2b, health: {cloudProviderTarget: %s\n"
                  "- {name: eks-gpu-4-3c4d, health: {cloudProviderTarget: 1, maxSize: 8, "
                  "nodeCounts: {registered: {ready: 1}}}, scaleUp: {status: NoActivity}}\n",
                  small);
    CODEC_AUTO_JSON json_t *map =
        json_pack("{s:s, s:s, s:{s:s}, s:{s:s}}", "apiVersion", "v1", "kind", "ConfigMap",
                  "metadata", "name", "cluster-autoscaler-status", "data", "status", text);
    kube_delete(f->k.client, KUBE_CONFIGMAPS, "kube-system", "cluster-autoscaler-status", -1,
                call_took, &f->k);
    (void)await(&f->k);
    kube_create(f->k.client, KUBE_CONFIGMAPS, "kube-system", map, call_took, &f->k);
    assert_int_equal(await(&f->k), 201);
}
#define CAN_GROW "0, maxSize: 4}, scaleUp: {status: NoActivity}}"
#define BACKOFF  "0, maxSize: 4}, scaleUp: {status: Backoff}}"
#define FULL     "4, maxSize: 4, nodeCounts: {registered: {ready: 4}}}, scaleUp: {status: NoActivity}}"

// A request of the Cluster Autoscaler had this group.
static void see_group(struct fixture *f, const char *id, const char *label, const char *gpus)
{
    CODEC_AUTO_JSON json_t *node =
        json_pack("{s:{s:s, s:{s:s}}, s:{s:{s:s, s:s, s:s, s:s}}}", "metadata", "name", "template",
                  "labels", "eks.amazonaws.com/nodegroup", label, "status", "allocatable", "cpu",
                  "8", "memory", "32Gi", "pods", "110", "nvidia.com/gpu", gpus);
    struct nodes_group g = {.name = id, .node = node};
    expander_cluster_describe(f->cluster, &g);
}

static const json_t *node_of(struct fixture *f, const char *name)
{
    return kube_cache_get(f->k.c->nodes, NULL, name);
}

static bool is_cordoned(struct fixture *f, const char *name)
{
    return codec_json_bool(node_of(f, name), false, "spec", "unschedulable", NULL);
}

static bool is_ours(struct fixture *f, const char *name)
{
    return kube_annotation(node_of(f, name), NODES_ANN_EARLY_CORDON) != NULL;
}

static void await_event(struct fixture *f, const char *reason, const char *text)
{
    loop_until(&f->k.loop, cluster_event(&f->k, reason, text));
}

static bool has_series(struct fixture *f, const char *line)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    expander_cordons_metrics(f->cordons, &text);
    return text.data && strstr(text.data, line) != NULL;
}

#define GPU_4 "gpuscale.dev/pool: gpu-4"

// --- tests ---

static void test_an_idle_large_node_is_cordoned_until_a_pod_needs_it(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, SMALL, LARGE);
    add_node(&f, "large", GPU_4, 4);
    start(&f, true);
    loop_until(&f.k.loop, is_cordoned(&f, "large") && is_ours(&f, "large"));
    await_event(&f, "EarlyCordon",
                "all 4 GPUs are idle, a pod with 1 GPU would split them, and a node of gpu-1 with "
                "1 GPU serves it for 0.85 instead of 5.67 USD an hour");
    assert_true(has_series(&f, "gpuscale_expander_early_cordons_total 1\n"));
    assert_true(has_series(&f, "gpuscale_expander_early_cordon_leader 1\n"));
    loop_until(&f.k.loop, has_series(&f, "gpuscale_expander_early_cordoned_nodes 1\n"));
    add_pod(&f, "four", 4);
    loop_until(&f.k.loop, !is_cordoned(&f, "large") && !is_ours(&f, "large"));
    await_event(&f, "EarlyCordonEnded", "pod default/four needs it");
    assert_true(has_series(&f, "gpuscale_expander_early_cordons_ended_total 1\n"));
    loop_until(&f.k.loop, has_series(&f, "gpuscale_expander_early_cordoned_nodes 0\n"));
    finish(&f);
}

static void test_a_small_pod_does_not_end_the_cordon(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, SMALL, LARGE);
    add_node(&f, "large", GPU_4, 4);
    start(&f, true);
    loop_until(&f.k.loop, is_cordoned(&f, "large"));
    add_pod(&f, "one", 1);
    // Another node that this pod cannot use shows that the pod was seen.
    add_tainted_node(&f, "later", GPU_4, 4, "{key: team, effect: NoSchedule}");
    loop_until(&f.k.loop, is_cordoned(&f, "later"));
    assert_true(is_cordoned(&f, "large"));
    finish(&f);
}

static void test_the_pools_of_requests_and_of_the_status_are_known(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, NULL);
    add_node(&f, "large", "eks.amazonaws.com/nodegroup: gpu-4", 4);
    set_status(&f, CAN_GROW);
    see_group(&f, "eks-small-1a2b", "small", "1");
    see_group(&f, "not-in-the-status", "other", "2");
    start(&f, true);
    loop_until(&f.k.loop, is_cordoned(&f, "large"));
    await_event(&f, "EarlyCordon", "and a node of small with 1 GPU serves it");
    set_status(&f, FULL);
    loop_until(&f.k.loop, !is_cordoned(&f, "large"));
    await_event(&f, "EarlyCordonEnded", "no smaller node is cheaper for the typical pods now");
    set_status(&f, CAN_GROW);
    loop_until(&f.k.loop, is_cordoned(&f, "large"));
    set_status(&f, BACKOFF);
    loop_until(&f.k.loop, !is_cordoned(&f, "large"));
    finish(&f);
}

static void test_a_group_that_only_a_request_names_is_not_used(void **state)
{
    struct fixture f;
    struct expander_groups groups;
    (void)state;
    OPEN(&f, SMALL);
    see_group(&f, "made-up", "made-up", "1");
    see_group(&f, "path/gpu-1", "label-of-gpu-1", "1");
    expander_groups_init(&groups, &f.pools, f.cluster, NULL);
    assert_int_equal(groups.len, 1);
    assert_string_equal(groups.items[0].name, "label-of-gpu-1");
    assert_string_equal(groups.items[0].pool->name, "gpu-1");
    assert_int_equal(groups.items[0].max, 8);
    expander_groups_finish(&groups);
    finish(&f);
}

static void test_node_groups_of_several_zones_are_one_pool(void **state)
{
    struct fixture f;
    struct expander_groups groups;
    GS_AUTO_FREE char *text = gs_strdup(
        "nodeGroups:\n"
        "- {name: gke-main-gpu-1-aa-grp, health: {cloudProviderTarget: 1, maxSize: 2, nodeCounts: "
        "{registered: {ready: 1}}}, scaleUp: {status: Backoff}}\n"
        "- {name: gke-main-gpu-1-bb-grp, health: {cloudProviderTarget: 2, maxSize: 3}, scaleUp: "
        "{status: InProgress}}\n");
    CODEC_AUTO_JSON json_t *status = json_pack("{s:{s:s}}", "data", "status", text);
    (void)state;
    OPEN(&f, SMALL);
    expander_groups_init(&groups, &f.pools, f.cluster, status);
    assert_int_equal(groups.len, 1);
    assert_int_equal(groups.items[0].size, 3);
    assert_int_equal(groups.items[0].max, 5);
    assert_int_equal(groups.items[0].upcoming, 2);
    assert_null(groups.items[0].blocked);
    expander_groups_finish(&groups);
    finish(&f);
}

static void test_nodes_of_others_are_left_alone(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, SMALL, LARGE);
    add_node(&f, "maintained", GPU_4, 4);
    add_tainted_node(&f, "leaving", GPU_4, 4,
                     "{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}");
    add_node(&f, "large", GPU_4, 4);
    cluster_patch(&f.k, KUBE_NODES, "maintained", NULL, "spec: {unschedulable: true}");
    start(&f, true);
    loop_until(&f.k.loop, is_cordoned(&f, "large"));
    assert_false(is_ours(&f, "maintained"));
    assert_false(is_cordoned(&f, "leaving"));
    add_pod(&f, "four", 4);
    loop_until(&f.k.loop, !is_cordoned(&f, "large"));
    assert_true(is_cordoned(&f, "maintained"));
    finish(&f);
}

static void test_a_restart_without_the_flag_ends_cordons(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, SMALL, LARGE);
    add_node(&f, "large", GPU_4, 4);
    start(&f, true);
    loop_until(&f.k.loop, is_cordoned(&f, "large"));
    expander_cordons_free(f.cordons);
    start(&f, false);
    loop_until(&f.k.loop, !is_cordoned(&f, "large") && !is_ours(&f, "large"));
    await_event(&f, "EarlyCordonEnded", "early cordon is not enabled");
    assert_false(has_series(&f, "gpuscale_expander_early"));
    finish(&f);
}

static void test_only_the_replica_with_the_lease_acts(void **state)
{
    struct fixture f;
    char now[GS_RFC3339_SIZE];
    (void)state;
    OPEN(&f, SMALL, LARGE);
    add_node(&f, "large", GPU_4, 4);
    gs_format_rfc3339_micro(gs_unix_ms() * 1000, now);
    GS_AUTO_FREE char *lease = gs_format(
        "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: gpuscale-expander, "
        "namespace: " LEASE_NS "}, spec: {holderIdentity: other, leaseDurationSeconds: 3600, "
        "acquireTime: '%s', renewTime: '%s'}}",
        now, now);
    cluster_create(&f.k, KUBE_LEASES, lease);
    start(&f, true);
    loop_for_ms(&f.k.loop, 500);
    assert_false(is_cordoned(&f, "large"));
    cluster_delete(&f.k, KUBE_LEASES, LEASE_NS, "gpuscale-expander");
    loop_until(&f.k.loop, is_cordoned(&f, "large"));
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_idle_large_node_is_cordoned_until_a_pod_needs_it),
        cmocka_unit_test(test_a_small_pod_does_not_end_the_cordon),
        cmocka_unit_test(test_the_pools_of_requests_and_of_the_status_are_known),
        cmocka_unit_test(test_a_group_that_only_a_request_names_is_not_used),
        cmocka_unit_test(test_node_groups_of_several_zones_are_one_pool),
        cmocka_unit_test(test_nodes_of_others_are_left_alone),
        cmocka_unit_test(test_a_restart_without_the_flag_ends_cordons),
        cmocka_unit_test(test_only_the_replica_with_the_lease_acts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
