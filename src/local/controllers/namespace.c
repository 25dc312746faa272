// SPDX-License-Identifier: Apache-2.0
// Deletes a namespace: lists and deletes its objects of all resources that discovery shows, until
// none is left, and then removes the finalizer "kubernetes".
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"
#include "local/workqueue.h"

#define LOOK_AGAIN_MS 500
#define RESOURCES_MAX 512

struct sweep;

struct swept { // one resource of a sweep
    struct sweep *sweep;
    char *group, *version, *resource;
};

struct sweep { // of one namespace, from discovery to the last response
    struct controllers_namespaces *owner;
    struct local_reconcile *work;
    char *ns;
    struct swept *resources[RESOURCES_MAX];
    size_t n_resources;
    size_t waiting; // requests without a response
    size_t left;    // objects found
    bool failed;
};

struct controllers_namespaces {
    struct local_cluster *cluster;
    struct local_workqueue *queue;
    struct gs_hmap *sweeps; // by namespace
};

static void sweep_free(void *p)
{
    struct sweep *s = p;
    for (size_t i = 0; i < s->n_resources; i++) {
        free(s->resources[i]->group);
        free(s->resources[i]->version);
        free(s->resources[i]->resource);
        free(s->resources[i]);
    }
    free(s->ns);
    free(s);
}

static void finalise(struct sweep *s)
{
    const json_t *obj = kube_cache_get(s->owner->cluster->namespaces, NULL, s->ns);
    if (!obj)
        return;
    CODEC_AUTO_JSON json_t *changed = json_deep_copy(obj);
    json_t *kept = json_array();
    size_t i;
    json_t *f;
    json_array_foreach (codec_json_get(obj, "spec", "finalizers", NULL), i, f) {
        if (!gs_streq(json_string_value(f), "kubernetes"))
            json_array_append(kept, f);
    }
    codec_json_set(changed, kept, "spec", "finalizers", NULL);
    local_reconcile_update(s->work, KUBE_NAMESPACES, changed, "finalize", NULL, NULL);
}

static void answer_taken(struct sweep *s, const struct gs_error *err)
{
    s->failed = s->failed || err;
    if (--s->waiting > 0 || s->failed) // after a failure the namespace is reconciled again
        return;
    if (s->left > 0)
        local_reconcile_requeue(s->work, LOOK_AGAIN_MS);
    else
        finalise(s);
}

static void listed(void *arg, const json_t *body, const struct gs_error *err)
{
    struct swept *r = arg;
    struct sweep *s = r->sweep;
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(body, "items"), i, item) {
        s->left++;
        if (!kube_is_deleting(item) && kube_name(item))
            local_reconcile_delete(s->work, (struct kube_gvr){r->group, r->version, r->resource},
                                   s->ns, kube_name(item), NULL, NULL);
    }
    answer_taken(s, err);
}

static bool has_verb(const json_t *resource, const char *verb)
{
    return codec_json_has_string(json_object_get(resource, "verbs"), verb);
}

static void list_resource(struct sweep *s, struct gs_slice group, struct gs_slice version,
                          const char *resource)
{
    if (s->n_resources == RESOURCES_MAX)
        return;
    struct swept *r = gs_alloc(sizeof(*r));
    *r = (struct swept){s, gs_slice_dup(group), gs_slice_dup(version), gs_strdup(resource)};
    s->resources[s->n_resources++] = r;
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, (struct kube_gvr){r->group, r->version, r->resource}, s->ns, NULL, NULL);
    s->waiting++;
    local_reconcile_get(s->work, path.data, listed, r);
}

static void resources_discovered(void *arg, const json_t *body, const struct gs_error *err)
{
    struct sweep *s = arg;
    struct gs_slice version = gs_slice_of(codec_json_str(body, "groupVersion", NULL));
    struct gs_slice group = {"", 0};
    if (version.len && memchr(version.data, '/', version.len))
        group = gs_slice_cut(&version, '/');
    size_t i;
    json_t *resource;
    json_array_foreach (json_object_get(body, "resources"), i, resource) {
        const char *name = codec_json_str(resource, "name", NULL);
        if (name && !strchr(name, '/') && codec_json_bool(resource, false, "namespaced", NULL) &&
            has_verb(resource, "list") && has_verb(resource, "delete"))
            list_resource(s, group, version, name);
    }
    answer_taken(s, err);
}

static void groups_discovered(void *arg, const json_t *body, const struct gs_error *err)
{
    struct sweep *s = arg;
    size_t i;
    json_t *group;
    json_array_foreach (json_object_get(body, "groups"), i, group) {
        const char *version = codec_json_str(group, "preferredVersion", "groupVersion", NULL);
        if (!version)
            continue;
        GS_AUTO_FREE char *path = gs_format("/apis/%s", version);
        s->waiting++;
        local_reconcile_get(s->work, path, resources_discovered, s);
    }
    answer_taken(s, err);
}

static void sync_namespace(void *arg, struct local_reconcile *w, const char *ns, const char *name)
{
    struct controllers_namespaces *n = arg;
    struct sweep *old = gs_hmap_remove_str(n->sweeps, name);
    if (old)
        sweep_free(old);
    const json_t *obj = kube_cache_get(n->cluster->namespaces, NULL, name);
    if (!obj || !kube_is_deleting(obj) ||
        json_array_size(codec_json_get(obj, "spec", "finalizers", NULL)) == 0)
        return;
    struct sweep *s = gs_alloc(sizeof(*s));
    s->owner = n;
    s->work = w;
    s->ns = gs_strdup(name);
    s->waiting = 2;
    gs_hmap_put_str(n->sweeps, name, s);
    local_reconcile_get(w, "/api/v1", resources_discovered, s);
    local_reconcile_get(w, "/apis", groups_discovered, s);
}

static void namespace_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct controllers_namespaces *n = arg;
    if (!new_obj || kube_is_deleting(new_obj))
        local_workqueue_add_object(n->queue, new_obj ? new_obj : old_obj);
}

struct controllers_namespaces *controllers_namespaces_new(struct local_cluster *c)
{
    struct controllers_namespaces *n = gs_alloc(sizeof(*n));
    n->cluster = c;
    n->sweeps = gs_hmap_new(sweep_free);
    n->queue = local_workqueue_new(c->loop, c->client, "namespace", sync_namespace, n);
    struct kube_cache_handlers h = {.on_change = namespace_changed, .arg = n};
    kube_cache_add_handlers(c->namespaces, &h);
    return n;
}

void controllers_namespaces_free(struct controllers_namespaces *n)
{
    if (!n)
        return;
    kube_cache_remove_handlers(n->cluster->namespaces, n);
    local_workqueue_free(n->queue);
    gs_hmap_free(n->sweeps);
    free(n);
}
