// SPDX-License-Identifier: Apache-2.0
// The pools of a cluster. The label of its nodes names a pool. What is known about it comes from
//   - its nodes,
//   - the Cluster Autoscaler's requests: a template node for each of its groups,
//   - the Cluster Autoscaler's status: sizes, limits and back-off of its groups,
//   - the file with prices, which also has pools that have no node yet.
#include "base/mem.h"
#include "expander/expander_private.h"
#include "kube/cache.h"
#include "kube/object.h"
#include "nodes/inspect/inspect.h"
#include "nodes/packing.h"

enum { MAX_GROUPS = 1000 };

struct count {
    size_t target, max, upcoming; // of the node groups of the status
    size_t known, blocked;        // node groups
    bool requested;               // the node is a template of a request
};

struct building {
    struct expander_groups *g;
    const struct nodes_pools *pools;
    struct count *counts; // by group: MAX_GROUPS
};

static struct nodes_group *find(struct building *b, const char *name)
{
    for (size_t i = 0; i < b->g->len; i++)
        if (gs_streq(b->g->items[i].name, name))
            return &b->g->items[i];
    return NULL;
}

static struct nodes_group *find_pool(struct building *b, const struct nodes_pool *pool)
{
    for (size_t i = 0; pool && i < b->g->len; i++)
        if (b->g->items[i].pool == pool)
            return &b->g->items[i];
    return NULL;
}

// NULL: too many.
static struct nodes_group *add(struct building *b, const char *name, const struct nodes_pool *pool)
{
    struct expander_groups *g = b->g;
    if (g->len >= MAX_GROUPS)
        return NULL;
    gs_grow(&g->items, &g->cap, g->len, sizeof(*g->items));
    g->items[g->len] = (struct nodes_group){.name = gs_strdup(name), .pool = pool};
    return &g->items[g->len++];
}

static struct count *count_of(const struct building *b, const struct nodes_group *group)
{
    return &b->counts[group - b->g->items];
}

static const struct nodes_pool *pool_of(const struct building *b, struct gs_slice group,
                                        const json_t *node)
{
    return b->pools ? expander_pool_of(b->pools, group, node) : NULL;
}

bool expander_is_leaving(const json_t *node)
{
    size_t i;
    const json_t *taint;
    json_array_foreach (codec_json_get(node, "spec", "taints", NULL), i, taint)
        if (gs_streq(codec_json_str(taint, "key", NULL), "ToBeDeletedByClusterAutoscaler"))
            return true;
    return kube_is_deleting(node);
}

static void add_nodes(struct building *b, struct kube_cache *nodes)
{
    size_t pos = 0;
    const json_t *node;
    while ((node = kube_cache_next(nodes, &pos))) {
        const char *label = nodes_pool_label(node);
        struct nodes_group *group = label ? find(b, label) : NULL;
        if (label && !group)
            group = add(b, label, pool_of(b, gs_slice_of(label), node));
        if (!group)
            continue;
        group->size++;
        if (!group->node && kube_condition_true(node, "Ready") && !expander_is_leaving(node))
            group->node = nodes_uncordoned(node);
    }
}

static bool is_in_status(const json_t *status, struct gs_slice id)
{
    GS_AUTO_FREE char *name = gs_slice_dup(id);
    return json_object_get(status, name) != NULL;
}

// Only groups that the status or the file confirms: anybody may send a request.
static void add_requested(struct building *b, struct expander_cluster *cluster,
                          const json_t *status)
{
    size_t pos = 0;
    struct expander_known_group known;
    while (expander_cluster_next(cluster, &pos, &known)) {
        const struct nodes_pool *pool = pool_of(b, known.id, known.template);
        struct nodes_group *group = known.pool ? find(b, known.pool) : NULL;
        if (!known.pool || !known.template)
            continue;
        if (!group && (pool || is_in_status(status, known.id)))
            group = add(b, known.pool, pool);
        if (!group)
            continue;
        if (!count_of(b, group)->requested) {
            json_decref((json_t *)group->node);
            group->node = json_incref((json_t *)known.template);
            count_of(b, group)->requested = true;
        }
        if (!group->pool)
            group->pool = pool;
        if (known.backoff.until_ms > group->backoff.until_ms)
            group->backoff = known.backoff;
    }
}

static void add_pools(struct building *b)
{
    for (size_t i = 0; b->pools && i < b->pools->len; i++)
        if (!find_pool(b, &b->pools->items[i]) && !find(b, b->pools->items[i].name))
            add(b, b->pools->items[i].name, &b->pools->items[i]);
}

// The pool of a node group: by a request, by the file, or by its name.
static struct nodes_group *group_of(struct building *b, struct expander_cluster *cluster,
                                    const char *id)
{
    size_t pos = 0;
    struct expander_known_group known;
    while (expander_cluster_next(cluster, &pos, &known))
        if (known.pool && gs_slice_eq_str(known.id, id))
            return find(b, known.pool);
    struct nodes_group *group = find_pool(b, pool_of(b, gs_slice_of(id), NULL));
    // Of two pools, one of whose names contains the other, the longer one.
    struct nodes_group *named = NULL;
    for (size_t i = 0; !group && i < b->g->len; i++)
        if (inspect_group_is(id, b->g->items[i].name) &&
            (!named || strlen(b->g->items[i].name) > strlen(named->name)))
            named = &b->g->items[i];
    return group ? group : named;
}

static size_t count(const json_t *group, const char *key)
{
    int64_t n = codec_json_int(group, 0, key, NULL);
    return n < 0 || n > NODES_MAX_POOL_SIZE ? 0 : (size_t)n;
}

// A pool may have a node group in each zone.
static void add_status(struct building *b, struct expander_cluster *cluster, const json_t *status)
{
    const char *id;
    json_t *from;
    json_object_foreach ((json_t *)status, id, from) {
        struct nodes_group *group = group_of(b, cluster, id);
        if (!group)
            continue;
        struct count *c = count_of(b, group);
        size_t target = count(from, "target"), ready = count(from, "ready");
        c->target += target;
        c->max += count(from, "max");
        c->upcoming += target > ready ? target - ready : 0;
        c->blocked += gs_streq(codec_json_str(from, "scaleUp", NULL), "Backoff");
        c->known++;
    }
}

static void set_limits(struct building *b)
{
    for (size_t i = 0; i < b->g->len; i++) {
        struct nodes_group *group = &b->g->items[i];
        const struct count *c = &b->counts[i];
        if (c->known) {
            group->size = c->target;
            group->max = c->max;
            group->upcoming = c->upcoming;
            group->blocked = c->blocked == c->known ? "in backoff after failed scale-up" : NULL;
            group->backoff = (struct nodes_backoff){0}; // the status knows it
        } else {
            group->max = group->pool && group->pool->max ? group->pool->max : group->size + 1;
        }
    }
}

void expander_groups_init(struct expander_groups *g, const struct nodes_pools *pools,
                          struct expander_cluster *cluster, const json_t *status)
{
    CODEC_AUTO_JSON json_t *groups = inspect_status_groups(status);
    struct building b = {
        .g = g, .pools = pools, .counts = gs_alloc_array(MAX_GROUPS, sizeof(*b.counts))};
    *g = (struct expander_groups){0};
    add_nodes(&b, expander_cluster_nodes(cluster));
    add_requested(&b, cluster, groups);
    add_pools(&b);
    add_status(&b, cluster, groups);
    set_limits(&b);
    free(b.counts);
}

void expander_groups_finish(struct expander_groups *g)
{
    for (size_t i = 0; i < g->len; i++) {
        free((char *)g->items[i].name);
        json_decref((json_t *)g->items[i].node);
    }
    free(g->items);
    *g = (struct expander_groups){0};
}
