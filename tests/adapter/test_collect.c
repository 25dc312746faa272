// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "adapter/collect.h"
#include "base/hmap.h"

static const char *const own_names[] = {"PodName", "NamespaceName"};
static const char *const plain_names[] = {"pod", "namespace"};
static const char *const exported_names[] = {"exported_pod", "exported_namespace"};

static void put(struct tsdb *db, const char *metric, const char *const *names, const char *pod,
                const char *uuid, const char *pid, int64_t t, double v)
{
    const struct metrics_label labels[] = {
        {GS_SLICE("__name__"), gs_slice_of(metric)}, {gs_slice_of(names[0]), gs_slice_of(pod)},
        {gs_slice_of(names[1]), GS_SLICE("ml")},     {GS_SLICE("UUID"), gs_slice_of(uuid)},
        {GS_SLICE("ProcessId"), gs_slice_of(pid)},   {GS_SLICE("NodeName"), GS_SLICE("n1")},
    };
    assert_ok(tsdb_append(db, labels, GS_ARRAY_LEN(labels), t, v));
}

static double pod_value(struct tsdb *db, const char *metric, const char *pod)
{
    const struct adapter_request rq = {.metric = metric, .ns = "ml", .now_ms = 10000};
    struct gs_hmap *values = adapter_collect_pods(db, &rq);
    const struct adapter_value *v = gs_hmap_get_str(values, pod);
    double out = v ? v->value : -1;
    gs_hmap_free(values);
    return out;
}

// Two processes on one device add up, two devices are averaged: 30 + 20 on a, 10 on b.
static void test_utilisation_of_processes_and_devices(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    put(db, "DCGM_CUSTOM_PROCESS_SM_UTIL", own_names, "w-0", "GPU-a", "1", 9000, 30);
    put(db, "DCGM_CUSTOM_PROCESS_SM_UTIL", own_names, "w-0", "GPU-a", "2", 9000, 20);
    put(db, "DCGM_CUSTOM_PROCESS_SM_UTIL", own_names, "w-0", "GPU-b", "3", 9000, 10);
    assert_true(pod_value(db, "DCGM_CUSTOM_PROCESS_SM_UTIL", "w-0") == 30);
    put(db, "DCGM_CUSTOM_PROCESS_SM_UTIL", own_names, "w-1", "GPU-a", "4", 9000, 80);
    put(db, "DCGM_CUSTOM_PROCESS_SM_UTIL", own_names, "w-1", "GPU-a", "5", 9000, 70);
    assert_true(pod_value(db, "DCGM_CUSTOM_PROCESS_SM_UTIL", "w-1") == 100);
    tsdb_free(db);
}

static void test_memory_adds_up(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    put(db, "DCGM_CUSTOM_PROCESS_MEM_USED", own_names, "w-0", "GPU-a", "1", 9000, 1000);
    put(db, "DCGM_CUSTOM_PROCESS_MEM_USED", own_names, "w-0", "GPU-b", "2", 9000, 500);
    assert_true(pod_value(db, "DCGM_CUSTOM_PROCESS_MEM_USED", "w-0") == 1500);
    tsdb_free(db);
}

static void test_every_way_to_name_the_owner(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    put(db, "DCGM_FI_DEV_GPU_UTIL", plain_names, "a", "GPU-a", "", 9000, 1);
    put(db, "DCGM_FI_DEV_GPU_UTIL", exported_names, "b", "GPU-b", "", 9000, 2);
    put(db, "DCGM_FI_DEV_GPU_UTIL", own_names, "c", "GPU-c", "", 9000, 3);
    assert_true(pod_value(db, "DCGM_FI_DEV_GPU_UTIL", "a") == 1);
    assert_true(pod_value(db, "DCGM_FI_DEV_GPU_UTIL", "b") == 2);
    assert_true(pod_value(db, "DCGM_FI_DEV_GPU_UTIL", "c") == 3);
    tsdb_free(db);
}

// A pod without a sample is absent, and does not pull an average down.
static void test_no_sample_is_no_zero(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    put(db, "DCGM_FI_DEV_GPU_UTIL", plain_names, "a", "GPU-a", "", 9000, 40);
    put(db, "DCGM_FI_DEV_GPU_UTIL", plain_names, "b", "GPU-b", "", 8000, 10);
    put(db, "DCGM_FI_DEV_GPU_UTIL", plain_names, "b", "GPU-b", "", 9000, tsdb_stale_marker());
    assert_true(pod_value(db, "DCGM_FI_DEV_GPU_UTIL", "b") == -1);
    struct adapter_value v;
    struct adapter_request rq = {.metric = "DCGM_FI_DEV_GPU_UTIL", .ns = "ml", .now_ms = 10000};
    assert_true(adapter_collect_namespace(db, &rq, &v));
    assert_true(v.value == 40);
    assert_int_equal(v.t_ms, 9000);
    rq.ns = "other";
    assert_false(adapter_collect_namespace(db, &rq, &v));
    assert_true(adapter_collect_node(db, &rq, "n1", &v));
    assert_false(adapter_collect_node(db, &rq, "n2", &v));
    rq.now_ms = 9000 + ADAPTER_LOOKBACK_MS;
    rq.ns = "ml";
    assert_false(adapter_collect_namespace(db, &rq, &v));
    tsdb_free(db);
}

static void put_line(struct tsdb *db, const char *job, const char *metric, const char *uuid,
                     const char *instance, const char *pid, double v)
{
    const struct metrics_label labels[] = {
        {GS_SLICE("GPU_I_ID"), gs_slice_of(instance)}, {GS_SLICE("NamespaceName"), GS_SLICE("ml")},
        {GS_SLICE("NodeName"), GS_SLICE("n1")},        {GS_SLICE("PodName"), GS_SLICE("w-0")},
        {GS_SLICE("ProcessId"), gs_slice_of(pid)},     {GS_SLICE("UUID"), gs_slice_of(uuid)},
        {GS_SLICE("__name__"), gs_slice_of(metric)},   {GS_SLICE("job"), gs_slice_of(job)},
    };
    assert_ok(tsdb_append(db, labels, GS_ARRAY_LEN(labels), 9000, v));
}

// Two jobs scrape the same exporter: processes, memory and power count once. MIG devices have
// memory of their own and repeat the power of their GPU.
static void test_device_seen_by_two_jobs(void **state)
{
    static const char *const jobs[] = {"service", "pod-monitor"};
    struct tsdb *db = tsdb_new(NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(jobs); i++) {
        put_line(db, jobs[i], "DCGM_CUSTOM_PROCESS_SM_UTIL", "GPU-a", "", "1", 30);
        put_line(db, jobs[i], "DCGM_CUSTOM_PROCESS_SM_UTIL", "GPU-a", "", "2", 20);
        put_line(db, jobs[i], "DCGM_CUSTOM_PROCESS_MEM_USED", "GPU-a", "1", "1", 1000);
        put_line(db, jobs[i], "DCGM_CUSTOM_PROCESS_MEM_USED", "GPU-a", "2", "3", 500);
        put_line(db, jobs[i], "DCGM_FI_DEV_FB_USED", "GPU-a", "1", "", 2000);
        put_line(db, jobs[i], "DCGM_FI_DEV_FB_USED", "GPU-a", "2", "", 600);
        put_line(db, jobs[i], "DCGM_FI_DEV_POWER_USAGE", "GPU-a", "1", "", 300);
        put_line(db, jobs[i], "DCGM_FI_DEV_POWER_USAGE", "GPU-a", "2", "", 300);
        put_line(db, jobs[i], "DCGM_FI_DEV_FB_USED_PERCENT", "GPU-a", "1", "", 0.25);
        put_line(db, jobs[i], "DCGM_FI_DEV_FB_USED_PERCENT", "GPU-a", "2", "", 0.75);
    }
    static const struct {
        const char *metric;
        double want;
    } cases[] = {{"DCGM_CUSTOM_PROCESS_SM_UTIL", 50},
                 {"DCGM_CUSTOM_PROCESS_MEM_USED", 1500},
                 {"DCGM_FI_DEV_FB_USED", 2600},
                 {"DCGM_FI_DEV_POWER_USAGE", 300},
                 {"DCGM_FI_DEV_FB_USED_PERCENT", 0.5}};
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct adapter_value v = {0};
        const struct adapter_request rq = {.metric = cases[i].metric, .now_ms = 10000};
        assert_true(pod_value(db, cases[i].metric, "w-0") == cases[i].want);
        assert_true(adapter_collect_node(db, &rq, "n1", &v));
        assert_true(v.value == cases[i].want);
    }
    tsdb_free(db);
}

static void put_event(struct tsdb *db, const char *job, const char *metric, const char *uuid,
                      const char *kind, const char *which, double v)
{
    const struct metrics_label labels[] = {
        {GS_SLICE("NodeName"), GS_SLICE("n1")},      {GS_SLICE("UUID"), gs_slice_of(uuid)},
        {GS_SLICE("__name__"), gs_slice_of(metric)}, {gs_slice_of(kind), gs_slice_of(which)},
        {GS_SLICE("job"), gs_slice_of(job)},         {GS_SLICE("namespace"), GS_SLICE("ml")},
        {GS_SLICE("pod"), GS_SLICE("w-0")},
    };
    assert_ok(tsdb_append(db, labels, GS_ARRAY_LEN(labels), 9000, v));
}

// A line for each XID and for each clock event of a device: together they are its value.
static void test_kinds_of_events_add_up(void **state)
{
    static const char *const jobs[] = {"service", "pod-monitor"};
    static const char xids[] = "DCGM_EXP_XID_ERRORS_COUNT",
                      clocks[] = "DCGM_EXP_CLOCK_EVENTS_TOTAL";
    struct tsdb *db = tsdb_new(NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(jobs); i++) {
        put_event(db, jobs[i], xids, "GPU-a", "xid", "13", 3);
        put_event(db, jobs[i], xids, "GPU-a", "xid", "31", 2);
        put_event(db, jobs[i], xids, "GPU-b", "xid", "", 0);
        put_event(db, jobs[i], clocks, "GPU-a", "clock_event", "gpu_idle", 5);
        put_event(db, jobs[i], clocks, "GPU-a", "clock_event", "power_cap", 7);
        put_event(db, jobs[i], clocks, "GPU-b", "clock_event", "power_cap", 1);
    }
    assert_true(pod_value(db, xids, "w-0") == 5);
    assert_true(pod_value(db, clocks, "w-0") == 13);
    tsdb_free(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utilisation_of_processes_and_devices),
        cmocka_unit_test(test_memory_adds_up),
        cmocka_unit_test(test_every_way_to_name_the_owner),
        cmocka_unit_test(test_no_sample_is_no_zero),
        cmocka_unit_test(test_device_seen_by_two_jobs),
        cmocka_unit_test(test_kinds_of_events_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
