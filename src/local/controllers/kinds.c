// SPDX-License-Identifier: Apache-2.0
// All kinds that garbage collection must know, built-in and custom, each with a cache. Kinds that
// no other controller watches are watched here, reduced to their metadata.
#include "base/mem.h"
#include "kube/definition.h"
#include "kube/object.h"
#include "local/api.h"
#include "local/controllers/controllers_private.h"

struct controllers_kinds {
    struct local_cluster *cluster;
    controllers_kind_fn fn;
    void *arg;
    struct controllers_kind *first;
    struct kube_cache *definitions;
};

// --- caches ---

static const struct {
    struct kube_gvr gvr;
    size_t offset; // in struct local_cluster
} of_cluster[] = {
    {KUBE_PODS, offsetof(struct local_cluster, pods)},
    {KUBE_REPLICASETS, offsetof(struct local_cluster, replicasets)},
    {KUBE_DEPLOYMENTS, offsetof(struct local_cluster, deployments)},
    {KUBE_SERVICES, offsetof(struct local_cluster, services)},
    {KUBE_ENDPOINTS, offsetof(struct local_cluster, endpoints)},
    {KUBE_CLAIMS, offsetof(struct local_cluster, claims)},
    {KUBE_REPLICATIONCONTROLLERS, offsetof(struct local_cluster, replicationcontrollers)},
    {KUBE_DAEMONSETS, offsetof(struct local_cluster, daemonsets)},
    {KUBE_STATEFULSETS, offsetof(struct local_cluster, statefulsets)},
    {KUBE_REVISIONS, offsetof(struct local_cluster, revisions)},
    {KUBE_JOBS, offsetof(struct local_cluster, jobs)},
    {KUBE_CRONJOBS, offsetof(struct local_cluster, cronjobs)},
    {KUBE_PODDISRUPTIONBUDGETS, offsetof(struct local_cluster, budgets)},
    {KUBE_NODES, offsetof(struct local_cluster, nodes)},
    {KUBE_NAMESPACES, offsetof(struct local_cluster, namespaces)},
};

static struct kube_cache *cache_of_cluster(struct local_cluster *c, const struct kube_gvr *gvr)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(of_cluster); i++)
        if (gs_streq(of_cluster[i].gvr.group, gvr->group) &&
            gs_streq(of_cluster[i].gvr.resource, gvr->resource))
            return *(struct kube_cache **)((char *)c + of_cluster[i].offset);
    return NULL;
}

// Only what garbage collection reads is kept.
static void keep_metadata(json_t *obj)
{
    static const char *const kept[] = {"kind", "apiVersion", "metadata"};
    static const char *const dropped[] = {"managedFields", "annotations", "labels"};
    CODEC_AUTO_JSON json_t *copy = json_copy(obj);
    json_object_clear(obj);
    for (size_t i = 0; i < GS_ARRAY_LEN(kept); i++)
        if (json_object_get(copy, kept[i]))
            json_object_set(obj, kept[i], json_object_get(copy, kept[i]));
    for (size_t i = 0; i < GS_ARRAY_LEN(dropped); i++)
        json_object_del(json_object_get(obj, "metadata"), dropped[i]);
}

static void on_kind_change(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct controllers_kind *k = arg;
    k->owner->fn(k->owner->arg, k, old_obj, new_obj);
}

static void add_kind(struct controllers_kinds *all, struct controllers_kind *k)
{
    const struct kube_cache_handlers h = {.on_change = on_kind_change, .arg = k};
    k->owner = all;
    k->next = all->first;
    all->first = k;
    k->cache = cache_of_cluster(all->cluster, &k->gvr);
    k->own_cache = !k->cache;
    if (k->own_cache) {
        k->cache = kube_cache_new(all->cluster->loop, all->cluster->client, k->gvr, NULL, NULL);
        kube_cache_set_trim(k->cache, keep_metadata);
        kube_cache_start(k->cache);
    }
    kube_cache_add_handlers(k->cache, &h);
}

static void kind_free(struct controllers_kind *k)
{
    if (k->cache)
        kube_cache_remove_handlers(k->cache, k);
    if (k->own_cache)
        kube_cache_free(k->cache);
    for (size_t i = 0; i < GS_ARRAY_LEN(k->strings); i++)
        free(k->strings[i]);
    free(k->definition);
    free(k);
}

// --- custom resources ---

static struct controllers_kind *kind_of_definition(const json_t *crd)
{
    const char *version = codec_json_str(kube_definition_version(crd), "name", NULL),
               *group = codec_json_str(crd, "spec", "group", NULL),
               *kind = codec_json_str(crd, "spec", "names", "kind", NULL),
               *plural = codec_json_str(crd, "spec", "names", "plural", NULL);
    if (!version || !group || !kind || !plural)
        return NULL;
    struct controllers_kind *k = gs_alloc(sizeof(*k));
    k->strings[0] = gs_strdup(kind);
    k->strings[1] = gs_strdup(group);
    k->strings[2] = gs_strdup(version);
    k->strings[3] = gs_strdup(plural);
    k->kind = k->strings[0];
    k->gvr = (struct kube_gvr){k->strings[1], k->strings[2], k->strings[3]};
    k->namespaced = gs_streq(codec_json_str(crd, "spec", "scope", NULL), "Namespaced");
    k->definition = gs_strdup(kube_name(crd));
    return k;
}

static void end_kind(struct controllers_kinds *all, const char *definition, bool is_replaced)
{
    struct controllers_kind **place = &all->first;
    while (*place && !gs_streq((*place)->definition, definition))
        place = &(*place)->next;
    struct controllers_kind *k = *place;
    if (!k)
        return;
    k->is_replaced = is_replaced;
    size_t pos = 0;
    for (const json_t *obj; (obj = kube_cache_next(k->cache, &pos));)
        all->fn(all->arg, k, obj, NULL);
    *place = k->next;
    kind_free(k);
}

// The API serves a built-in resource in place of a custom one with its name or kind.
static bool is_built_in(const struct controllers_kinds *all, const struct controllers_kind *custom)
{
    for (const struct controllers_kind *k = all->first; k; k = k->next)
        if (!k->definition && gs_streq(k->gvr.group, custom->gvr.group) &&
            (gs_streq(k->gvr.resource, custom->gvr.resource) || gs_streq(k->kind, custom->kind)))
            return true;
    return false;
}

static bool is_watched(const struct controllers_kinds *all, const struct controllers_kind *custom)
{
    const struct controllers_kind *k = controllers_kind_named(all, gs_slice_of(custom->definition));
    return k && gs_streq(k->kind, custom->kind) && gs_streq(k->gvr.version, custom->gvr.version);
}

static void on_definition(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct controllers_kinds *all = arg;
    struct controllers_kind *k = new_obj ? kind_of_definition(new_obj) : NULL;
    if (k && (is_built_in(all, k) || is_watched(all, k))) {
        kind_free(k);
        return;
    }
    end_kind(all, kube_name(new_obj ? new_obj : old_obj), new_obj != NULL);
    if (k)
        add_kind(all, k);
}

// --- all of them ---

struct controllers_kinds *controllers_kinds_new(struct local_cluster *c, controllers_kind_fn fn,
                                                void *arg)
{
    struct controllers_kinds *all = gs_alloc(sizeof(*all));
    const struct kube_cache_handlers h = {.on_change = on_definition, .arg = all};
    struct local_api_collected built_in;
    *all = (struct controllers_kinds){.cluster = c, .fn = fn, .arg = arg};
    for (size_t i = 0; local_api_collected(i, &built_in); i++) {
        struct controllers_kind *k = gs_alloc(sizeof(*k));
        k->kind = built_in.kind;
        k->gvr = built_in.gvr;
        k->namespaced = built_in.namespaced;
        add_kind(all, k);
    }
    all->definitions = kube_cache_new(c->loop, c->client, KUBE_DEFINITIONS, NULL, NULL);
    kube_cache_set_trim(all->definitions, kube_definition_trim);
    kube_cache_add_handlers(all->definitions, &h);
    kube_cache_start(all->definitions);
    return all;
}

void controllers_kinds_free(struct controllers_kinds *all)
{
    if (!all)
        return;
    kube_cache_free(all->definitions);
    for (struct controllers_kind *k; (k = all->first);) {
        all->first = k->next;
        kind_free(k);
    }
    free(all);
}

bool controllers_kinds_synced(const struct controllers_kinds *all)
{
    if (!kube_cache_synced(all->definitions))
        return false;
    for (const struct controllers_kind *k = all->first; k; k = k->next)
        if (!kube_cache_synced(k->cache))
            return false;
    return true;
}

const struct controllers_kind *controllers_kind_of(const struct controllers_kinds *all,
                                                   const json_t *ref)
{
    const char *kind = codec_json_str(ref, "kind", NULL);
    const char *version = codec_json_str(ref, "apiVersion", NULL);
    for (const struct controllers_kind *k = all->first; k; k = k->next) {
        size_t group = strlen(k->gvr.group);
        if (gs_streq(k->kind, kind) && version &&
            (group ? strncmp(version, k->gvr.group, group) == 0 && version[group] == '/'
                   : !strchr(version, '/')))
            return k;
    }
    return NULL;
}

const struct controllers_kind *controllers_kind_named(const struct controllers_kinds *all,
                                                      struct gs_slice name)
{
    struct gs_slice group = name, resource = gs_slice_cut(&group, '.');
    for (const struct controllers_kind *k = all->first; k; k = k->next)
        if (gs_slice_eq_str(resource, k->gvr.resource) &&
            gs_slice_eq_str(group.data ? group : gs_slice_of(""), k->gvr.group))
            return k;
    return NULL;
}
