// SPDX-License-Identifier: Apache-2.0
// The timeline of the GKE guide: a node with four GPUs is idle, a pod for one GPU arrives, then one
// for four.
#include "autoscaler_fixture.h"
#include "nodes/packing.h"

#define SMALL "t4-1=0..8x1,price=0.35,startup=40s"
#define LARGE "t4-4=0..8x4,price=1.40,startup=40s"

static bool is_cordoned(struct fixture *f, const struct machine *m)
{
    return codec_json_bool(node_of(f, m), false, "spec", "unschedulable", NULL);
}

static void test_nothing_is_cordoned_by_default(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, SMALL, LARGE);
    struct machine *m = machine_add(&f, "t4-4");
    run_after(&f, 0);
    run_after(&f, SECOND);
    assert_false(is_cordoned(&f, m));
    fixture_close(&f);
}

static void test_an_idle_large_node_is_cordoned_for_a_small_pod(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, SMALL, LARGE);
    f.settings.early_cordon = true;
    struct machine *m = machine_add(&f, "t4-4");
    run_after(&f, 0);
    loop_until(&f.k.loop, is_cordoned(&f, m));
    assert_cluster_event(&f, "EarlyCordon",
                         "all 4 GPUs are idle, a pod with 1 GPU would split them, and a node of "
                         "t4-1 with 1 GPU serves it for 0.35 instead of 1.40 USD an hour");
    add_pending(&f, "small", 1);
    run_after(&f, SECOND);
    assert_cluster_event(&f, "TriggeredScaleUp", "[{t4-1 0->1 (max: 8)}]");
    assert_true(is_cordoned(&f, m));
    // While the small pod waits, the scheduler would give it the node.
    cluster_delete(&f.k, KUBE_PODS, "default", "small");
    loop_until(&f.k.loop, kube_cache_get(f.k.c->pods, "default", "small") == NULL);
    add_pending(&f, "large", 4);
    run_after(&f, SECOND);
    loop_until(&f.k.loop, !is_cordoned(&f, m));
    assert_cluster_event(&f, "EarlyCordonEnded", "pod default/large needs it");
    assert_null(kube_annotation(node_of(&f, m), NODES_ANN_EARLY_CORDON));
    run_after(&f, SECOND);
    assert_int_equal(fake_target(&f, "t4-4"), 1);
    fixture_close(&f);
}

static void test_a_large_pod_waits_for_a_cordoned_node_instead_of_a_new_one(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, SMALL, LARGE);
    f.settings.early_cordon = true;
    struct machine *m = machine_add(&f, "t4-4");
    run_after(&f, 0);
    loop_until(&f.k.loop, is_cordoned(&f, m));
    // The scheduler would give the node to the first pod.
    add_pending(&f, "a-small", 1);
    run_after(&f, SECOND);
    add_pending(&f, "b-large", 4);
    run_after(&f, SECOND);
    run_after(&f, SECOND);
    assert_true(is_cordoned(&f, m));
    assert_int_equal(fake_target(&f, "t4-1"), 1);
    assert_int_equal(fake_target(&f, "t4-4"), 1);
    fixture_close(&f);
}

static void test_a_small_pod_gets_the_large_node_if_no_smaller_one_can_come(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..1x1,price=0.35", LARGE);
    f.settings.early_cordon = true;
    f.no_capacity = "t4-1";
    struct machine *m = machine_add(&f, "t4-4");
    run_after(&f, 0);
    loop_until(&f.k.loop, is_cordoned(&f, m));
    add_pending(&f, "small", 1);
    run_after(&f, SECOND);
    run_after(&f, SECOND); // the creation has failed
    run_after(&f, SECOND);
    loop_until(&f.k.loop, !is_cordoned(&f, m));
    assert_int_equal(fake_target(&f, "t4-4"), 1);
    fixture_close(&f);
}

static void test_a_cordoned_node_is_removed_when_unneeded(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, SMALL, LARGE);
    f.settings.early_cordon = true;
    struct machine *m = machine_add(&f, "t4-4");
    run_after(&f, 0);
    loop_until(&f.k.loop, is_cordoned(&f, m));
    run_after(&f, SECOND);
    run_after(&f, 11 * MINUTE);
    loop_until(&f.k.loop, m->state == NODES_INSTANCE_DELETING);
    fixture_close(&f);
}

static void test_a_restart_without_the_setting_ends_cordons(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, SMALL, LARGE);
    f.settings.early_cordon = true;
    struct machine *m = machine_add(&f, "t4-4");
    run_after(&f, 0);
    loop_until(&f.k.loop, is_cordoned(&f, m));
    autoscaler_free(f.a);
    f.settings.early_cordon = false;
    fixture_start(&f);
    run_after(&f, SECOND);
    loop_until(&f.k.loop, !is_cordoned(&f, m));
    fixture_close(&f);
}

static void test_a_node_that_somebody_cordoned_stays_so(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, SMALL, LARGE);
    f.settings.early_cordon = true;
    struct machine *m = machine_add(&f, "t4-4");
    cluster_patch(&f.k, KUBE_NODES, m->name, NULL, "spec: {unschedulable: true}");
    loop_until(&f.k.loop, is_cordoned(&f, m));
    add_pending(&f, "large", 4);
    run_after(&f, SECOND);
    run_after(&f, SECOND);
    assert_true(is_cordoned(&f, m));
    assert_cluster_event(&f, "TriggeredScaleUp", "[{t4-4 1->2 (max: 8)}]");
    fixture_close(&f);
}

static void test_consolidation_replaces_a_large_node(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, SMALL, LARGE);
    f.settings.consolidation = true;
    struct machine *m = machine_add(&f, "t4-4");
    GS_AUTO_FREE char *one = gpu_container(1);
    add_bound(&f, "small", OWNED, m, one);
    run_after(&f, 0);
    run_after(&f, 5 * MINUTE);
    assert_int_equal(f.increases, 0);
    run_after(&f, 6 * MINUTE);
    assert_cluster_event(&f, "Consolidation",
                         "its pods fit on a new node of pool t4-1 with 1 GPU for 0.35 instead of "
                         "1.40 USD an hour");
    struct machine *small = machine_of(&f, "t4-1");
    machine_register(&f, small, true, true);
    run_after(&f, MINUTE);
    run_after(&f, 11 * MINUTE);
    loop_until(&f.k.loop, m->state == NODES_INSTANCE_DELETING);
    assert_int_equal(small->state, NODES_INSTANCE_RUNNING);
    assert_int_equal(f.increases, 1);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_cordoned_by_default),
        cmocka_unit_test(test_an_idle_large_node_is_cordoned_for_a_small_pod),
        cmocka_unit_test(test_a_large_pod_waits_for_a_cordoned_node_instead_of_a_new_one),
        cmocka_unit_test(test_a_small_pod_gets_the_large_node_if_no_smaller_one_can_come),
        cmocka_unit_test(test_a_cordoned_node_is_removed_when_unneeded),
        cmocka_unit_test(test_a_restart_without_the_setting_ends_cordons),
        cmocka_unit_test(test_a_node_that_somebody_cordoned_stays_so),
        cmocka_unit_test(test_consolidation_replaces_a_large_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
