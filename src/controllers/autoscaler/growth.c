// SPDX-License-Identifier: Apache-2.0
// The growth of a pool: the scale-up in progress, and back-off after failures.
// Machines that do not register in time are given up.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

void autoscaler_replace_text(char **text, const char *with)
{
    if (gs_streq(*text, with))
        return;
    free(*text);
    *text = gs_strdup(with);
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
    autoscaler_replace_text(&p->error_code, code);
    autoscaler_replace_text(&p->error_message, message);
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
void autoscaler_correct_size(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms)
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

// --- steps of an update ---

void autoscaler_handle_failures(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms)
{
    const struct nodes_backoff_limits limits = backoff_limits(a);
    nodes_backoff_expire(&p->backoff, now_ms, &limits);
    handle_creation_errors(a, p, now_ms);
    delete_failed(a, p);
}

void autoscaler_follow_scale_up(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms)
{
    update_scale_up(a, p, now_ms);
    delete_long_unregistered(a, p, now_ms);
}
