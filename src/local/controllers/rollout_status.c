// SPDX-License-Identifier: Apache-2.0
// Status and conditions of a Deployment, including the progress deadline, with the reasons and
// texts of Kubernetes' deployment controller.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"

#define DEADLINE_SECONDS 600
#define NO_DEADLINE      INT32_MAX

static json_t *conditions_of(struct controllers_rollout *r)
{
    json_t *c = json_object_get(r->status, "conditions");
    if (!json_is_array(c)) {
        c = json_array();
        json_object_set_new(r->status, "conditions", c);
    }
    return c;
}

static json_t *find_condition(const struct controllers_rollout *r, const char *type)
{
    size_t i;
    json_t *c;
    json_array_foreach (json_object_get(r->status, "conditions"), i, c) {
        if (gs_streq(codec_json_str(c, "type", NULL), type))
            return c;
    }
    return NULL;
}

static void remove_condition(struct controllers_rollout *r, const char *type)
{
    json_t *all = json_object_get(r->status, "conditions");
    for (size_t i = json_array_size(all); i-- > 0;)
        if (gs_streq(codec_json_str(json_array_get(all, i), "type", NULL), type))
            json_array_remove(all, i);
}

// Replaces the condition. The transition time changes only with the status.
static void put_condition(struct controllers_rollout *r, const char *type, const char *status,
                          const char *reason, const char *message)
{
    char now[GS_RFC3339_SIZE];
    gs_format_rfc3339(gs_unix_ms(), now);
    const json_t *old = find_condition(r, type);
    bool same = gs_streq(codec_json_str(old, "status", NULL), status);
    const char *since = same ? codec_json_str(old, "lastTransitionTime", NULL) : NULL;
    json_t *c = json_object();
    codec_json_set_str(c, "type", type);
    codec_json_set_str(c, "status", status);
    codec_json_set_str(c, "lastUpdateTime", now);
    codec_json_set_str(c, "lastTransitionTime", since ? since : now);
    codec_json_set_str(c, "reason", reason);
    codec_json_set_str(c, "message", message);
    remove_condition(r, type);
    json_array_append_new(conditions_of(r), c);
}

void controllers_rollout_set_condition(struct controllers_rollout *r, const char *type,
                                       const char *status, const char *reason, const char *message)
{
    const json_t *old = find_condition(r, type);
    if (!gs_streq(codec_json_str(old, "status", NULL), status) ||
        !gs_streq(codec_json_str(old, "reason", NULL), reason))
        put_condition(r, type, status, reason, message);
}

static void copy_failure(struct controllers_rollout *r)
{
    const json_t *failure = NULL;
    for (size_t i = 0; i < r->len && !failure; i++)
        failure = kube_condition(r->all[i].obj, "ReplicaFailure");
    if (failure)
        controllers_rollout_set_condition(
            r, "ReplicaFailure", codec_json_str(failure, "status", NULL),
            codec_json_str(failure, "reason", NULL), codec_json_str(failure, "message", NULL));
    else
        remove_condition(r, "ReplicaFailure");
}

void controllers_rollout_count(struct controllers_rollout *r)
{
    int64_t replicas = 0, ready = 0, available = 0;
    for (size_t i = 0; i < r->len; i++) {
        replicas += r->all[i].replicas;
        ready += r->all[i].ready;
        available += r->all[i].available;
    }
    int64_t missing = controllers_rollout_spec_sum(r) - available;
    codec_json_set_int(r->status, "observedGeneration",
                       codec_json_int(r->deployment, 1, "metadata", "generation", NULL));
    controllers_set_count(r->status, "replicas", replicas);
    controllers_set_count(r->status, "updatedReplicas", r->current ? r->current->replicas : 0);
    controllers_set_count(r->status, "readyReplicas", ready);
    controllers_set_count(r->status, "availableReplicas", available);
    controllers_set_count(r->status, "unavailableReplicas", missing);
    if (available >= r->replicas - r->max_unavailable)
        controllers_rollout_set_condition(r, "Available", "True", "MinimumReplicasAvailable",
                                          "Deployment has minimum availability.");
    else
        controllers_rollout_set_condition(r, "Available", "False", "MinimumReplicasUnavailable",
                                          "Deployment does not have minimum availability.");
    copy_failure(r);
}

static int64_t was(const struct controllers_rollout *r, const char *key)
{
    return codec_json_int(r->deployment, 0, "status", key, NULL);
}

static int64_t is(const struct controllers_rollout *r, const char *key)
{
    return codec_json_int(r->status, 0, key, NULL);
}

bool controllers_rollout_complete(const struct controllers_rollout *r)
{
    return r->current && is(r, "updatedReplicas") == r->replicas &&
           is(r, "replicas") == r->replicas && is(r, "availableReplicas") == r->replicas;
}

static bool moved(const struct controllers_rollout *r)
{
    return is(r, "updatedReplicas") > was(r, "updatedReplicas") ||
           is(r, "replicas") - is(r, "updatedReplicas") <
               was(r, "replicas") - was(r, "updatedReplicas") ||
           is(r, "readyReplicas") > was(r, "readyReplicas") ||
           is(r, "availableReplicas") > was(r, "availableReplicas");
}

// Milliseconds until the deadline. 0 or less after the deadline. INT64_MAX without one.
static int64_t deadline_left_ms(const struct controllers_rollout *r, int64_t deadline)
{
    const json_t *c = find_condition(r, "Progressing");
    const char *reason = codec_json_str(c, "reason", NULL);
    if (!c || gs_streq(reason, "NewReplicaSetAvailable"))
        return INT64_MAX;
    if (gs_streq(reason, "ProgressDeadlineExceeded"))
        return 0;
    int64_t now = gs_unix_ms();
    return kube_time_ms(json_object_get(c, "lastUpdateTime"), now) + deadline * 1000 - now;
}

// 'ReplicaSet "x" is …', or the name of the Deployment if it has no ReplicaSet yet.
static char *progress_text(const struct controllers_rollout *r, const char *what)
{
    return gs_format("%s \"%s\" %s", r->current ? "ReplicaSet" : "Deployment",
                     kube_name(r->current ? r->current->obj : r->deployment), what);
}

static void watch_deadline(struct controllers_rollout *r, int64_t deadline)
{
    int64_t left = deadline_left_ms(r, deadline);
    if (left == INT64_MAX)
        return;
    if (left > 0) {
        local_reconcile_requeue(r->work, left + 10);
        return;
    }
    GS_AUTO_FREE char *text = progress_text(r, "has timed out progressing.");
    controllers_rollout_set_condition(r, "Progressing", "False", "ProgressDeadlineExceeded", text);
}

void controllers_rollout_progress(struct controllers_rollout *r)
{
    int64_t deadline =
        codec_json_int(r->deployment, DEADLINE_SECONDS, "spec", "progressDeadlineSeconds", NULL);
    if (deadline == NO_DEADLINE) {
        remove_condition(r, "Progressing");
        return;
    }
    const char *reason = codec_json_str(find_condition(r, "Progressing"), "reason", NULL);
    if (is(r, "replicas") == is(r, "updatedReplicas") && gs_streq(reason, "NewReplicaSetAvailable"))
        return;
    if (controllers_rollout_complete(r)) {
        GS_AUTO_FREE char *text = progress_text(r, "has successfully progressed.");
        controllers_rollout_set_condition(r, "Progressing", "True", "NewReplicaSetAvailable", text);
    } else if (moved(r)) {
        GS_AUTO_FREE char *text = progress_text(r, "is progressing.");
        put_condition(r, "Progressing", "True", "ReplicaSetUpdated", text);
        watch_deadline(r, deadline);
    } else {
        watch_deadline(r, deadline);
    }
}

void controllers_rollout_check_paused(struct controllers_rollout *r)
{
    bool paused = codec_json_bool(r->deployment, false, "spec", "paused", NULL);
    const char *reason = codec_json_str(find_condition(r, "Progressing"), "reason", NULL);
    // The condition of a rollout that timed out stays, also if the rollout is paused.
    if (gs_streq(reason, "ProgressDeadlineExceeded"))
        return;
    if (paused && !gs_streq(reason, "DeploymentPaused"))
        controllers_rollout_set_condition(r, "Progressing", "Unknown", "DeploymentPaused",
                                          "Deployment is paused");
    else if (!paused && gs_streq(reason, "DeploymentPaused"))
        controllers_rollout_set_condition(r, "Progressing", "Unknown", "DeploymentResumed",
                                          "Deployment is resumed");
}

void controllers_rollout_write_status(struct controllers_rollout *r)
{
    controllers_write_status(r->work, KUBE_DEPLOYMENTS, r->deployment, r->status);
}
