// SPDX-License-Identifier: Apache-2.0
#include "nodes_fixture.h"

#include "nodes/packing.h"

static const char guide[] = "pools:\n"
                            "- {name: gpu-1, max: 8, price: 1.0, machine: {gpus: 1}}\n"
                            "- {name: gpu-4, max: 8, price: 3.7, machine: {gpus: 4}}\n";

struct bed {
    struct nodes_pools pools;
    struct nodes_group groups[2];
    struct nodes_snapshot *s;
    struct nodes_mix mix;
    struct nodes_choice_settings settings;
    struct nodes_cordons cordons;
};

static void bed_open(struct bed *b)
{
    *b = (struct bed){.settings = {.now_ms = 1000}};
    assert_ok(nodes_pools_parse(&b->pools, gs_slice_of(guide), "pools", NULL));
    for (size_t i = 0; i < 2; i++)
        b->groups[i] = (struct nodes_group){
            .name = b->pools.items[i].name, .pool = &b->pools.items[i], .max = 8};
    b->s = nodes_snapshot_new();
    nodes_mix_add_task(&b->mix, (struct nodes_task){.share = 9, .gpus = 1});
    nodes_mix_add_task(&b->mix, (struct nodes_task){.share = 1, .gpus = 4});
}

static void bed_close(struct bed *b)
{
    nodes_cordons_finish(&b->cordons);
    nodes_mix_finish(&b->mix);
    nodes_snapshot_free(b->s);
    nodes_pools_finish(&b->pools);
}

#define IN(pool) ", gpuscale.dev/pool: " pool

static size_t plan(struct bed *b)
{
    nodes_cordons_finish(&b->cordons);
    nodes_plan_cordons(b->s, b->groups, 2, &b->mix, &b->settings, &b->cordons);
    return b->cordons.len;
}

// A node that the plan has cordoned.
static void add_cordoned(struct bed *b)
{
    json_t *node = yaml("{metadata: {name: big, annotations: {gpuscale.dev/early-cordon: x}, "
                        "labels: {gpuscale.dev/pool: gpu-4}}, spec: {unschedulable: true, taints: "
                        "[{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}, status: "
                        "{allocatable: {pods: 10, cpu: 32, memory: 64Gi, nvidia.com/gpu: 4}, "
                        "conditions: [{type: Ready, status: 'True'}]}}");
    nodes_snapshot_add_node(b->s, node);
    json_decref(node);
}

static void test_fragmentation_counts_gpus_that_typical_tasks_cannot_use(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    struct nodes_mix mix = {0};
    nodes_mix_add_task(&mix, (struct nodes_task){.share = 3, .gpus = 1, .cpu_milli = 4000});
    nodes_mix_add_task(&mix, (struct nodes_task){.share = 1, .gpus = 4, .cpu_milli = 4000});
    size_t a = add_node(s, "a", "cpu: 32, nvidia.com/gpu: 4", "", "");
    size_t b = add_node(s, "b", "cpu: 32, nvidia.com/gpu: 4", "", "");
    size_t c = add_node(s, "c", "cpu: 2, nvidia.com/gpu: 2", "", "");
    add_node(s, "d", "cpu: 32, nvidia.com/gpu: 8", "", "unschedulable: true");
    add_node(s, "e", "cpu: 32", "", "");
    add_pod(s, "p", "", "nvidia.com/gpu: 1", ", nodeName: a");
    assert_true(nodes_fragmentation_of(s, a, &mix) == 3 * 0.25); // the 4-GPU task
    assert_true(nodes_fragmentation_of(s, b, &mix) == 0);
    assert_true(nodes_fragmentation_of(s, c, &mix) == 2); // no CPU for any task
    struct nodes_fragmentation f;
    nodes_measure(s, &mix, &f);
    assert_int_equal(f.nodes, 4);
    assert_int_equal(f.gpus, 18);
    assert_int_equal(f.idle_nodes, 3);
    assert_int_equal(f.free_gpus, 9);
    assert_true(f.fragmented_gpus == 2.75);
    assert_int_equal(f.stranded_gpus, 2);
    assert_int_equal(f.largest_gpus, 4);
    assert_int_equal(f.largest_node, b);
    nodes_mix_finish(&mix);
    nodes_snapshot_free(s);
}

static void test_the_mix_of_a_snapshot(void **state)
{
    struct bed b;
    bed_open(&b);
    nodes_mix_finish(&b.mix);
    for (int i = 0; i < 3; i++)
        add_pod(b.s, "p", "", "nvidia.com/gpu: 1, cpu: 2, memory: 4Gi", "");
    add_pod(b.s, "q", "", "nvidia.com/gpu: 2", "");
    add_pod(b.s, "cpu", "", "cpu: 2", "");
    nodes_mix_of(b.s, &b.mix);
    assert_int_equal(b.mix.len, 2);
    assert_true(b.mix.tasks[0].share == 3 && b.mix.tasks[0].cpu_milli == 2000);
    assert_true(b.mix.tasks[0].memory_bytes == INT64_C(4) << 30);
    nodes_mix_add_groups(&b.mix, b.groups, 2);
    assert_int_equal(b.mix.len, 3);
    assert_int_equal(b.mix.tasks[2].gpus, 4);
    bed_close(&b);
}

static void test_an_idle_large_node_is_cordoned_before_a_small_pod_splits_it(void **state)
{
    struct bed b;
    bed_open(&b);
    add_node(b.s, "big", "cpu: 32, memory: 64Gi, nvidia.com/gpu: 4", IN("gpu-4"), "");
    add_node(b.s, "small", "cpu: 8, memory: 64Gi, nvidia.com/gpu: 1", IN("gpu-1"), "");
    add_node(b.s, "foreign", "cpu: 8, memory: 64Gi, nvidia.com/gpu: 8", "", "");
    assert_int_equal(plan(&b), 1);
    assert_int_equal(b.cordons.items[0].node, 0);
    assert_true(b.cordons.items[0].cordon);
    assert_string_equal(b.cordons.items[0].why,
                        "all 4 GPUs are idle, a pod with 1 GPU would split them, and a node of "
                        "gpu-1 with 1 GPU serves it for 1.00 instead of 3.70 USD an hour");
    b.groups[0].size = 8; // no smaller node can be created
    assert_int_equal(plan(&b), 0);
    bed_close(&b);
}

static void test_a_node_in_use_is_not_cordoned(void **state)
{
    struct bed b;
    bed_open(&b);
    add_node(b.s, "big", "cpu: 32, memory: 64Gi, nvidia.com/gpu: 4", IN("gpu-4"), "");
    add_pod(b.s, "p", "", "nvidia.com/gpu: 1", ", nodeName: big");
    assert_int_equal(plan(&b), 0);
    bed_close(&b);
}

static void test_a_pod_that_needs_the_node_ends_the_cordon(void **state)
{
    struct bed b;
    bed_open(&b);
    add_cordoned(&b);
    add_pod(b.s, "large", "", "nvidia.com/gpu: 4", "");
    add_pod(b.s, "small", "", "nvidia.com/gpu: 1", ""); // it gets its own node
    assert_int_equal(plan(&b), 1);
    assert_false(b.cordons.items[0].cordon);
    assert_string_equal(b.cordons.items[0].why, "pod default/large needs it");
    assert_int_equal(nodes_count(b.s), 1);
    bed_close(&b);
}

// kube-scheduler would give the node to the older pod.
static void test_a_cordon_lasts_while_an_older_small_pod_waits(void **state)
{
    struct bed b;
    bed_open(&b);
    add_cordoned(&b);
    size_t small = add_pod(b.s, "small", "", "nvidia.com/gpu: 1", "");
    assert_int_equal(plan(&b), 0);
    size_t before = nodes_checkpoint(b.s);
    assert_int_equal(nodes_reserve_cordoned(b.s, b.groups, 2, &b.settings), 0);
    assert_int_equal(nodes_best(b.s, small, NODES_FIRST, NULL), NODES_NONE);
    nodes_restore(b.s, before);
    size_t large = add_pod(b.s, "large", "", "nvidia.com/gpu: 4", "");
    assert_int_equal(plan(&b), 0);
    // The large pod needs no new node: it waits for this one.
    size_t checkpoint = nodes_checkpoint(b.s);
    assert_int_equal(nodes_reserve_cordoned(b.s, b.groups, 2, &b.settings), 1);
    assert_true(nodes_of_pod(b.s, large) != NODES_NONE);
    assert_true(nodes_of_pod(b.s, small) == NODES_NONE);
    assert_int_equal(nodes_best(b.s, small, NODES_FIRST, NULL), NODES_NONE); // it needs its own
    nodes_restore(b.s, checkpoint);
    assert_int_equal(nodes_count(b.s), 1);
    b.groups[0].size = 8; // no small node can come any more
    assert_int_equal(plan(&b), 1);
    bed_close(&b);
}

static void test_a_cordon_without_reason_ends(void **state)
{
    struct bed b;
    bed_open(&b);
    add_cordoned(&b);
    b.groups[0].size = 8;
    assert_int_equal(plan(&b), 1);
    assert_string_equal(b.cordons.items[0].why,
                        "no smaller node is cheaper for the typical pods now");
    b.groups[0].size = 0;
    add_pod(b.s, "p", "", "nvidia.com/gpu: 1", ", nodeName: big");
    assert_int_equal(plan(&b), 1);
    assert_string_equal(b.cordons.items[0].why, "its GPUs are in use");
    bed_close(&b);
}

static void test_cordons_of_others_are_left_alone(void **state)
{
    struct bed b;
    bed_open(&b);
    add_node(b.s, "big", "cpu: 32, nvidia.com/gpu: 4", IN("gpu-4"), "unschedulable: true");
    add_pod(b.s, "large", "", "nvidia.com/gpu: 4", "");
    assert_int_equal(plan(&b), 0);
    bed_close(&b);
}

static enum nodes_movability by_label(void *arg, const json_t *pod)
{
    const char *text = codec_json_str(pod, "metadata", "labels", "move", NULL);
    return gs_streq(text, "block") ? NODES_BLOCK : gs_streq(text, "stay") ? NODES_STAY : NODES_MOVE;
}

static void test_consolidation_empties_a_node(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    add_node(s, "a", "cpu: 32, nvidia.com/gpu: 4", "", "");
    add_node(s, "b", "cpu: 32, nvidia.com/gpu: 4", "", "");
    add_node(s, "idle", "cpu: 32, nvidia.com/gpu: 4", "", "");
    add_pod(s, "a1", "", "nvidia.com/gpu: 1", ", nodeName: a");
    add_pod(s, "a2", "", "nvidia.com/gpu: 2", ", nodeName: a");
    size_t b1 = add_pod(s, "b1", "", "nvidia.com/gpu: 1", ", nodeName: b");
    add_pod(s, "daemon", "move: stay", "", ", nodeName: b");
    struct nodes_consolidation c = {0};
    nodes_plan_consolidation(s, by_label, NULL, 10, &c);
    assert_int_equal(c.n_nodes, 1);
    assert_int_equal(c.nodes[0].node, 1);
    assert_int_equal(c.n_moves, 1);
    assert_int_equal(c.moves[0].pod, b1);
    assert_int_equal(c.moves[0].to, 0);
    assert_string_equal(c.nodes[0].why,
                        "its 1 pod fits on other nodes, and then all 4 GPUs of it are free");
    assert_int_equal(nodes_of_pod(s, b1), 1);
    assert_int_equal(nodes_free_gpus(s, 0), 1);
    nodes_consolidation_finish(&c);
    nodes_snapshot_free(s);
}

static void test_consolidation_respects_pods_that_must_stay(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    add_node(s, "a", "cpu: 32, nvidia.com/gpu: 4", "", "");
    add_node(s, "b", "cpu: 32, nvidia.com/gpu: 4", "", "");
    add_pod(s, "a1", "move: block", "nvidia.com/gpu: 2", ", nodeName: a");
    add_pod(s, "b1", "move: block", "nvidia.com/gpu: 1", ", nodeName: b");
    struct nodes_consolidation c = {0};
    nodes_plan_consolidation(s, by_label, NULL, 10, &c);
    assert_int_equal(c.n_nodes, 0);
    assert_int_equal(c.n_moves, 0);
    nodes_consolidation_finish(&c);
    nodes_snapshot_free(s);
}

static void test_consolidation_moves_no_pod_twice_or_to_an_idle_equal_node(void **state)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    add_node(s, "a", "cpu: 32, nvidia.com/gpu: 4", "", "");
    add_node(s, "idle", "cpu: 32, nvidia.com/gpu: 4", "", "");
    add_pod(s, "a1", "", "nvidia.com/gpu: 1", ", nodeName: a");
    struct nodes_consolidation c = {0};
    nodes_plan_consolidation(s, by_label, NULL, 10, &c);
    assert_int_equal(c.n_nodes, 0);
    add_node(s, "small", "cpu: 32, nvidia.com/gpu: 1", "", "");
    nodes_plan_consolidation(s, by_label, NULL, 10, &c);
    assert_int_equal(c.n_nodes, 1);
    assert_int_equal(c.moves[0].to, 2);
    nodes_consolidation_finish(&c);
    for (int i = 0; i < 8; i++) { // eight nodes with one pod each become two
        GS_AUTO_FREE char *name = gs_format("n%d", i);
        GS_AUTO_FREE char *bound = gs_format(", nodeName: n%d", i);
        add_node(s, name, "cpu: 32, nvidia.com/gpu: 4", "", "unschedulable: false");
        add_pod(s, "p", "", "nvidia.com/gpu: 1", bound);
    }
    nodes_plan_consolidation(s, by_label, NULL, 100, &c);
    assert_int_equal(c.n_nodes, 7);
    bool moved[16] = {false};
    for (size_t i = 0; i < c.n_moves; i++) {
        assert_false(moved[c.moves[i].pod]);
        moved[c.moves[i].pod] = true;
        for (size_t k = 0; k < c.n_nodes; k++)
            assert_true(c.nodes[k].node != c.moves[i].to);
    }
    nodes_consolidation_finish(&c);
    nodes_snapshot_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fragmentation_counts_gpus_that_typical_tasks_cannot_use),
        cmocka_unit_test(test_the_mix_of_a_snapshot),
        cmocka_unit_test(test_an_idle_large_node_is_cordoned_before_a_small_pod_splits_it),
        cmocka_unit_test(test_a_node_in_use_is_not_cordoned),
        cmocka_unit_test(test_a_pod_that_needs_the_node_ends_the_cordon),
        cmocka_unit_test(test_a_cordon_lasts_while_an_older_small_pod_waits),
        cmocka_unit_test(test_a_cordon_without_reason_ends),
        cmocka_unit_test(test_cordons_of_others_are_left_alone),
        cmocka_unit_test(test_consolidation_empties_a_node),
        cmocka_unit_test(test_consolidation_respects_pods_that_must_stay),
        cmocka_unit_test(test_consolidation_moves_no_pod_twice_or_to_an_idle_equal_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
