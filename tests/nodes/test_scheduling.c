// SPDX-License-Identifier: Apache-2.0
#include "nodes_fixture.h"

static void test_each_filter_gives_its_text(void **state)
{
    static const struct {
        const char *allocatable, *labels, *node_spec, *requests, *pod_spec, *text;
    } rows[] = {
        {"cpu: 4", "", "", "cpu: 4", "", "fits"},
        {"cpu: 4", "", "", "cpu: 4001m", "", "Insufficient cpu"},
        {"cpu: 4, memory: 1Gi", "", "", "cpu: 5, memory: 2Gi", "",
         "Insufficient cpu, 1 Insufficient memory"},
        {"cpu: 4", "", "", "nvidia.com/gpu: 1", "", "Insufficient nvidia.com/gpu"},
        {"cpu: 4", "", "", "ephemeral-storage: 1Gi", "", "fits"},
        {"cpu: 4, ephemeral-storage: 1Mi", "", "", "ephemeral-storage: 1Gi", "",
         "Insufficient ephemeral-storage"},
        {"pods: '0'", "", "", "", "", "Too many pods"},
        {"cpu: 4", "", "unschedulable: true", "", "", "node(s) were unschedulable"},
        {"cpu: 4", "", "unschedulable: true", "",
         ", tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}]", "fits"},
        {"cpu: 4", "", "taints: [{key: a, value: b, effect: NoSchedule}]", "", "",
         "node(s) had untolerated taint {a: b}"},
        {"cpu: 4", "", "taints: [{key: a, value: b, effect: NoSchedule}]", "",
         ", tolerations: [{key: a, value: b, effect: NoSchedule}]", "fits"},
        {"cpu: 4", "", "taints: [{key: a, value: b, effect: PreferNoSchedule}]", "", "", "fits"},
        {"cpu: 4", "", "", "", ", nodeSelector: {x: v}", NODES_NOT_SELECTED},
        {"cpu: 4", ", x: v", "", "", ", nodeSelector: {x: v}", "fits"},
        {"cpu: 4", ", x: '7'", "", "",
         ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
         "{nodeSelectorTerms: [{matchExpressions: [{key: x, operator: Gt, values: ['6']}]}]}}}",
         "fits"},
        {"cpu: 4", "", "", "",
         ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
         "{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: "
         "[other]}]}]}}}",
         NODES_NOT_SELECTED},
        {"cpu: 4", "", "", "", ", overhead: {cpu: 5}", "Insufficient cpu"},
        {"cpu: 4", "", "", "cpu: 1",
         ", initContainers: [{name: i, resources: {requests: {cpu: 5}}}]", "Insufficient cpu"},
        {"cpu: 4", "", "", "cpu: 1",
         ", initContainers: [{name: i, resources: {requests: {cpu: 4}}}]", "fits"},
        // A sidecar runs beside the containers.
        {"cpu: 4", "", "", "cpu: 1",
         ", initContainers: [{name: i, restartPolicy: Always, resources: {requests: {cpu: 4}}}]",
         "Insufficient cpu"},
        {"cpu: 4", "", "", "cpu: 1", ", resources: {requests: {cpu: 5}}", "Insufficient cpu"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct nodes_snapshot *s = nodes_snapshot_new();
        add_node(s, "n", rows[i].allocatable, rows[i].labels, rows[i].node_spec);
        size_t pod = add_pod(s, "p", "", rows[i].requests, rows[i].pod_spec);
        GS_AUTO_FREE char *full = gs_streq(rows[i].text, "fits")
                                      ? gs_strdup("fits")
                                      : gs_format("0/1 nodes are available: 1 %s.", rows[i].text);
        assert_why(s, pod, full);
        nodes_snapshot_free(s);
    }
}

static void test_reasons_are_counted_and_sorted(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    size_t pod0 = add_pod(s, "early", "", "nvidia.com/gpu: 1", "");
    assert_why(s, pod0, "no nodes available to schedule pods");
    add_node(s, "a", "cpu: 4", "", "");
    add_node(s, "b", "cpu: 4", "", "");
    add_node(s, "c", "cpu: 4", "", "unschedulable: true");
    assert_why(s, pod0,
               "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient "
               "nvidia.com/gpu.");
    nodes_snapshot_free(s);
}

static void test_a_node_that_is_not_ready_fits_nothing_but_a_template_does(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    json_t *node = yaml("{metadata: {name: n}, status: {allocatable: {cpu: 4, pods: 10}}}");
    nodes_snapshot_add_node(s, node);
    size_t pod = add_pod(s, "p", "", "cpu: 1", "");
    assert_why(s, pod,
               "0/1 nodes are available: 1 node(s) had untolerated taint "
               "{node.kubernetes.io/not-ready: }.");
    size_t added = nodes_snapshot_add_template(s, node, "n-2");
    assert_true(nodes_fits(s, pod, added, NULL));
    assert_string_equal(nodes_name(s, added), "n-2");
    assert_string_equal(
        codec_json_str(nodes_node(s, added), "metadata", "labels", "kubernetes.io/hostname", NULL),
        "n-2");
    assert_null(json_object_get(json_object_get(node, "metadata"), "labels"));
    json_decref(node);
    nodes_snapshot_free(s);
}

static void test_placed_pods_use_the_node(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    size_t n = add_node(s, "n", "cpu: 8, nvidia.com/gpu: 4", "", "");
    size_t bound = add_pod(s, "bound", "", "nvidia.com/gpu: 1", ", nodeName: 'n'");
    size_t pod = add_pod(s, "p", "", "nvidia.com/gpu: 2, cpu: 1", "");
    assert_int_equal(nodes_of_pod(s, bound), n);
    assert_true(nodes_of_pod(s, pod) == NODES_NONE);
    assert_int_equal(nodes_free_gpus(s, n), 3);
    nodes_place(s, pod, n);
    assert_int_equal(nodes_free_gpus(s, n), 1);
    assert_int_equal(nodes_free(s, n, "cpu"), 7000);
    assert_int_equal(nodes_pods_on(s, n), 2);
    assert_int_equal(nodes_gpu_request(s, pod), 2);
    nodes_unplace(s, pod, n);
    assert_int_equal(nodes_free_gpus(s, n), 3);
    assert_int_equal(nodes_gpus(s, n), 4);
    nodes_snapshot_free(s);
}

static void test_a_resource_that_a_later_node_has_counts_earlier_pods(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    size_t a = add_node(s, "a", "cpu: 8", "", "");
    size_t pod = add_pod(s, "p", "", "example.com/x: 2", ", nodeName: a");
    add_node(s, "b", "example.com/x: 4", "", "");
    nodes_unplace(s, pod, a);
    assert_int_equal(nodes_free(s, a, "example.com/x"), 0);
    nodes_snapshot_free(s);
}

static void test_a_node_with_very_many_resources_leaves_those_of_others(void **state)
{
    GS_CLEANUP(nodes_snapshot_freep) struct nodes_snapshot *s = nodes_snapshot_new();
    GS_AUTO_BUF struct gs_buf many = {0};
    for (int i = 0; i < 2 * NODES_MAX_RESOURCES; i++)
        gs_buf_addf(&many, "%sexample.com/r%d: 1", i ? ", " : "", i);
    add_node(s, "odd", many.data, "", "");
    add_node(s, "gpus", "cpu: 8, nvidia.com/gpu: 1", "", "");
    GS_AUTO_FREE char *text = why(s, add_pod(s, "p", "", "cpu: 1, nvidia.com/gpu: 1", ""));
    assert_string_equal(text, "fits");
    (void)state;
}

static void test_a_checkpoint_undoes_all(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    size_t a = add_node(s, "a", "cpu: 8", "", "");
    size_t pod = add_pod(s, "p", "", "cpu: 2", ", nodeName: a");
    size_t other = add_pod(s, "q", "", "cpu: 3", "");
    size_t outer = nodes_checkpoint(s);
    nodes_unplace(s, pod, a);
    size_t inner = nodes_checkpoint(s);
    json_t *node = make_node("b", "cpu: 4", "", "");
    size_t b = nodes_snapshot_add_template(s, node, NULL);
    nodes_place(s, pod, b);
    nodes_place(s, other, a);
    nodes_exclude(s, a, true);
    assert_false(nodes_fits(s, other, a, NULL));
    nodes_restore(s, inner);
    assert_int_equal(nodes_count(s), 1);
    assert_true(nodes_find(s, "b") == NODES_NONE);
    assert_false(nodes_is_excluded(s, a));
    assert_int_equal(nodes_free(s, a, "cpu"), 8000);
    nodes_restore(s, outer);
    assert_int_equal(nodes_of_pod(s, pod), a);
    assert_int_equal(nodes_free(s, a, "cpu"), 6000);
    json_decref(node);
    nodes_snapshot_free(s);
}

#define SPREAD(key, skew)                                                                          \
    ", topologySpreadConstraints: [{topologyKey: " key ", maxSkew: " skew                          \
    ", whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}}}]"

static void test_topology_spread_limits_the_skew(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    size_t a = add_node(s, "a", "cpu: 8", ", zone: one", "");
    size_t b = add_node(s, "b", "cpu: 8", ", zone: two", "");
    size_t bare = add_node(s, "bare", "cpu: 8", "", "");
    add_pod(s, "first", "app: x", "", ", nodeName: a");
    size_t pod = add_pod(s, "p", "app: x", "", SPREAD("zone", "1"));
    assert_false(nodes_fits(s, pod, a, NULL));
    assert_true(nodes_fits(s, pod, b, NULL));
    assert_false(nodes_fits(s, pod, bare, NULL));
    nodes_exclude(s, b, true); // its zone is no domain any more
    assert_true(nodes_fits(s, pod, a, NULL));
    nodes_exclude(s, b, false);
    nodes_exclude(s, bare, true);
    nodes_place(s, pod, b);
    size_t more = add_pod(s, "more", "app: x", "", SPREAD("zone", "1"));
    assert_true(nodes_fits(s, more, a, NULL));
    nodes_place(s, more, a);
    size_t last = add_pod(s, "last", "app: x", "cpu: 9", SPREAD("zone", "1"));
    assert_why(s, last, "0/3 nodes are available: 2 Insufficient cpu.");
    size_t skewed = add_pod(s, "skewed", "app: x", "", SPREAD("zone", "1"));
    struct nodes_reasons r = {0};
    assert_false(nodes_fits(s, skewed, a, &r));
    assert_string_equal(r.items[0].text, "node(s) didn't match pod topology spread constraints");
    nodes_exclude(s, bare, false);
    assert_false(nodes_fits(s, skewed, bare, &r));
    assert_string_equal(r.items[1].text, "node(s) didn't match pod topology spread constraints "
                                         "(missing required label)");
    nodes_reasons_finish(&r);
    nodes_snapshot_free(s);
}

#define TERMS(kind, key)                                                                           \
    ", affinity: {" kind ": {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: " key  \
    ", labelSelector: {matchLabels: {app: x}}}]}}"

static void test_affinity_between_pods(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    size_t a = add_node(s, "a", "cpu: 8", ", zone: one", "");
    size_t b = add_node(s, "b", "cpu: 8", ", zone: one", "");
    size_t c = add_node(s, "c", "cpu: 8", ", zone: two", "");
    size_t stranger = add_pod(s, "s", "app: y", "", TERMS("podAffinity", "zone"));
    assert_why(s, stranger, "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.");
    // The first pod of a group that wants to be with itself.
    size_t first = add_pod(s, "first", "app: x", "", TERMS("podAffinity", "zone"));
    assert_true(nodes_fits(s, first, c, NULL));
    nodes_place(s, first, a);
    assert_true(nodes_fits(s, stranger, b, NULL));
    assert_false(nodes_fits(s, stranger, c, NULL));
    nodes_snapshot_free(s);
}

static void test_anti_affinity_works_both_ways(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    size_t a = add_node(s, "a", "cpu: 8", "", "");
    size_t b = add_node(s, "b", "cpu: 8", "", "");
    add_pod(s, "holder", "app: z", "",
            TERMS("podAntiAffinity", "kubernetes.io/hostname") ", nodeName: a");
    size_t refused = add_pod(s, "refused", "app: x", "", "");
    size_t plain = add_pod(s, "plain", "app: y", "", "");
    struct nodes_reasons r = {0};
    assert_false(nodes_fits(s, refused, a, &r));
    assert_string_equal(r.items[0].text,
                        "node(s) didn't satisfy existing pods anti-affinity rules");
    assert_true(nodes_fits(s, refused, b, NULL));
    assert_true(nodes_fits(s, plain, a, NULL));
    nodes_place(s, refused, b);
    size_t against =
        add_pod(s, "against", "app: z", "", TERMS("podAntiAffinity", "kubernetes.io/hostname"));
    assert_false(nodes_fits(s, against, b, &r));
    assert_string_equal(r.items[1].text, "node(s) didn't match pod anti-affinity rules");
    assert_true(nodes_fits(s, against, a, NULL));
    nodes_reasons_finish(&r);
    nodes_snapshot_free(s);
}

static void test_host_ports_are_exclusive(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    size_t a = add_node(s, "a", "cpu: 8", "", "");
    json_t *pod = yaml("{metadata: {name: p, namespace: default}, spec: {containers: [{name: c, "
                       "ports: [{hostPort: 80}]}]}}");
    size_t one = nodes_snapshot_add_pod(s, pod), two = nodes_snapshot_add_pod(s, pod);
    assert_int_equal(nodes_pod_form(s, one), nodes_pod_form(s, two));
    nodes_place(s, one, a);
    assert_why(s, two,
               "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod "
               "ports.");
    nodes_unplace(s, one, a);
    assert_true(nodes_fits(s, two, a, NULL));
    json_decref(pod);
    nodes_snapshot_free(s);
}

static void test_scoring_strategies_choose_different_nodes(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    size_t big = add_node(s, "big", "cpu: 32, memory: 64Gi, nvidia.com/gpu: 4", "", "");
    size_t small = add_node(s, "small", "cpu: 8, memory: 16Gi, nvidia.com/gpu: 1", "", "");
    add_node(s, "full", "cpu: 1, memory: 1Gi, nvidia.com/gpu: 8", "", "");
    size_t pod = add_pod(s, "p", "", "cpu: 4, memory: 8Gi, nvidia.com/gpu: 1", "");
    assert_int_equal(nodes_best(s, pod, NODES_FIRST, NULL), big);
    assert_int_equal(nodes_best(s, pod, NODES_LEAST_ALLOCATED, NULL), big);
    assert_int_equal(nodes_best(s, pod, NODES_MOST_ALLOCATED, NULL), small);
    assert_int_equal(nodes_best(s, pod, NODES_PACK_GPUS, NULL), small);
    nodes_snapshot_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_filter_gives_its_text),
        cmocka_unit_test(test_reasons_are_counted_and_sorted),
        cmocka_unit_test(test_a_node_that_is_not_ready_fits_nothing_but_a_template_does),
        cmocka_unit_test(test_placed_pods_use_the_node),
        cmocka_unit_test(test_a_resource_that_a_later_node_has_counts_earlier_pods),
        cmocka_unit_test(test_a_node_with_very_many_resources_leaves_those_of_others),
        cmocka_unit_test(test_a_checkpoint_undoes_all),
        cmocka_unit_test(test_topology_spread_limits_the_skew),
        cmocka_unit_test(test_affinity_between_pods),
        cmocka_unit_test(test_anti_affinity_works_both_ways),
        cmocka_unit_test(test_host_ports_are_exclusive),
        cmocka_unit_test(test_scoring_strategies_choose_different_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
