// SPDX-License-Identifier: Apache-2.0
// The ReplicaSet controller creates and deletes pods until their number is spec.replicas. Created
// and deleted pods that the cache does not show yet are kept as expectations. While a ReplicaSet
// has expectations, nothing more is created or deleted for it, so that a late watch causes no
// overshoot.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"
#include "local/workqueue.h"

#include <uv.h>

#define BURST          64          // pods created or deleted in one go
#define EXPECTATION_MS (60 * 1000) // then the watch is taken to have missed it
#define LOOK_AGAIN_MS  1000

struct expectation {
    struct controllers_replicasets *owner;
    char *rs_uid, *pod; // "ns/name"
    int64_t since_ms;
    bool deletion;
    bool answered, seen; // gone when both
};

struct controllers_replicasets {
    struct local_cluster *cluster;
    struct kube_recorder *recorder;
    struct local_workqueue *queue;
    struct gs_hmap *expected; // pod key -> expectation
    struct gs_hmap *failures; // uid of a ReplicaSet -> why its last creation failed
};

// --- expectations ---

static void expectation_free(void *p)
{
    struct expectation *e = p;
    free(e->rs_uid);
    free(e->pod);
    free(e);
}

static struct expectation *expect(struct controllers_replicasets *r, const char *rs_uid,
                                  const char *ns, const char *name, bool deletion)
{
    struct expectation *e = gs_alloc(sizeof(*e));
    e->owner = r;
    e->rs_uid = gs_strdup(rs_uid);
    e->pod = gs_format("%s/%s", ns, name);
    e->deletion = deletion;
    e->since_ms = gs_mono_ns() / GS_NS_PER_MS;
    gs_hmap_put_str(r->expected, e->pod, e);
    return e;
}

static void settle(struct expectation *e)
{
    if (e->answered && e->seen)
        expectation_free(gs_hmap_remove_str(e->owner->expected, e->pod));
}

static void note_creation(struct controllers_replicasets *r, const char *rs_uid,
                          const struct gs_error *err)
{
    if (!err) {
        free(gs_hmap_remove_str(r->failures, rs_uid));
        return;
    }
    if (gs_error_code(err) == GS_EEXIST)
        return;
    gs_hmap_put_str(r->failures, rs_uid, gs_strdup(gs_error_message(err)));
    size_t pos = 0;
    const json_t *rs;
    while ((rs = kube_cache_next(r->cluster->replicasets, &pos)))
        if (gs_streq(kube_uid(rs), rs_uid))
            kube_event(r->recorder, rs, "Warning", "FailedCreate", "Error creating: %s",
                       gs_error_message(err));
}

static void answered(void *arg, const json_t *body, const struct gs_error *err)
{
    struct expectation *e = arg;
    if (!e->deletion)
        note_creation(e->owner, e->rs_uid, err);
    e->answered = true;
    // Without a response the pod may exist all the same: the watch reports it.
    e->seen = e->seen || (err && gs_error_code(err) != GS_ETIMEOUT);
    settle(e);
}

static bool has_expectations(struct controllers_replicasets *r, const char *rs_uid)
{
    int64_t now = gs_mono_ns() / GS_NS_PER_MS;
    struct expectation *missed = NULL;
    size_t pos = 0;
    void *v;
    bool any = false;
    while (gs_hmap_next(r->expected, &pos, NULL, &v)) {
        struct expectation *e = v;
        if (!gs_streq(e->rs_uid, rs_uid))
            continue;
        if (e->answered && now - e->since_ms > EXPECTATION_MS)
            missed = e;
        any = true;
    }
    if (missed)
        expectation_free(gs_hmap_remove_str(r->expected, missed->pod));
    return any;
}

static void observe(struct controllers_replicasets *r, const json_t *old_pod, const json_t *new_pod)
{
    GS_AUTO_FREE char *key = kube_key(new_pod ? new_pod : old_pod);
    struct expectation *e = gs_hmap_get_str(r->expected, key);
    if (!e)
        return;
    if (e->deletion ? !new_pod || kube_is_deleting(new_pod) : new_pod != NULL)
        e->seen = true;
    settle(e);
}

// --- the pods of a ReplicaSet ---

struct pods {
    const json_t **items;
    size_t len, cap;
};

static void pods_finish(struct pods *p)
{
    free(p->items);
}

static void pods_add(struct pods *p, const json_t *pod)
{
    gs_grow(&p->items, &p->cap, p->len, sizeof(*p->items));
    p->items[p->len++] = pod;
}

static void adopt(struct local_reconcile *w, const json_t *rs, const json_t *pod)
{
    CODEC_AUTO_JSON json_t *patch = json_object();
    json_t *refs = json_deep_copy(codec_json_get(pod, "metadata", "ownerReferences", NULL));
    if (!refs)
        refs = json_array();
    json_array_append_new(refs, kube_make_controller_ref(rs));
    codec_json_set(patch, refs, "metadata", "ownerReferences", NULL);
    // The uid makes the patch fail when another pod has taken the name.
    codec_json_set(patch, json_string(kube_uid(pod)), "metadata", "uid", NULL);
    local_reconcile_patch(w, KUBE_PODS, kube_namespace(pod), kube_name(pod), NULL, patch, NULL,
                          NULL);
}

static void release(struct local_reconcile *w, const json_t *rs, const json_t *pod)
{
    CODEC_AUTO_JSON json_t *patch = json_object();
    json_t *kept = json_array();
    size_t i;
    json_t *ref;
    json_array_foreach (codec_json_get(pod, "metadata", "ownerReferences", NULL), i, ref) {
        if (!gs_streq(codec_json_str(ref, "uid", NULL), kube_uid(rs)))
            json_array_append(kept, ref);
    }
    codec_json_set(patch, kept, "metadata", "ownerReferences", NULL);
    local_reconcile_patch(w, KUBE_PODS, kube_namespace(pod), kube_name(pod), NULL, patch, NULL,
                          NULL);
}

// Active pods that are the ReplicaSet's. ret_claimed: some were adopted or released just now.
static void claim_pods(struct controllers_replicasets *r, struct local_reconcile *w,
                       const json_t *rs, const struct kube_selector *selector, struct pods *ret,
                       bool *ret_claimed)
{
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(r->cluster->pods, &pos))) {
        if (!gs_streq(kube_namespace(pod), kube_namespace(rs)) || !local_pod_active(pod))
            continue;
        const json_t *owner = kube_controller_ref(pod);
        bool mine = owner && gs_streq(codec_json_str(owner, "uid", NULL), kube_uid(rs));
        if (owner && !mine)
            continue;
        bool fits =
            kube_selector_matches(selector, codec_json_get(pod, "metadata", "labels", NULL));
        if (mine && fits) {
            pods_add(ret, pod);
        } else if (mine && !kube_is_deleting(rs)) {
            release(w, rs, pod);
            *ret_claimed = true;
        } else if (fits && !mine && !kube_is_deleting(rs)) {
            adopt(w, rs, pod);
            pods_add(ret, pod);
            *ret_claimed = true;
        }
    }
}

// --- creation ---

static char *random_suffix(char out[6])
{
    static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789"; // spells no words
    uint32_t r[5] = {0};
    if (uv_random(NULL, NULL, r, sizeof(r), 0, NULL) != 0)
        for (size_t i = 0; i < 5; i++)
            r[i] = (uint32_t)(gs_mono_ns() >> (4 * i));
    for (size_t i = 0; i < 5; i++)
        out[i] = alphabet[r[i] % (sizeof(alphabet) - 1)];
    out[5] = '\0';
    return out;
}

static json_t *make_pod(const json_t *rs, const char *name, const char *prefix)
{
    const json_t *template = codec_json_get(rs, "spec", "template", NULL);
    json_t *pod = json_object();
    codec_json_set_str(pod, "apiVersion", "v1");
    codec_json_set_str(pod, "kind", "Pod");
    json_t *meta = json_object();
    static const char *const copied[] = {"labels", "annotations", "finalizers"};
    for (size_t i = 0; i < GS_ARRAY_LEN(copied); i++) {
        json_t *v = codec_json_get(template, "metadata", copied[i], NULL);
        if (v)
            json_object_set_new(meta, copied[i], json_deep_copy(v));
    }
    codec_json_set_str(meta, "generateName", prefix);
    codec_json_set_str(meta, "name", name);
    codec_json_set_str(meta, "namespace", kube_namespace(rs));
    json_object_set_new(meta, "ownerReferences", json_pack("[o]", kube_make_controller_ref(rs)));
    json_object_set_new(pod, "metadata", meta);
    json_object_set_new(pod, "spec", json_deep_copy(json_object_get(template, "spec")));
    return pod;
}

// A name that no pod has, and none that is under way: each expectation has a key of its own.
static char *unused_name(struct controllers_replicasets *r, const char *ns, const char *prefix)
{
    for (;;) {
        char suffix[6];
        GS_AUTO_FREE char *name = gs_format("%s%s", prefix, random_suffix(suffix));
        GS_AUTO_FREE char *key = gs_format("%s/%s", ns, name);
        if (!gs_hmap_get_str(r->expected, key) && !kube_cache_get(r->cluster->pods, ns, name))
            return GS_TAKE(name);
    }
}

static void create_pod(struct controllers_replicasets *r, struct local_reconcile *w,
                       const json_t *rs)
{
    // Names have 63 characters at most when they serve as host names.
    GS_AUTO_FREE char *prefix = gs_format("%.57s-", kube_name(rs));
    GS_AUTO_FREE char *name = unused_name(r, kube_namespace(rs), prefix);
    CODEC_AUTO_JSON json_t *pod = make_pod(rs, name, prefix);
    struct expectation *e = expect(r, kube_uid(rs), kube_namespace(rs), name, false);
    local_reconcile_create(w, KUBE_PODS, kube_namespace(rs), pod, answered, e);
    local_reconcile_event(w, r->recorder, rs, "SuccessfulCreate", "Created pod: %s", name);
}

// --- deletion ---

static int phase_rank(const json_t *pod)
{
    const char *phase = local_pod_phase(pod);
    return gs_streq(phase, "Pending") ? 0 : gs_streq(phase, "Running") ? 2 : 1;
}

static int64_t deletion_cost(const json_t *pod)
{
    const char *text = kube_annotation(pod, "controller.kubernetes.io/pod-deletion-cost");
    int64_t cost = 0;
    if (text)
        gs_error_free(gs_parse_i64(gs_slice_of(text), INT32_MIN, INT32_MAX, &cost));
    return cost;
}

static int64_t restarts(const json_t *pod)
{
    int64_t most = 0;
    size_t i;
    json_t *c;
    json_array_foreach (codec_json_get(pod, "status", "containerStatuses", NULL), i, c) {
        int64_t n = codec_json_int(c, 0, "restartCount", NULL);
        most = n > most ? n : most;
    }
    return most;
}

static int64_t ready_since(const json_t *pod)
{
    return local_time_ms(json_object_get(kube_condition(pod, "Ready"), "lastTransitionTime"), 0);
}

static int compare(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

// Those to delete first come first: Kubernetes' ActivePodsWithRanks.
static int compare_for_deletion(const void *pa, const void *pb)
{
    const json_t *a = *(const json_t *const *)pa, *b = *(const json_t *const *)pb;
    int c = compare(codec_json_str(a, "spec", "nodeName", NULL) != NULL,
                    codec_json_str(b, "spec", "nodeName", NULL) != NULL);
    if (!c)
        c = compare(phase_rank(a), phase_rank(b));
    if (!c)
        c = compare(local_pod_ready(a), local_pod_ready(b));
    if (!c)
        c = compare(deletion_cost(a), deletion_cost(b));
    if (!c && local_pod_ready(a))
        c = compare(ready_since(b), ready_since(a));
    if (!c)
        c = compare(restarts(b), restarts(a));
    if (!c)
        c = compare(local_time_ms(codec_json_get(b, "metadata", "creationTimestamp", NULL), 0),
                    local_time_ms(codec_json_get(a, "metadata", "creationTimestamp", NULL), 0));
    return c ? c : strcmp(kube_name(a), kube_name(b));
}

static void delete_pod(struct controllers_replicasets *r, struct local_reconcile *w,
                       const json_t *rs, const json_t *pod)
{
    const char *ns = kube_namespace(pod), *name = kube_name(pod);
    struct expectation *e = expect(r, kube_uid(rs), ns, name, true);
    local_reconcile_delete(w, KUBE_PODS, ns, name, answered, e);
    local_reconcile_event(w, r->recorder, rs, "SuccessfulDelete", "Deleted pod: %s", name);
}

// --- one ReplicaSet ---

static void manage(struct controllers_replicasets *r, struct local_reconcile *w, const json_t *rs,
                   struct pods *pods)
{
    int64_t wanted = codec_json_int(rs, 1, "spec", "replicas", NULL);
    int64_t missing = wanted - (int64_t)pods->len;
    if (missing > BURST || missing < -BURST) {
        missing = missing > 0 ? BURST : -BURST;
        local_reconcile_requeue(w, LOOK_AGAIN_MS);
    }
    // After a refusal, such as by a quota, a single one finds out whether more is allowed again.
    if (missing > 1 && gs_hmap_get_str(r->failures, kube_uid(rs)))
        missing = 1;
    for (int64_t i = 0; i < missing; i++)
        create_pod(r, w, rs);
    if (missing >= 0 || !pods->len)
        return;
    qsort(pods->items, pods->len, sizeof(*pods->items), compare_for_deletion);
    for (int64_t i = 0; i < -missing; i++)
        delete_pod(r, w, rs, pods->items[i]);
}

struct counts {
    int64_t replicas, labeled, ready, available;
};

static struct counts count(struct local_reconcile *w, const json_t *rs, const struct pods *pods)
{
    struct counts n = {.replicas = (int64_t)pods->len};
    int64_t min_ready = codec_json_int(rs, 0, "spec", "minReadySeconds", NULL), now = gs_unix_ms();
    GS_CLEANUP(kube_selector_finish) struct kube_selector labels = {0};
    kube_selector_from_map(codec_json_get(rs, "spec", "template", "metadata", "labels", NULL),
                           &labels);
    for (size_t i = 0; i < pods->len; i++) {
        const json_t *pod = pods->items[i];
        int64_t wait_ms;
        n.labeled +=
            kube_selector_matches(&labels, codec_json_get(pod, "metadata", "labels", NULL));
        n.ready += local_pod_ready(pod);
        n.available += local_pod_available(pod, min_ready, now, &wait_ms);
        if (wait_ms >= 0)
            local_reconcile_requeue(w, wait_ms);
    }
    return n;
}

static void set_count(json_t *status, const char *key, int64_t n)
{
    if (n > 0)
        codec_json_set_int(status, key, n);
    else
        json_object_del(status, key); // as Kubernetes, which omits empty counts
}

static void set_failure(json_t *status, const char *why)
{
    json_t *conditions = json_object_get(status, "conditions");
    if (!json_is_array(conditions)) {
        if (!why)
            return;
        conditions = json_array();
        json_object_set_new(status, "conditions", conditions);
    }
    if (why) {
        kube_set_condition(conditions, "ReplicaFailure", "True", "FailedCreate", why, gs_unix_ms());
        return;
    }
    for (size_t i = json_array_size(conditions); i-- > 0;)
        if (gs_streq(codec_json_str(json_array_get(conditions, i), "type", NULL), "ReplicaFailure"))
            json_array_remove(conditions, i);
    if (json_array_size(conditions) == 0)
        json_object_del(status, "conditions");
}

static void update_status(struct controllers_replicasets *r, struct local_reconcile *w,
                          const json_t *rs, const struct counts *n)
{
    const json_t *current = json_object_get(rs, "status");
    json_t *status = json_is_object(current) ? json_deep_copy(current) : json_object();
    codec_json_set_int(status, "replicas", n->replicas);
    set_count(status, "fullyLabeledReplicas", n->labeled);
    set_count(status, "readyReplicas", n->ready);
    set_count(status, "availableReplicas", n->available);
    codec_json_set_int(status, "observedGeneration",
                       codec_json_int(rs, 1, "metadata", "generation", NULL));
    set_failure(status, gs_hmap_get_str(r->failures, kube_uid(rs)));
    if (json_equal(current, status)) {
        json_decref(status);
        return;
    }
    CODEC_AUTO_JSON json_t *changed = json_deep_copy(rs);
    json_object_set_new(changed, "status", status);
    local_reconcile_update(w, KUBE_REPLICASETS, changed, "status", NULL, NULL);
}

static void sync_replicaset(void *arg, struct local_reconcile *w, const char *ns, const char *name)
{
    struct controllers_replicasets *r = arg;
    if (!local_cluster_synced(r->cluster)) {
        local_reconcile_requeue(w, 100);
        return;
    }
    const json_t *rs = kube_cache_get(r->cluster->replicasets, ns, name);
    if (!rs)
        return;
    GS_CLEANUP(kube_selector_finish) struct kube_selector selector = {0};
    struct gs_error *err =
        kube_selector_from_json(codec_json_get(rs, "spec", "selector", NULL), &selector);
    if (err) {
        local_reconcile_fail(w, gs_error_wrap(err, "spec.selector"));
        return;
    }
    GS_CLEANUP(pods_finish) struct pods pods = {0};
    bool claimed = false;
    claim_pods(r, w, rs, &selector, &pods, &claimed);
    struct counts n = count(w, rs, &pods);
    if (has_expectations(r, kube_uid(rs)))
        local_reconcile_requeue(w, LOOK_AGAIN_MS);
    else if (claimed)
        local_reconcile_requeue(w, 0); // counts are settled once that is done
    else if (!kube_is_deleting(rs) && !local_namespace_goes(r->cluster, ns))
        manage(r, w, rs, &pods);
    update_status(r, w, rs, &n);
}

// --- what brings a ReplicaSet up ---

static void rs_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct controllers_replicasets *r = arg;
    local_workqueue_add_object(r->queue, new_obj ? new_obj : old_obj);
    if (!new_obj && kube_uid(old_obj))
        free(gs_hmap_remove_str(r->failures, kube_uid(old_obj)));
}

static void add_owner(struct controllers_replicasets *r, const json_t *pod)
{
    const json_t *owner = kube_controller_ref(pod);
    if (gs_streq(codec_json_str(owner, "kind", NULL), "ReplicaSet"))
        local_workqueue_add(r->queue, kube_namespace(pod), codec_json_str(owner, "name", NULL));
}

// An orphan may be anybody's.
static void add_matching(struct controllers_replicasets *r, const json_t *pod)
{
    size_t pos = 0;
    const json_t *rs;
    while ((rs = kube_cache_next(r->cluster->replicasets, &pos))) {
        if (!gs_streq(kube_namespace(rs), kube_namespace(pod)))
            continue;
        GS_CLEANUP(kube_selector_finish) struct kube_selector s = {0};
        struct gs_error *err =
            kube_selector_from_json(codec_json_get(rs, "spec", "selector", NULL), &s);
        if (!err && kube_selector_matches(&s, codec_json_get(pod, "metadata", "labels", NULL)))
            local_workqueue_add_object(r->queue, rs);
        gs_error_free(err);
    }
}

static void pod_changed(void *arg, const json_t *old_pod, const json_t *new_pod)
{
    struct controllers_replicasets *r = arg;
    observe(r, old_pod, new_pod);
    if (old_pod)
        add_owner(r, old_pod);
    if (!new_pod)
        return;
    if (kube_controller_ref(new_pod))
        add_owner(r, new_pod);
    else if (local_pod_active(new_pod))
        add_matching(r, new_pod);
}

struct controllers_replicasets *controllers_replicasets_new(struct local_cluster *c)
{
    struct controllers_replicasets *r = gs_alloc(sizeof(*r));
    r->cluster = c;
    r->recorder = kube_recorder_new(c->client, "replicaset-controller", NULL);
    r->expected = gs_hmap_new(expectation_free);
    r->failures = gs_hmap_new(free);
    r->queue = local_workqueue_new(c->loop, c->client, "replicaset", sync_replicaset, r);
    struct kube_cache_handlers of_rs = {.on_change = rs_changed, .arg = r};
    struct kube_cache_handlers of_pods = {.on_change = pod_changed, .arg = r};
    kube_cache_add_handlers(c->replicasets, &of_rs);
    kube_cache_add_handlers(c->pods, &of_pods);
    return r;
}

void controllers_replicasets_free(struct controllers_replicasets *r)
{
    if (!r)
        return;
    kube_cache_remove_handlers(r->cluster->replicasets, r);
    kube_cache_remove_handlers(r->cluster->pods, r);
    local_workqueue_free(r->queue);
    kube_recorder_free(r->recorder);
    gs_hmap_free(r->expected);
    gs_hmap_free(r->failures);
    free(r);
}
