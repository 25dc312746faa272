// SPDX-License-Identifier: Apache-2.0
#include "ledger_fixture.h"

struct rig {
    struct ledger_meter *meter;
    struct ledger_table *table;
    struct ledger_observation *o;
    int64_t now;
};

static struct rig begin(void)
{
    return (struct rig){.meter = ledger_meter_new(),
                        .table = ledger_table_new(100),
                        .o = ledger_observation_new("team"),
                        .now = T0};
}

static void minute(struct rig *r)
{
    ledger_meter_observe(r->meter, r->o, r->now, r->now + MINUTE, r->table);
    r->now += MINUTE;
    ledger_observation_free(r->o);
    r->o = ledger_observation_new("team");
}

static void end(struct rig *r)
{
    ledger_observation_free(r->o);
    ledger_table_free(r->table);
    ledger_meter_free(r->meter);
}

#define GPU  "UUID=GPU-1,gpu=0,modelName=Tesla T4,Hostname=a"
#define GPU2 "UUID=GPU-2,gpu=1,modelName=Tesla T4,Hostname=a"

static void test_states_follow_from_pod_and_utilization(void **state)
{
    static const struct {
        const char *labels;
        double util;
        enum ledger_state state;
        const char *ns;
    } cases[] = {
        {GPU ",pod=web-1,namespace=ml", 50, LEDGER_BUSY, "ml"},
        {GPU ",pod=web-1,namespace=ml", 1, LEDGER_BUSY, "ml"},
        {GPU ",pod=web-1,namespace=ml", 0.9, LEDGER_IDLE, "ml"},
        {GPU ",pod=web-1,namespace=ml", NAN, LEDGER_MISSING, "ml"},
        {GPU, 0, LEDGER_FREE, ""},
        {GPU, 70, LEDGER_BUSY, ""}, // by a process outside of pods
        {GPU, NAN, LEDGER_MISSING, ""},
        {GPU ",exported_pod=web-1,exported_namespace=ml,pod=dcgm,namespace=gpu", 0, LEDGER_IDLE,
         "ml"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rig r = begin();
        add_sample(r.o, LEDGER_UTIL, cases[i].labels, cases[i].util);
        minute(&r);
        for (enum ledger_state s = 0; s < LEDGER_N_STATES; s++)
            assert_near(minutes_of(r.table, LEDGER_NAMESPACE, cases[i].ns, s),
                        s == cases[i].state ? 1.0 : 0.0);
        end(&r);
    }
}

static void test_pod_of_the_exporter_does_not_hold_the_gpu(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_TARGET, "job=dcgm,instance=1:9400,pod=dcgm-x", 1);
    add_sample(r.o, LEDGER_UTIL, GPU ",job=dcgm,instance=1:9400,pod=dcgm-x,namespace=gpu", 0);
    minute(&r);
    assert_near(all_minutes(r.table, LEDGER_FREE), 1);
    end(&r);
}

// Its host name is that of its pod, unless it knows its node.
static void test_gpus_of_an_exporter_with_its_own_host_name_are_on_its_node(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_TARGET, "job=dcgm,instance=1:9400,namespace=gpu,pod=dcgm-x", 1);
    add_sample(r.o, LEDGER_TARGET_POD, "namespace=gpu,pod=dcgm-x,node=n1", 1);
    add_sample(r.o, LEDGER_UTIL,
               "UUID=GPU-1,gpu=0,Hostname=dcgm-x,job=dcgm,instance=1:9400,pod=dcgm-x,namespace=gpu",
               0);
    minute(&r);
    assert_near(minutes_of(r.table, LEDGER_NODE, "n1", LEDGER_FREE), 1);
    end(&r);
}

static void test_workload_owner_pool_and_machine_come_from_the_cluster(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_UTIL, GPU ",pod=web-7d-x,namespace=ml", 50);
    add_sample(r.o, LEDGER_POD_OWNER,
               "namespace=ml,pod=web-7d-x,owner_kind=ReplicaSet,owner_name=web-7d", 1);
    add_sample(r.o, LEDGER_REPLICASET_OWNER,
               "namespace=ml,replicaset=web-7d,owner_kind=Deployment,owner_name=web", 1);
    add_sample(r.o, LEDGER_NAMESPACE_LABEL, "namespace=ml,label_team=vision", 1);
    add_sample(r.o, LEDGER_NODE_LABEL,
               "node=a,label_gpuscale_dev_pool=t4,label_node_kubernetes_io_instance_type=g4", 1);
    minute(&r);
    assert_near(minutes_of(r.table, LEDGER_WORKLOAD, "deployment/web", LEDGER_BUSY), 1);
    assert_near(minutes_of(r.table, LEDGER_OWNER, "vision", LEDGER_BUSY), 1);
    assert_near(minutes_of(r.table, LEDGER_POOL, "t4", LEDGER_BUSY), 1);
    assert_near(minutes_of(r.table, LEDGER_MACHINE, "g4", LEDGER_BUSY), 1);
    assert_near(minutes_of(r.table, LEDGER_CONFIDENCE, "exclusive", LEDGER_BUSY), 1);
    // After a restart, the state of the cluster comes later than that of the GPUs.
    add_sample(r.o, LEDGER_UTIL, GPU ",pod=web-7d-x,namespace=ml", 50);
    minute(&r);
    assert_near(minutes_of(r.table, LEDGER_WORKLOAD, "deployment/web", LEDGER_BUSY), 2);
    assert_near(minutes_of(r.table, LEDGER_OWNER, "vision", LEDGER_BUSY), 2);
    assert_near(minutes_of(r.table, LEDGER_POOL, "t4", LEDGER_BUSY), 2);
    // The node is known also if another pod has the GPU by then.
    add_sample(r.o, LEDGER_UTIL, GPU ",pod=b,namespace=a-longer-name-than-before", 50);
    minute(&r);
    assert_near(minutes_of(r.table, LEDGER_WORKLOAD, "pod/b", LEDGER_BUSY), 1);
    assert_near(minutes_of(r.table, LEDGER_POOL, "t4", LEDGER_BUSY), 3);
    assert_near(minutes_of(r.table, LEDGER_MACHINE, "g4", LEDGER_BUSY), 3);
    end(&r);
}

#define AT_ZERO "namespace=ml,owner_kind=Deployment,owner_name=web"

static void test_workload_at_zero_saves_the_gpus_of_a_replica(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_UTIL, GPU ",pod=web-7d-x,namespace=ml", 50);
    add_sample(r.o, LEDGER_POD_OWNER,
               "namespace=ml,pod=web-7d-x,owner_kind=ReplicaSet,owner_name=web-7d", 1);
    add_sample(r.o, LEDGER_REPLICASET_OWNER,
               "namespace=ml,replicaset=web-7d,owner_kind=Deployment,owner_name=web", 1);
    minute(&r);
    assert_near(saved_minutes(r.table, LEDGER_NODE, NULL), 0);
    for (int i = 0; i < 3; i++) {
        add_sample(r.o, LEDGER_UTIL, GPU, 0);
        add_sample(r.o, LEDGER_ZERO, AT_ZERO, 2);
        minute(&r);
    }
    // They are in no state, and have the model of the last GPU.
    assert_near(saved_minutes(r.table, LEDGER_WORKLOAD, "deployment/web"), 6);
    assert_near(saved_minutes(r.table, LEDGER_MODEL, "Tesla T4"), 6);
    assert_near(all_minutes(r.table, LEDGER_BUSY) + all_minutes(r.table, LEDGER_FREE), 4);
    // Values that are not possible are none.
    add_sample(r.o, LEDGER_ZERO, AT_ZERO, -1);
    add_sample(r.o, LEDGER_ZERO, "namespace=ml,owner_kind=Deployment", 1);
    add_sample(r.o, LEDGER_ZERO, "namespace=ml,owner_kind=Deployment,owner_name=b", 1e9);
    add_sample(r.o, LEDGER_ZERO, "namespace=ml,owner_kind=Deployment,owner_name=c", NAN);
    minute(&r);
    assert_near(saved_minutes(r.table, LEDGER_NODE, NULL), 6);
    end(&r);
}

// More than the places that are remembered.
static void test_many_jobs_do_not_hide_the_model_of_a_workload_at_zero(void **state)
{
    struct rig r = begin();
    (void)state;
    for (int i = 0; i < 10001; i++) {
        GS_AUTO_FREE char *job = gs_format("job/train-%d", i);
        ledger_meter_remember(r.meter,
                              &(struct ledger_key){{"ml", job, "", "a", "", "", "A100", ""}});
    }
    add_sample(r.o, LEDGER_UTIL, GPU ",pod=web-7d-x,namespace=ml", 50);
    add_sample(r.o, LEDGER_POD_OWNER,
               "namespace=ml,pod=web-7d-x,owner_kind=StatefulSet,owner_name=web", 1);
    minute(&r);
    add_sample(r.o, LEDGER_UTIL, GPU, 0);
    add_sample(r.o, LEDGER_ZERO, "namespace=ml,owner_kind=StatefulSet,owner_name=web", 1);
    minute(&r);
    assert_near(saved_minutes(r.table, LEDGER_MODEL, "Tesla T4"), 1);
    end(&r);
}

static void test_gpu_without_data_is_missing_for_a_day(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_UTIL, GPU ",pod=web-1,namespace=ml", 50);
    minute(&r);
    minute(&r);
    assert_near(all_minutes(r.table, LEDGER_MISSING), 1);
    assert_near(all_minutes(r.table, LEDGER_IDLE), 0);
    assert_near(minutes_of(r.table, LEDGER_NODE, "a", LEDGER_MISSING), 1);
    ledger_meter_gap(r.meter, r.now, r.now + 100 * LEDGER_HOUR_MS);
    r.now += 100 * LEDGER_HOUR_MS;
    minute(&r);
    assert_near(all_minutes(r.table, LEDGER_MISSING), 24 * 60);
    assert_near(all_minutes(r.table, LEDGER_BUSY), 1);
    end(&r);
}

static void test_gpu_of_a_deleted_node_is_not_expected(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_UTIL, GPU, 0);
    add_sample(r.o, LEDGER_NODE_EXISTS, "node=a", 1);
    minute(&r);
    add_sample(r.o, LEDGER_NODE_EXISTS, "node=a", 1);
    minute(&r); // the node is dead
    assert_near(all_minutes(r.table, LEDGER_MISSING), 1);
    add_sample(r.o, LEDGER_NODE_EXISTS, "node=b", 1);
    minute(&r);
    assert_near(all_minutes(r.table, LEDGER_MISSING), 1);
    end(&r);
}

// Its node was deleted before the end of the engine, or while none ran.
static void test_a_gap_does_not_count_gpus_of_deleted_nodes(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_UTIL, GPU, 0);
    add_sample(r.o, LEDGER_UTIL, "UUID=GPU-3,gpu=0,modelName=Tesla T4,Hostname=b", 0);
    add_sample(r.o, LEDGER_NODE_EXISTS, "node=a", 1);
    add_sample(r.o, LEDGER_NODE_EXISTS, "node=b", 1);
    minute(&r);
    ledger_meter_gap(r.meter, r.now, r.now + LEDGER_HOUR_MS);
    r.now += LEDGER_HOUR_MS;
    add_sample(r.o, LEDGER_UTIL, GPU, 0);
    add_sample(r.o, LEDGER_UTIL, "UUID=GPU-4,gpu=1,modelName=Tesla T4,Hostname=a", 0); // new
    add_sample(r.o, LEDGER_NODE_EXISTS, "node=a", 1);
    minute(&r);
    assert_near(minutes_of(r.table, LEDGER_NODE, "a", LEDGER_MISSING), 60);
    assert_near(minutes_of(r.table, LEDGER_NODE, "b", LEDGER_MISSING), 0);
    end(&r);
}

static void test_gpus_that_end_with_the_process_are_not_missing_after_it(void **state)
{
    struct rig r = begin();
    const struct ledger_gpu old = {.id = "x",
                                   .uuid = "GPU-9",
                                   .gpu = "0",
                                   .node = "a",
                                   .pool = "",
                                   .machine = "",
                                   .model = "",
                                   .ns = "",
                                   .pod = "",
                                   .workload = "",
                                   .owner = "",
                                   .share = 1,
                                   .seen_ms = T0};
    (void)state;
    ledger_meter_restore(r.meter, &old);
    ledger_meter_end_with_process(r.meter);
    add_sample(r.o, LEDGER_UTIL, GPU, 0);
    minute(&r);
    assert_near(all_minutes(r.table, LEDGER_MISSING), 0);
    minute(&r); // one that was observed is missing
    assert_near(all_minutes(r.table, LEDGER_MISSING), 1);
    ledger_meter_gap(r.meter, r.now, r.now + LEDGER_HOUR_MS); // also in a gap, and only that one
    r.now += LEDGER_HOUR_MS;
    add_sample(r.o, LEDGER_UTIL, GPU, 0);
    minute(&r);
    assert_near(all_minutes(r.table, LEDGER_MISSING), 61);
    end(&r);
}

static void test_gpu_that_two_targets_scrape_counts_once(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_UTIL, GPU ",job=a,instance=1:9400", 50);
    add_sample(r.o, LEDGER_UTIL, GPU ",job=b,instance=1:9401,pod=web-1,namespace=ml", 50);
    minute(&r);
    assert_near(all_minutes(r.table, LEDGER_BUSY), 1);
    assert_near(minutes_of(r.table, LEDGER_NAMESPACE, "ml", LEDGER_BUSY), 1);
    end(&r);
}

static void test_gpus_with_one_uuid_on_two_nodes_count_twice(void **state)
{
    struct rig r = begin();
    (void)state;
    for (int i = 0; i < 2; i++) {
        add_sample(r.o, LEDGER_UTIL, "UUID=GPU-1,gpu=0,Hostname=a,instance=a:1", 50);
        if (i == 0)
            add_sample(r.o, LEDGER_UTIL, "UUID=GPU-1,gpu=0,Hostname=b,instance=b:1", 0);
        minute(&r);
    }
    assert_near(all_minutes(r.table, LEDGER_BUSY), 2);
    assert_near(all_minutes(r.table, LEDGER_FREE), 1);
    assert_near(all_minutes(r.table, LEDGER_MISSING), 1);
    end(&r);
}

static void test_node_with_a_new_name_has_the_same_gpus(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_UTIL, "UUID=GPU-1,gpu=0,Hostname=exporter-x", 50);
    minute(&r);
    add_sample(r.o, LEDGER_UTIL, "UUID=GPU-1,gpu=0,Hostname=exporter-y", 50);
    minute(&r);
    assert_near(all_minutes(r.table, LEDGER_BUSY), 2);
    assert_near(all_minutes(r.table, LEDGER_MISSING), 0);
    end(&r);
}

#define TARGET  ",job=e,instance=1:9400"
#define PROCESS "UUID=GPU-1,gpu=0,NodeName=a,NamespaceName=ml,AllocateMode=share" TARGET ",PodName="

static void test_shared_gpu_is_divided_by_the_usage_of_processes(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_UTIL, GPU TARGET, 80);
    add_sample(r.o, LEDGER_HOLDER, PROCESS "one", 1);
    add_sample(r.o, LEDGER_HOLDER, PROCESS "two", 1);
    add_sample(r.o, LEDGER_HOLDER, PROCESS "three", 1);
    add_sample(r.o, LEDGER_PROCESS, PROCESS "one,ProcessId=1", 40);
    add_sample(r.o, LEDGER_PROCESS, PROCESS "one,ProcessId=2", 20);
    add_sample(r.o, LEDGER_PROCESS, PROCESS "two,ProcessId=3", 20);
    minute(&r);
    assert_near(minutes_of(r.table, LEDGER_WORKLOAD, "pod/one", LEDGER_BUSY), 0.75);
    assert_near(minutes_of(r.table, LEDGER_WORKLOAD, "pod/two", LEDGER_BUSY), 0.25);
    assert_near(minutes_of(r.table, LEDGER_WORKLOAD, "pod/three", LEDGER_BUSY), 0);
    assert_near(minutes_of(r.table, LEDGER_CONFIDENCE, "attributed", LEDGER_BUSY), 1);
    // Nobody uses it: equal parts.
    add_sample(r.o, LEDGER_UTIL, GPU TARGET, 0);
    add_sample(r.o, LEDGER_HOLDER, PROCESS "one", 1);
    add_sample(r.o, LEDGER_HOLDER, PROCESS "two", 1);
    minute(&r);
    assert_near(minutes_of(r.table, LEDGER_WORKLOAD, "pod/two", LEDGER_IDLE), 0.5);
    assert_near(minutes_of(r.table, LEDGER_CONFIDENCE, "estimate", LEDGER_IDLE), 1);
    end(&r);
}

#define MIG "UUID=GPU-1,gpu=0,modelName=NVIDIA H100,Hostname=a,GPU_I_PROFILE="

static void test_gpu_is_divided_equally_among_pods_of_unknown_usage(void **state)
{
    enum { PODS = 5 };
    struct rig r = begin();
    (void)state;
    for (int i = 0; i < PODS * 2; i++) { // two samples of each pod
        GS_AUTO_FREE char *labels = gs_format(GPU ",pod=web,namespace=ns-%d", i % PODS);
        add_sample(r.o, LEDGER_UTIL, labels, 50);
    }
    minute(&r);
    for (int i = 0; i < PODS; i++) {
        GS_AUTO_FREE char *ns = gs_format("ns-%d", i);
        assert_near(minutes_of(r.table, LEDGER_NAMESPACE, ns, LEDGER_BUSY), 1.0 / PODS);
    }
    end(&r);
}

static void test_mig_devices_are_parts_of_a_gpu(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_PRESENT, GPU, 10); // the GPU itself, as some exporters report it
    add_sample(r.o, LEDGER_ACTIVE, MIG "3g.40gb,GPU_I_ID=1,pod=one,namespace=ml", 0.5);
    add_sample(r.o, LEDGER_ACTIVE, MIG "2g.20gb,GPU_I_ID=2", 0);
    add_sample(r.o, LEDGER_PRESENT, MIG "1g.10gb,GPU_I_ID=3", 5);
    minute(&r);
    assert_near(all_minutes(r.table, LEDGER_BUSY), 3 / 7.0);
    assert_near(all_minutes(r.table, LEDGER_FREE), 2 / 7.0);
    assert_near(all_minutes(r.table, LEDGER_MISSING), 1 / 7.0);
    assert_near(all_minutes(r.table, LEDGER_STRANDED), 1 / 7.0); // not partitioned
    // The GPU is partitioned again: it is not counted twice.
    add_sample(r.o, LEDGER_ACTIVE, MIG "7g.80gb,GPU_I_ID=0", 0);
    minute(&r);
    assert_near(all_minutes(r.table, LEDGER_FREE), 2 / 7.0 + 1);
    assert_near(all_minutes(r.table, LEDGER_MISSING), 1 / 7.0);
    end(&r);
}

static void test_free_gpus_are_stranded_as_far_as_no_pod_fits(void **state)
{
    struct rig r = begin();
    (void)state;
    add_sample(r.o, LEDGER_UTIL, GPU, 0);
    add_sample(r.o, LEDGER_UTIL, GPU2, 0);
    add_sample(r.o, LEDGER_NODE_STRANDED, "node=a", 1);
    minute(&r);
    assert_near(all_minutes(r.table, LEDGER_STRANDED), 1);
    assert_near(all_minutes(r.table, LEDGER_FREE), 1);
    end(&r);
}

static void test_idle_time_ends_with_use_and_excludes_missing_data(void **state)
{
    struct rig r = begin();
    size_t pos = 0;
    (void)state;
    for (int i = 0; i < 3; i++) {
        if (i != 1)
            add_sample(r.o, LEDGER_UTIL, GPU ",pod=web-1,namespace=ml", 0);
        minute(&r);
    }
    const struct ledger_gpu *g = ledger_meter_next(r.meter, &pos);
    assert_int_equal(g->idle_ms, 2 * MINUTE);
    assert_int_equal(g->idle_since_ms, T0);
    assert_string_equal(g->pod, "web-1");
    add_sample(r.o, LEDGER_UTIL, GPU ",pod=web-2,namespace=ml", 0);
    minute(&r);
    pos = 0;
    assert_int_equal(ledger_meter_next(r.meter, &pos)->idle_ms, MINUTE);
    add_sample(r.o, LEDGER_UTIL, GPU ",pod=web-2,namespace=ml", 5);
    minute(&r);
    pos = 0;
    assert_int_equal(ledger_meter_next(r.meter, &pos)->idle_since_ms, 0);
    end(&r);
}

static bool check_hours(void *arg, int64_t hour_ms, const struct ledger_key *key,
                        const struct ledger_amount *a)
{
    double *hours = arg;
    (void)key;
    assert_int_equal(hour_ms % LEDGER_HOUR_MS, 0);
    hours[(hour_ms - T0) / LEDGER_HOUR_MS] += ledger_total_ms(a) / (double)LEDGER_HOUR_MS;
    return true;
}

static void test_intervals_are_divided_at_full_hours(void **state)
{
    struct rig r = begin();
    double hours[3] = {0};
    (void)state;
    add_sample(r.o, LEDGER_UTIL, GPU, 50);
    ledger_meter_observe(r.meter, r.o, T0 + 30 * MINUTE, T0 + 135 * MINUTE, r.table);
    ledger_table_each(r.table, check_hours, hours);
    assert_near(hours[0], 0.5);
    assert_near(hours[1], 1);
    assert_near(hours[2], 0.25);
    end(&r);
}

static void test_rows_of_an_hour_are_limited(void **state)
{
    struct ledger_table *t = ledger_table_new(2);
    (void)state;
    for (int i = 0; i < 5; i++) {
        GS_AUTO_FREE char *pod = gs_format("pod/%d", i);
        const struct ledger_key key = {.text = {"ml", pod, "", "a", "", "", "", ""}};
        ledger_table_add(t, T0, T0 + MINUTE, &key, LEDGER_BUSY, 1, 1);
    }
    assert_int_equal(ledger_table_len(t), 3);
    assert_near(minutes_of(t, LEDGER_WORKLOAD, "(other)", LEDGER_BUSY), 3);
    assert_near(all_minutes(t, LEDGER_BUSY), 5);
    ledger_table_written(t, T0 + MINUTE);
    assert_near(all_minutes(t, LEDGER_BUSY), 0);
    assert_int_equal(ledger_table_len(t), 3);
    ledger_table_written(t, T0 + LEDGER_HOUR_MS);
    assert_int_equal(ledger_table_len(t), 0);
    ledger_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_follow_from_pod_and_utilization),
        cmocka_unit_test(test_pod_of_the_exporter_does_not_hold_the_gpu),
        cmocka_unit_test(test_gpus_of_an_exporter_with_its_own_host_name_are_on_its_node),
        cmocka_unit_test(test_workload_owner_pool_and_machine_come_from_the_cluster),
        cmocka_unit_test(test_workload_at_zero_saves_the_gpus_of_a_replica),
        cmocka_unit_test(test_many_jobs_do_not_hide_the_model_of_a_workload_at_zero),
        cmocka_unit_test(test_gpu_without_data_is_missing_for_a_day),
        cmocka_unit_test(test_gpu_of_a_deleted_node_is_not_expected),
        cmocka_unit_test(test_a_gap_does_not_count_gpus_of_deleted_nodes),
        cmocka_unit_test(test_gpus_that_end_with_the_process_are_not_missing_after_it),
        cmocka_unit_test(test_gpu_that_two_targets_scrape_counts_once),
        cmocka_unit_test(test_gpus_with_one_uuid_on_two_nodes_count_twice),
        cmocka_unit_test(test_node_with_a_new_name_has_the_same_gpus),
        cmocka_unit_test(test_shared_gpu_is_divided_by_the_usage_of_processes),
        cmocka_unit_test(test_gpu_is_divided_equally_among_pods_of_unknown_usage),
        cmocka_unit_test(test_mig_devices_are_parts_of_a_gpu),
        cmocka_unit_test(test_free_gpus_are_stranded_as_far_as_no_pod_fits),
        cmocka_unit_test(test_idle_time_ends_with_use_and_excludes_missing_data),
        cmocka_unit_test(test_intervals_are_divided_at_full_hours),
        cmocka_unit_test(test_rows_of_an_hour_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
