// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "local/cluster_harness.h"
#include "tsdb/tsdb.h"
#include "up/up_private.h"

#define L(n, v)                                                                                    \
    {                                                                                              \
        GS_SLICE(n), gs_slice_of(v)                                                                \
    }

static void put(struct tsdb *db, const char *metric, const char *job, const char *uuid, int64_t t,
                double v)
{
    const struct metrics_label labels[] = {
        L("UUID", uuid),      L("__name__", metric), L("exported_pod", "web-0"),
        L("instance", "a:1"), L("job", job),         L("namespace", "default"),
        L("pod", "dcgm-x")};
    assert_ok(tsdb_append(db, labels, GS_ARRAY_LEN(labels), t, v));
}

static void test_only_metrics_of_own_gpus_are_duplicates(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct up_duplicates *d = up_duplicates_new(db);
    put(db, "A", UP_EXPORTER_JOB, "GPU-1", 1000, 1);
    assert_false(up_duplicates_update(d, 1000));
    put(db, "A", "dcgm-exporter", "GPU-of-another-machine", 1000, 1);
    assert_false(up_duplicates_update(d, 1000));
    put(db, "B", "dcgm-exporter", "GPU-1", 1000, 1);
    put(db, "A", "dcgm-exporter", "GPU-1", 1000, 1);
    assert_true(up_duplicates_update(d, 1000));
    assert_string_equal(up_duplicates_pattern(d), "(A|B);(GPU-1)");
    GS_AUTO_FREE char *text = up_duplicates_text(d);
    assert_string_equal(text, "pod default/dcgm-x (job dcgm-exporter) reports 1 GPU of this "
                              "machine: of gpuscale's own exporter, the same metrics are not "
                              "stored, so that no GPU counts twice");
    assert_false(up_duplicates_update(d, 1000));
    up_duplicates_free(d);
    tsdb_free(db);
}

static void test_duplicates_end_with_the_last_target(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct up_duplicates *d = up_duplicates_new(db);
    put(db, "A", UP_EXPORTER_JOB, "GPU-1", 1000, 1);
    put(db, "A", "x", "GPU-1", 1000, 1);
    put(db, "B", "x", "GPU-1", 1000, 1);
    assert_true(up_duplicates_update(d, 1000));
    // A metric of a process that ended stays hidden, so that the configuration does not change.
    put(db, "B", "x", "GPU-1", 2000, tsdb_stale_marker());
    assert_false(up_duplicates_update(d, 2000));
    put(db, "A", "x", "GPU-1", 3000, tsdb_stale_marker());
    assert_true(up_duplicates_update(d, 3000));
    assert_null(up_duplicates_pattern(d));
    GS_AUTO_FREE char *text = up_duplicates_text(d);
    assert_non_null(strstr(text, "stored again"));
    up_duplicates_free(d);
    tsdb_free(db);
}

static void put_pod(struct tsdb *db, const char *instance, const char *uid, int64_t t, double v)
{
    const struct metrics_label labels[] = {
        L("__name__", "kube_pod_info"), L("instance", instance), L("job", "kube-state-metrics"),
        L("namespace", "default"),      L("pod", "web-0"),       L("uid", uid)};
    assert_ok(tsdb_append(db, labels, GS_ARRAY_LEN(labels), t, v));
}

static void test_another_state_of_the_own_pods_is_found(void **state)
{
    struct cluster k;
    struct tsdb *db = tsdb_new(NULL);
    cluster_open(&k);
    cluster_create(&k, KUBE_PODS,
                   "{apiVersion: v1, kind: Pod, metadata: {name: web-0}, spec: {containers: "
                   "[{name: c, image: i}]}}");
    loop_until(&k.loop, kube_cache_get(k.c->pods, "default", "web-0"));
    const char *uid = kube_uid(kube_cache_get(k.c->pods, "default", "web-0"));
    put_pod(db, "gpuscale", uid, 1000, 1);
    put_pod(db, "other-cluster:8080", "another", 1000, 1);
    assert_null(up_duplicates_kube_state(db, k.c->pods, 1000));
    put_pod(db, "127.64.0.1:8080", uid, 1000, 1);
    GS_AUTO_FREE char *who = up_duplicates_kube_state(db, k.c->pods, 1000);
    assert_string_equal(who, "127.64.0.1:8080 (job kube-state-metrics)");
    put_pod(db, "127.64.0.1:8080", uid, 2000, tsdb_stale_marker());
    assert_null(up_duplicates_kube_state(db, k.c->pods, 2000));
    cluster_close(&k);
    tsdb_free(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_metrics_of_own_gpus_are_duplicates),
        cmocka_unit_test(test_duplicates_end_with_the_last_target),
        cmocka_unit_test(test_another_state_of_the_own_pods_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
