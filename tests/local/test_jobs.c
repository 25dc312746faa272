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

#define JOB(extra)                                                                                 \
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec:\n" extra                       \
    "  template:\n    spec: {restartPolicy: Never, containers: [{name: c, image: x}]}\n"
#define LONG_AGO  "2020-01-01T00:00:00Z"
#define SUCCEEDED "status: {phase: Succeeded}"
#define FAILED_WITH(code)                                                                          \
    "status: {phase: Failed, containerStatuses: [{name: c, image: x, imageID: '', ready: false, "  \
    "restartCount: 0, state: {terminated: {exitCode: " code ", finishedAt: '" LONG_AGO "'}}}]}"

static const json_t *job(struct cluster *k)
{
    return kube_cache_get(k->c->jobs, "default", "once");
}

static int64_t number(struct cluster *k, const char *field)
{
    return codec_json_int(job(k), 0, "status", field, NULL);
}

// An active pod, with this completion index; NULL index: any.
static const json_t *running(struct cluster *k, const char *index)
{
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(k->c->pods, &pos)))
        if (pod_serves(pod) &&
            (!index ||
             gs_streq(kube_label(pod, "batch.kubernetes.io/job-completion-index"), index)))
            return pod;
    return NULL;
}

static void end_pod(struct cluster *k, const char *index, const char *status)
{
    loop_until(&k->loop, running(k, index));
    GS_AUTO_FREE char *name = gs_strdup(kube_name(running(k, index)));
    cluster_patch(k, KUBE_PODS, name, "status", status);
    loop_until(&k->loop, !running(k, index) || strcmp(kube_name(running(k, index)), name) != 0 ||
                             kube_pod_has_ended(kube_cache_get(k->c->pods, "default", name)));
}

static bool has(struct cluster *k, const char *condition, const char *reason)
{
    return kube_condition_true(job(k), condition) &&
           strcmp(cluster_reason(job(k), condition), reason) == 0;
}

static void test_a_job_runs_its_pod_once(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS, JOB(""));
    loop_until(&k.loop, running(&k, NULL) && number(&k, "active") == 1 && number(&k, "ready") == 1);
    const json_t *pod = running(&k, NULL);
    assert_string_equal(kube_label(pod, "job-name"), "once");
    assert_string_equal(kube_label(pod, "batch.kubernetes.io/job-name"), "once");
    assert_string_equal(kube_label(pod, "batch.kubernetes.io/controller-uid"), kube_uid(job(&k)));
    assert_string_equal(kube_label(job(&k), "job-name"), "once");
    assert_non_null(codec_json_str(job(&k), "status", "startTime", NULL));
    end_pod(&k, NULL, SUCCEEDED);
    loop_until(&k.loop, has(&k, "Complete", "CompletionsReached"));
    assert_true(has(&k, "SuccessCriteriaMet", "CompletionsReached"));
    assert_non_null(codec_json_str(job(&k), "status", "completionTime", NULL));
    assert_int_equal(number(&k, "succeeded"), 1);
    assert_int_equal(number(&k, "active"), 0);
    assert_int_equal(cluster_pods(&k, NULL), 1);
    assert_true(cluster_event(&k, "SuccessfulCreate", "Created pod: once-"));
    assert_true(cluster_event(&k, "Completed", "Job completed"));
    // The end is final, even without its pods.
    cluster_delete(&k, KUBE_PODS, "default", kube_name(kube_cache_next(k.c->pods, &(size_t){0})));
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0);
    loop_for_ms(&k.loop, 100);
    assert_int_equal(cluster_pods(&k, NULL), 0);
    cluster_delete(&k, KUBE_JOBS, "default", "once");
    finish(&k);
}

static void test_parallelism_limits_running_pods(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS, JOB("  completions: 5\n  parallelism: 2\n"));
    for (int64_t i = 0; i < 5; i++) {
        int64_t expected = 5 - i < 2 ? 5 - i : 2;
        loop_until(&k.loop, (int64_t)cluster_pods(&k, pod_serves) == expected &&
                                number(&k, "succeeded") == i);
        end_pod(&k, NULL, SUCCEEDED);
    }
    loop_until(&k.loop, has(&k, "Complete", "CompletionsReached"));
    assert_int_equal(number(&k, "succeeded"), 5);
    finish(&k);
}

static void test_failures_beyond_the_limit_fail_the_job(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS, JOB("  backoffLimit: 1\n"));
    end_pod(&k, NULL, FAILED_WITH("3"));
    loop_until(&k.loop, number(&k, "failed") == 1);
    end_pod(&k, NULL, FAILED_WITH("3"));
    loop_until(&k.loop, has(&k, "Failed", "BackoffLimitExceeded"));
    assert_true(has(&k, "FailureTarget", "BackoffLimitExceeded"));
    assert_string_equal(codec_json_str(kube_condition(job(&k), "Failed"), "message", NULL),
                        "Job has reached the specified backoff limit");
    assert_int_equal(number(&k, "failed"), 2);
    assert_null(codec_json_str(job(&k), "status", "completionTime", NULL));
    assert_true(cluster_event(&k, "BackoffLimitExceeded", "Job has reached the specified backoff"));
    finish(&k);
}

// Images never arrive here. A hook of a Helm release would hold its client until the timeout.
static void test_a_job_without_an_image_fails(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS, JOB(""));
    loop_until(&k.loop, running(&k, NULL));
    cluster_patch(&k, KUBE_PODS, kube_name(running(&k, NULL)), "status",
                  "status: {containerStatuses: [{name: c, image: example.com/x, imageID: '', "
                  "ready: false, restartCount: 0, state: {waiting: {reason: ImagePullBackOff}}}]}");
    loop_until(&k.loop, has(&k, "Failed", "ImageNotAvailable"));
    assert_true(cluster_event(&k, "ImageNotAvailable",
                              "nothing runs in place of the image example.com/x on this machine"));
    assert_int_equal(number(&k, "active"), 0);
    finish(&k);
}

static void test_a_failed_pod_is_replaced_after_a_pause(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS, JOB(""));
    char now[GS_RFC3339_SIZE];
    gs_format_rfc3339(gs_unix_ms() + 3600 * 1000, now);
    GS_AUTO_FREE char *status = gs_format(
        "status: {phase: Failed, containerStatuses: [{name: c, image: x, imageID: '', ready: "
        "false, restartCount: 0, state: {terminated: {exitCode: 1, finishedAt: '%s'}}}]}",
        now);
    end_pod(&k, NULL, status);
    loop_until(&k.loop, number(&k, "failed") == 1);
    loop_for_ms(&k.loop, 100);
    assert_int_equal(cluster_pods(&k, pod_serves), 0);
    finish(&k);
}

static void test_the_deadline_ends_running_pods(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS, JOB("  activeDeadlineSeconds: 1\n"));
    loop_until(&k.loop, has(&k, "Failed", "DeadlineExceeded"));
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0);
    finish(&k);
}

static void test_finished_jobs_expire(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS, JOB("  ttlSecondsAfterFinished: 0\n"));
    end_pod(&k, NULL, SUCCEEDED);
    loop_until(&k.loop, !job(&k) && cluster_pods(&k, NULL) == 0);
    finish(&k);
}

static void test_suspended_jobs_have_no_pods(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS, JOB("  suspend: true\n"));
    loop_until(&k.loop, has(&k, "Suspended", "JobSuspended"));
    assert_int_equal(cluster_pods(&k, NULL), 0);
    assert_null(codec_json_str(job(&k), "status", "startTime", NULL));
    cluster_patch(&k, KUBE_JOBS, "once", NULL, "spec: {suspend: false}");
    loop_until(&k.loop, running(&k, NULL) && !kube_condition_true(job(&k), "Suspended"));
    assert_string_equal(cluster_reason(job(&k), "Suspended"), "JobResumed");
    cluster_patch(&k, KUBE_JOBS, "once", NULL, "spec: {suspend: true}");
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0);
    cluster_patch(&k, KUBE_JOBS, "once", NULL, "spec: {suspend: false}");
    end_pod(&k, NULL, SUCCEEDED);
    loop_until(&k.loop, has(&k, "Complete", "CompletionsReached"));
    assert_int_equal(number(&k, "failed"), 0); // the controller itself deleted the pod
    finish(&k);
}

static void test_indexed_jobs_run_each_index_once(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS,
                   JOB("  completionMode: Indexed\n  completions: 4\n  parallelism: 4\n"));
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 4);
    const json_t *pod = running(&k, "2");
    assert_true(gs_starts(kube_name(pod), "once-2-"));
    assert_string_equal(codec_json_str(pod, "spec", "hostname", NULL), "once-2");
    const json_t *env =
        json_object_get(json_array_get(codec_json_get(pod, "spec", "containers", NULL), 0), "env");
    assert_string_equal(codec_json_str(json_array_get(env, 0), "name", NULL),
                        "JOB_COMPLETION_INDEX");
    end_pod(&k, "3", SUCCEEDED);
    end_pod(&k, "1", SUCCEEDED);
    end_pod(&k, "2", SUCCEEDED);
    end_pod(&k, "0", FAILED_WITH("1"));
    loop_until(&k.loop, number(&k, "failed") == 1 && running(&k, "0"));
    loop_until(&k.loop,
               gs_streq(codec_json_str(job(&k), "status", "completedIndexes", NULL), "1-3"));
    end_pod(&k, "0", SUCCEEDED);
    loop_until(&k.loop, has(&k, "Complete", "CompletionsReached"));
    assert_string_equal(codec_json_str(job(&k), "status", "completedIndexes", NULL), "0-3");
    assert_int_equal(number(&k, "succeeded"), 4);
    finish(&k);
}

static void test_failed_indexes_fail_the_job_at_its_end(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS,
                   JOB("  completionMode: Indexed\n  completions: 2\n  parallelism: 2\n"
                       "  backoffLimitPerIndex: 0\n"));
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 2);
    end_pod(&k, "0", FAILED_WITH("1"));
    loop_until(&k.loop, gs_streq(codec_json_str(job(&k), "status", "failedIndexes", NULL), "0"));
    assert_int_equal(cluster_pods(&k, pod_serves), 1);
    end_pod(&k, "1", SUCCEEDED);
    loop_until(&k.loop, has(&k, "Failed", "FailedIndexes"));
    finish(&k);
}

static void test_pod_failure_policies_decide(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(
        &k, KUBE_JOBS,
        JOB("  backoffLimit: 0\n  podFailurePolicy:\n    rules:\n"
            "    - {action: Ignore, onExitCodes: {operator: In, values: [7]}}\n"
            "    - {action: FailJob, onExitCodes: {containerName: c, operator: In, values: [42]}}"
            "\n"));
    end_pod(&k, NULL, FAILED_WITH("7"));
    loop_until(&k.loop, cluster_pods(&k, NULL) == 2 && running(&k, NULL));
    assert_int_equal(number(&k, "failed"), 0);
    end_pod(&k, NULL, FAILED_WITH("42"));
    loop_until(&k.loop, has(&k, "Failed", "PodFailurePolicy"));
    const char *message = codec_json_str(kube_condition(job(&k), "Failed"), "message", NULL);
    assert_non_null(strstr(message, "Container c for pod default/once-"));
    assert_non_null(strstr(message, "failed with exit code 42 matching FailJob rule at index 1"));
    finish(&k);
}

static void test_success_policies_end_early(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS,
                   JOB("  completionMode: Indexed\n  completions: 3\n  parallelism: 3\n"
                       "  successPolicy: {rules: [{succeededIndexes: '0-1', succeededCount: 1}]}"
                       "\n"));
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 3);
    end_pod(&k, "2", SUCCEEDED);
    loop_until(&k.loop, number(&k, "succeeded") == 1);
    end_pod(&k, "1", SUCCEEDED);
    loop_until(&k.loop, has(&k, "Complete", "SuccessPolicy"));
    assert_int_equal(number(&k, "succeeded"), 2);
    loop_until(&k.loop, !running(&k, NULL));
    finish(&k);
}

static void test_counts_survive_a_restart(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS, JOB("  completions: 3\n"));
    end_pod(&k, NULL, SUCCEEDED);
    loop_until(&k.loop, number(&k, "succeeded") == 1 && running(&k, NULL));
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(k.c->pods, &pos)))
        if (kube_pod_has_ended(pod))
            break;
    cluster_delete(&k, KUBE_PODS, "default", kube_name(pod));
    loop_until(&k.loop, cluster_pods(&k, NULL) == 1);
    controllers_workloads_free(w);
    cluster_forget(&k);
    cluster_watch(&k);
    loop_until(&k.loop, local_cluster_synced(k.c));
    w = controllers_workloads_new(k.c);
    loop_for_ms(&k.loop,
                300); // until the Job is reconciled: a pod that ends before replaces another
    end_pod(&k, NULL, SUCCEEDED);
    loop_until(&k.loop, number(&k, "succeeded") == 2);
    end_pod(&k, NULL, SUCCEEDED);
    loop_until(&k.loop, has(&k, "Complete", "CompletionsReached"));
    assert_int_equal(number(&k, "succeeded"), 3);
    finish(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_runs_its_pod_once),
        cmocka_unit_test(test_parallelism_limits_running_pods),
        cmocka_unit_test(test_failures_beyond_the_limit_fail_the_job),
        cmocka_unit_test(test_a_job_without_an_image_fails),
        cmocka_unit_test(test_a_failed_pod_is_replaced_after_a_pause),
        cmocka_unit_test(test_the_deadline_ends_running_pods),
        cmocka_unit_test(test_finished_jobs_expire),
        cmocka_unit_test(test_suspended_jobs_have_no_pods),
        cmocka_unit_test(test_indexed_jobs_run_each_index_once),
        cmocka_unit_test(test_failed_indexes_fail_the_job_at_its_end),
        cmocka_unit_test(test_pod_failure_policies_decide),
        cmocka_unit_test(test_success_policies_end_early),
        cmocka_unit_test(test_counts_survive_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
