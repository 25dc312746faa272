// SPDX-License-Identifier: Apache-2.0
#include "autoscaler_fixture.h"

static void test_a_pending_pod_adds_one_node(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1,startup=40s", "t4-4=0..8x4,startup=40s");
    add_pending(&f, "gpu-pod", 1);
    run_after(&f, 0);
    assert_cluster_event(&f, "TriggeredScaleUp", "pod triggered scale-up: [{t4-1 0->1 (max: 8)}]");
    assert_string_equal(codec_json_str(json_array_get(json_object_get(f.k.body, "items"), 0),
                                       "source", "component", NULL),
                        "cluster-autoscaler");
    assert_cluster_event(&f, "ScaledUpGroup",
                         "Scale-up: group t4-1 size set to 1 instead of 0 (max: 8)");
    assert_int_equal(f.n_machines, 1);
    fixture_close(&f);
}

static void test_a_gpu_machine_for_a_pod_without_a_gpu_is_reported(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4=0..1x1,startup=40s", "cpu=0..0x0,startup=40s");
    add_pending(&f, "cpu-pod", 0);
    run_after(&f, 0);
    assert_cluster_event(&f, "TriggeredScaleUp", "pod triggered scale-up: [{t4 0->1 (max: 1)}]");
    assert_cluster_event(&f, "GPUNodeForCPUPod", "the taint nvidia.com/gpu=present:NoSchedule");
    fixture_close(&f);
}

static void open_balanced(struct fixture *f, const char *const *pools, int pods)
{
    fixture_open(f, pools);
    f->settings.balance_similar = true;
    for (int i = 0; i < pods; i++) {
        char name[16];
        snprintf(name, sizeof(name), "pod-%d", i);
        add_pending(f, name, 1);
    }
}
#define OPEN_BALANCED(f, pods, ...)                                                                \
    open_balanced((f), (const char *const[]){__VA_ARGS__, NULL}, (pods))

static void test_similar_pools_grow_together(void **state)
{
    struct fixture f;
    (void)state;
    OPEN_BALANCED(&f, 3, "a=0..4x1,zone=x,price=1", "b=0..4x1,zone=y,price=1,memory=32500Mi",
                  "labelled=0..4x1,zone=y,price=1,label=team=ml", "dear=0..4x1,zone=y,price=1.1",
                  "less=0..4x1,zone=y,price=1,memory=31Gi",
                  "tainted=0..4x1,zone=y,price=1,taint=team=ml:NoSchedule");
    run_after(&f, 0);
    assert_cluster_event(&f, "TriggeredScaleUp",
                         "pod triggered scale-up: [{a 0->2 (max: 4)} {b 0->1 (max: 4)}]");
    assert_int_equal(f.n_machines, 3);
    run_after(&f, 10 * SECOND);
    assert_int_equal(f.n_machines, 3);
    fixture_close(&f);
}

static void test_a_similar_pool_at_its_maximum_gets_no_more(void **state)
{
    struct fixture f;
    (void)state;
    OPEN_BALANCED(&f, 5, "a=0..8x1,zone=x", "b=0..1x1,zone=y");
    run_after(&f, 0);
    assert_cluster_event(&f, "TriggeredScaleUp", "[{a 0->4 (max: 8)} {b 0->1 (max: 1)}]");
    fixture_close(&f);
}

static void test_a_similar_pool_that_fails_is_left_out(void **state)
{
    struct fixture f;
    (void)state;
    OPEN_BALANCED(&f, 2, "a=0..8x1,zone=x", "b=0..8x1,zone=y");
    f.refused = "b";
    run_after(&f, 0);
    assert_cluster_event(&f, "TriggeredScaleUp", "pod triggered scale-up: [{a 0->1 (max: 8)}]");
    assert_cluster_event(&f, "FailedToScaleUpGroup", "Scale-up failed for group b");
    run_after(&f, 10 * SECOND); // b is in back-off
    assert_cluster_event(&f, "TriggeredScaleUp", "pod triggered scale-up: [{a 1->2 (max: 8)}]");
    fixture_close(&f);
}

static void test_similar_pools_are_not_balanced_by_default(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "a=0..4x1,zone=x", "b=0..4x1,zone=y");
    add_pending(&f, "one", 1);
    add_pending(&f, "two", 1);
    run_after(&f, 0);
    assert_cluster_event(&f, "TriggeredScaleUp", "pod triggered scale-up: [{a 0->2 (max: 4)}]");
    fixture_close(&f);
}

static void test_resource_claims_trigger_no_scale_up(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    GS_AUTO_FREE char *container = gpu_container(1);
    GS_AUTO_FREE char *spec =
        gs_format("resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], %s", container);
    add_pod(&f, "dra", OWNED, spec);
    mark_unschedulable(&f, "dra");
    run_after(&f, 0);
    assert_int_equal(f.increases, 0);
    fixture_close(&f);
}

static void test_upcoming_nodes_are_not_added_twice(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    add_pending(&f, "gpu-pod", 1);
    run_after(&f, 0);
    run_after(&f, 10 * SECOND); // the machine is being created
    machine_register(&f, machine_of(&f, "t4-1"), false, false);
    run_after(&f, 10 * SECOND); // registered, not ready
    assert_int_equal(f.n_machines, 1);
    assert_int_equal(pool_number(&f, "t4-1", "upcoming"), 1);
    fixture_close(&f);
}

static void test_a_node_without_its_gpus_is_upcoming(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    add_pending(&f, "gpu-pod", 1);
    run_after(&f, 0);
    machine_register(&f, machine_of(&f, "t4-1"), true, false);
    run_after(&f, 10 * SECOND);
    assert_int_equal(f.n_machines, 1);
    assert_int_equal(pool_number(&f, "t4-1", "upcoming"), 1);
    fixture_close(&f);
}

static void test_a_pod_that_no_pool_can_take_gets_the_reasons(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1", "a100=0..2x8,taint=team=ml:NoSchedule");
    add_pending(&f, "large", 4);
    run_after(&f, 0);
    assert_cluster_event(&f, "NotTriggerScaleUp", "1 Insufficient nvidia.com/gpu");
    assert_cluster_event(&f, "NotTriggerScaleUp", "untolerated taint");
    assert_int_equal(f.increases, 0);
    fixture_close(&f);
}

static void test_pods_beyond_the_maximum_wait(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..2x1");
    add_pending(&f, "p1", 1);
    add_pending(&f, "p2", 1);
    add_pending(&f, "p3", 1);
    run_after(&f, 0);
    assert_cluster_event(&f, "TriggeredScaleUp", "[{t4-1 0->2 (max: 2)}]");
    run_after(&f, 10 * SECOND);
    assert_cluster_event(&f, "NotTriggerScaleUp",
                         "pod didn't trigger scale-up: 1 max node group size reached");
    assert_int_equal(f.n_machines, 2);
    fixture_close(&f);
}

static void test_max_nodes_total_limits_all_pools(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    f.settings.max_nodes_total = 1;
    machine_add(&f, "t4-1");
    add_pending(&f, "p1", 1);
    GS_AUTO_FREE char *container = gpu_container(1);
    add_bound(&f, "busy", OWNED, &f.machines[0], container);
    run_after(&f, 0);
    assert_cluster_event(&f, "NotTriggerScaleUp",
                         "pod didn't trigger scale-up: max total nodes in cluster reached");
    assert_cluster_event(&f, "MaxNodesTotalReached", "Max total nodes in cluster reached: 1");
    fixture_close(&f);
}

static void test_after_a_capacity_error_another_pool_is_chosen(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "spot=0..8x1,price=0.74", "demand=0..8x1,price=2.48");
    f.no_capacity = "spot";
    add_pending(&f, "gpu-pod", 1);
    run_after(&f, 0);
    assert_string_equal(f.machines[0].pool, "spot");
    run_after(&f, 10 * SECOND);
    assert_cluster_event(&f, "ScaleUpFailed",
                         "Failed adding 1 nodes to group spot due to OUT_OF_GPUS; source errors: "
                         "none left");
    assert_int_equal(f.machines[0].state, NODES_INSTANCE_DELETING);
    assert_cluster_event(&f, "TriggeredScaleUp", "[{demand 0->1 (max: 8)}]");
    assert_string_equal(f.machines[1].pool, "demand");

    kube_get(f.k.client, KUBE_CONFIGMAPS, "kube-system", "cluster-autoscaler-status", NULL,
             call_took, &f.k);
    assert_int_equal(await(&f.k), 200);
    const char *yaml = codec_json_str(f.k.body, "data", "status", NULL);
    assert_non_null(strstr(yaml, "autoscalerStatus: Running"));
    assert_non_null(strstr(yaml, "errorCode: OUT_OF_GPUS"));
    assert_non_null(strstr(yaml, "status: Backoff"));
    fixture_close(&f);
}

static void test_backoff_ends_and_doubles(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "spot=0..8x1");
    f.refused = "spot";
    add_pending(&f, "gpu-pod", 1);
    run_after(&f, 0);
    assert_cluster_event(&f, "FailedToScaleUpGroup",
                         "Scale-up failed for group spot: the cloud is down");
    run_after(&f, 4 * MINUTE);
    assert_int_equal(f.increases, 1);
    assert_cluster_event(&f, "NotTriggerScaleUp",
                         "pod didn't trigger scale-up: 1 in backoff after failed scale-up");
    run_after(&f, 2 * MINUTE);
    assert_int_equal(f.increases, 2);
    run_after(&f, 9 * MINUTE);
    assert_int_equal(f.increases, 2);
    run_after(&f, 2 * MINUTE);
    assert_int_equal(f.increases, 3);
    fixture_close(&f);
}

static void test_a_machine_that_never_registers_is_given_up(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "spot=0..8x1,price=0.74", "demand=0..8x1,price=2.48");
    add_pending(&f, "gpu-pod", 1);
    run_after(&f, 0);
    run_after(&f, 10 * SECOND);
    run_after(&f, 14 * MINUTE);
    assert_int_equal(f.n_machines, 1);
    run_after(&f, 2 * MINUTE);
    assert_cluster_event(&f, "DeleteUnregistered", "Removed unregistered node gpuscale://spot/");
    assert_cluster_event(&f, "ScaleUpTimedOut",
                         "Nodes added to group spot failed to register within 16m10s");
    assert_int_equal(f.machines[0].state, NODES_INSTANCE_DELETING);
    run_after(&f, SECOND);
    assert_string_equal(f.machines[1].pool, "demand");
    fixture_close(&f);
}

static void test_a_target_without_machines_is_corrected(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    f.lost = 2;
    run_after(&f, 0);
    run_after(&f, 16 * MINUTE);
    assert_int_equal(f.lost, 0);
    fixture_close(&f);
}

static void test_expendable_and_young_pods_trigger_nothing(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1");
    f.settings.new_pod_scale_up_delay = 60 * GS_NS_PER_SEC;
    GS_AUTO_FREE char *container = gpu_container(1);
    CODEC_AUTO_JSON json_t *class =
        json_pack("{s:s, s:s, s:{s:s}, s:i}", "apiVersion", "scheduling.k8s.io/v1", "kind",
                  "PriorityClass", "metadata", "name", "low", "value", -11);
    kube_create(f.k.client, (struct kube_gvr){"scheduling.k8s.io", "v1", "priorityclasses"}, NULL,
                class, call_took, &f.k);
    assert_int_equal(await(&f.k), 201);
    GS_AUTO_FREE char *low = gs_format("priorityClassName: low, %s", container);
    add_pod(&f, "low", OWNED, low);
    mark_unschedulable(&f, "low");
    add_pending(&f, "young", 1);
    run_after(&f, 0);
    assert_int_equal(f.increases, 0);
    run_after(&f, 2 * MINUTE);
    assert_int_equal(f.n_machines, 1);
    assert_false(cluster_event(&f.k, "TriggeredScaleUp", "low"));
    fixture_close(&f);
}

static void test_daemonset_pods_use_part_of_a_new_node(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1,cpu=4,memory=16Gi");
    cluster_create(
        &f.k, KUBE_DAEMONSETS,
        "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n"
        "  selector: {matchLabels: {app: agent}}\n"
        "  template:\n    metadata: {labels: {app: agent}}\n"
        "    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 3}}}]}\n");
    loop_until(&f.k.loop, kube_cache_len(f.k.c->daemonsets) == 1);
    add_pod(&f, "web", OWNED, "containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]");
    mark_unschedulable(&f, "web");
    run_after(&f, 0);
    assert_cluster_event(&f, "NotTriggerScaleUp", "1 Insufficient cpu");
    assert_int_equal(f.increases, 0);
    fixture_close(&f);
}

static void test_the_state_names_the_pool_that_is_coming(void **state)
{
    struct fixture f;
    (void)state;
    OPEN(&f, "t4-1=0..8x1,startup=40s");
    add_pending(&f, "gpu-pod", 1);
    run_after(&f, 0);
    CODEC_AUTO_JSON json_t *s = autoscaler_state(f.a);
    const json_t *pod = json_array_get(json_object_get(s, "pods"), 0);
    assert_string_equal(codec_json_str(pod, "name", NULL), "gpu-pod");
    assert_string_equal(codec_json_str(pod, "pool", NULL), "t4-1");
    char expected[GS_RFC3339_SIZE];
    assert_string_equal(codec_json_str(pod, "expected", NULL),
                        gs_format_rfc3339(f.now_ms + 40 * SECOND, expected));
    GS_AUTO_BUF struct gs_buf metrics = {0};
    autoscaler_metrics(f.a, &metrics);
    assert_non_null(strstr(metrics.data, "cluster_autoscaler_scaled_up_nodes_total 1\n"));
    assert_non_null(strstr(metrics.data,
                           "cluster_autoscaler_node_group_target_count{node_group=\"t4-1\"} 1\n"));
    fixture_close(&f);
}

static void test_settings_are_checked(void **state)
{
    struct autoscaler_settings s;
    (void)state;
    autoscaler_settings_init(&s);
    assert_ok(autoscaler_settings_check(&s));
    s.gpu_utilization_threshold = 2;
    assert_error(autoscaler_settings_check(&s), GS_EINVAL,
                 "--scale-down-gpu-utilization-threshold must be from 0 to 1");
    autoscaler_settings_init(&s);
    s.unneeded_time = -1;
    assert_error(autoscaler_settings_check(&s), GS_EINVAL,
                 "--scale-down-unneeded-time must be at least 0s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pending_pod_adds_one_node),
        cmocka_unit_test(test_a_gpu_machine_for_a_pod_without_a_gpu_is_reported),
        cmocka_unit_test(test_similar_pools_grow_together),
        cmocka_unit_test(test_resource_claims_trigger_no_scale_up),
        cmocka_unit_test(test_a_similar_pool_at_its_maximum_gets_no_more),
        cmocka_unit_test(test_a_similar_pool_that_fails_is_left_out),
        cmocka_unit_test(test_similar_pools_are_not_balanced_by_default),
        cmocka_unit_test(test_upcoming_nodes_are_not_added_twice),
        cmocka_unit_test(test_a_node_without_its_gpus_is_upcoming),
        cmocka_unit_test(test_a_pod_that_no_pool_can_take_gets_the_reasons),
        cmocka_unit_test(test_pods_beyond_the_maximum_wait),
        cmocka_unit_test(test_max_nodes_total_limits_all_pools),
        cmocka_unit_test(test_after_a_capacity_error_another_pool_is_chosen),
        cmocka_unit_test(test_backoff_ends_and_doubles),
        cmocka_unit_test(test_a_machine_that_never_registers_is_given_up),
        cmocka_unit_test(test_a_target_without_machines_is_corrected),
        cmocka_unit_test(test_expendable_and_young_pods_trigger_nothing),
        cmocka_unit_test(test_daemonset_pods_use_part_of_a_new_node),
        cmocka_unit_test(test_the_state_names_the_pool_that_is_coming),
        cmocka_unit_test(test_settings_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
