// SPDX-License-Identifier: Apache-2.0
// Pods that the objects of one kind own. Created and deleted pods that the cache does not show yet
// are kept as expectations. While an owner has expectations, its controller creates and deletes
// nothing more, so that a late watch causes no overshoot.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/random.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"

#define EXPECTATION_MS (60 * 1000) // then the watch is assumed to have missed the change
#define AGAIN_MS       200

struct expectation {
    struct controllers_owned *owned;
    char *owner_uid, *pod; // "ns/name"
    char *pod_uid;         // of a deletion
    int64_t since_ms;
    bool answered, seen; // removed when both are true
};

// --- expectations ---

static void expectation_free(void *p)
{
    struct expectation *e = p;
    free(e->owner_uid);
    free(e->pod);
    free(e->pod_uid);
    free(e);
}

// NULL: another write of a pod with this name is not answered yet, such as for a deleted owner of
// the same name.
static struct expectation *expect(struct controllers_owned *o, struct local_reconcile *w,
                                  const char *owner_uid, const char *ns, const char *name,
                                  const char *deleted_uid)
{
    GS_AUTO_FREE char *key = gs_format("%s/%s", ns, name);
    if (gs_hmap_get_str(o->expected, key)) {
        local_reconcile_requeue(w, AGAIN_MS);
        return NULL;
    }
    struct expectation *e = gs_alloc(sizeof(*e));
    e->owned = o;
    e->owner_uid = gs_strdup(owner_uid);
    e->pod = GS_TAKE(key);
    e->pod_uid = gs_strdup(deleted_uid);
    e->since_ms = gs_mono_ns() / GS_NS_PER_MS;
    gs_hmap_put_str(o->expected, e->pod, e);
    return e;
}

static void settle(struct expectation *e)
{
    if (e->answered && e->seen)
        expectation_free(gs_hmap_remove_str(e->owned->expected, e->pod));
}

static void note_creation(struct controllers_owned *o, const char *owner_uid,
                          const struct gs_error *err)
{
    if (!err) {
        free(gs_hmap_remove_str(o->failures, owner_uid));
        return;
    }
    if (gs_error_code(err) == GS_EEXIST)
        return;
    gs_hmap_put_str(o->failures, owner_uid, gs_strdup(gs_error_message(err)));
    size_t pos = 0;
    const json_t *owner;
    while ((owner = kube_cache_next(o->kind.owners, &pos)))
        if (gs_streq(kube_uid(owner), owner_uid))
            kube_event(o->recorder, owner, "Warning", "FailedCreate", "Error creating: %s",
                       gs_error_message(err));
}

static void answered(void *arg, const json_t *body, const struct gs_error *err)
{
    struct expectation *e = arg;
    if (!e->pod_uid)
        note_creation(e->owned, e->owner_uid, err);
    e->answered = true;
    // Without a response the pod may exist all the same: the watch reports it.
    e->seen = e->seen || (err && gs_error_code(err) != GS_ETIMEOUT);
    settle(e);
}

bool controllers_owned_settled(struct controllers_owned *o, const json_t *owner)
{
    int64_t now = gs_mono_ns() / GS_NS_PER_MS;
    struct expectation *missed = NULL;
    size_t pos = 0;
    void *v;
    bool any = false;
    while (gs_hmap_next(o->expected, &pos, NULL, &v)) {
        struct expectation *e = v;
        if (!gs_streq(e->owner_uid, kube_uid(owner)))
            continue;
        if (e->answered && now - e->since_ms > EXPECTATION_MS)
            missed = e;
        any = true;
    }
    if (missed)
        expectation_free(gs_hmap_remove_str(o->expected, missed->pod));
    return !any;
}

static void observe(struct controllers_owned *o, const json_t *old_pod, const json_t *new_pod)
{
    GS_AUTO_FREE char *key = kube_key(new_pod ? new_pod : old_pod);
    struct expectation *e = gs_hmap_get_str(o->expected, key);
    if (!e)
        return;
    // The successor of a deleted pod can have the same name.
    if (e->pod_uid
            ? !new_pod || kube_is_deleting(new_pod) || !gs_streq(kube_uid(new_pod), e->pod_uid)
            : new_pod != NULL)
        e->seen = true;
    settle(e);
}

const char *controllers_owned_failure(const struct controllers_owned *o, const json_t *owner)
{
    return gs_hmap_get_str(o->failures, kube_uid(owner));
}

// --- the pods of an owner ---

void controllers_pods_finish(struct controllers_pods *p)
{
    free(p->items);
    *p = (struct controllers_pods){0};
}

bool controllers_pod_available(struct local_reconcile *w, const json_t *pod,
                               int64_t min_ready_seconds)
{
    int64_t wait_ms;
    bool available = local_pod_available(pod, min_ready_seconds, gs_unix_ms(), &wait_ms);
    if (wait_ms >= 0)
        local_reconcile_requeue(w, wait_ms);
    return available;
}

void controllers_pods_add(struct controllers_pods *p, const json_t *pod)
{
    gs_grow(&p->items, &p->cap, p->len, sizeof(*p->items));
    p->items[p->len++] = pod;
}

void controllers_patch_owners(struct local_reconcile *w, struct kube_gvr r, const json_t *obj,
                              const json_t *add, const json_t *drop)
{
    CODEC_AUTO_JSON json_t *patch = json_object();
    json_t *kept = json_array();
    size_t i;
    json_t *ref;
    json_array_foreach (codec_json_get(obj, "metadata", "ownerReferences", NULL), i, ref) {
        if (!drop || !gs_streq(codec_json_str(ref, "uid", NULL), kube_uid(drop)))
            json_array_append(kept, ref);
    }
    if (add)
        json_array_append_new(kept, kube_make_controller_ref(add));
    codec_json_set(patch, kept, "metadata", "ownerReferences", NULL);
    // The patch fails if another object has taken the name.
    codec_json_set(patch, json_string(kube_uid(obj)), "metadata", "uid", NULL);
    local_reconcile_patch(w, r, kube_namespace(obj), kube_name(obj), NULL, patch, NULL, NULL);
}

bool controllers_owned_claim(struct controllers_owned *o, struct local_reconcile *w,
                             const json_t *owner, const struct kube_selector *selector,
                             bool active_only, struct controllers_pods *ret)
{
    bool claimed = false;
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(o->cluster->pods, &pos))) {
        if (!gs_streq(kube_namespace(pod), kube_namespace(owner)) ||
            (active_only && !local_pod_active(pod)))
            continue;
        const json_t *ref = kube_controller_ref(pod);
        bool mine = ref && gs_streq(codec_json_str(ref, "uid", NULL), kube_uid(owner));
        if (ref && !mine)
            continue;
        bool fits =
            kube_selector_matches(selector, codec_json_get(pod, "metadata", "labels", NULL));
        if (mine && fits) {
            controllers_pods_add(ret, pod);
        } else if (mine && !kube_is_deleting(owner)) {
            controllers_patch_owners(w, KUBE_PODS, pod, NULL, owner);
            claimed = true;
        } else if (fits && !mine && !kube_is_deleting(owner) && !kube_is_deleting(pod) &&
                   (!o->kind.adopts || o->kind.adopts(owner, pod))) {
            controllers_patch_owners(w, KUBE_PODS, pod, owner, NULL);
            controllers_pods_add(ret, pod);
            claimed = true;
        }
    }
    return claimed;
}

// --- creation ---

json_t *controllers_pod_from_template(const json_t *owner, const json_t *template)
{
    json_t *pod = json_object();
    codec_json_set_str(pod, "apiVersion", "v1");
    codec_json_set_str(pod, "kind", "Pod");
    json_t *meta = json_object();
    static const char *const copied[] = {"labels", "annotations", "finalizers"};
    for (size_t i = 0; i < GS_ARRAY_LEN(copied); i++) {
        json_t *v = codec_json_get(template, "metadata", copied[i], NULL);
        if (json_is_object(v) || json_is_array(v))
            json_object_set_new(meta, copied[i], json_deep_copy(v));
    }
    codec_json_set_str(meta, "namespace", kube_namespace(owner));
    json_object_set_new(meta, "ownerReferences", json_pack("[o]", kube_make_controller_ref(owner)));
    json_object_set_new(pod, "metadata", meta);
    json_t *spec = json_object_get(template, "spec");
    json_object_set_new(pod, "spec", spec ? json_deep_copy(spec) : json_object());
    return pod;
}

// A name that no pod has and no creation uses: each expectation has a key of its own.
static char *unused_name(struct controllers_owned *o, const char *ns, const char *prefix)
{
    for (;;) {
        char suffix[6];
        GS_AUTO_FREE char *name = gs_format("%s%s", prefix, gs_random_suffix(suffix, 5));
        GS_AUTO_FREE char *key = gs_format("%s/%s", ns, name);
        if (!gs_hmap_get_str(o->expected, key) && !kube_cache_get(o->cluster->pods, ns, name))
            return GS_TAKE(name);
    }
}

bool controllers_owned_create(struct controllers_owned *o, struct local_reconcile *w,
                              const json_t *owner, json_t *pod)
{
    const char *ns = kube_namespace(owner);
    json_t *meta = json_object_get(pod, "metadata");
    if (!kube_name(pod)) {
        // Names have at most 63 characters, because they are host names, too.
        const char *given = codec_json_str(meta, "generateName", NULL);
        GS_AUTO_FREE char *prefix =
            given ? gs_format("%.58s", given) : gs_format("%.57s-", kube_name(owner));
        GS_AUTO_FREE char *name = unused_name(o, ns, prefix);
        codec_json_set_str(meta, "generateName", prefix);
        codec_json_set_str(meta, "name", name);
    }
    struct expectation *e = expect(o, w, kube_uid(owner), ns, kube_name(pod), NULL);
    if (!e)
        return false;
    local_reconcile_create(w, KUBE_PODS, ns, pod, answered, e);
    if (!o->kind.own_events)
        local_reconcile_event(w, o->recorder, owner, "SuccessfulCreate", "Created pod: %s",
                              kube_name(pod));
    return true;
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
    return kube_time_ms(json_object_get(kube_condition(pod, "Ready"), "lastTransitionTime"), 0);
}

static int compare(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

int controllers_compare_age(const json_t *a, const json_t *b)
{
    int c = compare(kube_created_ms(a, 0), kube_created_ms(b, 0));
    return c ? c : strcmp(kube_name(a), kube_name(b));
}

static int compare_for_deletion(const void *pa, const void *pb)
{
    const json_t *a = *(const json_t *const *)pa, *b = *(const json_t *const *)pb;
    int c = compare(kube_pod_node(a) != NULL, kube_pod_node(b) != NULL);
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
    return c ? c : -controllers_compare_age(a, b);
}

void controllers_pods_sort_for_deletion(struct controllers_pods *p)
{
    if (p->len)
        qsort(p->items, p->len, sizeof(*p->items), compare_for_deletion);
}

static int oldest_first(const void *pa, const void *pb)
{
    return controllers_compare_age(*(const json_t *const *)pa, *(const json_t *const *)pb);
}

void controllers_pods_sort_by_age(struct controllers_pods *p)
{
    if (p->len)
        qsort(p->items, p->len, sizeof(*p->items), oldest_first);
}

bool controllers_owned_delete(struct controllers_owned *o, struct local_reconcile *w,
                              const json_t *owner, const json_t *pod)
{
    const char *ns = kube_namespace(pod), *name = kube_name(pod);
    struct expectation *e = expect(o, w, kube_uid(owner), ns, name, kube_uid(pod));
    if (!e)
        return false;
    local_reconcile_delete(w, KUBE_PODS, ns, name, answered, e);
    if (!o->kind.own_events)
        local_reconcile_event(w, o->recorder, owner, "SuccessfulDelete", "Deleted pod: %s", name);
    return true;
}

// --- status ---

void controllers_set_count(json_t *status, const char *key, int64_t n)
{
    if (n > 0)
        codec_json_set_int(status, key, n);
    else
        json_object_del(status, key); // as Kubernetes, which omits empty counts
}

void controllers_write_status(struct local_reconcile *w, struct kube_gvr r, const json_t *obj,
                              json_t *status)
{
    if (json_equal(json_object_get(obj, "status"), status))
        return;
    CODEC_AUTO_JSON json_t *changed = json_copy((json_t *)obj);
    json_object_set(changed, "status", status);
    local_reconcile_update(w, r, changed, "status", NULL, NULL);
}

// --- changes that reconcile an owner ---

static void owner_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct controllers_owned *o = arg;
    local_workqueue_add_object(o->queue, new_obj ? new_obj : old_obj);
    if (new_obj || !kube_uid(old_obj))
        return;
    free(gs_hmap_remove_str(o->failures, kube_uid(old_obj)));
    if (o->kind.owner_gone)
        o->kind.owner_gone(o->kind.arg, old_obj);
}

static void add_owner(struct controllers_owned *o, const json_t *obj)
{
    const json_t *owner = kube_controller_ref(obj);
    if (gs_streq(codec_json_str(owner, "kind", NULL), o->kind.kind))
        local_workqueue_add(o->queue, kube_namespace(obj), codec_json_str(owner, "name", NULL));
}

// Each owner whose selector matches may adopt an orphan.
static void add_matching(struct controllers_owned *o, const json_t *pod)
{
    size_t pos = 0;
    const json_t *owner;
    while ((owner = kube_cache_next(o->kind.owners, &pos))) {
        if (!gs_streq(kube_namespace(owner), kube_namespace(pod)))
            continue;
        GS_CLEANUP(kube_selector_finish) struct kube_selector s = {0};
        struct gs_error *err = kube_selector_of(owner, &s);
        if (!err && kube_selector_matches(&s, codec_json_get(pod, "metadata", "labels", NULL)))
            local_workqueue_add_object(o->queue, owner);
        gs_error_free(err);
    }
}

static void pod_changed(void *arg, const json_t *old_pod, const json_t *new_pod)
{
    struct controllers_owned *o = arg;
    observe(o, old_pod, new_pod);
    if (old_pod)
        add_owner(o, old_pod);
    if (!new_pod)
        return;
    if (kube_controller_ref(new_pod))
        add_owner(o, new_pod);
    else if (local_pod_active(new_pod))
        add_matching(o, new_pod);
}

static void revision_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    add_owner(arg, new_obj ? new_obj : old_obj);
}

static void sync_owner(void *arg, struct local_reconcile *w, const char *ns, const char *name)
{
    struct controllers_owned *o = arg;
    if (!local_cluster_synced(o->cluster)) {
        local_reconcile_requeue(w, 100);
        return;
    }
    const json_t *owner = kube_cache_get(o->kind.owners, ns, name);
    if (!owner)
        return;
    GS_CLEANUP(kube_selector_finish) struct kube_selector selector = {0};
    struct gs_error *err = kube_selector_of(owner, &selector);
    if (err)
        local_reconcile_fail(w, gs_error_wrap(err, "spec.selector"));
    else if (selector.len > 0) // an empty selector would claim all pods
        o->kind.sync(o->kind.arg, w, owner, &selector);
}

void controllers_owned_init(struct controllers_owned *o, struct local_cluster *c,
                            const struct controllers_owned_kind *kind)
{
    *o = (struct controllers_owned){.kind = *kind, .cluster = c};
    o->recorder = kube_recorder_new(c->client, kind->component, NULL);
    o->expected = gs_hmap_new(expectation_free);
    o->failures = gs_hmap_new(free);
    o->queue = local_workqueue_new(c->loop, c->client, kind->queue, sync_owner, o);
    struct kube_cache_handlers of_owners = {.on_change = owner_changed, .arg = o};
    struct kube_cache_handlers of_pods = {.on_change = pod_changed, .arg = o};
    kube_cache_add_handlers(kind->owners, &of_owners);
    kube_cache_add_handlers(c->pods, &of_pods);
    if (kind->revisions) {
        struct kube_cache_handlers of_revisions = {.on_change = revision_changed, .arg = o};
        kube_cache_add_handlers(c->revisions, &of_revisions);
    }
}

void controllers_owned_finish(struct controllers_owned *o)
{
    kube_cache_remove_handlers(o->kind.owners, o);
    kube_cache_remove_handlers(o->cluster->pods, o);
    if (o->kind.revisions)
        kube_cache_remove_handlers(o->cluster->revisions, o);
    local_workqueue_free(o->queue);
    kube_recorder_free(o->recorder);
    gs_hmap_free(o->expected);
    gs_hmap_free(o->failures);
}
