// SPDX-License-Identifier: Apache-2.0
#include "autoscaler_fixture.h"

#define HARD "ToBeDeletedByClusterAutoscaler"
#define SOFT "DeletionCandidateOfClusterAutoscaler"

static void test_an_empty_node_is_removed_after_the_unneeded_time(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    struct machine *m = machine_add(&f, "t4-1");
    run_after(&f, 0);
    loop_until(&f.k.loop, has_taint(&f, m, SOFT));
    run_after(&f, 9 * MINUTE);
    assert_int_equal(m->state, NODES_INSTANCE_RUNNING);
    run_after(&f, 2 * MINUTE);
    loop_until(&f.k.loop, m->state == NODES_INSTANCE_DELETING);
    assert_true(has_taint(&f, m, HARD));
    assert_cluster_event(&f, "ScaleDownEmpty", "Scale-down: removing empty node \"t4-1-1\"");
    assert_cluster_event(&f, "ScaleDownEmpty", "Scale-down: empty node t4-1-1 removed");
    assert_cluster_event(&f, "ScaleDown", "nodes removed by cluster autoscaler");
    assert_cluster_event(&f, "ScaleDown", "marked the node as toBeDeleted/unschedulable");
    machine_vanish(&f, m);
    run_after(&f, 10 * SECOND);
    assert_int_equal(pool_number(&f, "t4-1", "target"), 0);
    fixture_close(&f);
}

static void test_the_minimum_of_a_pool_stays(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=1..8x1");
    machine_add(&f, "t4-1");
    machine_add(&f, "t4-1");
    run_after(&f, 0);
    run_after(&f, 11 * MINUTE);
    loop_until(&f.k.loop, fake_target(&f, "t4-1") == 1);
    run_after(&f, 11 * MINUTE);
    loop_for_ms(&f.k.loop, 100);
    assert_int_equal(fake_target(&f, "t4-1"), 1);
    fixture_close(&f);
}

static void test_empty_nodes_are_removed_together(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    for (int i = 0; i < 4; i++)
        machine_add(&f, "t4-1");
    run_after(&f, 0);
    run_after(&f, 11 * MINUTE);
    loop_until(&f.k.loop, fake_target(&f, "t4-1") == 0);
    fixture_close(&f);
}

static void test_nothing_is_removed_soon_after_a_scale_up(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1", "t4-4=0..8x4");
    struct machine *idle = machine_add(&f, "t4-1");
    run_after(&f, 0);
    run_after(&f, 8 * MINUTE);
    add_pending(&f, "large", 4);
    run_after(&f, 1 * MINUTE);
    assert_int_equal(f.n_machines, 2);
    run_after(&f, 5 * MINUTE);
    assert_int_equal(idle->state, NODES_INSTANCE_RUNNING);
    run_after(&f, 6 * MINUTE);
    loop_until(&f.k.loop, idle->state == NODES_INSTANCE_DELETING);
    fixture_close(&f);
}

// GPUs alone count on a GPU node, however much CPU its pods request.
static void test_only_gpus_count_on_a_gpu_node(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-4=0..8x4,cpu=8,memory=64Gi");
    struct machine *m = machine_add(&f, "t4-4"), *other = machine_add(&f, "t4-4");
    GS_AUTO_FREE char *three = gpu_container(3);
    add_bound(&f, "train", OWNED, m, three);
    add_bound(&f, "web", OWNED, other,
              "containers: [{name: c, image: i, resources: {requests: {cpu: 7}}}]");
    run_after(&f, 0);
    GS_AUTO_FREE char *why = unremovable(&f, m);
    assert_string_equal(why, "nvidia.com/gpu requested (75% of allocatable) is above the "
                             "scale-down utilization threshold");
    GS_AUTO_FREE char *none = unremovable(&f, other);
    assert_string_equal(none, "");
    fixture_close(&f);
}

static void test_a_node_is_drained_if_its_pods_fit_elsewhere(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-4=0..8x4");
    struct machine *m = machine_add(&f, "t4-4"), *other = machine_add(&f, "t4-4");
    GS_AUTO_FREE char *one = gpu_container(1), *two = gpu_container(3);
    add_bound(&f, "small", OWNED, m, one);
    add_bound(&f, "large", OWNED, other, two);
    run_after(&f, 0);
    run_after(&f, 11 * MINUTE);
    loop_until(&f.k.loop, m->state == NODES_INSTANCE_DELETING);
    assert_null(kube_cache_get(f.k.c->pods, "default", "small"));
    assert_non_null(kube_cache_get(f.k.c->pods, "default", "large"));
    assert_cluster_event(&f, "ScaleDown", "deleting pod for node scale down");
    assert_cluster_event(&f, "ScaleDown", "Scale-down: node t4-4-1 removed with drain");
    fixture_close(&f);
}

static void test_pods_that_keep_a_node(void **state)
{
    static const struct {
        const char *metadata, *spec, *why;
    } cases[] = {
        {"", "", "default/p is not replicated"},
        {OWNED "annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: 'false'}, ", "",
         "pod annotated as not safe to evict present: p"},
        {OWNED, "volumes: [{name: v, emptyDir: {}}], ", "pod with local storage present: p"},
        {OWNED, "", "default/p fits on no other node"},
        {"ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u2, controller: "
         "true}], ",
         "", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fixture f;
        OPEN(&f, "t4-4=0..8x4");
        struct machine *m = machine_add(&f, "t4-4");
        GS_AUTO_FREE char *container = gpu_container(1);
        GS_AUTO_FREE char *spec = gs_format("%s%s", cases[i].spec, container);
        add_bound(&f, "p", cases[i].metadata, m, spec);
        run_after(&f, 0);
        GS_AUTO_FREE char *why = unremovable(&f, m);
        assert_string_equal(why, cases[i].why);
        fixture_close(&f);
    }
}

static void test_safe_to_evict_allows_what_rules_forbid(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-4=0..8x4");
    struct machine *m = machine_add(&f, "t4-4"), *other = machine_add(&f, "t4-4");
    cluster_patch(&f.k, KUBE_NODES, other->name, NULL,
                  "metadata: {annotations: {cluster-autoscaler.kubernetes.io/scale-down-disabled: "
                  "'true'}}");
    GS_AUTO_FREE char *container = gpu_container(1);
    add_bound(&f, "p", "annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: 'true'}, ", m,
              container);
    run_after(&f, 0);
    GS_AUTO_FREE char *why = unremovable(&f, m);
    assert_string_equal(why, "");
    fixture_close(&f);
}

static void test_a_budget_keeps_a_node(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-4=0..8x4");
    struct machine *m = machine_add(&f, "t4-4");
    machine_add(&f, "t4-4");
    GS_AUTO_FREE char *container = gpu_container(1);
    add_bound(&f, "p", OWNED, m, container);
    cluster_create(&f.k, (struct kube_gvr){"policy", "v1", "poddisruptionbudgets"},
                   "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: "
                   "{minAvailable: 1, selector: {matchLabels: {app: web}}}}");
    run_after(&f, 0);
    run_after(&f, SECOND);
    GS_AUTO_FREE char *why = unremovable(&f, m);
    assert_string_equal(why, "not enough pod disruption budget to move default/p");
    fixture_close(&f);
}

static void test_the_annotation_disables_scale_down(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    struct machine *m = machine_add(&f, "t4-1");
    cluster_patch(&f.k, KUBE_NODES, m->name, NULL,
                  "metadata: {annotations: {cluster-autoscaler.kubernetes.io/scale-down-disabled: "
                  "'true'}}");
    run_after(&f, 0);
    run_after(&f, 11 * MINUTE);
    loop_for_ms(&f.k.loop, 100);
    assert_int_equal(m->state, NODES_INSTANCE_RUNNING);
    fixture_close(&f);
}

static void test_a_node_that_is_needed_again_loses_its_taint(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    struct machine *m = machine_add(&f, "t4-1");
    run_after(&f, 0);
    loop_until(&f.k.loop, has_taint(&f, m, SOFT));
    GS_AUTO_FREE char *container = gpu_container(1);
    add_bound(&f, "p", OWNED, m, container);
    run_after(&f, MINUTE);
    loop_until(&f.k.loop, !has_taint(&f, m, SOFT));
    run_after(&f, 20 * MINUTE);
    assert_int_equal(m->state, NODES_INSTANCE_RUNNING);
    fixture_close(&f);
}

static void test_a_node_that_is_not_ready_waits_for_the_unready_time(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    struct machine *m = machine_add(&f, "t4-1");
    cluster_patch(&f.k, KUBE_NODES, m->name, "status",
                  "status: {conditions: [{type: Ready, status: Unknown}]}");
    run_after(&f, 16 * MINUTE); // beyond the start-up time
    run_after(&f, 19 * MINUTE);
    assert_int_equal(m->state, NODES_INSTANCE_RUNNING);
    run_after(&f, 2 * MINUTE);
    loop_until(&f.k.loop, m->state == NODES_INSTANCE_DELETING);
    fixture_close(&f);
}

static void test_a_failed_removal_makes_the_node_usable_again(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    f.stuck = "t4-1";
    struct machine *m = machine_add(&f, "t4-1");
    run_after(&f, 0);
    run_after(&f, 11 * MINUTE);
    loop_until(&f.k.loop, cluster_event(&f.k, "ScaleDownFailed",
                                        "failed to delete empty node: the machine does not "
                                        "answer"));
    run_after(&f, SECOND);
    loop_until(&f.k.loop, !has_taint(&f, m, HARD));
    fixture_close(&f);
}

static void test_a_restart_removes_taints_of_the_last_run(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=1..8x1");
    struct machine *m = machine_add(&f, "t4-1");
    cluster_patch(&f.k, KUBE_NODES, m->name, NULL,
                  "spec: {taints: [{key: " HARD ", value: '1', effect: NoSchedule}]}");
    loop_until(&f.k.loop, has_taint(&f, m, HARD));
    run_after(&f, 0);
    loop_until(&f.k.loop, !has_taint(&f, m, HARD));
    assert_cluster_event(&f, "ClusterAutoscalerCleanup", "removed " HARD " taint from node");
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_node_is_removed_after_the_unneeded_time),
        cmocka_unit_test(test_the_minimum_of_a_pool_stays),
        cmocka_unit_test(test_empty_nodes_are_removed_together),
        cmocka_unit_test(test_nothing_is_removed_soon_after_a_scale_up),
        cmocka_unit_test(test_only_gpus_count_on_a_gpu_node),
        cmocka_unit_test(test_a_node_is_drained_if_its_pods_fit_elsewhere),
        cmocka_unit_test(test_pods_that_keep_a_node),
        cmocka_unit_test(test_safe_to_evict_allows_what_rules_forbid),
        cmocka_unit_test(test_a_budget_keeps_a_node),
        cmocka_unit_test(test_the_annotation_disables_scale_down),
        cmocka_unit_test(test_a_node_that_is_needed_again_loses_its_taint),
        cmocka_unit_test(test_a_node_that_is_not_ready_waits_for_the_unready_time),
        cmocka_unit_test(test_a_failed_removal_makes_the_node_usable_again),
        cmocka_unit_test(test_a_restart_removes_taints_of_the_last_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
