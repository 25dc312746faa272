// SPDX-License-Identifier: Apache-2.0
// What a plan says about waiting pods: machines are ordered, and each pod gets an event that names
// the pool, or the reason of each pool.
#include "autoscaler/autoscaler_private.h"

#include "base/mem.h"
#include "kube/object.h"

#define REPEAT_MS (5 * 60 * INT64_C(1000)) // identical events are merged for this time

// --- pods ---

static struct autoscaler_pod *pod_of(struct autoscaler *a, const struct autoscaler_run *r,
                                     size_t pod) // of the snapshot
{
    return gs_hmap_get_str(a->pods, kube_uid(nodes_pod(r->in.snapshot, pod)));
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

static void record(struct autoscaler *a, const struct autoscaler_run *r, size_t pod,
                   const char *reason, const char *text)
{
    struct autoscaler_pod *state = pod_of(a, r, pod);
    if (gs_streq(state->text, text) && r->in.now_ms - state->recorded_ms < REPEAT_MS)
        return;
    free(state->text);
    state->text = gs_strdup(text);
    state->recorded_ms = r->in.now_ms;
    kube_event(a->recorder, nodes_pod(r->in.snapshot, pod), "Normal", reason, "%s", text);
}

// --- pods that order nothing ---

static void take_pod(struct autoscaler *a, const struct autoscaler_run *r, size_t i)
{
    const struct nodes_pod_plan *w = &r->plan.pods[i];
    struct autoscaler_pod *state = pod_of(a, r, w->pod);
    free(state->reason);
    state->reason = nodes_plan_pod_text(&r->in, &r->plan, i);
    switch (w->wait) {
    case NODES_WAITS_FOR_SCHEDULER:
    case NODES_WAITS_FOR_CORDON:
    case NODES_WAITS_FOR_UPCOMING:
        set_coming(state, w->group == NODES_NONE ? NULL : &a->pools[w->group], r->in.now_ms);
        break;
    case NODES_WAITS_FOR_POOL:
    case NODES_WAITS_FOR_LIMIT:
        record(a, r, w->pod, "NotTriggerScaleUp", state->reason);
        set_coming(state, NULL, r->in.now_ms);
        break;
    case NODES_WAITS_FOR_ORDER:
    case NODES_WAITS_FOR_TURN:
        break;
    }
}

static bool is_at_limit(const struct nodes_plan *p)
{
    for (size_t i = 0; i < p->n_pods; i++)
        if (p->pods[i].wait == NODES_WAITS_FOR_LIMIT)
            return true;
    return false;
}

// --- orders ---

static bool increase(struct autoscaler *a, struct autoscaler_pool *p, size_t n, int64_t now_ms)
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

// The Cluster Autoscaler orders such machines without a warning.
static void warn_of_waste(struct autoscaler *a, const struct autoscaler_run *r, size_t pod,
                          const struct nodes_pool *pool)
{
    if (nodes_pool_is_open(pool) && nodes_request(r->in.snapshot, pod, pool->gpu_resource) <= 0)
        kube_event(a->recorder, nodes_pod(r->in.snapshot, pod), "Warning", "GPUNodeForCPUPod",
                   "Pool %s grows for this pod, which requests no GPU. What to do: the "
                   "taint " NODES_GPU_TAINT " keeps such pods off its machines.",
                   pool->name);
}

static void record_triggered(struct autoscaler *a, const struct autoscaler_run *r,
                             const struct nodes_order *o, const char *text)
{
    struct autoscaler_pool *p = &a->pools[o->group];
    for (size_t i = 0; i < o->n_pods; i++) {
        record(a, r, o->pods[i], "TriggeredScaleUp", text);
        warn_of_waste(a, r, o->pods[i], p->pool);
        set_coming(pod_of(a, r, o->pods[i]), p, r->in.now_ms);
    }
}

// The orders for pods are one decision.
static void order_for_pods(struct autoscaler *a, const struct autoscaler_run *r)
{
    const struct nodes_plan *plan = &r->plan;
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_FREE bool *done = gs_alloc_array(plan->n_orders + 1, sizeof(*done));
    gs_buf_add_str(&text, "pod triggered scale-up: [");
    size_t before = text.len;
    for (size_t i = 0; i < plan->n_orders; i++) {
        const struct nodes_order *o = &plan->orders[i];
        struct autoscaler_pool *p = &a->pools[o->group];
        size_t from = p->target;
        if (o->cause != NODES_CAUSE_PODS)
            continue;
        if (!i || plan->orders[i - 1].cause != NODES_CAUSE_PODS)
            autoscaler_decided(a, "%s", plan->decision.text);
        done[i] = increase(a, p, o->count, r->in.now_ms);
        if (done[i])
            gs_buf_addf(&text, "%s{%s %zu->%zu (max: %zu)}", text.len > before ? " " : "",
                        p->pool->name, from, from + o->count, (size_t)p->pool->max);
    }
    gs_buf_add_char(&text, ']');
    for (size_t i = 0; i < plan->n_orders; i++) {
        if (!done[i])
            continue;
        record_triggered(a, r, &plan->orders[i], text.data);
        autoscaler_want_run(a); // for pods that need another pool
    }
}

static void order_minimum(struct autoscaler *a, const struct autoscaler_run *r,
                          const struct nodes_order *o)
{
    struct autoscaler_pool *p = &a->pools[o->group];
    autoscaler_decided(a, "pool %s: adding %zu nodes up to its minimum size %zu", p->pool->name,
                       o->count, (size_t)p->pool->min);
    increase(a, p, o->count, r->in.now_ms);
}

static void order_replacement(struct autoscaler *a, const struct autoscaler_run *r,
                              const struct nodes_order *o)
{
    const struct autoscaler_node *n = r->nodes[o->node];
    GS_AUTO_FREE char *why = nodes_plan_replacement_text(&r->in, o);
    kube_event(a->recorder, n->object, "Normal", "Consolidation", "%s", why);
    autoscaler_decided(a, "replacing node %s: %s", n->name, why);
    increase(a, &a->pools[o->group], o->count, r->in.now_ms);
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
    free(p->reason);
    free(p->text);
    free(p);
}

void autoscaler_scale_up(struct autoscaler *a, const struct autoscaler_run *r)
{
    const struct nodes_plan *plan = &r->plan;
    autoscaler_drop_unlisted(a->pods, pod_listed, autoscaler_pod_free);
    a->n_unschedulable = plan->n_unschedulable;
    for (size_t i = 0; i < plan->n_orders; i++)
        if (plan->orders[i].cause == NODES_CAUSE_MINIMUM)
            order_minimum(a, r, &plan->orders[i]);
    if (is_at_limit(plan))
        autoscaler_event(a, "Warning", "MaxNodesTotalReached",
                         "Max total nodes in cluster reached: %lld",
                         (long long)a->cfg.settings.max_nodes_total);
    for (size_t i = 0; i < plan->n_pods; i++)
        take_pod(a, r, i);
    order_for_pods(a, r);
    for (size_t i = 0; i < plan->n_orders; i++)
        if (plan->orders[i].cause == NODES_CAUSE_REPLACEMENT)
            order_replacement(a, r, &plan->orders[i]);
}
