// SPDX-License-Identifier: Apache-2.0
// Garbage collection deletes a dependent after all its owners were deleted. The deletion of an
// owner is taken from the watch's DELETED event or from the API, never from a cache, which may be
// outdated. UIDs are not reused, so deleted owners are remembered.
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"
#include "local/workqueue.h"

#define GONE_MAX 4096

enum fate { FATE_UNKNOWN = 1, FATE_GONE };

struct probe { // the state of an owner
    struct controllers_garbage_collector *collector;
    char *dependent_ns, *dependent; // to reconcile after the response
    char *uid;
    enum fate fate;
    bool asking;
};

// The objects that name one owner: "resource.group:namespace/name" -> struct dependent. With it,
// the deletion of an owner costs as much as it has dependents, however many objects exist.
struct dependents {
    struct gs_hmap *items;
};

struct dependent {
    const struct controllers_kind *kind;
    char *ns, *name;
};

struct controllers_garbage_collector {
    struct local_cluster *cluster;
    struct local_workqueue *queue; // names are "resource.group:name"
    struct gs_hmap *probes;        // by uid
    struct gs_hmap *owned;         // uid of an owner -> struct dependents
    struct controllers_kinds *kinds;
};

static void enqueue(struct controllers_garbage_collector *g, const struct controllers_kind *k,
                    const json_t *obj)
{
    GS_AUTO_FREE char *name = gs_format("%s.%s:%s", k->gvr.resource, k->gvr.group, kube_name(obj));
    local_workqueue_add(g->queue, kube_namespace(obj), name);
}

static const json_t *owner_refs(const json_t *obj)
{
    return codec_json_get(obj, "metadata", "ownerReferences", NULL);
}

static bool has_finalizer(const json_t *obj, const char *name)
{
    return codec_json_has_string(codec_json_get(obj, "metadata", "finalizers", NULL), name);
}

// --- dependents of owners ---

static void dependent_free(void *p)
{
    struct dependent *d = p;
    free(d->ns);
    free(d->name);
    free(d);
}

static void dependents_free(void *p)
{
    struct dependents *d = p;
    gs_hmap_free(d->items);
    free(d);
}

static char *dependent_key(const struct controllers_kind *k, const json_t *obj)
{
    GS_AUTO_FREE char *name = kube_key(obj);
    return gs_format("%s.%s:%s", k->gvr.resource, k->gvr.group, name);
}

static void add_dependent(struct controllers_garbage_collector *g, const struct controllers_kind *k,
                          const json_t *obj, const char *uid)
{
    struct dependents *all = gs_hmap_get_str(g->owned, uid);
    if (!all) {
        all = gs_alloc(sizeof(*all));
        all->items = gs_hmap_new(dependent_free);
        gs_hmap_put_str(g->owned, uid, all);
    }
    struct dependent *d = gs_alloc(sizeof(*d));
    *d = (struct dependent){k, gs_strdup(kube_namespace(obj)), gs_strdup(kube_name(obj))};
    GS_AUTO_FREE char *key = dependent_key(k, obj);
    gs_hmap_put_str(all->items, key, d);
}

static void drop_dependent(struct controllers_garbage_collector *g,
                           const struct controllers_kind *k, const json_t *obj, const char *uid)
{
    struct dependents *all = gs_hmap_get_str(g->owned, uid);
    if (!all)
        return;
    GS_AUTO_FREE char *key = dependent_key(k, obj);
    struct dependent *d = gs_hmap_remove_str(all->items, key);
    if (d)
        dependent_free(d);
    if (gs_hmap_len(all->items) == 0)
        dependents_free(gs_hmap_remove_str(g->owned, uid));
}

static void each_owner_uid(struct controllers_garbage_collector *g,
                           const struct controllers_kind *k, const json_t *obj,
                           void (*fn)(struct controllers_garbage_collector *g,
                                      const struct controllers_kind *k, const json_t *obj,
                                      const char *uid))
{
    size_t i;
    json_t *ref;
    json_array_foreach (owner_refs(obj), i, ref) {
        const char *uid = codec_json_str(ref, "uid", NULL);
        if (uid)
            fn(g, k, obj, uid);
    }
}

// --- dependents of an owner that is being deleted ---

typedef void (*dependent_fn)(struct controllers_garbage_collector *g, struct local_reconcile *w,
                             const struct controllers_kind *k, const json_t *dependent,
                             const json_t *owner);

static bool blocks(const json_t *dependent, const json_t *owner)
{
    size_t i;
    json_t *ref;
    json_array_foreach (owner_refs(dependent), i, ref)
        if (gs_streq(codec_json_str(ref, "uid", NULL), kube_uid(owner)))
            return codec_json_bool(ref, false, "blockOwnerDeletion", NULL);
    return false;
}

// Returns the number of dependents that delay the deletion of the owner: all, or only those whose
// reference says so.
static size_t each_dependent(struct controllers_garbage_collector *g, struct local_reconcile *w,
                             const json_t *owner, bool blocking_only, dependent_fn fn)
{
    const struct dependents *all = gs_hmap_get_str(g->owned, kube_uid(owner));
    size_t n = 0, pos = 0;
    void *v;
    while (all && gs_hmap_next(all->items, &pos, NULL, &v)) {
        const struct dependent *d = v;
        const json_t *obj = kube_cache_get(d->kind->cache, d->ns, d->name);
        if (!obj)
            continue;
        n += !blocking_only || blocks(obj, owner);
        fn(g, w, d->kind, obj, owner);
    }
    return n;
}

static void cut_loose(struct controllers_garbage_collector *g, struct local_reconcile *w,
                      const struct controllers_kind *k, const json_t *dependent,
                      const json_t *owner)
{
    CODEC_AUTO_JSON json_t *patch = json_object();
    json_t *kept = json_array();
    size_t i;
    json_t *ref;
    json_array_foreach (owner_refs(dependent), i, ref) {
        if (!gs_streq(codec_json_str(ref, "uid", NULL), kube_uid(owner)))
            json_array_append(kept, ref);
    }
    if (!json_array_size(kept)) {
        json_decref(kept);
        kept = json_null(); // removes the member
    }
    codec_json_set(patch, kept, "metadata", "ownerReferences", NULL);
    local_reconcile_patch(w, k->gvr, kube_namespace(dependent), kube_name(dependent), NULL, patch,
                          NULL, NULL);
}

// Dependents of the dependent are deleted before it.
static void delete_in_order(struct controllers_garbage_collector *g, struct local_reconcile *w,
                            const struct controllers_kind *k, const json_t *obj)
{
    if (gs_hmap_get_str(g->owned, kube_uid(obj)))
        local_reconcile_delete_foreground(w, k->gvr, kube_namespace(obj), kube_name(obj));
    else
        local_reconcile_delete(w, k->gvr, kube_namespace(obj), kube_name(obj), NULL, NULL);
}

static void delete_dependent(struct controllers_garbage_collector *g, struct local_reconcile *w,
                             const struct controllers_kind *k, const json_t *dependent,
                             const json_t *owner)
{
    if (kube_is_deleting(dependent))
        return;
    if (json_array_size(owner_refs(dependent)) > 1) // it stays with its other owners
        cut_loose(g, w, k, dependent, owner);
    else
        delete_in_order(g, w, k, dependent);
}

static void drop_finalizer(struct local_reconcile *w, const struct controllers_kind *k,
                           const json_t *obj, const char *name)
{
    CODEC_AUTO_JSON json_t *patch = json_object();
    json_t *kept = json_array();
    size_t i;
    json_t *f;
    json_array_foreach (codec_json_get(obj, "metadata", "finalizers", NULL), i, f) {
        if (!gs_streq(json_string_value(f), name))
            json_array_append(kept, f);
    }
    codec_json_set(patch, kept, "metadata", "finalizers", NULL);
    local_reconcile_patch(w, k->gvr, kube_namespace(obj), kube_name(obj), NULL, patch, NULL, NULL);
}

static void finish_deletion(struct controllers_garbage_collector *g, struct local_reconcile *w,
                            const struct controllers_kind *k, const json_t *obj)
{
    static const struct {
        const char *finalizer;
        dependent_fn fn;
    } policies[] = {{"orphan", cut_loose}, {"foregroundDeletion", delete_dependent}};
    for (size_t i = 0; i < GS_ARRAY_LEN(policies); i++) {
        if (!has_finalizer(obj, policies[i].finalizer))
            continue;
        if (each_dependent(g, w, obj, i > 0, policies[i].fn) == 0)
            drop_finalizer(w, k, obj, policies[i].finalizer);
        else
            local_reconcile_requeue(
                w, 1000); // the deletion of a dependent does not reconcile the owner
        return;
    }
}

// --- owners of a dependent ---

static void probe_free(void *p)
{
    struct probe *probe = p;
    free(probe->dependent_ns);
    free(probe->dependent);
    free(probe->uid);
    free(probe);
}

// Probes that wait for a response stay, because the response refers to them.
static void forget_some(struct controllers_garbage_collector *g)
{
    if (gs_hmap_len(g->probes) < GONE_MAX)
        return;
    CODEC_AUTO_JSON json_t *idle = json_array();
    size_t pos = 0, i;
    struct gs_slice key;
    void *v;
    while (gs_hmap_next(g->probes, &pos, &key, &v))
        if (!((struct probe *)v)->asking)
            json_array_append_new(idle, json_stringn(key.data, key.len));
    json_t *uid;
    json_array_foreach (idle, i, uid) {
        probe_free(gs_hmap_remove_str(g->probes, json_string_value(uid)));
    }
}

static struct probe *probe_of(struct controllers_garbage_collector *g, const char *uid)
{
    struct probe *p = gs_hmap_get_str(g->probes, uid);
    if (p)
        return p;
    forget_some(g);
    p = gs_alloc(sizeof(*p));
    p->collector = g;
    p->uid = gs_strdup(uid);
    p->fate = FATE_UNKNOWN;
    gs_hmap_put_str(g->probes, uid, p);
    return p;
}

static void probe_answered(void *arg, const json_t *body, const struct gs_error *err)
{
    struct probe *p = arg;
    p->asking = false;
    if (err)
        return; // the dependent is reconciled again
    // A missing owner gives a Status. Another UID belongs to another object of the same name.
    if (gs_streq(kube_kind(body), "Status") || !gs_streq(kube_uid(body), p->uid))
        p->fate = FATE_GONE;
    local_workqueue_add(p->collector->queue, p->dependent_ns, p->dependent);
}

static void ask(struct controllers_garbage_collector *g, struct local_reconcile *w, struct probe *p,
                const struct controllers_kind *k, const char *ns, const char *dependent_ns,
                const char *owner, const char *dependent)
{
    if (p->asking) {
        local_reconcile_requeue(w, 500);
        return;
    }
    p->asking = true;
    free(p->dependent_ns);
    free(p->dependent);
    p->dependent_ns = gs_strdup(dependent_ns);
    p->dependent = gs_strdup(dependent);
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, k->gvr, ns, owner, NULL);
    local_reconcile_get(w, path.data, probe_answered, p);
}

// Whether the owner was deleted. OWNER_UNKNOWN: the dependent is reconciled again with the answer.
enum owner_state { OWNER_EXISTS, OWNER_GONE, OWNER_UNKNOWN };

static enum owner_state state_of_owner(struct controllers_garbage_collector *g,
                                       struct local_reconcile *w, const json_t *obj,
                                       const json_t *ref, const char *key)
{
    const char *uid = codec_json_str(ref, "uid", NULL), *name = codec_json_str(ref, "name", NULL);
    const struct controllers_kind *of = controllers_kind_of(g->kinds, ref);
    const char *ns = of && of->namespaced ? kube_namespace(obj) : NULL;
    const struct probe *asked = uid ? gs_hmap_get_str(g->probes, uid) : NULL;
    if (asked && asked->fate == FATE_GONE)
        return OWNER_GONE;
    // Owners of other kinds are assumed to exist. A namespaced one cannot own a cluster-scoped
    // object.
    if (!of || !uid || !name || (of->namespaced && !ns))
        return OWNER_EXISTS;
    const json_t *owner = kube_cache_get(of->cache, ns, name);
    if (owner && gs_streq(kube_uid(owner), uid))
        return OWNER_EXISTS;
    ask(g, w, probe_of(g, uid), of, ns, kube_namespace(obj), name, key);
    return OWNER_UNKNOWN;
}

static void keep_owners(struct local_reconcile *w, const struct controllers_kind *k,
                        const json_t *obj, json_t *kept)
{
    CODEC_AUTO_JSON json_t *patch = json_object();
    codec_json_set(patch, json_incref(kept), "metadata", "ownerReferences", NULL);
    local_reconcile_patch(w, k->gvr, kube_namespace(obj), kube_name(obj), NULL, patch, NULL, NULL);
}

// Deletes the dependent if all its owners were deleted. Otherwise removes the references to those
// that were.
static void check_owners(struct controllers_garbage_collector *g, struct local_reconcile *w,
                         const struct controllers_kind *k, const json_t *obj, const char *key)
{
    CODEC_AUTO_JSON json_t *kept = json_array();
    bool any_unknown = false;
    size_t i;
    json_t *ref;
    json_array_foreach (owner_refs(obj), i, ref) {
        enum owner_state state = state_of_owner(g, w, obj, ref, key);
        any_unknown = any_unknown || state == OWNER_UNKNOWN;
        if (state == OWNER_EXISTS)
            json_array_append(kept, ref);
    }
    if (any_unknown || json_array_size(kept) == json_array_size(owner_refs(obj)))
        return;
    if (json_array_size(kept))
        keep_owners(w, k, obj, kept);
    else
        local_reconcile_delete(w, k->gvr, kube_namespace(obj), kube_name(obj), NULL, NULL);
}

static void sync_object(void *arg, struct local_reconcile *w, const char *ns, const char *key)
{
    struct controllers_garbage_collector *g = arg;
    if (!local_cluster_synced(g->cluster) || !controllers_kinds_synced(g->kinds)) {
        local_reconcile_requeue(w, 100);
        return;
    }
    const char *colon = strchr(key, ':');
    const struct controllers_kind *k =
        colon ? controllers_kind_named(g->kinds, gs_slice_make(key, (size_t)(colon - key))) : NULL;
    const json_t *obj = k ? kube_cache_get(k->cache, ns, colon + 1) : NULL;
    if (!obj)
        return;
    if (kube_is_deleting(obj))
        finish_deletion(g, w, k, obj);
    else if (json_array_size(owner_refs(obj)) > 0)
        check_owners(g, w, k, obj, key);
}

// --- changes that reconcile an object ---

static void owner_gone(struct controllers_garbage_collector *g, const char *uid)
{
    const struct dependents *all = gs_hmap_get_str(g->owned, uid);
    size_t pos = 0;
    struct gs_slice key;
    void *v;
    if (!all)
        return;
    probe_of(g, uid)->fate = FATE_GONE;
    while (gs_hmap_next(all->items, &pos, &key, &v)) {
        const struct dependent *d = v;
        const json_t *obj = kube_cache_get(d->kind->cache, d->ns, d->name);
        if (obj)
            enqueue(g, d->kind, obj);
    }
}

// The owner of a new object may not exist any more. A deleted object can have a deletion policy.
static void changed(void *arg, const struct controllers_kind *k, const json_t *old_obj,
                    const json_t *new_obj)
{
    struct controllers_garbage_collector *g = arg;
    bool owners_changed = !old_obj || !json_equal(owner_refs(old_obj), owner_refs(new_obj));
    if (owners_changed || !new_obj) {
        each_owner_uid(g, k, old_obj, drop_dependent);
        each_owner_uid(g, k, new_obj, add_dependent);
    }
    if (!new_obj) {
        if (kube_uid(old_obj) && !k->is_replaced)
            owner_gone(g, kube_uid(old_obj));
        return;
    }
    bool owned = json_array_size(owner_refs(new_obj)) > 0;
    if (kube_is_deleting(new_obj) || (owned && owners_changed))
        enqueue(g, k, new_obj);
}

struct controllers_garbage_collector *controllers_garbage_collector_new(struct local_cluster *c)
{
    struct controllers_garbage_collector *g = gs_alloc(sizeof(*g));
    g->cluster = c;
    g->probes = gs_hmap_new(probe_free);
    g->owned = gs_hmap_new(dependents_free);
    g->queue = local_workqueue_new(c->loop, c->client, "garbage-collector", sync_object, g);
    g->kinds = controllers_kinds_new(c, changed, g);
    return g;
}

void controllers_garbage_collector_free(struct controllers_garbage_collector *g)
{
    if (!g)
        return;
    controllers_kinds_free(g->kinds);
    local_workqueue_free(g->queue);
    gs_hmap_free(g->probes);
    gs_hmap_free(g->owned);
    free(g);
}
