// SPDX-License-Identifier: Apache-2.0
// The pods of a Job: which of them count as succeeded and failed, the indexes of an Indexed Job,
// and the rules of spec.podFailurePolicy.
#include "base/backoff.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"

#define INDEX_KEY "batch.kubernetes.io/job-completion-index"

enum pod_state { POD_ACTIVE, POD_SUCCEEDED, POD_FAILED, POD_IGNORED };

struct seen_pod {
    enum pod_state state;
    uint64_t round; // when it was last in the cache
};

// The counts outlive the pods: deleting a finished pod does not start another one.
struct controllers_job_tracker {
    struct gs_hmap *pods;                // uid -> struct seen_pod
    int64_t base_succeeded, base_failed; // counted before, by another run of the program
    uint64_t round;
};

void controllers_job_tracker_free(void *p)
{
    struct controllers_job_tracker *t = p;
    gs_hmap_free(t->pods);
    free(t);
}

struct controllers_job_tracker *controllers_job_tracker_new(void)
{
    struct controllers_job_tracker *t = gs_alloc(sizeof(*t));
    t->pods = gs_hmap_new(free);
    return t;
}

void controllers_job_tracker_ignore(struct controllers_job_tracker *t, const json_t *pod)
{
    struct seen_pod *seen = gs_hmap_get_str(t->pods, kube_uid(pod));
    if (seen && seen->state == POD_ACTIVE)
        seen->state = POD_IGNORED;
}

// --- spec.podFailurePolicy ---

static bool has_value(const json_t *values, int64_t n)
{
    size_t i;
    json_t *v;
    json_array_foreach ((json_t *)values, i, v) {
        if (json_is_integer(v) && json_integer_value(v) == n)
            return true;
    }
    return false;
}

// The container whose exit code matches; NULL: none.
static const json_t *matching_container(const json_t *rule, const json_t *pod)
{
    static const char *const lists[] = {"containerStatuses", "initContainerStatuses"};
    const char *only = codec_json_str(rule, "containerName", NULL);
    bool in = gs_streq(codec_json_str(rule, "operator", NULL), "In");
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++) {
        size_t i;
        json_t *c;
        json_array_foreach (codec_json_get(pod, "status", lists[l], NULL), i, c) {
            int64_t code = codec_json_int(c, 0, "state", "terminated", "exitCode", NULL);
            if (code != 0 && (!only || gs_streq(only, codec_json_str(c, "name", NULL))) &&
                has_value(json_object_get(rule, "values"), code) == in)
                return c;
        }
    }
    return NULL;
}

// The type of the condition that matches; NULL: none.
static const char *matching_condition(const json_t *patterns, const json_t *pod)
{
    size_t i;
    json_t *p;
    json_array_foreach ((json_t *)patterns, i, p) {
        const char *type = codec_json_str(p, "type", NULL);
        const char *status = codec_json_str(p, "status", NULL);
        if (type && gs_streq(codec_json_str(kube_condition(pod, type), "status", NULL),
                             status ? status : "True"))
            return type;
    }
    return NULL;
}

// The action of the first rule that matches; NULL: none.
static const char *policy_action(const json_t *job, const json_t *pod, char **ret_message)
{
    size_t i;
    json_t *rule;
    json_array_foreach (codec_json_get(job, "spec", "podFailurePolicy", "rules", NULL), i, rule) {
        const char *action = codec_json_str(rule, "action", NULL);
        const json_t *codes = json_object_get(rule, "onExitCodes");
        const json_t *c = codes ? matching_container(codes, pod) : NULL;
        const char *condition =
            codes ? NULL : matching_condition(json_object_get(rule, "onPodConditions"), pod);
        if (c)
            *ret_message = gs_format(
                "Container %s for pod %s/%s failed with exit code %lld matching %s rule at index "
                "%zu",
                codec_json_str(c, "name", NULL), kube_namespace(pod), kube_name(pod),
                (long long)codec_json_int(c, 0, "state", "terminated", "exitCode", NULL), action,
                i);
        else if (condition)
            *ret_message = gs_format("Pod %s/%s has condition %s matching %s rule at index %zu",
                                     kube_namespace(pod), kube_name(pod), condition, action, i);
        if (c || condition)
            return action;
    }
    return NULL;
}

// --- indexes ---

int64_t controllers_job_index(const struct controllers_job *j, const json_t *pod)
{
    const char *text = kube_annotation(pod, INDEX_KEY);
    int64_t index = -1;
    if (text && j->indexed)
        gs_error_free(gs_parse_i64(gs_slice_of(text), 0, j->completions - 1, &index));
    return index;
}

// Sets the flag of the indexes in a list such as "0-2,4". Bad parts are skipped.
static void read_indexes(struct controllers_job *j, const char *list, uint8_t flag)
{
    struct gs_slice rest = gs_slice_of(list), part;
    while (rest.len > 0) {
        size_t comma = 0;
        while (comma < rest.len && rest.data[comma] != ',')
            comma++;
        part = gs_slice_make(rest.data, comma);
        rest = gs_slice_make(rest.data + comma, rest.len - comma);
        if (rest.len > 0)
            rest = gs_slice_make(rest.data + 1, rest.len - 1);
        size_t dash = 0;
        while (dash < part.len && part.data[dash] != '-')
            dash++;
        struct gs_slice last =
            dash < part.len ? gs_slice_make(part.data + dash + 1, part.len - dash - 1) : part;
        int64_t a = 0, b = -1;
        struct gs_error *err =
            gs_parse_i64(gs_slice_make(part.data, dash), 0, j->completions - 1, &a);
        if (!err)
            err = gs_parse_i64(last, 0, j->completions - 1, &b);
        if (!err)
            for (int64_t i = a; i <= b; i++)
                j->indexes[i] |= flag;
        gs_error_free(err);
    }
}

static int64_t count_indexes(const struct controllers_job *j, uint8_t flag)
{
    int64_t n = 0;
    for (int64_t i = 0; i < j->completions; i++)
        n += (j->indexes[i] & flag) != 0;
    return n;
}

static void write_indexes(const struct controllers_job *j, const char *key, uint8_t flag)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    for (int64_t i = 0; i < j->completions; i++) {
        int64_t last = i;
        if (!(j->indexes[i] & flag))
            continue;
        while (last + 1 < j->completions && (j->indexes[last + 1] & flag))
            last++;
        gs_buf_addf(&text, "%s%lld", text.len ? "," : "", (long long)i);
        if (last > i)
            gs_buf_addf(&text, "%c%lld", last == i + 1 ? ',' : '-', (long long)last);
        i = last;
    }
    codec_json_set_str(j->status, key, text.len ? text.data : NULL);
}

// An index whose pods failed more often than allowed, or that a FailIndex rule ended.
static void judge_index(struct controllers_job *j, int64_t index)
{
    int64_t limit = codec_json_int(j->job, -1, "spec", "backoffLimitPerIndex", NULL), n = 0;
    if (limit < 0)
        return;
    for (size_t i = 0; i < j->pods.len; i++) {
        const struct seen_pod *seen = gs_hmap_get_str(j->tracker->pods, kube_uid(j->pods.items[i]));
        n += seen && seen->state == POD_FAILED &&
             controllers_job_index(j, j->pods.items[i]) == index;
    }
    if (n > limit)
        j->indexes[index] |= CONTROLLERS_JOB_INDEX_FAILED;
}

// --- counting ---

static enum pod_state state_of(const struct controllers_job *j, const json_t *pod)
{
    const char *phase = local_pod_phase(pod);
    if (gs_streq(phase, "Succeeded"))
        return POD_SUCCEEDED;
    // A pod that somebody deletes may never become Failed.
    bool only_failed =
        gs_streq(codec_json_str(j->job, "spec", "podReplacementPolicy", NULL), "Failed");
    if (gs_streq(phase, "Failed") || (kube_is_deleting(pod) && !only_failed))
        return POD_FAILED;
    return POD_ACTIVE;
}

static void note_failure(struct controllers_job *j, const json_t *pod, struct seen_pod *seen)
{
    GS_AUTO_FREE char *message = NULL;
    const char *action =
        gs_streq(local_pod_phase(pod), "Failed") ? policy_action(j->job, pod, &message) : NULL;
    int64_t index = controllers_job_index(j, pod);
    seen->state = gs_streq(action, "Ignore") ? POD_IGNORED : POD_FAILED;
    if (gs_streq(action, "FailJob") && !j->fail_message)
        j->fail_message = GS_TAKE(message);
    if (gs_streq(action, "FailIndex") && index >= 0)
        j->indexes[index] |= CONTROLLERS_JOB_INDEX_FAILED;
}

static void count_pod(struct controllers_job *j, const json_t *pod)
{
    struct controllers_job_tracker *t = j->tracker;
    struct seen_pod *seen = gs_hmap_get_str(t->pods, kube_uid(pod));
    int64_t index = controllers_job_index(j, pod);
    if (!seen) {
        seen = gs_alloc(sizeof(*seen));
        gs_hmap_put_str(t->pods, kube_uid(pod), seen);
    }
    seen->round = t->round;
    enum pod_state state = state_of(j, pod);
    if (seen->state == POD_ACTIVE && state == POD_FAILED)
        note_failure(j, pod, seen);
    else if (seen->state == POD_ACTIVE)
        seen->state = state;
    if (kube_is_deleting(pod) && !kube_pod_has_ended(pod)) {
        j->terminating++;
    } else if (!kube_pod_has_ended(pod)) {
        controllers_pods_add(&j->active, pod);
        j->ready += local_pod_ready(pod);
        if (index >= 0)
            j->indexes[index] |= CONTROLLERS_JOB_INDEX_ACTIVE;
    }
    if (index >= 0 && seen->state == POD_SUCCEEDED)
        j->indexes[index] |= CONTROLLERS_JOB_INDEX_SUCCEEDED;
}

// A pod that vanished before it ended has failed.
static void count_vanished(struct controllers_job_tracker *t, int64_t counts[4])
{
    size_t pos = 0;
    void *v;
    while (gs_hmap_next(t->pods, &pos, NULL, &v)) {
        struct seen_pod *seen = v;
        if (seen->state == POD_ACTIVE && seen->round != t->round)
            seen->state = POD_FAILED;
        counts[seen->state]++;
    }
}

void controllers_job_count(struct controllers_job *j)
{
    struct controllers_job_tracker *t = j->tracker;
    int64_t counts[4] = {0};
    int64_t was_succeeded = codec_json_int(j->status, 0, "succeeded", NULL);
    int64_t was_failed = codec_json_int(j->status, 0, "failed", NULL);
    if (j->indexed) {
        j->indexes = gs_alloc((size_t)j->completions + 1);
        read_indexes(j, codec_json_str(j->status, "completedIndexes", NULL),
                     CONTROLLERS_JOB_INDEX_SUCCEEDED);
        read_indexes(j, codec_json_str(j->status, "failedIndexes", NULL),
                     CONTROLLERS_JOB_INDEX_FAILED);
    }
    bool first = t->round++ == 0;
    for (size_t i = 0; i < j->pods.len; i++)
        count_pod(j, j->pods.items[i]);
    count_vanished(t, counts);
    if (first) {
        t->base_succeeded =
            was_succeeded > counts[POD_SUCCEEDED] ? was_succeeded - counts[POD_SUCCEEDED] : 0;
        t->base_failed = was_failed > counts[POD_FAILED] ? was_failed - counts[POD_FAILED] : 0;
    }
    j->failed = t->base_failed + counts[POD_FAILED];
    j->succeeded = t->base_succeeded + counts[POD_SUCCEEDED];
    if (!j->indexed)
        return;
    for (int64_t i = 0; i < j->completions; i++)
        judge_index(j, i);
    j->succeeded = count_indexes(j, CONTROLLERS_JOB_INDEX_SUCCEEDED);
    j->failed_indexes = count_indexes(j, CONTROLLERS_JOB_INDEX_FAILED);
    write_indexes(j, "completedIndexes", CONTROLLERS_JOB_INDEX_SUCCEEDED);
    if (json_object_get(json_object_get(j->job, "spec"), "backoffLimitPerIndex"))
        write_indexes(j, "failedIndexes", CONTROLLERS_JOB_INDEX_FAILED);
}

void controllers_job_finish(struct controllers_job *j)
{
    controllers_pods_finish(&j->pods);
    controllers_pods_finish(&j->active);
    free(j->indexes);
    free(j->fail_message);
    json_decref(j->status);
}

// --- spec.successPolicy ---

int64_t controllers_job_success_rule(struct controllers_job *j)
{
    size_t i;
    json_t *rule;
    json_array_foreach (codec_json_get(j->job, "spec", "successPolicy", "rules", NULL), i, rule) {
        const char *list = codec_json_str(rule, "succeededIndexes", NULL);
        int64_t wanted = codec_json_int(rule, -1, "succeededCount", NULL), have = 0, of = 0;
        if (!j->indexed)
            return -1;
        if (list)
            read_indexes(j, list, CONTROLLERS_JOB_INDEX_RULE);
        for (int64_t k = 0; k < j->completions; k++) {
            bool listed = !list || (j->indexes[k] & CONTROLLERS_JOB_INDEX_RULE);
            of += listed;
            have += listed && (j->indexes[k] & CONTROLLERS_JOB_INDEX_SUCCEEDED);
            j->indexes[k] &= (uint8_t)~CONTROLLERS_JOB_INDEX_RULE;
        }
        if (have >= (wanted < 0 ? of : wanted))
            return (int64_t)i;
    }
    return -1;
}

// --- back-off ---

static int64_t finished_ms(const json_t *pod, int64_t now)
{
    int64_t latest = 0;
    size_t i;
    json_t *c;
    json_array_foreach (codec_json_get(pod, "status", "containerStatuses", NULL), i, c) {
        int64_t ms = kube_time_ms(codec_json_get(c, "state", "terminated", "finishedAt", NULL), 0);
        latest = ms > latest ? ms : latest;
    }
    if (latest)
        return latest;
    const json_t *since = json_object_get(kube_condition(pod, "Ready"), "lastTransitionTime");
    return kube_time_ms(codec_json_get(pod, "metadata", "deletionTimestamp", NULL),
                        kube_time_ms(since, now));
}

int64_t controllers_job_backoff_ms(const struct controllers_job *j, int64_t index, int64_t now)
{
    int64_t success = 0, last = 0;
    uint64_t failures = 0;
    for (size_t i = 0; i < j->pods.len; i++) {
        int64_t ms = finished_ms(j->pods.items[i], now);
        if (gs_streq(local_pod_phase(j->pods.items[i]), "Succeeded") && ms > success)
            success = ms;
    }
    for (size_t i = 0; i < j->pods.len; i++) {
        const json_t *pod = j->pods.items[i];
        const struct seen_pod *seen = gs_hmap_get_str(j->tracker->pods, kube_uid(pod));
        int64_t ms = finished_ms(pod, now);
        if (!seen || seen->state != POD_FAILED ||
            (index >= 0 ? controllers_job_index(j, pod) != index : ms <= success))
            continue;
        failures++;
        last = ms > last ? ms : last;
    }
    if (failures == 0)
        return 0;
    int64_t delay =
        gs_backoff_after(failures, CONTROLLERS_JOB_BACKOFF_MS, CONTROLLERS_JOB_BACKOFF_LAST_MS);
    return last + delay > now ? last + delay - now : 0;
}

// --- creation ---

static void add_index_variable(json_t *containers)
{
    size_t i, k;
    json_t *c, *v;
    json_array_foreach (containers, i, c) {
        json_t *env = json_object_get(c, "env");
        bool has = false;
        if (!json_is_array(env)) {
            env = json_array();
            json_object_set_new(c, "env", env);
        }
        json_array_foreach (env, k, v)
            has = has || gs_streq(codec_json_str(v, "name", NULL), "JOB_COMPLETION_INDEX");
        if (has)
            continue;
        v = json_object();
        codec_json_set_str(v, "name", "JOB_COMPLETION_INDEX");
        codec_json_set(v, json_string("metadata.labels['" INDEX_KEY "']"), "valueFrom", "fieldRef",
                       "fieldPath", NULL);
        codec_json_set(v, json_string("v1"), "valueFrom", "fieldRef", "apiVersion", NULL);
        json_array_append_new(env, v);
    }
}

json_t *controllers_job_new_pod(const struct controllers_job *j, int64_t index)
{
    json_t *pod =
        controllers_pod_from_template(j->job, codec_json_get(j->job, "spec", "template", NULL));
    if (index < 0)
        return pod;
    GS_AUTO_FREE char *number = gs_format("%lld", (long long)index);
    GS_AUTO_FREE char *host = gs_format("%.52s-%s", kube_name(j->job), number);
    GS_AUTO_FREE char *prefix = gs_format("%s-", host);
    codec_json_set(pod, json_string(number), "metadata", "annotations", INDEX_KEY, NULL);
    codec_json_set(pod, json_string(number), "metadata", "labels", INDEX_KEY, NULL);
    codec_json_set(pod, json_string(prefix), "metadata", "generateName", NULL);
    codec_json_set(pod, json_string(host), "spec", "hostname", NULL);
    add_index_variable(codec_json_get(pod, "spec", "containers", NULL));
    add_index_variable(codec_json_get(pod, "spec", "initContainers", NULL));
    return pod;
}
