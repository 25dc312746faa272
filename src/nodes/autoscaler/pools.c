// SPDX-License-Identifier: Apache-2.0
// The state of each pool: which of its machines exist, are registered and are ready; the scale-up
// in progress; backoff after failures. Machines that do not register in time are given up.
#include "nodes/autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/quantity.h"

#include <math.h>

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

int64_t autoscaler_created_ms(const json_t *obj, int64_t fallback)
{
    const char *text = codec_json_str(obj, "metadata", "creationTimestamp", NULL);
    int64_t ms = fallback;
    GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_rfc3339(gs_slice_of(text), &ms) : NULL;
    return err ? fallback : ms;
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
    return now_ms - autoscaler_created_ms(node, now_ms) < limit_ms ? AUTOSCALER_NOT_STARTED
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

static void replace_text(char **text, const char *with)
{
    if (gs_streq(*text, with))
        return;
    free(*text);
    *text = gs_strdup(with);
}

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
    replace_text(&own->error_code, i->error_code);
    replace_text(&own->error_message, i->error_message);
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
    free(n->unremovable);
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

// --- scale-ups in progress ---

static struct nodes_backoff_limits backoff_limits(const struct autoscaler *a)
{
    const struct autoscaler_settings *s = &a->cfg.settings;
    return (struct nodes_backoff_limits){s->backoff_initial / GS_NS_PER_MS,
                                         s->backoff_max / GS_NS_PER_MS,
                                         s->backoff_reset / GS_NS_PER_MS};
}

void autoscaler_failed_scale_up(struct autoscaler *a, struct autoscaler_pool *p, const char *code,
                                const char *message, int64_t now_ms)
{
    const struct nodes_backoff_limits limits = backoff_limits(a);
    struct nodes_backoff *b = &p->backoff;
    nodes_backoff_fail(b, now_ms, &limits);
    replace_text(&p->error_code, code);
    replace_text(&p->error_message, message);
    a->counters.failed_scale_ups++;
    char pause[GS_RFC3339_SIZE];
    gs_format_duration((b->until_ms - now_ms) * GS_NS_PER_MS, pause);
    autoscaler_decided(a, "pool %s: no further scale-up for %s after %s: %s", p->pool->name, pause,
                       code, message);
    autoscaler_want_run(a); // another pool may serve the pods
}

void autoscaler_scaled_up(struct autoscaler *a, struct autoscaler_pool *p, size_t n, int64_t now_ms)
{
    p->scaling = true;
    p->increase += n;
    p->scaling_since_ms = now_ms;
    p->scaling_until_ms = now_ms + a->cfg.settings.max_provision_time / GS_NS_PER_MS;
    a->last_add_ms = now_ms;
    a->counters.scaled_up += (double)n;
    if (p->pool->gpus > 0)
        a->counters.scaled_up_gpu += (double)n;
}

static void end_scale_up(struct autoscaler_pool *p)
{
    p->scaling = false;
    p->increase = 0;
}

static void time_out_scale_up(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms)
{
    char took[GS_RFC3339_SIZE];
    gs_format_duration((now_ms - p->scaling_since_ms) * GS_NS_PER_MS, took);
    autoscaler_event(a, "Warning", "ScaleUpTimedOut",
                     "Nodes added to group %s failed to register within %s", p->pool->name, took);
    GS_AUTO_FREE char *why =
        gs_format("Scale-up timed out for node group %s after %s", p->pool->name, took);
    a->counters.failed_timeout++;
    autoscaler_failed_scale_up(a, p, "timeout", why, now_ms);
    size_t missing = p->target > p->existing ? p->target - p->existing : 0;
    if (missing) {
        GS_AUTO_ERROR struct gs_error *err =
            a->provider.decrease_target(a->provider.ctx, p->pool->name, missing);
        if (err)
            autoscaler_event(a, "Warning", "FailedToRevertScaleUp",
                             "Failed to decrease target size for group %s after scale-up timeout: "
                             "%s",
                             p->pool->name, gs_error_message(err));
        else
            p->target -= missing;
    }
    end_scale_up(p);
}

static void update_scale_up(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms)
{
    if (!p->scaling)
        return;
    if (p->upcoming + p->long_unregistered == 0) {
        if (p->increase > 0 && !nodes_backoff_active(&p->backoff, now_ms))
            nodes_backoff_succeed(&p->backoff);
        end_scale_up(p);
    } else if (now_ms > p->scaling_until_ms) {
        time_out_scale_up(a, p, now_ms);
    }
}

// --- machines that failed ---

static struct gs_error *remove_instance(struct autoscaler *a, struct autoscaler_pool *p,
                                        struct autoscaler_instance *i)
{
    struct gs_error *err = a->provider.delete_node(a->provider.ctx, p->pool->name, i->id);
    if (!err)
        i->state = NODES_INSTANCE_DELETING;
    return err;
}

// Reports machines whose creation failed, by error, and deletes them.
static void handle_creation_errors(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms)
{
    size_t pos = 0, n_new = 0;
    struct gs_slice key;
    void *value;
    const struct autoscaler_instance *first = NULL;
    while (gs_hmap_next(p->instances, &pos, &key, &value)) {
        struct autoscaler_instance *i = value;
        if (i->error_code && !i->failed && i->state != NODES_INSTANCE_DELETING) {
            i->failed = true;
            first = first ? first : i;
            n_new++;
        }
    }
    if (!n_new)
        return;
    const char *message = first->error_message ? first->error_message : "";
    autoscaler_event(a, "Warning", "ScaleUpFailed",
                     "Failed adding %zu nodes to group %s due to %s; source errors: %s", n_new,
                     p->pool->name, first->error_code, message);
    a->counters.failed_capacity++;
    autoscaler_failed_scale_up(a, p, first->error_code, message, now_ms);
    p->increase -= n_new < p->increase ? n_new : p->increase;
}

static void delete_failed(struct autoscaler *a, struct autoscaler_pool *p)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(p->instances, &pos, &key, &value)) {
        struct autoscaler_instance *i = value;
        if (!i->failed || i->state == NODES_INSTANCE_DELETING)
            continue;
        GS_AUTO_ERROR struct gs_error *err = remove_instance(a, p, i);
        if (err)
            gs_warn("autoscaler", "cannot delete machine %s, whose creation failed: %s", i->id,
                    gs_error_message(err));
        else if (p->target)
            p->target--;
    }
}

static bool is_unregistered(const struct autoscaler_instance *i)
{
    return !i->node && !i->failed && i->state != NODES_INSTANCE_DELETING;
}

static void delete_long_unregistered(struct autoscaler *a, struct autoscaler_pool *p,
                                     int64_t now_ms)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(p->instances, &pos, &key, &value)) {
        struct autoscaler_instance *i = value;
        if (!is_unregistered(i) ||
            now_ms - i->first_seen_ms <= a->cfg.settings.max_provision_time / GS_NS_PER_MS)
            continue;
        if (p->target <= p->pool->min) {
            gs_debug("autoscaler", "pool %s has its minimum size: unregistered machine %s stays",
                     p->pool->name, i->id);
            continue;
        }
        GS_AUTO_ERROR struct gs_error *err = remove_instance(a, p, i);
        if (err) {
            autoscaler_event(a, "Warning", "DeleteUnregisteredFailed",
                             "Failed to remove node %s: %s", i->id, gs_error_message(err));
            continue;
        }
        p->target--;
        a->counters.old_unregistered++;
        autoscaler_event(a, "Normal", "DeleteUnregistered", "Removed unregistered node %s", i->id);
    }
}

// A target that counts machines which nobody creates is corrected after the provision time.
static void correct_size(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms)
{
    if (p->target <= p->existing || p->scaling) {
        p->wrong_size_since_ms = 0;
        return;
    }
    if (!p->wrong_size_since_ms)
        p->wrong_size_since_ms = now_ms;
    if (now_ms - p->wrong_size_since_ms <= a->cfg.settings.max_provision_time / GS_NS_PER_MS)
        return;
    GS_AUTO_ERROR struct gs_error *err =
        a->provider.decrease_target(a->provider.ctx, p->pool->name, p->target - p->existing);
    if (err)
        gs_warn("autoscaler", "cannot correct the size of pool %s: %s", p->pool->name,
                gs_error_message(err));
    else
        p->target = p->existing;
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
    bool no_resource;
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

static void enforce_minimum(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms)
{
    size_t min = p->pool->min;
    if (!a->cfg.settings.enforce_min_size || p->target >= min ||
        nodes_backoff_active(&p->backoff, now_ms))
        return;
    size_t missing = min - p->target;
    GS_AUTO_ERROR struct gs_error *err =
        a->provider.increase(a->provider.ctx, p->pool->name, missing);
    if (err) {
        autoscaler_failed_scale_up(a, p, "cloudProviderError", gs_error_message(err), now_ms);
        return;
    }
    autoscaler_decided(a, "pool %s: adding %zu nodes up to its minimum size %zu", p->pool->name,
                       missing, min);
    autoscaler_scaled_up(a, p, missing, now_ms);
    p->target += missing;
    p->upcoming += missing;
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
    const struct nodes_backoff_limits limits = backoff_limits(a);
    for (size_t i = 0; i < a->cfg.n_pools; i++) {
        struct autoscaler_pool *p = &a->pools[i];
        nodes_backoff_expire(&p->backoff, now_ms, &limits);
        handle_creation_errors(a, p, now_ms);
        delete_failed(a, p);
        count_pool(a, p, now_ms);
        update_scale_up(a, p, now_ms);
        delete_long_unregistered(a, p, now_ms);
        count_pool(a, p, now_ms);
        correct_size(a, p, now_ms);
        enforce_minimum(a, p, now_ms);
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
