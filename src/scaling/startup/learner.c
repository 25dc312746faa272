// SPDX-License-Identifier: Apache-2.0
// Collects what pods, events and engines say about a start, in any order, and stores a sample when
// the pod serves. What comes later corrects the sample. A start that fails is a sample, too.
#include "base/clock.h"
#include "base/num.h"
#include "base/slice.h"
#include "kube/object.h"
#include "startup/startup_private.h"

#include <string.h>

// --- life ---

static void free_record(void *arg)
{
    struct startup_record *r = arg;
    free(r->uid);
    free(r->workload);
    free(r->image);
    free(r->digest);
    free(r->gpu);
    free(r);
}

struct startup_learner *startup_learner_new(void)
{
    struct startup_learner *l = gs_alloc(sizeof(*l));
    l->workloads = gs_hmap_new(startup_workload_free);
    l->pods = gs_hmap_new(NULL);
    return l;
}

void startup_learner_free(struct startup_learner *l)
{
    if (!l)
        return;
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(l->pods, &pos, &key, &value))
        free_record(value);
    gs_hmap_free(l->workloads);
    gs_hmap_free(l->pods);
    free(l);
}

// --- records ---

static char *pod_key(const char *ns, const char *name)
{
    return gs_format("%s/%s", ns ? ns : "", name ? name : "");
}

struct startup_record *startup_record_of(const struct startup_learner *l, const json_t *pod)
{
    GS_AUTO_FREE char *key = pod_key(kube_namespace(pod), kube_name(pod));
    struct startup_record *r = gs_hmap_get_str(l->pods, key);
    const char *uid = kube_uid(pod);
    return r && r->uid && uid && strcmp(r->uid, uid) != 0 ? NULL : r;
}

// Removes records of which only events came, long ago.
static void sweep(struct startup_learner *l, int64_t now_ms)
{
    struct gs_hmap *kept = gs_hmap_new(NULL);
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(l->pods, &pos, &key, &value)) {
        struct startup_record *r = value;
        if (!r->image && now_ms - r->seen_ms > STARTUP_MAX_MS)
            free_record(r);
        else
            gs_hmap_put(kept, key, r);
    }
    gs_hmap_free(l->pods);
    l->pods = kept;
    l->swept_ms = now_ms;
}

// The record of a pod; another UID is another pod. NULL: there are too many.
static struct startup_record *record(struct startup_learner *l, const char *ns, const char *name,
                                     const char *uid, int64_t now_ms)
{
    GS_AUTO_FREE char *key = pod_key(ns, name);
    struct startup_record *r = gs_hmap_get_str(l->pods, key);
    if (r && uid && r->uid && strcmp(uid, r->uid) != 0) {
        free_record(gs_hmap_remove_str(l->pods, key));
        r = NULL;
    }
    if (!r && gs_hmap_len(l->pods) >= STARTUP_PODS && now_ms - l->swept_ms > STARTUP_SWEEP_MS)
        sweep(l, now_ms);
    if (!r && gs_hmap_len(l->pods) < STARTUP_PODS) {
        r = gs_alloc(sizeof(*r));
        gs_hmap_put_str(l->pods, key, r);
    }
    if (r && !r->uid)
        r->uid = gs_strdup(uid);
    return r;
}

// --- pods ---

static void keep_first(int64_t *at, int64_t ms)
{
    if (!*at)
        *at = ms;
}

static void note_marks(struct startup_record *r, const struct startup_marks *m)
{
    keep_first(&r->created, m->created);
    keep_first(&r->unschedulable, m->unschedulable);
    keep_first(&r->scheduled, m->scheduled);
    if (!m->failed)
        keep_first(&r->started, m->started);
    keep_first(&r->ready, m->ready);
}

static void note_names(struct startup_record *r, const json_t *pod, const json_t *node)
{
    char image[STARTUP_NAME], digest[STARTUP_NAME], gpu[STARTUP_NAME];
    startup_read_image(pod, image, digest);
    startup_read_gpu(pod, node, gpu);
    startup_replace(&r->image, image);
    if (*digest || !r->digest)
        startup_replace(&r->digest, digest);
    if (*gpu || !r->gpu)
        startup_replace(&r->gpu, gpu);
    if (!r->workload && kube_controller_ref(pod)) {
        GS_AUTO_FREE char *workload = kube_workload(pod);
        r->workload = startup_workload_key(kube_namespace(pod), workload);
    }
}

static bool engine_is_overdue(const struct startup_record *r, int64_t now_ms)
{
    return r->ready && now_ms - r->ready > STARTUP_MAX_LATE_MS;
}

static void store_if_complete(struct startup_learner *l, struct startup_record *r, int64_t now_ms)
{
    int64_t serving = startup_serving(l, r);
    struct startup_sample s;
    if (r->ended)
        return;
    if (serving && startup_sample_of(r, serving, &s))
        startup_store(l, r, &s);
    else if (serving || engine_is_overdue(r, now_ms))
        r->ended = true;
}

static void note_lateness(struct startup_learner *l, struct startup_record *r, const json_t *pod)
{
    struct startup_expected e;
    if (r->ended)
        return;
    startup_expected_of_pod(l, pod, &e);
    r->late_ms = r->created + startup_late_ms(&e);
}

// The pod is deleted. If it was late, its start has failed; otherwise it was not needed any more.
static void give_up(struct startup_learner *l, struct startup_record *r, int64_t now_ms)
{
    if (r->workload && !r->ready && r->late_ms && now_ms > r->late_ms)
        startup_fail(l, r);
    r->ended = true;
}

void startup_observe_pod(struct startup_learner *l, const json_t *pod, const json_t *node,
                         int64_t now_ms)
{
    struct startup_marks m;
    struct startup_record *r =
        record(l, kube_namespace(pod), kube_name(pod), kube_uid(pod), now_ms);
    startup_read_pod(pod, &m);
    if (!r || !m.created)
        return;
    bool is_new = !r->image;
    r->seen_ms = now_ms;
    note_marks(r, &m);
    note_names(r, pod, node);
    r->node_is_newer = r->node_is_newer || (node && kube_created_ms(node, 0) > r->created);
    if (is_new && m.ready) {
        r->was_ready = true;
        // Restarted, at an unknown time; or another process has learned from it.
        r->ended = m.failed || m.ready <= l->restored_ms;
    }
    if (!r->workload)
        r->ended = true;
    else if (m.deleting)
        give_up(l, r, now_ms);
    else if (m.failed && !r->ready)
        startup_fail(l, r);
    store_if_complete(l, r, now_ms);
    note_lateness(l, r, pod);
}

void startup_forget_pod(struct startup_learner *l, const json_t *pod, int64_t now_ms)
{
    struct startup_record *r = startup_record_of(l, pod);
    GS_AUTO_FREE char *key = pod_key(kube_namespace(pod), kube_name(pod));
    if (!r)
        return;
    give_up(l, r, now_ms);
    free_record(gs_hmap_remove_str(l->pods, key));
}

// --- events ---

// "Successfully pulled image "vllm" in 12.3s (12.4s including waiting). …"
static int64_t pulled_in(const char *message)
{
    const char *in = message ? strstr(message, "\" in ") : NULL;
    int64_t ns;
    if (!in)
        return 0;
    in += strlen("\" in ");
    GS_AUTO_ERROR struct gs_error *err =
        gs_parse_duration(gs_slice_make(in, strcspn(in, " ")), &ns);
    return err || ns < 0 ? 0 : ns / GS_NS_PER_MS;
}

// An event is reported again after a relist.
static bool is_repeated(struct startup_record *r, const char *message)
{
    uint64_t hash = gs_hash(message, strlen(message));
    for (size_t i = 0; i < GS_ARRAY_LEN(r->pulled); i++)
        if (r->pulled[i] == hash)
            return true;
    r->pulled[r->next_pulled++ % GS_ARRAY_LEN(r->pulled)] = hash;
    return false;
}

static void note_pulled(struct startup_record *r, const char *message, int64_t at)
{
    if (!message || is_repeated(r, message))
        return;
    if (!gs_starts(message, "Successfully pulled")) {
        if (strstr(message, "already present") && r->image_from == STARTUP_IMAGE_UNKNOWN)
            r->image_from = STARTUP_IMAGE_PRESENT;
        return;
    }
    int64_t ms = pulled_in(message);
    if (!ms && r->pulling && at > r->pulling)
        ms = at - r->pulling;
    r->image_from = STARTUP_IMAGE_PULLED;
    r->pull_ms = gs_add_clamped(r->pull_ms, ms);
}

// Karpenter names the nodes that exist, too: "… on: nodeclaim/a-1, node/ip-10-0-0-1".
static bool is_order(const char *reason, const char *message)
{
    return strcmp(reason, "TriggeredScaleUp") == 0 ||
           (strcmp(reason, "Nominated") == 0 && message && strstr(message, "nodeclaim/") &&
            !strstr(message, " node/"));
}

static bool note_event(struct startup_record *r, const char *reason, const char *message,
                       int64_t at)
{
    if (is_order(reason, message)) {
        if (!r->ordered || at < r->ordered)
            r->ordered = at;
        r->refused = r->refused > at ? r->refused : 0;
    } else if (strcmp(reason, "NotTriggerScaleUp") == 0) {
        r->refused = at > r->refused ? at : r->refused;
    } else if (strcmp(reason, "Pulling") == 0) {
        r->image_from = STARTUP_IMAGE_PULLED;
        r->pulling = at;
    } else if (strcmp(reason, "Pulled") == 0) {
        note_pulled(r, message, at);
    } else {
        return false;
    }
    return true;
}

static bool is_relevant(const char *reason)
{
    static const char *const reasons[] = {"TriggeredScaleUp", "NotTriggerScaleUp", "Nominated",
                                          "Pulling", "Pulled"};
    for (size_t i = 0; reason && i < GS_ARRAY_LEN(reasons); i++)
        if (strcmp(reason, reasons[i]) == 0)
            return true;
    return false;
}

void startup_observe_event(struct startup_learner *l, const json_t *event, int64_t now_ms)
{
    const json_t *about = json_object_get(event, "involvedObject");
    const char *reason = codec_json_str(event, "reason", NULL);
    const char *name = codec_json_str(about, "name", NULL);
    int64_t at = kube_event_ms(event);
    if (!is_relevant(reason) || !gs_streq(kube_kind(about), "Pod") || !name || !at)
        return;
    struct startup_record *r = record(l, codec_json_str(about, "namespace", NULL), name,
                                      codec_json_str(about, "uid", NULL), now_ms);
    if (!r)
        return;
    r->seen_ms = now_ms;
    if (note_event(r, reason, codec_json_str(event, "message", NULL), at))
        startup_correct(l, r);
}

// --- engines ---

static struct startup_record *record_named(struct startup_learner *l, const char *ns,
                                           const char *pod)
{
    GS_AUTO_FREE char *key = pod_key(ns, pod);
    struct startup_record *r = gs_hmap_get_str(l->pods, key);
    return r && r->workload ? r : NULL;
}

void startup_engine_ready(struct startup_learner *l, const char *ns, const char *pod, int64_t at_ms)
{
    struct startup_record *r = record_named(l, ns, pod);
    struct startup_group *g = r && !r->engine ? startup_group_make(l, r) : NULL;
    if (!g)
        return;
    g->has_engine = true;
    r->engine = at_ms;
    if (r->stored)
        startup_correct(l, r);
    else
        store_if_complete(l, r, at_ms);
}
