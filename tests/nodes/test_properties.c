// SPDX-License-Identifier: Apache-2.0
// The filters of a snapshot against a direct reading of the objects, on random nodes and pods.
#include "nodes_fixture.h"

#include "base/mem.h"
#include "kube/object.h"

static uint64_t seed;

static uint32_t roll(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static const char *any(const char *const *texts, uint32_t n)
{
    return texts[roll(n)];
}

#define ANY(...)                                                                                   \
    any((const char *const[]){__VA_ARGS__}, GS_ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

static json_t *random_node(size_t i)
{
    GS_AUTO_FREE char *name = gs_format("n%zu", i);
    GS_AUTO_FREE char *amounts =
        gs_format("cpu: %u, memory: %uGi %s", 1 + roll(8), 1 + roll(16),
                  ANY("", ", nvidia.com/gpu: 1", ", nvidia.com/gpu: 4", ", example.com/x: 2"));
    return make_node(name, amounts, ANY("", ", zone: a", ", zone: b", ", zone: b, rank: '3'"),
                     ANY("", "", "unschedulable: true",
                         "taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]",
                         "taints: [{key: k, effect: NoExecute}]"));
}

static json_t *random_pod(size_t i, size_t n_nodes)
{
    static const char affinity[] = ", affinity: {nodeAffinity: "
                                   "{requiredDuringSchedulingIgnoredDuringExecution: "
                                   "{nodeSelectorTerms: [{%s}]}}}";
    GS_AUTO_FREE char *terms =
        gs_format(affinity, ANY("matchExpressions: [{key: zone, operator: In, values: [a, c]}]",
                                "matchExpressions: [{key: zone, operator: DoesNotExist}]",
                                "matchExpressions: [{key: rank, operator: Gt, values: ['2']}]",
                                "matchFields: [{key: metadata.name, operator: In, values: [n1]}]"));
    GS_AUTO_FREE char *bound = gs_format(", nodeName: n%u", roll((uint32_t)n_nodes));
    GS_AUTO_FREE char *text = gs_format(
        "{metadata: {name: p%zu, namespace: %s, labels: {app: %s}}, spec: {containers: [{name: c, "
        "resources: {%s: {cpu: %um, memory: %uMi %s}}}] %s %s %s %s}}",
        i, ANY("d", "e"), ANY("x", "y"), ANY("requests", "limits"), roll(30) * 100, roll(2000),
        ANY("", "", ", nvidia.com/gpu: 1", ", nvidia.com/gpu: 2", ", example.com/x: 1"),
        ANY("", "", ", nodeSelector: {zone: b}"), roll(3) ? "" : terms,
        ANY("", ", tolerations: [{operator: Exists}]",
            ", tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]"),
        roll(2) ? bound : "");
    return yaml(text);
}

// --- the direct reading ---

static int64_t want(const json_t *pod, const char *resource)
{
    CODEC_AUTO_JSON json_t *requests = nodes_pod_requests(pod);
    return json_integer_value(json_object_get(requests, resource));
}

static bool naive_fits(struct nodes_snapshot *s, size_t pod, size_t node)
{
    static const char *const resources[] = {"cpu", "memory", "nvidia.com/gpu", "example.com/x"};
    const json_t *p = nodes_pod(s, pod), *n = nodes_node(s, node);
    GS_AUTO_FREE char *taint = nodes_untolerated_taint(p, n, false);
    bool any_taint =
        codec_json_str(json_array_get(codec_json_get(p, "spec", "tolerations", NULL), 0),
                       "operator", NULL) &&
        !codec_json_str(json_array_get(codec_json_get(p, "spec", "tolerations", NULL), 0), "key",
                        NULL);
    if (taint || (codec_json_bool(n, false, "spec", "unschedulable", NULL) && !any_taint) ||
        !nodes_selects(p, n))
        return false;
    for (size_t r = 0; r < GS_ARRAY_LEN(resources); r++) {
        CODEC_AUTO_JSON json_t *spec = json_object(), *holder = json_object();
        const json_t *quantity = codec_json_get(n, "status", "allocatable", resources[r], NULL);
        codec_json_set(holder, json_object(), "spec", NULL);
        codec_json_set(holder, quantity ? json_incref((json_t *)quantity) : json_integer(0), "spec",
                       "overhead", resources[r], NULL);
        int64_t left = want(holder, resources[r]);
        for (size_t i = 0; i < nodes_pod_count(s); i++)
            if (nodes_of_pod(s, i) == node)
                left -= want(nodes_pod(s, i), resources[r]);
        if (want(p, resources[r]) > 0 && want(p, resources[r]) > left)
            return false;
    }
    return true;
}

static void test_compiled_filters_equal_direct_ones(void **state)
{
    for (size_t round = 0; round < 40; round++) {
        seed = round + 1;
        struct nodes_snapshot *s = nodes_snapshot_new();
        size_t n_nodes = 1 + roll(8), n_pods = 1 + roll(30);
        for (size_t i = 0; i < n_nodes; i++) {
            json_t *node = random_node(i);
            nodes_snapshot_add_node(s, node);
            json_decref(node);
        }
        for (size_t i = 0; i < n_pods; i++) {
            json_t *pod = random_pod(i, n_nodes);
            nodes_snapshot_add_pod(s, pod);
            json_decref(pod);
        }
        for (size_t pod = 0; pod < n_pods; pod++) {
            if (nodes_of_pod(s, pod) != NODES_NONE)
                continue;
            for (size_t node = 0; node < n_nodes; node++) {
                struct nodes_reasons r = {0};
                bool fits = nodes_fits(s, pod, node, NULL);
                assert_int_equal(fits, naive_fits(s, pod, node));
                assert_int_equal(fits, nodes_fits(s, pod, node, &r));
                assert_int_equal(fits, r.len == 0);
                nodes_reasons_finish(&r);
            }
            size_t best = nodes_best(s, pod, NODES_LEAST_ALLOCATED, NULL);
            if (best != NODES_NONE)
                nodes_place(s, pod, best);
        }
        nodes_snapshot_free(s);
    }
}

static void test_undo_restores_every_amount(void **state)
{
    for (size_t round = 0; round < 40; round++) {
        seed = round + 1000;
        struct nodes_snapshot *s = nodes_snapshot_new();
        for (size_t i = 0; i < 5; i++) {
            json_t *node = random_node(i);
            nodes_snapshot_add_node(s, node);
            json_decref(node);
        }
        for (size_t i = 0; i < 20; i++) {
            json_t *pod = random_pod(i, 5);
            nodes_snapshot_add_pod(s, pod);
            json_decref(pod);
        }
        int64_t cpu[5];
        size_t at[20];
        for (size_t i = 0; i < 5; i++)
            cpu[i] = nodes_free(s, i, "cpu");
        for (size_t i = 0; i < 20; i++)
            at[i] = nodes_of_pod(s, i);
        size_t checkpoint = nodes_checkpoint(s);
        for (size_t step = 0; step < 100; step++) {
            size_t pod = roll(20), node = nodes_of_pod(s, pod);
            if (node != NODES_NONE)
                nodes_unplace(s, pod, node);
            else
                nodes_place(s, pod, roll((uint32_t)nodes_count(s)));
            if (roll(10) == 0)
                nodes_snapshot_add_template(s, nodes_node(s, 0), "more");
        }
        nodes_restore(s, checkpoint);
        assert_int_equal(nodes_count(s), 5);
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(cpu[i], nodes_free(s, i, "cpu"));
        for (size_t i = 0; i < 20; i++)
            assert_true(at[i] == nodes_of_pod(s, i));
        nodes_snapshot_free(s);
    }
}

// --- rules between pods ---

static json_t *random_linked_pod(size_t i)
{
    static const char *const kinds[] = {"podAffinity", "podAntiAffinity"};
    GS_AUTO_FREE char *rule = NULL;
    if (roll(2))
        rule = gs_format(", topologySpreadConstraints: [{topologyKey: %s, maxSkew: %u, "
                         "whenUnsatisfiable: DoNotSchedule, minDomains: %u, labelSelector: "
                         "{matchLabels: {app: %s}}}]",
                         ANY("zone", "kubernetes.io/hostname"), 1 + roll(2), 1 + roll(3),
                         ANY("x", "v"));
    else
        rule = gs_format(", affinity: {%s: {requiredDuringSchedulingIgnoredDuringExecution: "
                         "[{topologyKey: %s, labelSelector: {matchLabels: {app: %s}} %s}]}}",
                         kinds[roll(2)], ANY("zone", "kubernetes.io/hostname"), ANY("x", "v"),
                         ANY("", ", namespaces: [d, e]", ", namespaceSelector: {}"));
    GS_AUTO_FREE char *text =
        gs_format("{metadata: {name: p%zu, namespace: %s, labels: {app: %s}}, spec: {containers: "
                  "[{name: c}] %s %s}}",
                  i, ANY("d", "e"), ANY("x", "v"), roll(3) ? rule : "",
                  ANY("", "", ", nodeSelector: {zone: b}"));
    return yaml(text);
}

static struct nodes_snapshot *copy_of(const struct nodes_snapshot *s)
{
    struct nodes_snapshot *copy = nodes_snapshot_new();
    for (size_t i = 0; i < nodes_count(s); i++)
        nodes_exclude(copy, nodes_snapshot_add_node(copy, nodes_node(s, i)),
                      nodes_is_excluded(s, i));
    for (size_t i = 0; i < nodes_pod_count(s); i++) {
        size_t pod = nodes_snapshot_add_pod(copy, nodes_pod(s, i));
        if (nodes_of_pod(s, i) != NODES_NONE)
            nodes_place(copy, pod, nodes_of_pod(s, i));
    }
    return copy;
}

// Counters that follow placements give the same answers as counters of a new snapshot.
static void test_rules_between_pods_follow_placements(void **state)
{
    for (size_t round = 0; round < 60; round++) {
        seed = round + 5000;
        struct nodes_snapshot *s = nodes_snapshot_new();
        size_t n_nodes = 2 + roll(5), n_pods = 5 + roll(15);
        for (size_t i = 0; i < n_nodes; i++) {
            GS_AUTO_FREE char *name = gs_format("n%zu", i);
            add_node(s, name, "cpu: 8", ANY("", ", zone: a", ", zone: b"), "");
        }
        for (size_t i = 0; i < n_pods; i++) {
            json_t *pod = random_linked_pod(i);
            nodes_snapshot_add_pod(s, pod);
            json_decref(pod);
        }
        size_t checkpoint = nodes_checkpoint(s);
        for (size_t step = 0; step < 60; step++) {
            size_t pod = roll((uint32_t)n_pods), node = nodes_of_pod(s, pod);
            size_t other = roll((uint32_t)n_nodes);
            if (roll(8) == 0)
                nodes_exclude(s, other, !nodes_is_excluded(s, other));
            else if (node != NODES_NONE)
                nodes_unplace(s, pod, node);
            else if (nodes_fits(s, pod, other, NULL) || roll(4) == 0)
                nodes_place(s, pod, other);
            if (step == 40)
                nodes_restore(s, checkpoint);
            if (step == 40)
                checkpoint = nodes_checkpoint(s);
        }
        struct nodes_snapshot *fresh = copy_of(s);
        for (size_t pod = 0; pod < n_pods; pod++)
            for (size_t node = 0; node < n_nodes; node++)
                if (nodes_of_pod(s, pod) == NODES_NONE)
                    assert_int_equal(nodes_fits(s, pod, node, NULL),
                                     nodes_fits(fresh, pod, node, NULL));
        nodes_restore(s, checkpoint);
        nodes_snapshot_free(fresh);
        nodes_snapshot_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compiled_filters_equal_direct_ones),
        cmocka_unit_test(test_undo_restores_every_amount),
        cmocka_unit_test(test_rules_between_pods_follow_placements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
