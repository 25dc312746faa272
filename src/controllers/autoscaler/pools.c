// SPDX-License-Identifier: Apache-2.0
// The state of each pool: which of its machines exist, are registered and are ready.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/quantity.h"

static void instance_free(void *value)
{
    struct autoscaler_instance *i = value;
    free(i->id);
    free(i->error_code);
    free(i->error_message);
    free(i);
}

void autoscaler_pools_init(struct autoscaler *a)
{
    a->pools = gs_alloc_array(a->cfg.n_pools, sizeof(*a->pools));
    for (size_t i = 0; i < a->cfg.n_pools; i++) {
        a->pools[i].pool = &a->cfg.pools[i];
        a->pools[i].instances = gs_hmap_new(instance_free);
    }
}

void autoscaler_pools_finish(struct autoscaler *a)
{
    for (size_t i = 0; i < a->cfg.n_pools; i++) {
        struct autoscaler_pool *p = &a->pools[i];
        gs_hmap_free(p->instances);
        json_decref(p->template);
        free(p->error_code);
        free(p->error_message);
    }
    free(a->pools);
}

// --- nodes ---

bool autoscaler_has_taint(const json_t *node, const char *key)
{
    size_t i;
    json_t *taint;
    json_array_foreach (codec_json_get(node, "spec", "taints", NULL), i, taint) {
        if (gs_streq(codec_json_str(taint, "key", NULL), key))
            return true;
    }
    return false;
}

static bool has_startup_taint(const json_t *node)
{
    size_t i;
    json_t *taint;
    json_array_foreach (codec_json_get(node, "spec", "taints", NULL), i, taint) {
        const char *key = codec_json_str(taint, "key", NULL);
        if (gs_starts(key, "startup-taint.cluster-autoscaler.kubernetes.io/") ||
            gs_starts(key, "ignore-taint.cluster-autoscaler.kubernetes.io/"))
            return true;
    }
    return false;
}

static bool has_gpus(const struct nodes_pool *pool, const json_t *node)
{
    const char *text = codec_json_str(node, "status", "allocatable", pool->gpu_resource, NULL);
    int64_t n = 0;
    GS_AUTO_ERROR struct gs_error *err =
        text ? kube_quantity_parse_value(gs_slice_of(text), &n) : NULL;
    return pool->gpus == 0 || (!err && n > 0);
}

// A node whose GPUs are not allocatable yet is not ready, whatever its conditions state.
static enum autoscaler_readiness readiness(const struct autoscaler *a,
                                           const struct autoscaler_pool *p, const json_t *node,
                                           int64_t now_ms, bool *ret_no_resource)
{
    bool ready = kube_condition_true(node, "Ready");
    *ret_no_resource = ready && !has_gpus(p->pool, node);
    if (autoscaler_has_taint(node, AUTOSCALER_HARD_TAINT))
        return AUTOSCALER_BEING_DELETED;
    if (ready && !*ret_no_resource && !has_startup_taint(node))
        return AUTOSCALER_READY;
    int64_t limit_ms = a->cfg.settings.max_startup_time / GS_NS_PER_MS;
    return now_ms - kube_created_ms(node, now_ms) < limit_ms ? AUTOSCALER_NOT_STARTED
                                                             : AUTOSCALER_UNREADY;
}

struct autoscaler_node *autoscaler_node_of(const struct autoscaler *a, const char *name)
{
    return name ? gs_hmap_get_str(a->nodes, name) : NULL;
}

static struct autoscaler_node *note_node(struct autoscaler *a, struct autoscaler_pool *p,
                                         const json_t *object)
{
    struct autoscaler_node *n = autoscaler_node_of(a, kube_name(object));
    if (!n) {
        n = gs_alloc(sizeof(*n));
        n->owner = a;
        n->name = gs_strdup(kube_name(object));
        gs_hmap_put_str(a->nodes, n->name, n);
    }
    n->listed = true;
    n->object = object;
    n->pool = p;
    return n;
}

// --- machines ---

struct listing {
    struct autoscaler_pool *pool;
    int64_t now_ms;
};

static void list_instance(void *arg, const struct nodes_instance *i)
{
    struct listing *l = arg;
    struct autoscaler_instance *own = gs_hmap_get_str(l->pool->instances, i->provider_id);
    if (!own) {
        own = gs_alloc(sizeof(*own));
        own->id = gs_strdup(i->provider_id);
        own->first_seen_ms = l->now_ms;
        gs_hmap_put_str(l->pool->instances, own->id, own);
    }
    own->listed = true;
    own->node = NULL;
    own->state = i->state;
    autoscaler_replace_text(&own->error_code, i->error_code);
    autoscaler_replace_text(&own->error_message, i->error_message);
}

void autoscaler_drop_unlisted(struct gs_hmap *map, bool (*listed)(const void *value),
                              void (*free_value)(void *value))
{
    struct gs_slice key;
    void *value;
    for (bool again = true; again;) {
        again = false;
        size_t pos = 0;
        while (gs_hmap_next(map, &pos, &key, &value)) {
            if (!listed(value)) {
                free_value(gs_hmap_remove(map, key));
                again = true;
                break;
            }
        }
    }
}

static bool instance_listed(const void *value)
{
    return ((const struct autoscaler_instance *)value)->listed;
}

static bool node_listed(const void *value)
{
    const struct autoscaler_node *n = value;
    return n->listed || n->deletion;
}

void autoscaler_node_free(void *value)
{
    struct autoscaler_node *n = value;
    kube_request_cancel(n->taint_request);
    free(n->reason);
    free(n->name);
    free(n);
}

static void list_instances(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(p->instances, &pos, &key, &value))
        ((struct autoscaler_instance *)value)->listed = false;
    struct listing l = {p, now_ms};
    a->provider.each(a->provider.ctx, p->pool->name, list_instance, &l);
    autoscaler_drop_unlisted(p->instances, instance_listed, instance_free);
    p->target = a->provider.target(a->provider.ctx, p->pool->name);
}

static void match_nodes(struct autoscaler *a)
{
    size_t pos = 0;
    const json_t *node;
    while ((node = kube_cache_next(a->cfg.nodes, &pos))) {
        const char *id = codec_json_str(node, "spec", "providerID", NULL);
        for (size_t i = 0; id && i < a->cfg.n_pools; i++) {
            struct autoscaler_instance *own = gs_hmap_get_str(a->pools[i].instances, id);
            if (!own)
                continue;
            own->node = node;
            note_node(a, &a->pools[i], node);
            break;
        }
    }
}

// --- counts ---

static void count_instance(struct autoscaler *a, struct autoscaler_pool *p,
                           struct autoscaler_instance *i, int64_t now_ms)
{
    if (i->state != NODES_INSTANCE_DELETING)
        p->existing++;
    if (i->failed) {
        p->failed++;
        return;
    }
    if (!i->node) {
        bool late = now_ms - i->first_seen_ms > a->cfg.settings.max_provision_time / GS_NS_PER_MS;
        if (i->state != NODES_INSTANCE_DELETING)
            *(late ? &p->long_unregistered : &p->unregistered) += 1;
        return;
    }
    bool no_resource = false;
    struct autoscaler_node *n = autoscaler_node_of(a, kube_name(i->node));
    n->readiness = i->state == NODES_INSTANCE_DELETING || n->deletion
                       ? AUTOSCALER_BEING_DELETED
                       : readiness(a, p, i->node, now_ms, &no_resource);
    p->registered++;
    if (n->readiness == AUTOSCALER_BEING_DELETED)
        p->being_deleted++;
    else if (n->readiness == AUTOSCALER_READY)
        p->ready++;
    else if (n->readiness == AUTOSCALER_NOT_STARTED)
        p->not_started++;
    else {
        p->unready++;
        p->resource_unready += no_resource;
    }
}

static bool acceptable(const struct autoscaler *a, size_t unready, size_t total)
{
    const struct autoscaler_settings *s = &a->cfg.settings;
    return unready <= (size_t)s->ok_unready_count ||
           (double)unready <= s->max_unready_percentage / 100 * (double)total;
}

static void count_pool(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms)
{
    p->registered = p->ready = p->not_started = p->unready = p->resource_unready = 0;
    p->being_deleted = p->unregistered = p->long_unregistered = p->failed = p->existing = 0;
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(p->instances, &pos, &key, &value))
        count_instance(a, p, value, now_ms);
    size_t absent = p->target > p->existing ? p->target - p->existing : 0;
    p->upcoming = p->unregistered + p->not_started + absent;
    p->healthy = acceptable(a, p->unready + p->long_unregistered, p->target);
}

static void count_cluster(struct autoscaler *a, int64_t now_ms)
{
    size_t unready = 0, total = 0;
    for (size_t i = 0; i < a->cfg.n_pools; i++) {
        unready += a->pools[i].unready + a->pools[i].long_unregistered;
        total += a->pools[i].registered + a->pools[i].long_unregistered;
    }
    bool healthy = acceptable(a, unready, total);
    if (!healthy && a->healthy)
        autoscaler_event(a, "Warning", "ClusterUnhealthy", "Cluster is unhealthy");
    a->healthy = healthy;
    autoscaler_condition_set(&a->health, healthy ? "Healthy" : "Unhealthy", now_ms);
}

size_t autoscaler_total_nodes(const struct autoscaler *a)
{
    size_t n = kube_cache_len(a->cfg.nodes);
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        n += a->pools[i].upcoming - a->pools[i].not_started;
    return n;
}

void autoscaler_pools_update(struct autoscaler *a, int64_t now_ms)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(a->nodes, &pos, &key, &value)) {
        ((struct autoscaler_node *)value)->listed = false;
        ((struct autoscaler_node *)value)->object = NULL;
    }
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        list_instances(a, &a->pools[i], now_ms);
    match_nodes(a);
    autoscaler_drop_unlisted(a->nodes, node_listed, autoscaler_node_free);
    for (size_t i = 0; i < a->cfg.n_pools; i++) {
        struct autoscaler_pool *p = &a->pools[i];
        autoscaler_handle_failures(a, p, now_ms);
        count_pool(a, p, now_ms);
        autoscaler_follow_scale_up(a, p, now_ms);
        count_pool(a, p, now_ms);
        autoscaler_correct_size(a, p, now_ms);
        count_pool(a, p, now_ms);
        autoscaler_condition_set(&p->health, p->healthy ? "Healthy" : "Unhealthy", now_ms);
        autoscaler_condition_set(&p->scale_up,
                                 nodes_backoff_active(&p->backoff, now_ms) ? "Backoff"
                                 : p->scaling                              ? "InProgress"
                                                                           : "NoActivity",
                                 now_ms);
    }
    count_cluster(a, now_ms);
}
