// SPDX-License-Identifier: Apache-2.0
// The choice of the pool that grows: each pool that may grow is simulated with as many new nodes as
// the pending pods need.
#include "nodes/autoscaler/autoscaler_private.h"

#include "base/mem.h"
#include "kube/object.h"

// Places pending pods on new nodes of the pool, in order, as long as there is room.
static void simulate_pool(struct autoscaler_run *r, struct autoscaler_pool *p, size_t room,
                          struct autoscaler_choice *ret)
{
    struct nodes_snapshot *s = r->snapshot;
    size_t checkpoint = nodes_checkpoint(s), first = nodes_count(s);
    size_t left = p->pool->max - p->target;
    room = left < room ? left : room;
    ret->pool = p;
    ret->pods = gs_alloc_array(r->n_pending + 1, sizeof(*ret->pods));
    for (size_t i = 0; i < r->n_pending; i++) {
        size_t pod = r->pending[i], node = first;
        while (node < nodes_count(s) && !nodes_fits(s, pod, node, NULL))
            node++;
        if (node == nodes_count(s)) {
            if (ret->count == room)
                continue;
            GS_AUTO_FREE char *name = gs_format("new-%zu-of-%s", ret->count, p->pool->name);
            size_t inner = nodes_checkpoint(s);
            node = nodes_snapshot_add_template(s, p->template, name);
            if (!nodes_fits(s, pod, node, NULL)) {
                nodes_restore(s, inner);
                continue;
            }
            ret->count++;
        }
        nodes_place(s, pod, node);
        ret->pods[ret->n_pods++] = pod;
    }
    nodes_restore(s, checkpoint);
}

void autoscaler_choice_finish(struct autoscaler_choice *c)
{
    free(c->pods);
    free(c->why);
    *c = (struct autoscaler_choice){0};
}

static double cost_per_pod(const struct autoscaler_choice *c)
{
    double price = c->pool->pool->has_price ? c->pool->pool->price : (double)c->pool->pool->gpus;
    return price * (double)c->count / (double)c->n_pods;
}

static bool is_better(const struct autoscaler_choice *a, const struct autoscaler_choice *b)
{
    if (!a->count || !b->count)
        return a->count > 0;
    return cost_per_pod(a) < cost_per_pod(b);
}

bool autoscaler_choose(struct autoscaler *a, struct autoscaler_run *r, size_t room,
                       struct autoscaler_choice *ret)
{
    struct autoscaler_choice best = {0};
    for (size_t i = 0; i < a->cfg.n_pools; i++) {
        struct autoscaler_choice c = {0};
        if (autoscaler_skip_reason(&a->pools[i], r->now_ms))
            continue;
        simulate_pool(r, &a->pools[i], room, &c);
        if (is_better(&c, &best)) {
            autoscaler_choice_finish(&best);
            best = c;
        } else {
            autoscaler_choice_finish(&c);
        }
    }
    if (!best.count) {
        autoscaler_choice_finish(&best);
        return false;
    }
    best.why = gs_format("pool %s grows by %zu for %zu pods", best.pool->pool->name, best.count,
                         best.n_pods);
    *ret = best;
    return true;
}
