// SPDX-License-Identifier: Apache-2.0
#include "cluster_harness.h"
#include "local/workloads.h"

static struct local_workloads *w;

static void setup(struct cluster *k)
{
    cluster_open(k);
    w = controllers_workloads_new(k->c);
}

static void finish(struct cluster *k)
{
    controllers_workloads_free(w);
    cluster_close(k);
}

#define CRONJOB(schedule, extra)                                                                   \
    "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: tick}\nspec:\n"                         \
    "  schedule: '" schedule "'\n" extra                                                           \
    "  jobTemplate:\n    metadata: {labels: {a: b}}\n    spec:\n      template:\n"                 \
    "        spec: {restartPolicy: Never, containers: [{name: c, image: x}]}\n"

static const json_t *cronjob(struct cluster *k)
{
    return kube_cache_get(k->c->cronjobs, "default", "tick");
}

static const json_t *any_job(struct cluster *k)
{
    return kube_cache_next(k->c->jobs, &(size_t){0});
}

static size_t active(struct cluster *k)
{
    return json_array_size(codec_json_get(cronjob(k), "status", "active", NULL));
}

static void end_pods(struct cluster *k, const char *phase)
{
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(k->c->pods, &pos)))
        if (pod_serves(pod)) {
            GS_AUTO_FREE char *status = gs_format("status: {phase: %s}", phase);
            cluster_patch(k, KUBE_PODS, kube_name(pod), "status", status);
            return;
        }
}

static void test_a_job_is_created_at_each_time(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_CRONJOBS, CRONJOB("@every 1s", ""));
    loop_until(&k.loop, cluster_pods(&k, pod_serves) > 0 && active(&k) > 0);
    const json_t *job = any_job(&k);
    assert_string_equal(kube_label(job, "a"), "b");
    assert_true(gs_starts(kube_name(job), "tick-"));
    assert_string_equal(codec_json_str(kube_controller_ref(job), "kind", NULL), "CronJob");
    assert_non_null(kube_annotation(job, "batch.kubernetes.io/cronjob-scheduled-timestamp"));
    assert_non_null(codec_json_str(cronjob(&k), "status", "lastScheduleTime", NULL));
    cluster_patch(&k, KUBE_CRONJOBS, "tick", NULL, "spec: {suspend: true}");
    loop_until(&k.loop, cluster_pods(&k, pod_serves) > 0);
    while (active(&k) > 0) {
        end_pods(&k, "Succeeded");
        loop_for_ms(&k.loop, 20);
    }
    loop_until(&k.loop, codec_json_str(cronjob(&k), "status", "lastSuccessfulTime", NULL));
    assert_true(cluster_event(&k, "SuccessfulCreate", "Created job tick-"));
    loop_until(&k.loop, cluster_event(&k, "SawCompletedJob", "condition: Complete"));
    cluster_delete(&k, KUBE_CRONJOBS, "default", "tick");
    loop_until(&k.loop, kube_cache_len(k.c->jobs) == 0 && cluster_pods(&k, NULL) == 0);
    finish(&k);
}

static void test_suspended_schedules_create_nothing(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_CRONJOBS, CRONJOB("@every 1s", "  suspend: true\n"));
    loop_for_ms(&k.loop, 1500);
    assert_int_equal(kube_cache_len(k.c->jobs), 0);
    finish(&k);
}

static void test_forbid_waits_for_the_previous_job(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_CRONJOBS, CRONJOB("@every 1s", "  concurrencyPolicy: Forbid\n"));
    loop_until(&k.loop, active(&k) == 1);
    loop_until(&k.loop, cluster_event(&k, "JobAlreadyActive", "concurrency policy is Forbid"));
    assert_int_equal(kube_cache_len(k.c->jobs), 1);
    finish(&k);
}

static void test_finished_jobs_are_limited(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_CRONJOBS,
                   CRONJOB("@every 1s", "  successfulJobsHistoryLimit: 0\n"
                                        "  concurrencyPolicy: Forbid\n"));
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 1);
    cluster_patch(&k, KUBE_CRONJOBS, "tick", NULL, "spec: {suspend: true}");
    end_pods(&k, "Succeeded");
    loop_until(&k.loop, kube_cache_len(k.c->jobs) == 0 && cluster_pods(&k, NULL) == 0);
    assert_true(cluster_event(&k, "SuccessfulDelete", "Deleted job tick-"));
    finish(&k);
}

static void test_missed_times_are_made_up_once(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_CRONJOBS, CRONJOB("@yearly", "  suspend: true\n"));
    cluster_patch(&k, KUBE_CRONJOBS, "tick", "status",
                  "status: {lastScheduleTime: '2020-06-01T00:00:00Z'}");
    cluster_patch(&k, KUBE_CRONJOBS, "tick", NULL, "spec: {suspend: false}");
    loop_until(&k.loop, kube_cache_len(k.c->jobs) == 1 && active(&k) == 1);
    loop_for_ms(&k.loop, 100);
    assert_int_equal(kube_cache_len(k.c->jobs), 1);
    finish(&k);
}

static void test_late_jobs_are_not_started_after_the_deadline(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_CRONJOBS,
                   CRONJOB("@yearly", "  suspend: true\n  startingDeadlineSeconds: 30\n"));
    cluster_patch(&k, KUBE_CRONJOBS, "tick", "status",
                  "status: {lastScheduleTime: '2020-06-01T00:00:00Z'}");
    cluster_patch(&k, KUBE_CRONJOBS, "tick", NULL, "spec: {suspend: false}");
    loop_until(&k.loop, cluster_event(&k, "MissSchedule", "Missed scheduled time to start a job"));
    assert_int_equal(kube_cache_len(k.c->jobs), 0);
    finish(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_is_created_at_each_time),
        cmocka_unit_test(test_suspended_schedules_create_nothing),
        cmocka_unit_test(test_forbid_waits_for_the_previous_job),
        cmocka_unit_test(test_finished_jobs_are_limited),
        cmocka_unit_test(test_missed_times_are_made_up_once),
        cmocka_unit_test(test_late_jobs_are_not_started_after_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
