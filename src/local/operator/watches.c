// SPDX-License-Identifier: Apache-2.0
// Follows the CustomResourceDefinitions of the operator, and watches the objects of each resource
// while its definition is established.
#include "local/operator/operator_private.h"

#include "base/mem.h"
#include "kube/definition.h"
#include "kube/object.h"

static const char *const plurals[OPERATOR_RESOURCES] = {
    [OPERATOR_PROMETHEUSES] = "prometheuses",
    [OPERATOR_ALERTMANAGERS] = "alertmanagers",
    [OPERATOR_UNREAD] = "probes",
    "scrapeconfigs",
    "alertmanagerconfigs",
    "prometheusagents",
    "thanosrulers",
};

struct watched {
    struct operator_watches *owner;
    struct kube_cache *cache; // NULL: the definition does not exist
    char *version;
    bool has_status;
};

struct operator_watches {
    struct local_cluster *cluster;
    struct operator_watches_handlers handlers;
    struct kube_cache *definitions;
    struct watched items[OPERATOR_RESOURCES];
};

static void on_watched_object(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    const struct watched *w = arg;
    const struct operator_watches_handlers *h = &w->owner->handlers;
    h->on_object(h->arg, (enum operator_resource)(w - w->owner->items), old_obj, new_obj);
}

static void on_watched_synced(void *arg)
{
    const struct watched *w = arg;
    w->owner->handlers.on_synced(w->owner->handlers.arg);
}

static void end_watch(struct watched *w)
{
    size_t pos = 0;
    struct kube_cache *cache = GS_TAKE(w->cache);
    if (!cache)
        return;
    for (const json_t *obj; (obj = kube_cache_next(cache, &pos));)
        on_watched_object(w, obj, NULL);
    kube_cache_free(cache);
    free(GS_TAKE(w->version));
}

static bool has_status(const json_t *version)
{
    return json_is_object(codec_json_get(version, "subresources", "status", NULL));
}

static void begin_watch(struct watched *w, enum operator_resource r, const json_t *version)
{
    struct operator_watches *all = w->owner;
    const char *name = codec_json_str(version, "name", NULL);
    if (!name)
        return;
    w->version = gs_strdup(name);
    w->has_status = has_status(version);
    w->cache = kube_cache_new(all->cluster->loop, all->cluster->client,
                              operator_watches_gvr(all, r), NULL, NULL);
    const struct kube_cache_handlers h = {on_watched_object, on_watched_synced, w};
    kube_cache_add_handlers(w->cache, &h);
    kube_cache_start(w->cache);
}

static void on_definition(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct operator_watches *all = arg;
    const json_t *crd = new_obj ? new_obj : old_obj;
    const char *plural = codec_json_str(crd, "spec", "names", "plural", NULL);
    if (!gs_streq(codec_json_str(crd, "spec", "group", NULL), OPERATOR_GROUP))
        return;
    const json_t *version = new_obj ? kube_definition_version(new_obj) : NULL;
    for (size_t i = 0; i < OPERATOR_RESOURCES; i++) {
        struct watched *w = &all->items[i];
        if (!gs_streq(plural, plurals[i]))
            continue;
        if (version && w->cache && has_status(version) == w->has_status &&
            gs_streq(w->version, codec_json_str(version, "name", NULL)))
            continue;
        end_watch(w);
        if (version)
            begin_watch(w, (enum operator_resource)i, version);
    }
}

static void on_definitions_synced(void *arg)
{
    const struct operator_watches *all = arg;
    all->handlers.on_synced(all->handlers.arg);
}

struct operator_watches *operator_watches_new(struct local_cluster *c,
                                              const struct operator_watches_handlers *h)
{
    struct operator_watches *all = gs_alloc(sizeof(*all));
    all->cluster = c;
    all->handlers = *h;
    for (size_t i = 0; i < OPERATOR_RESOURCES; i++)
        all->items[i].owner = all;
    all->definitions = kube_cache_new(c->loop, c->client, KUBE_DEFINITIONS, NULL, NULL);
    kube_cache_set_trim(all->definitions, kube_definition_trim);
    const struct kube_cache_handlers of = {on_definition, on_definitions_synced, all};
    kube_cache_add_handlers(all->definitions, &of);
    kube_cache_start(all->definitions);
    return all;
}

void operator_watches_free(struct operator_watches *all)
{
    if (!all)
        return;
    kube_cache_free(all->definitions);
    for (size_t i = 0; i < OPERATOR_RESOURCES; i++) {
        kube_cache_free(all->items[i].cache);
        free(all->items[i].version);
    }
    free(all);
}

bool operator_watches_synced(const struct operator_watches *all)
{
    if (!kube_cache_synced(all->definitions))
        return false;
    for (size_t i = 0; i < OPERATOR_RESOURCES; i++)
        if (all->items[i].cache && !kube_cache_synced(all->items[i].cache))
            return false;
    return true;
}

const struct kube_cache *operator_watches_cache(const struct operator_watches *all,
                                                enum operator_resource r)
{
    return all->items[r].cache;
}

struct kube_gvr operator_watches_gvr(const struct operator_watches *all, enum operator_resource r)
{
    return (struct kube_gvr){OPERATOR_GROUP, all->items[r].version, plurals[r]};
}

bool operator_watches_has_status(const struct operator_watches *all, enum operator_resource r)
{
    return all->items[r].has_status;
}
