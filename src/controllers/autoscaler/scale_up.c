// SPDX-License-Identifier: Apache-2.0
// Scale-up: pods that fit on no node, neither existing nor upcoming, get machines of one pool per
// run. The next run considers what is left. Each pod gets an event that names the pool, or the
// reason of each pool.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

#define REPEAT_MS (5 * 60 * INT64_C(1000)) // identical events are merged for this time

// --- pods ---

static struct autoscaler_pod *pod_of(struct autoscaler *a, const struct autoscaler_run *r,
                                     size_t pod)
{
    return gs_hmap_get_str(a->pods, kube_uid(nodes_pod(r->snapshot, pod)));
}

static int64_t expected_ms(const struct autoscaler_pool *p, int64_t since_ms)
{
    return p->pool->startup_ms > 0 ? since_ms + p->pool->startup_ms : 0;
}

static void set_coming(struct autoscaler_pod *state, struct autoscaler_pool *p, int64_t now_ms)
{
    if (state->coming == p)
        return;
    state->coming = p;
    state->coming_since_ms = p ? now_ms : 0;
    int64_t since_ms = p && p->scaling ? p->scaling_since_ms : now_ms;
    state->expected_ms = p ? expected_ms(p, since_ms) : 0;
}

static void record(struct autoscaler *a, struct autoscaler_run *r, size_t pod, const char *reason,
                   const char *text)
{
    struct autoscaler_pod *state = pod_of(a, r, pod);
    if (gs_streq(state->text, text) && r->now_ms - state->recorded_ms < REPEAT_MS)
        return;
    free(state->text);
    state->text = gs_strdup(text);
    state->recorded_ms = r->now_ms;
    kube_event(a->recorder, nodes_pod(r->snapshot, pod), "Normal", reason, "%s", text);
}

// Places pods where they fit. What remains in r->pending fits nowhere.
static void place_pending(struct autoscaler *a, struct autoscaler_run *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_pending; i++) {
        size_t pod = r->pending[i];
        if (nodes_of_pod(r->snapshot, pod) != NODES_NONE) { // it waits for the end of a cordon
            set_coming(pod_of(a, r, pod), NULL, r->now_ms);
            continue;
        }
        size_t node = nodes_best(r->snapshot, pod, NODES_FIRST, NULL);
        if (node == NODES_NONE) {
            r->pending[n++] = pod;
            continue;
        }
        nodes_place(r->snapshot, pod, node);
        set_coming(pod_of(a, r, pod), r->upcoming[node], r->now_ms);
    }
    r->n_pending = n;
    a->n_unschedulable = n;
}

// --- limits ---

static size_t cluster_headroom(const struct autoscaler *a)
{
    const struct autoscaler_settings *s = &a->cfg.settings;
    size_t room = (size_t)s->max_nodes_per_scale_up;
    if (s->max_nodes_total > 0) {
        size_t total = autoscaler_total_nodes(a), max = (size_t)s->max_nodes_total;
        size_t left = total < max ? max - total : 0;
        room = left < room ? left : room;
    }
    return room;
}

static void record_rejections(struct autoscaler *a, struct autoscaler_run *r, bool at_max_total)
{
    for (size_t i = 0; i < r->n_pending; i++) {
        GS_AUTO_FREE char *text =
            at_max_total
                ? gs_strdup("pod didn't trigger scale-up: max total nodes in cluster reached")
                : autoscaler_rejection(a, r, r->pending[i]);
        record(a, r, r->pending[i], "NotTriggerScaleUp", text);
        set_coming(pod_of(a, r, r->pending[i]), NULL, r->now_ms);
    }
}

// --- the scale-up ---

bool autoscaler_increase(struct autoscaler *a, struct autoscaler_pool *p, size_t n, int64_t now_ms)
{
    const char *name = p->pool->name;
    size_t to = p->target + n;
    autoscaler_event(a, "Normal", "ScaledUpGroup",
                     "Scale-up: setting group %s size to %zu instead of %zu (max: %zu)", name, to,
                     p->target, (size_t)p->pool->max);
    GS_AUTO_ERROR struct gs_error *err = a->provider.increase(a->provider.ctx, name, n);
    if (err) {
        autoscaler_event(a, "Warning", "FailedToScaleUpGroup", "Scale-up failed for group %s: %s",
                         name, gs_error_message(err));
        GS_AUTO_FREE char *why =
            gs_format("failed to increase node group size: %s", gs_error_message(err));
        autoscaler_failed_scale_up(a, p, "cloudProviderError", why, now_ms);
        return false;
    }
    autoscaler_scaled_up(a, p, n, now_ms);
    autoscaler_condition_set(&p->scale_up, "InProgress", now_ms);
    autoscaler_event(a, "Normal", "ScaledUpGroup",
                     "Scale-up: group %s size set to %zu instead of %zu (max: %zu)", name, to,
                     p->target, (size_t)p->pool->max);
    p->target = to;
    return true;
}

// The Cluster Autoscaler buys such machines without a word.
static void warn_of_waste(struct autoscaler *a, const struct autoscaler_run *r, size_t pod,
                          const struct nodes_pool *pool)
{
    const json_t *object = nodes_pod(r->snapshot, pod);
    CODEC_AUTO_JSON json_t *requests = nodes_pod_requests(object), *p = nodes_pool_json(pool);
    if (nodes_pool_attracts(p, requests))
        kube_event(a->recorder, object, "Warning", "GPUNodeForCPUPod",
                   "Pool %s grows for this pod, which requests no GPU. What to do: the "
                   "taint " NODES_GPU_TAINT " keeps such pods off its machines.",
                   pool->name);
}

// Pods of the option in proportion to the new nodes of the pools.
static void record_triggered(struct autoscaler *a, struct autoscaler_run *r,
                             const struct nodes_option *o, const struct autoscaler_share *shares,
                             size_t n, const char *text)
{
    size_t nodes = 0, at = 0, until = 0;
    for (size_t i = 0; i < n; i++)
        nodes += shares[i].count;
    for (size_t i = 0; i < o->n_pods; i++) {
        while (at < n && i * nodes >= until * o->n_pods)
            until += shares[at++].count;
        record(a, r, o->pods[i], "TriggeredScaleUp", text);
        warn_of_waste(a, r, o->pods[i], shares[at - 1].pool->pool);
        set_coming(pod_of(a, r, o->pods[i]), shares[at - 1].pool, r->now_ms);
    }
}

static void carry_out(struct autoscaler *a, struct autoscaler_run *r,
                      const struct autoscaler_choice *c)
{
    size_t n = 0, done = 0;
    GS_AUTO_FREE struct autoscaler_share *shares = autoscaler_balance(a, r, c, &n);
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add_str(&text, "pod triggered scale-up: [");
    autoscaler_decided(a, "%s", c->decision.text);
    for (size_t i = 0; i < n; i++) {
        struct autoscaler_pool *p = shares[i].pool;
        size_t from = p->target;
        if (!autoscaler_increase(a, p, shares[i].count, r->now_ms))
            continue;
        gs_buf_addf(&text, "%s{%s %zu->%zu (max: %zu)}", done ? " " : "", p->pool->name, from,
                    from + shares[i].count, (size_t)p->pool->max);
        shares[done++] = shares[i];
    }
    if (!done)
        return;
    gs_buf_add_char(&text, ']');
    record_triggered(a, r, c->option, shares, done, text.data);
    autoscaler_want_run(a); // for pods that need another pool
}

static bool pod_listed(const void *value)
{
    return ((const struct autoscaler_pod *)value)->listed;
}

void autoscaler_pod_free(void *value)
{
    struct autoscaler_pod *p = value;
    free(p->uid);
    free(p->ns);
    free(p->name);
    free(p->text);
    free(p);
}

bool autoscaler_scale_up(struct autoscaler *a, struct autoscaler_run *r)
{
    autoscaler_drop_unlisted(a->pods, pod_listed, autoscaler_pod_free);
    place_pending(a, r);
    if (!r->n_pending)
        return false;
    size_t room = cluster_headroom(a);
    if (!room) {
        autoscaler_event(a, "Warning", "MaxNodesTotalReached",
                         "Max total nodes in cluster reached: %lld",
                         (long long)a->cfg.settings.max_nodes_total);
        record_rejections(a, r, true);
        return false;
    }
    GS_CLEANUP(autoscaler_choice_finish) struct autoscaler_choice choice = {0};
    if (!autoscaler_choose(a, r, room, &choice)) {
        record_rejections(a, r, false);
        return false;
    }
    carry_out(a, r, &choice);
    return true;
}
