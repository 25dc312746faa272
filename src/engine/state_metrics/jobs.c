// SPDX-License-Identifier: Apache-2.0
// Metrics of Jobs and CronJobs.
#include "engine/state_metrics/state_metrics_private.h"
#include "kube/object.h"

// --- Jobs ---

static void job_info(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_begin(w);
    state_metrics_identify(w, obj, "job_name");
    state_metrics_end(w, 1);
}

// A failed Job has a sample for each reason, as in kube-state-metrics.
static void job_failures(struct state_metrics_writer *w, const json_t *obj)
{
    static const char *const reasons[] = {"BackoffLimitExceeded", "DeadlineExceeded", "Evicted"};
    const json_t *failed = kube_condition(obj, "Failed");
    const char *why = codec_json_str(failed, "reason", NULL);
    bool known = false;

    if (codec_json_int(obj, 0, "status", "failed", NULL) == 0) {
        state_metrics_number(w, obj, "job_name", 0, "status", "failed");
        return;
    }
    for (size_t i = 0; failed && i < GS_ARRAY_LEN(reasons); i++) {
        known |= gs_streq(why, reasons[i]);
        state_metrics_begin(w);
        state_metrics_identify(w, obj, "job_name");
        state_metrics_label(w, "reason", reasons[i]);
        state_metrics_flag(w, gs_streq(why, reasons[i]));
    }
    if (failed && !known)
        state_metrics_number(w, obj, "job_name", 0, "status", "failed");
}

static void job_condition(struct state_metrics_writer *w, const json_t *obj, const char *type)
{
    static const char *const states[][2] = {
        {"True", "true"}, {"False", "false"}, {"Unknown", "unknown"}};
    const char *now = codec_json_str(kube_condition(obj, type), "status", NULL);

    for (size_t i = 0; now && i < GS_ARRAY_LEN(states); i++) {
        state_metrics_begin(w);
        state_metrics_identify(w, obj, "job_name");
        state_metrics_label(w, "condition", states[i][1]);
        state_metrics_flag(w, gs_streq(now, states[i][0]));
    }
}

static void job_complete(struct state_metrics_writer *w, const json_t *obj)
{
    job_condition(w, obj, "Complete");
}

static void job_failed(struct state_metrics_writer *w, const json_t *obj)
{
    job_condition(w, obj, "Failed");
}

const struct state_metrics_family state_metrics_job_families[] = {
    {"kube_job_info", "1 for each Job.", METRICS_GAUGE, job_info},
    STATE_METRICS_LABELS("kube_job_labels", "job_name"),
    STATE_METRICS_OWNER("kube_job_owner", "The owner of a Job.", "job_name"),
    STATE_METRICS_CREATED("kube_job_created", "job_name"),
    STATE_METRICS_NUMBER("kube_job_spec_parallelism", "Maximum of pods that run at the same time.",
                         "job_name", "spec", "parallelism", -1),
    STATE_METRICS_NUMBER("kube_job_spec_completions", "Desired number of finished pods.",
                         "job_name", "spec", "completions", -1),
    STATE_METRICS_NUMBER("kube_job_spec_active_deadline_seconds", "How long the Job may run.",
                         "job_name", "spec", "activeDeadlineSeconds", -1),
    STATE_METRICS_NUMBER("kube_job_status_active", "Pods that run.", "job_name", "status", "active",
                         0),
    STATE_METRICS_NUMBER("kube_job_status_succeeded", "Pods that succeeded.", "job_name", "status",
                         "succeeded", 0),
    {"kube_job_status_failed", "Pods that failed, or 1 for the reason of the failure.",
     METRICS_GAUGE, job_failures},
    {"kube_job_complete", "1 for the status of the condition Complete.", METRICS_GAUGE,
     job_complete},
    {"kube_job_failed", "1 for the status of the condition Failed.", METRICS_GAUGE, job_failed},
    STATE_METRICS_TIME("kube_job_status_start_time", "Start time, in seconds since 1970.",
                       "job_name", "status", "startTime"),
    STATE_METRICS_TIME("kube_job_status_completion_time", "Completion time, in seconds since 1970.",
                       "job_name", "status", "completionTime"),
    {0},
};

// --- CronJobs ---

static void cronjob_info(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_begin(w);
    state_metrics_identify(w, obj, "cronjob");
    state_metrics_label(w, "schedule", codec_json_str(obj, "spec", "schedule", NULL));
    state_metrics_label(w, "concurrency_policy",
                        codec_json_str(obj, "spec", "concurrencyPolicy", NULL));
    state_metrics_label(w, "timezone", codec_json_str(obj, "spec", "timeZone", NULL));
    state_metrics_end(w, 1);
}

static void cronjob_suspend(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_begin(w);
    state_metrics_identify(w, obj, "cronjob");
    state_metrics_flag(w, codec_json_bool(obj, false, "spec", "suspend", NULL));
}

static void cronjob_active(struct state_metrics_writer *w, const json_t *obj)
{
    state_metrics_begin(w);
    state_metrics_identify(w, obj, "cronjob");
    state_metrics_end(w, (double)json_array_size(codec_json_get(obj, "status", "active", NULL)));
}

const struct state_metrics_family state_metrics_cronjob_families[] = {
    {"kube_cronjob_info", "Schedule and policy of a CronJob.", METRICS_GAUGE, cronjob_info},
    STATE_METRICS_LABELS("kube_cronjob_labels", "cronjob"),
    STATE_METRICS_CREATED("kube_cronjob_created", "cronjob"),
    {"kube_cronjob_status_active", "Jobs of the CronJob that run.", METRICS_GAUGE, cronjob_active},
    STATE_METRICS_TIME("kube_cronjob_status_last_schedule_time",
                       "Last start of a Job, in seconds since 1970.", "cronjob", "status",
                       "lastScheduleTime"),
    STATE_METRICS_TIME("kube_cronjob_status_last_successful_time",
                       "Last success of a Job, in seconds since 1970.", "cronjob", "status",
                       "lastSuccessfulTime"),
    {"kube_cronjob_spec_suspend", "1 when the CronJob is suspended.", METRICS_GAUGE,
     cronjob_suspend},
    STATE_METRICS_NUMBER("kube_cronjob_spec_starting_deadline_seconds", "How late a Job may start.",
                         "cronjob", "spec", "startingDeadlineSeconds", -1),
    STATE_METRICS_NUMBER("kube_cronjob_spec_successful_job_history_limit",
                         "Successful Jobs that are kept.", "cronjob", "spec",
                         "successfulJobsHistoryLimit", -1),
    STATE_METRICS_NUMBER("kube_cronjob_spec_failed_job_history_limit", "Failed Jobs that are kept.",
                         "cronjob", "spec", "failedJobsHistoryLimit", -1),
    {0},
};
