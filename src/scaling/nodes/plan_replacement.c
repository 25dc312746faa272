// SPDX-License-Identifier: Apache-2.0
// A node whose pods would run on a smaller and cheaper one gets a replacement, and is then removed
// as any unneeded node. One node at a time: the next plan sees what the replacement takes.
#include "base/mem.h"
#include "nodes/plan_private.h"

// 0: without a price, GPUs stand for it.
static double price_of(const struct nodes_pool *p)
{
    return p->has_price ? p->price : (double)p->gpus;
}

static bool is_cheaper(const struct nodes_pool *small, const struct nodes_pool *own)
{
    return small->gpus > 0 && small->gpus < own->gpus && small->has_price == own->has_price &&
           price_of(small) < price_of(own);
}

// Whether all pods of the node fit on existing nodes and one new node of the group.
static bool fits_with(const struct nodes_planner *p, size_t node, size_t group)
{
    const struct nodes_choice_settings settings = nodes_plan_choice(p->in, 0);
    struct nodes_snapshot *s = p->s;
    CODEC_AUTO_JSON json_t *added = nodes_group_node(&p->groups[group], &settings);
    size_t checkpoint = nodes_checkpoint(s), n_moves = 0;
    bool ok = true;
    nodes_exclude(s, node, true);
    nodes_snapshot_add_template(s, added, "replacement");
    for (size_t i = p->first_pod[node]; ok && i < p->first_pod[node + 1]; i++) {
        size_t pod = p->pods_by_node[i];
        if (nodes_of_pod(s, pod) != node)
            continue;
        enum nodes_movability m = nodes_plan_movable((void *)p, s->pods[pod].object);
        if (m == NODES_STAY)
            continue;
        nodes_unplace(s, pod, node);
        size_t to = m == NODES_MOVE ? nodes_best(s, pod, NODES_PACK_GPUS, NULL) : NODES_NONE;
        ok = to != NODES_NONE;
        if (ok)
            nodes_place(s, pod, to);
        n_moves++;
    }
    nodes_restore(s, checkpoint);
    return ok && n_moves > 0;
}

static bool can_grow(const struct nodes_planner *p, size_t group)
{
    const struct nodes_group *g = &p->groups[group];
    return g->size < g->max && !g->blocked && !nodes_backoff_active(&g->backoff, p->in->now_ms);
}

// NODES_NONE: no group has a cheaper node for the pods.
static size_t replacement_for(const struct nodes_planner *p, size_t node)
{
    const struct nodes_pool *own = p->groups[p->in->nodes[node].group].pool, *best = NULL;
    size_t found = NODES_NONE;
    for (size_t i = 0; i < p->in->n_groups; i++) {
        const struct nodes_pool *pool = p->groups[i].pool;
        if (!pool || !is_cheaper(pool, own) || !can_grow(p, i) ||
            (best && price_of(pool) >= price_of(best)) || !fits_with(p, node, i))
            continue;
        found = i;
        best = pool;
    }
    return found;
}

// A node that could not be removed afterwards would only cost its replacement.
static bool may_be_replaced(const struct nodes_planner *p, size_t node)
{
    const struct nodes_plan_node *n = &p->in->nodes[node];
    const struct nodes_node_plan *own = &p->plan->nodes[node];
    const struct nodes_pool *pool = n->group == NODES_NONE ? NULL : p->groups[n->group].pool;
    return n->condition == NODES_READY && pool && pool->gpus && !own->unneeded_since_ms &&
           own->verdict != NODES_SCALE_DOWN_DISABLED && !nodes_plan_at_minimum(p, n->group, 0) &&
           p->in->now_ms >= n->replaced_until_ms;
}

// True: a replacement was ordered.
static bool consider(struct nodes_planner *p, size_t node)
{
    struct nodes_node_plan *n = &p->plan->nodes[node];
    size_t group = replacement_for(p, node);
    if (group == NODES_NONE) {
        n->replaceable_since_ms = 0;
        return false;
    }
    if (!n->replaceable_since_ms)
        n->replaceable_since_ms = p->in->now_ms;
    int64_t at_ms = n->replaceable_since_ms + p->in->settings.unneeded_ms;
    if (at_ms > p->in->now_ms) {
        nodes_plan_again_at(p, at_ms);
        return false;
    }
    n->replaceable_since_ms = 0;
    n->replaced_until_ms = p->in->now_ms + p->in->settings.max_provision_ms;
    nodes_plan_add_order(p, NODES_CAUSE_REPLACEMENT, group, 1)->node = node;
    return true;
}

void nodes_plan_replacement(struct nodes_planner *p)
{
    if (!p->in->settings.consolidation || p->in->n_removing || p->plan->n_removals || p->ordered)
        return;
    for (size_t i = 0; i < p->in->n_groups; i++)
        if (p->in->growing[i])
            return;
    for (size_t i = 0; i < p->in->n_nodes; i++)
        if (may_be_replaced(p, i) && consider(p, i))
            return;
}
