// SPDX-License-Identifier: Apache-2.0
// The CronJob controller creates a Job at each time of the schedule and deletes old Jobs.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"
#include "local/cron.h"
#include "local/pod.h"

#include <time.h>

#define MANY_MISSED        100
#define LONGEST_WAIT_MS    (60 * 60 * 1000) // a changed clock is noticed after this time
#define SUCCESSFUL_HISTORY 3
#define FAILED_HISTORY     1
#define SCHEDULED_ANN      "batch.kubernetes.io/cronjob-scheduled-timestamp"

struct controllers_cronjobs {
    struct local_cluster *cluster;
    struct kube_recorder *recorder;
    struct local_workqueue *queue;
};

struct cron_sync {
    struct controllers_cronjobs *d;
    struct local_reconcile *work;
    const json_t *cronjob;
    struct controllers_pods jobs; // the Jobs of the CronJob, oldest first
    struct controllers_pods active;
    struct local_cron schedule;
    struct local_timezone *zone; // NULL: the zone of the process
    json_t *status;              // under construction
    int64_t now_s;
};

static void sync_finish(struct cron_sync *s)
{
    controllers_pods_finish(&s->jobs);
    controllers_pods_finish(&s->active);
    local_timezone_free(s->zone);
    json_decref(s->status);
}

static const char *finished_as(const json_t *job)
{
    return kube_condition_true(job, "Complete") ? "Complete"
           : kube_condition_true(job, "Failed") ? "Failed"
                                                : NULL;
}

// --- the Jobs of a CronJob ---

static void read_jobs(struct cron_sync *s)
{
    size_t pos = 0;
    const json_t *job;
    while ((job = kube_cache_next(s->d->cluster->jobs, &pos))) {
        const json_t *owner = kube_controller_ref(job);
        if (gs_streq(kube_namespace(job), kube_namespace(s->cronjob)) && owner &&
            gs_streq(codec_json_str(owner, "uid", NULL), kube_uid(s->cronjob)))
            controllers_pods_add(&s->jobs, job);
    }
    controllers_pods_sort_by_age(&s->jobs);
    for (size_t i = 0; i < s->jobs.len; i++)
        if (!finished_as(s->jobs.items[i]))
            controllers_pods_add(&s->active, s->jobs.items[i]);
}

static bool was_active(const struct cron_sync *s, const json_t *job)
{
    size_t i;
    json_t *ref;
    json_array_foreach (codec_json_get(s->cronjob, "status", "active", NULL), i, ref) {
        if (gs_streq(codec_json_str(ref, "uid", NULL), kube_uid(job)))
            return true;
    }
    return false;
}

static void note_end(struct cron_sync *s, const json_t *job)
{
    const char *as = finished_as(job);
    const char *end = codec_json_str(job, "status", "completionTime", NULL);
    const json_t *last = json_object_get(s->status, "lastSuccessfulTime");
    if (!as)
        return;
    if (was_active(s, job))
        kube_event(s->d->recorder, s->cronjob, "Normal", "SawCompletedJob",
                   "Saw completed job: %s, condition: %s", kube_name(job), as);
    if (strcmp(as, "Complete") == 0 && end &&
        kube_time_ms(json_object_get(json_object_get(job, "status"), "completionTime"), 0) >
            kube_time_ms(last, 0))
        codec_json_set_str(s->status, "lastSuccessfulTime", end);
}

static void list_active(struct cron_sync *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->active.len; i++) {
        const json_t *job = s->active.items[i];
        json_t *ref = json_object();
        codec_json_set_str(ref, "kind", "Job");
        codec_json_set_str(ref, "namespace", kube_namespace(job));
        codec_json_set_str(ref, "name", kube_name(job));
        codec_json_set_str(ref, "uid", kube_uid(job));
        codec_json_set_str(ref, "apiVersion", "batch/v1");
        codec_json_set_str(ref, "resourceVersion", kube_resource_version(job));
        json_array_append_new(list, ref);
    }
    // The version of a Job changes with each of its pods: that alone is no news.
    const json_t *old = json_object_get(s->status, "active");
    bool same = json_array_size(old) == s->active.len;
    for (size_t i = 0; same && i < s->active.len; i++)
        same = was_active(s, s->active.items[i]);
    if (same || json_array_size(list) == 0)
        json_decref(list);
    if (!same && s->active.len == 0)
        json_object_del(s->status, "active");
    else if (!same)
        json_object_set_new(s->status, "active", list);
}

static void delete_job(struct cron_sync *s, const json_t *job)
{
    if (kube_is_deleting(job))
        return;
    local_reconcile_delete(s->work, KUBE_JOBS, kube_namespace(job), kube_name(job), NULL, NULL);
    local_reconcile_event(s->work, s->d->recorder, s->cronjob, "SuccessfulDelete", "Deleted job %s",
                          kube_name(job));
}

static void delete_old_jobs(struct cron_sync *s, const char *as, const char *key, int64_t fallback)
{
    int64_t limit = codec_json_int(s->cronjob, fallback, "spec", key, NULL), n = 0;
    for (size_t i = 0; i < s->jobs.len; i++)
        n += gs_streq(finished_as(s->jobs.items[i]), as);
    for (size_t i = 0; i < s->jobs.len && n > limit; i++)
        if (gs_streq(finished_as(s->jobs.items[i]), as)) {
            delete_job(s, s->jobs.items[i]);
            n--;
        }
}

// --- creation ---

struct creation {
    struct controllers_cronjobs *d;
    struct local_reconcile *work;
    json_t *cronjob, *status;
};

static void creation_free(struct creation *c)
{
    json_decref(c->cronjob);
    json_decref(c->status);
    free(c);
}

// The schedule's time counts as used after its Job exists, so that a failed creation is retried.
static void created(void *arg, const json_t *body, const struct gs_error *err)
{
    struct creation *c = arg;
    if (!err || gs_error_code(err) == GS_EEXIST)
        controllers_write_status(c->work, KUBE_CRONJOBS, c->cronjob, c->status);
    else
        kube_event(c->d->recorder, c->cronjob, "Warning", "FailedCreate", "Error creating job: %s",
                   gs_error_message(err));
    creation_free(c);
}

static json_t *make_job(const struct cron_sync *s, int64_t at_s)
{
    static const char *const copied[] = {"labels", "annotations"};
    const json_t *template = codec_json_get(s->cronjob, "spec", "jobTemplate", NULL);
    json_t *job = json_object(), *spec = json_object_get(template, "spec");
    GS_AUTO_FREE char *name = gs_format("%s-%lld", kube_name(s->cronjob), (long long)(at_s / 60));
    char time[GS_RFC3339_SIZE];
    codec_json_set_str(job, "apiVersion", "batch/v1");
    codec_json_set_str(job, "kind", "Job");
    codec_json_set(job, json_string(name), "metadata", "name", NULL);
    codec_json_set(job, json_string(kube_namespace(s->cronjob)), "metadata", "namespace", NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(copied); i++) {
        json_t *v = codec_json_get(template, "metadata", copied[i], NULL);
        if (json_is_object(v))
            codec_json_set(job, json_deep_copy(v), "metadata", copied[i], NULL);
    }
    codec_json_set(job, json_string(gs_format_rfc3339(at_s * 1000, time)), "metadata",
                   "annotations", SCHEDULED_ANN, NULL);
    codec_json_set(job, json_pack("[o]", kube_make_controller_ref(s->cronjob)), "metadata",
                   "ownerReferences", NULL);
    json_object_set_new(job, "spec", spec ? json_deep_copy(spec) : json_object());
    return job;
}

static void create_job(struct cron_sync *s, int64_t at_s)
{
    char time[GS_RFC3339_SIZE];
    CODEC_AUTO_JSON json_t *job = make_job(s, at_s);
    codec_json_set_str(s->status, "lastScheduleTime", gs_format_rfc3339(at_s * 1000, time));
    struct creation *c = gs_alloc(sizeof(*c));
    *c = (struct creation){s->d, s->work, json_incref((json_t *)s->cronjob),
                           json_deep_copy(s->status)};
    local_reconcile_create(s->work, KUBE_JOBS, kube_namespace(s->cronjob), job, created, c);
    local_reconcile_event(s->work, s->d->recorder, s->cronjob, "SuccessfulCreate", "Created job %s",
                          kube_name(job));
}

// --- times ---

static void wait_for_next(struct cron_sync *s)
{
    int64_t next = local_cron_next(&s->schedule, s->zone, s->now_s);
    int64_t wait_ms = next * 1000 - gs_unix_ms();
    if (next)
        local_reconcile_requeue(s->work, wait_ms < 0                 ? 0
                                         : wait_ms < LONGEST_WAIT_MS ? wait_ms + 10
                                                                     : LONGEST_WAIT_MS);
}

static bool read_schedule(struct cron_sync *s)
{
    const char *text = codec_json_str(s->cronjob, "spec", "schedule", NULL);
    const char *zone = codec_json_str(s->cronjob, "spec", "timeZone", NULL);
    GS_AUTO_ERROR struct gs_error *err = local_cron_parse(gs_slice_of(text), &s->schedule);
    if (err) {
        kube_event(s->d->recorder, s->cronjob, "Warning", "UnparseableCronJobSchedule",
                   "unparseable schedule: \"%s\": %s", text ? text : "", gs_error_message(err));
        return false;
    }
    if (zone)
        err = local_timezone_load(zone, &s->zone);
    if (err)
        kube_event(s->d->recorder, s->cronjob, "Warning", "UnknownTimeZone",
                   "invalid timeZone: \"%s\": %s", zone, gs_error_message(err));
    return !err;
}

// The last time of the schedule that has no Job yet; 0: none.
static int64_t due_time(struct cron_sync *s)
{
    int64_t deadline = codec_json_int(s->cronjob, -1, "spec", "startingDeadlineSeconds", NULL);
    const json_t *since = json_object_get(s->status, "lastScheduleTime");
    if (!since)
        since = codec_json_get(s->cronjob, "metadata", "creationTimestamp", NULL);
    int64_t from = kube_time_ms(since, 0) / 1000, missed;
    bool late = deadline >= 0 && deadline < s->now_s && s->now_s - deadline > from;
    int64_t at = local_cron_latest(&s->schedule, s->zone, late ? s->now_s - deadline - 1 : from,
                                   s->now_s, &missed);
    if (at && missed > MANY_MISSED)
        kube_event(s->d->recorder, s->cronjob, "Warning", "TooManyMissedTimes",
                   "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
                   "check clock skew");
    if (at || !late)
        return at;
    at = local_cron_latest(&s->schedule, s->zone, from, s->now_s, &missed);
    if (at) { // older than the deadline: reported once, and counted as done
        char text[64] = "";
        time_t t = (time_t)at;
        struct tm tm;
        if (gmtime_r(&t, &tm))
            (void)strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S +0000", &tm);
        kube_event(s->d->recorder, s->cronjob, "Warning", "MissSchedule",
                   "Missed scheduled time to start a job: %s", text);
        char time[GS_RFC3339_SIZE];
        codec_json_set_str(s->status, "lastScheduleTime", gs_format_rfc3339(at * 1000, time));
    }
    return 0;
}

// True: a Job is created, and its callback writes the status.
static bool run_due(struct cron_sync *s)
{
    const char *policy = codec_json_str(s->cronjob, "spec", "concurrencyPolicy", NULL);
    int64_t at = due_time(s);
    if (!at)
        return false;
    if (gs_streq(policy, "Forbid") && s->active.len > 0) {
        kube_event(s->d->recorder, s->cronjob, "Normal", "JobAlreadyActive",
                   "Not starting job because prior execution is running and concurrency policy is "
                   "Forbid");
        return false;
    }
    for (size_t i = 0; gs_streq(policy, "Replace") && i < s->active.len; i++)
        delete_job(s, s->active.items[i]);
    create_job(s, at);
    return true;
}

// --- one CronJob ---

static void sync_cronjob(void *arg, struct local_reconcile *w, const char *ns, const char *name)
{
    struct controllers_cronjobs *d = arg;
    if (!local_cluster_synced(d->cluster)) {
        local_reconcile_requeue(w, 100);
        return;
    }
    const json_t *cronjob = kube_cache_get(d->cluster->cronjobs, ns, name);
    if (!cronjob || kube_is_deleting(cronjob))
        return;
    const json_t *status = json_object_get(cronjob, "status");
    GS_CLEANUP(sync_finish)
    struct cron_sync s = {.d = d,
                          .work = w,
                          .cronjob = cronjob,
                          .status = json_is_object(status) ? json_deep_copy(status) : json_object(),
                          .now_s = gs_unix_ms() / 1000};
    bool creates = false;
    read_jobs(&s);
    for (size_t i = 0; i < s.jobs.len; i++)
        note_end(&s, s.jobs.items[i]);
    list_active(&s);
    delete_old_jobs(&s, "Complete", "successfulJobsHistoryLimit", SUCCESSFUL_HISTORY);
    delete_old_jobs(&s, "Failed", "failedJobsHistoryLimit", FAILED_HISTORY);
    if (!codec_json_bool(cronjob, false, "spec", "suspend", NULL) &&
        !local_namespace_goes(d->cluster, ns) && read_schedule(&s)) {
        creates = run_due(&s);
        wait_for_next(&s);
    }
    if (!creates)
        controllers_write_status(w, KUBE_CRONJOBS, cronjob, s.status);
}

static void cronjob_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct controllers_cronjobs *d = arg;
    if (new_obj)
        local_workqueue_add_object(d->queue, new_obj);
}

static void job_changed(void *arg, const json_t *old_job, const json_t *new_job)
{
    struct controllers_cronjobs *d = arg;
    const json_t *job = new_job ? new_job : old_job, *owner = kube_controller_ref(job);
    if (gs_streq(codec_json_str(owner, "kind", NULL), "CronJob"))
        local_workqueue_add(d->queue, kube_namespace(job), codec_json_str(owner, "name", NULL));
}

struct controllers_cronjobs *controllers_cronjobs_new(struct local_cluster *c)
{
    struct controllers_cronjobs *d = gs_alloc(sizeof(*d));
    d->cluster = c;
    d->recorder = kube_recorder_new(c->client, "cronjob-controller", NULL);
    d->queue = local_workqueue_new(c->loop, c->client, "cronjob", sync_cronjob, d);
    struct kube_cache_handlers of_cronjobs = {.on_change = cronjob_changed, .arg = d};
    struct kube_cache_handlers of_jobs = {.on_change = job_changed, .arg = d};
    kube_cache_add_handlers(c->cronjobs, &of_cronjobs);
    kube_cache_add_handlers(c->jobs, &of_jobs);
    return d;
}

void controllers_cronjobs_free(struct controllers_cronjobs *d)
{
    if (!d)
        return;
    kube_cache_remove_handlers(d->cluster->cronjobs, d);
    kube_cache_remove_handlers(d->cluster->jobs, d);
    local_workqueue_free(d->queue);
    kube_recorder_free(d->recorder);
    free(d);
}
