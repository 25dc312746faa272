// SPDX-License-Identifier: Apache-2.0
// The Job controller starts pods until enough have succeeded, ends the Job at its limits, and
// deletes finished Jobs after their time to live.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"

#define BURST         64 // pods created or deleted in one reconciliation
#define LOOK_AGAIN_MS 1000
#define IMAGE_WAIT_MS 10000 // of pods whose image has no command

struct controllers_jobs {
    struct controllers_owned owned;
    struct gs_hmap *trackers; // uid of a Job -> struct controllers_job_tracker
};

// --- conditions ---

bool controllers_job_is_finished(const json_t *job)
{
    return kube_condition_true(job, "Complete") || kube_condition_true(job, "Failed");
}

static const json_t *condition(const struct controllers_job *j, const char *type)
{
    size_t i;
    json_t *c;
    json_array_foreach (json_object_get(j->status, "conditions"), i, c) {
        if (gs_streq(codec_json_str(c, "type", NULL), type))
            return c;
    }
    return NULL;
}

static bool has_condition(const struct controllers_job *j, const char *type)
{
    return gs_streq(codec_json_str(condition(j, type), "status", NULL), "True");
}

static void set_condition(struct controllers_job *j, const char *type, const char *status,
                          const char *reason, const char *message)
{
    char now[GS_RFC3339_SIZE];
    json_t *all = json_object_get(j->status, "conditions");
    gs_format_rfc3339(j->now_ms, now);
    if (!json_is_array(all)) {
        all = json_array();
        json_object_set_new(j->status, "conditions", all);
    }
    kube_set_condition(all, type, status, reason, message, j->now_ms);
    codec_json_set_str((json_t *)condition(j, type), "lastProbeTime", now);
}

// --- the end of a Job ---

static void delete_active(struct controllers_jobs *d, struct controllers_job *j, int64_t surplus)
{
    controllers_pods_sort_for_deletion(&j->active);
    for (int64_t i = 0; i < surplus && i < BURST; i++) {
        const json_t *pod = j->active.items[i];
        controllers_job_tracker_ignore(j->tracker, pod);
        controllers_owned_delete(&d->owned, j->work, j->job, pod);
        j->writes++;
    }
    if (surplus > BURST)
        local_reconcile_requeue(j->work, 0);
}

// The first condition says how the Job ends. The second one follows when no pod runs any more.
static void end_job(struct controllers_jobs *d, struct controllers_job *j, bool succeeded,
                    const char *reason, const char *message)
{
    const char *target = succeeded ? "SuccessCriteriaMet" : "FailureTarget";
    char now[GS_RFC3339_SIZE];
    if (!has_condition(j, target))
        set_condition(j, target, "True", reason, message);
    if (j->active.len > 0)
        delete_active(d, j, (int64_t)j->active.len);
    if (j->active.len > 0 || j->terminating > 0)
        return;
    set_condition(j, succeeded ? "Complete" : "Failed", "True", reason, message);
    if (succeeded) {
        gs_format_rfc3339(j->now_ms, now);
        codec_json_set_str(j->status, "completionTime", now);
    }
    j->ended = true;
}

static void report_end(const struct controllers_jobs *d, const struct controllers_job *j)
{
    const json_t *failed = condition(j, "Failed");
    if (failed)
        kube_event(d->owned.recorder, j->job, "Warning", codec_json_str(failed, "reason", NULL),
                   "%s", codec_json_str(failed, "message", NULL));
    else
        kube_event(d->owned.recorder, j->job, "Normal", "Completed", "Job completed");
}

// Restarts of containers count as failures, too, if the pods restart them.
static bool past_backoff_on_failure(const struct controllers_job *j, int64_t limit)
{
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};
    int64_t restarts = 0;
    size_t k;
    json_t *c;
    if (!gs_streq(codec_json_str(j->job, "spec", "template", "spec", "restartPolicy", NULL),
                  "OnFailure"))
        return false;
    for (size_t i = 0; i < j->active.len; i++)
        for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
            json_array_foreach (codec_json_get(j->active.items[i], "status", lists[l], NULL), k, c)
                restarts += codec_json_int(c, 0, "restartCount", NULL);
    return limit == 0 ? restarts > 0 : restarts >= limit;
}

static bool past_deadline(struct controllers_job *j)
{
    int64_t limit = codec_json_int(j->job, -1, "spec", "activeDeadlineSeconds", NULL);
    int64_t start = kube_time_ms(json_object_get(j->status, "startTime"), 0), left;
    if (limit < 0 || !start || __builtin_mul_overflow(limit, INT64_C(1000), &left) ||
        __builtin_add_overflow(left, start, &left))
        return false;
    left -= j->now_ms;
    if (left <= 0)
        return true;
    local_reconcile_requeue(j->work, left + 10);
    return false;
}

static bool waits_for_image(const json_t *container_status)
{
    const char *reason = codec_json_str(container_status, "state", "waiting", "reason", NULL);
    return gs_streq(reason, "ErrImagePull") || gs_streq(reason, "ImagePullBackOff");
}

static const char *missing_image(const json_t *pod)
{
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};
    size_t i;
    json_t *c;
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (codec_json_get(pod, "status", lists[l], NULL), i, c)
            if (waits_for_image(c))
                return codec_json_str(c, "image", NULL);
    return NULL;
}

// Images are never pulled here, so that one without a command will not come: a Job that waited for
// it, such as a hook of a Helm release, would wait until the timeout of its client.
static bool lacks_image(struct controllers_job *j)
{
    for (size_t i = 0; i < j->active.len && !j->fail_message; i++) {
        const json_t *pod = j->active.items[i];
        const char *image = missing_image(pod);
        int64_t left = kube_created_ms(pod, j->now_ms) + IMAGE_WAIT_MS - j->now_ms;
        if (image && left > 0)
            local_reconcile_requeue(j->work, left + 10);
        else if (image)
            j->fail_message =
                gs_format("nothing runs in place of the image %s on this machine; start gpuscale "
                          "up with --image '%s=COMMAND'",
                          image, image);
    }
    return j->fail_message != NULL;
}

// Why the Job has failed; NULL: it has not.
static const char *failure(struct controllers_job *j, const char **ret_message)
{
    int64_t limit = codec_json_int(j->job, 6, "spec", "backoffLimit", NULL);
    int64_t max_indexes = codec_json_int(j->job, -1, "spec", "maxFailedIndexes", NULL);
    if (j->fail_message) {
        *ret_message = j->fail_message;
        return "PodFailurePolicy";
    }
    if (j->failed > limit || past_backoff_on_failure(j, limit)) {
        *ret_message = "Job has reached the specified backoff limit";
        return "BackoffLimitExceeded";
    }
    if (lacks_image(j)) {
        *ret_message = j->fail_message;
        return "ImageNotAvailable";
    }
    if (past_deadline(j)) {
        *ret_message = "Job was active longer than specified deadline";
        return "DeadlineExceeded";
    }
    if (max_indexes >= 0 && j->failed_indexes > max_indexes) {
        *ret_message = "Job has exceeded the specified maximal number of failed indexes";
        return "MaxFailedIndexesExceeded";
    }
    if (j->failed_indexes > 0 && j->succeeded + j->failed_indexes >= j->completions) {
        *ret_message = "Job has failed indexes";
        return "FailedIndexes";
    }
    return NULL;
}

static bool is_complete(const struct controllers_job *j)
{
    if (j->completions < 0)
        return j->succeeded > 0 && j->active.len == 0;
    return j->succeeded >= j->completions;
}

// True if the Job ends or has ended.
static bool check_end(struct controllers_jobs *d, struct controllers_job *j)
{
    const json_t *target = condition(j, "FailureTarget");
    const char *message = NULL, *reason = NULL;
    bool succeeded = !target;
    if (!target)
        target = condition(j, "SuccessCriteriaMet");
    if (target) {
        end_job(d, j, succeeded, codec_json_str(target, "reason", NULL),
                codec_json_str(target, "message", NULL));
        return true;
    }
    int64_t rule = controllers_job_success_rule(j);
    if (rule >= 0) {
        GS_AUTO_FREE char *text = gs_format("Matched rules at index %lld", (long long)rule);
        end_job(d, j, true, "SuccessPolicy", text);
        return true;
    }
    reason = failure(j, &message);
    if (reason)
        end_job(d, j, false, reason, message);
    else if (is_complete(j))
        end_job(d, j, true, "CompletionsReached", "Reached expected number of succeeded pods");
    else
        return false;
    return true;
}

// --- running pods ---

static int64_t wanted_pods(const struct controllers_job *j)
{
    if (j->completions < 0) // a queue: after the first success no pod is started
        return j->succeeded > 0 ? (int64_t)j->active.len : j->parallelism;
    int64_t left = j->completions - j->succeeded - j->failed_indexes;
    return left < j->parallelism ? left : j->parallelism;
}

static void create_indexed(struct controllers_jobs *d, struct controllers_job *j, int64_t n)
{
    int64_t per_index = codec_json_int(j->job, -1, "spec", "backoffLimitPerIndex", NULL);
    for (int64_t i = 0; i < j->completions && n > 0; i++) {
        if (j->indexes[i])
            continue;
        int64_t wait = per_index >= 0 ? controllers_job_backoff_ms(j, i, j->now_ms) : 0;
        n--;
        if (wait > 0) {
            local_reconcile_requeue(j->work, wait + 10);
            continue;
        }
        CODEC_AUTO_JSON json_t *pod = controllers_job_new_pod(j, i);
        controllers_owned_create(&d->owned, j->work, j->job, pod);
        j->writes++;
    }
}

static void create_pods(struct controllers_jobs *d, struct controllers_job *j, int64_t n)
{
    int64_t per_index = codec_json_int(j->job, -1, "spec", "backoffLimitPerIndex", NULL);
    int64_t wait = per_index >= 0 ? 0 : controllers_job_backoff_ms(j, -1, j->now_ms);
    if (wait > 0) {
        local_reconcile_requeue(j->work, wait + 10);
        return;
    }
    if (n > BURST) {
        n = BURST;
        local_reconcile_requeue(j->work, LOOK_AGAIN_MS);
    }
    // After a refusal, such as by a quota, a single pod finds out whether more is allowed again.
    if (n > 1 && controllers_owned_failure(&d->owned, j->job))
        n = 1;
    if (j->indexed) {
        create_indexed(d, j, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        CODEC_AUTO_JSON json_t *pod = controllers_job_new_pod(j, -1);
        controllers_owned_create(&d->owned, j->work, j->job, pod);
        j->writes++;
    }
}

static void manage(struct controllers_jobs *d, struct controllers_job *j)
{
    int64_t wanted = wanted_pods(j), have = (int64_t)j->active.len;
    bool waits_for_end =
        gs_streq(codec_json_str(j->job, "spec", "podReplacementPolicy", NULL), "Failed");
    if (have > wanted)
        delete_active(d, j, have - (wanted > 0 ? wanted : 0));
    else
        create_pods(d, j, wanted - have - (waits_for_end ? j->terminating : 0));
}

// --- spec.suspend ---

static void suspend(struct controllers_jobs *d, struct controllers_job *j)
{
    if (!has_condition(j, "Suspended")) {
        set_condition(j, "Suspended", "True", "JobSuspended", "Job suspended");
        kube_event(d->owned.recorder, j->job, "Normal", "Suspended", "Job suspended");
    }
    json_object_del(j->status, "startTime");
    delete_active(d, j, (int64_t)j->active.len);
}

static void start(struct controllers_jobs *d, struct controllers_job *j)
{
    char now[GS_RFC3339_SIZE];
    bool resumed = has_condition(j, "Suspended");
    if (resumed) {
        set_condition(j, "Suspended", "False", "JobResumed", "Job resumed");
        kube_event(d->owned.recorder, j->job, "Normal", "Resumed", "Job resumed");
    }
    if (resumed || !json_object_get(j->status, "startTime"))
        codec_json_set_str(j->status, "startTime", gs_format_rfc3339(j->now_ms, now));
}

// --- status ---

static void write_status(struct controllers_job *j)
{
    controllers_set_count(j->status, "active", j->ended ? 0 : (int64_t)j->active.len);
    controllers_set_count(j->status, "succeeded", j->succeeded);
    controllers_set_count(j->status, "failed", j->failed);
    codec_json_set_int(j->status, "ready", j->ended ? 0 : j->ready);
    codec_json_set_int(j->status, "terminating", j->terminating);
    if (!json_object_get(j->status, "uncountedTerminatedPods"))
        json_object_set_new(j->status, "uncountedTerminatedPods", json_object());
    controllers_write_status(j->work, KUBE_JOBS, j->job, j->status);
}

// --- spec.ttlSecondsAfterFinished ---

static void expire(struct local_reconcile *w, const json_t *job)
{
    int64_t ttl = codec_json_int(job, -1, "spec", "ttlSecondsAfterFinished", NULL);
    const json_t *c = kube_condition_true(job, "Complete") ? kube_condition(job, "Complete")
                                                           : kube_condition(job, "Failed");
    int64_t now = gs_unix_ms();
    if (ttl < 0 || ttl > INT32_MAX)
        return;
    int64_t left = kube_time_ms(json_object_get(c, "lastTransitionTime"), now) + ttl * 1000 - now;
    if (left > 0)
        local_reconcile_requeue(w, left + 10);
    else
        local_reconcile_delete(w, KUBE_JOBS, kube_namespace(job), kube_name(job), NULL, NULL);
}

// --- one Job ---

static struct controllers_job_tracker *tracker_of(struct controllers_jobs *d, const json_t *job)
{
    struct controllers_job_tracker *t = gs_hmap_get_str(d->trackers, kube_uid(job));
    if (!t) {
        t = controllers_job_tracker_new();
        gs_hmap_put_str(d->trackers, kube_uid(job), t);
    }
    return t;
}

static void read_job(struct controllers_job *j)
{
    const json_t *status = json_object_get(j->job, "status");
    j->status = json_is_object(status) ? json_deep_copy(status) : json_object();
    j->parallelism = codec_json_int(j->job, 1, "spec", "parallelism", NULL);
    j->completions = codec_json_int(j->job, -1, "spec", "completions", NULL);
    j->indexed = j->completions >= 0 && j->completions <= CONTROLLERS_JOB_MAX_INDEXES &&
                 gs_streq(codec_json_str(j->job, "spec", "completionMode", NULL), "Indexed");
}

static void sync_job(void *arg, struct local_reconcile *w, const json_t *job,
                     const struct kube_selector *selector)
{
    struct controllers_jobs *d = arg;
    const char *manager = codec_json_str(job, "spec", "managedBy", NULL);
    if (kube_is_deleting(job) || (manager && !gs_streq(manager, "kubernetes.io/job-controller")))
        return;
    if (controllers_job_is_finished(job)) {
        expire(w, job);
        return;
    }
    GS_CLEANUP(controllers_job_finish)
    struct controllers_job j = {
        .job = job, .work = w, .tracker = tracker_of(d, job), .now_ms = gs_unix_ms()};
    read_job(&j);
    bool claimed = controllers_owned_claim(&d->owned, w, job, selector, false, &j.pods);
    controllers_job_count(&j);
    bool suspended = codec_json_bool(job, false, "spec", "suspend", NULL);
    if (!suspended)
        start(d, &j);
    if (!controllers_owned_settled(&d->owned, job))
        local_reconcile_requeue(w, LOOK_AGAIN_MS);
    else if (claimed)
        local_reconcile_requeue(w, 0);
    else if (!check_end(d, &j) && !local_namespace_goes(d->owned.cluster, kube_namespace(job))) {
        if (suspended)
            suspend(d, &j);
        else
            manage(d, &j);
    }
    write_status(&j);
    if (j.ended)
        report_end(d, &j);
}

static void job_gone(void *arg, const json_t *job)
{
    struct controllers_jobs *d = arg;
    void *tracker = gs_hmap_remove_str(d->trackers, kube_uid(job));
    if (tracker)
        controllers_job_tracker_free(tracker);
}

struct controllers_jobs *controllers_jobs_new(struct local_cluster *c)
{
    struct controllers_jobs *d = gs_alloc(sizeof(*d));
    const struct controllers_owned_kind kind = {
        .kind = "Job",
        .component = "job-controller",
        .queue = "job",
        .owners = c->jobs,
        .sync = sync_job,
        .owner_gone = job_gone,
        .arg = d,
    };
    d->trackers = gs_hmap_new(controllers_job_tracker_free);
    controllers_owned_init(&d->owned, c, &kind);
    return d;
}

void controllers_jobs_free(struct controllers_jobs *d)
{
    if (!d)
        return;
    controllers_owned_finish(&d->owned);
    gs_hmap_free(d->trackers);
    free(d);
}
