// SPDX-License-Identifier: Apache-2.0
// Against stranded GPUs, if it is enabled: early cordon of idle large nodes, and consolidation. A
// node whose pods would run on a smaller and cheaper one gets a replacement, and is then removed as
// any unneeded node.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/packing.h"

// --- early cordon ---

static void write_cordon(struct autoscaler *a, struct autoscaler_node *n, bool cordon,
                         const char *why)
{
    if (n->taint_request)
        return;
    CODEC_AUTO_JSON json_t *patch = nodes_cordon_patch(n->object, cordon, why);
    autoscaler_patch_node(n, patch);
    kube_event(a->recorder, n->object, "Normal", nodes_cordon_event(cordon), "%s", why);
    autoscaler_decided(a, "%s node %s: %s", cordon ? "cordoning" : "uncordoning", n->name, why);
}

// Pods that wait for the node are placed on this copy in the rest of the run.
static void open_in_snapshot(struct autoscaler_run *r, const struct autoscaler_node *n)
{
    CODEC_AUTO_JSON json_t *copy = nodes_uncordoned(n->object);
    autoscaler_run_add_template(r, copy, n->name);
}

static void end_all_cordons(struct autoscaler *a, struct autoscaler_run *r)
{
    for (size_t i = 0; i < r->n_nodes; i++) {
        struct autoscaler_node *n = r->nodes[i];
        if (n && n->object && kube_annotation(n->object, NODES_ANN_EARLY_CORDON))
            write_cordon(a, n, false, NODES_CORDON_DISABLED);
    }
}

void autoscaler_early_cordon(struct autoscaler *a, struct autoscaler_run *r)
{
    if (!a->cfg.settings.early_cordon) {
        end_all_cordons(a, r);
        return;
    }
    const struct nodes_choice_settings settings = {.policy = a->policy, .now_ms = r->now_ms};
    struct nodes_group *groups = autoscaler_groups(a);
    struct nodes_mix mix = {0};
    struct nodes_cordons plan = {0};
    nodes_mix_of(r->snapshot, &mix);
    nodes_mix_add_groups(&mix, groups, a->cfg.n_pools);
    nodes_plan_cordons(r->snapshot, groups, a->cfg.n_pools, &mix, &settings, &plan);
    for (size_t i = 0; i < plan.len; i++) {
        const struct nodes_cordon *c = &plan.items[i];
        struct autoscaler_node *n = c->node < r->n_nodes ? r->nodes[c->node] : NULL;
        if (!n || !n->object || n->deletion)
            continue;
        write_cordon(a, n, c->cordon, c->why);
        if (!c->cordon) {
            n->unneeded_since_ms = 0;
            r->uncordoned = true;
            open_in_snapshot(r, n);
        }
    }
    // A pod that waits for the end of a cordon needs no new node.
    if (nodes_reserve_cordoned(r->snapshot, groups, a->cfg.n_pools, &settings))
        r->uncordoned = true;
    autoscaler_run_note_nodes(r);
    nodes_cordons_finish(&plan);
    nodes_mix_finish(&mix);
    free(groups);
}

// --- consolidation ---

struct movable {
    struct autoscaler *a;
    struct autoscaler_budgets *budgets;
    int64_t now_ms;
};

static enum nodes_movability is_movable(void *arg, const json_t *pod)
{
    struct movable *m = arg;
    GS_AUTO_FREE char *why = NULL;
    enum autoscaler_move move = autoscaler_may_move(m->a, m->budgets, pod, m->now_ms, &why);
    return move == AUTOSCALER_MOVE     ? NODES_MOVE
           : move == AUTOSCALER_IGNORE ? NODES_STAY
                                       : NODES_BLOCK;
}

void autoscaler_plan_consolidation(struct autoscaler *a, struct autoscaler_run *r,
                                   struct autoscaler_budgets *budgets)
{
    struct movable m = {a, budgets, r->now_ms};
    struct nodes_consolidation plan = {0};
    for (size_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i])
            r->nodes[i]->consolidate = false;
    if (!a->cfg.settings.consolidation)
        return;
    nodes_plan_consolidation(r->snapshot, is_movable, &m, (size_t)a->cfg.settings.max_parallelism,
                             &plan);
    for (size_t i = 0; i < plan.n_nodes; i++) {
        struct autoscaler_node *n =
            plan.nodes[i].node < r->n_nodes ? r->nodes[plan.nodes[i].node] : NULL;
        if (n)
            n->consolidate = true;
    }
    nodes_consolidation_finish(&plan);
}

// --- replacement by a smaller node ---

// 0: without a price, GPUs stand for it.
static double price_of(const struct nodes_pool *p, bool priced)
{
    return priced ? p->price : (double)p->gpus;
}

static bool is_cheaper(const struct nodes_pool *small, const struct nodes_pool *own)
{
    bool priced = small->has_price && own->has_price;
    return small->gpus > 0 && small->gpus < own->gpus && small->has_price == own->has_price &&
           price_of(small, priced) < price_of(own, priced);
}

static bool can_grow(const struct autoscaler_pool *p, int64_t now_ms)
{
    return p->healthy && p->target < p->pool->max && !nodes_backoff_active(&p->backoff, now_ms);
}

// Whether all pods of the node fit on existing nodes and one new node of the pool.
static bool fits_with(struct autoscaler_run *r, const struct movable *m, size_t node,
                      const struct autoscaler_pool *p)
{
    struct nodes_snapshot *s = r->snapshot;
    size_t checkpoint = nodes_checkpoint(s), n_moves = 0;
    bool ok = true;
    nodes_exclude(s, node, true);
    nodes_snapshot_add_template(s, p->template, "replacement");
    for (size_t i = r->first_pod[node]; ok && i < r->first_pod[node + 1]; i++) {
        size_t pod = r->pods_by_node[i];
        if (nodes_of_pod(s, pod) != node)
            continue;
        enum nodes_movability move = is_movable((void *)m, nodes_pod(s, pod));
        if (move == NODES_STAY)
            continue;
        nodes_unplace(s, pod, node);
        size_t to = move == NODES_MOVE ? nodes_best(s, pod, NODES_PACK_GPUS, NULL) : NODES_NONE;
        ok = to != NODES_NONE;
        if (ok)
            nodes_place(s, pod, to);
        n_moves++;
    }
    nodes_restore(s, checkpoint);
    return ok && n_moves > 0;
}

static struct autoscaler_pool *replacement_for(struct autoscaler *a, struct autoscaler_run *r,
                                               const struct movable *m, size_t node)
{
    struct autoscaler_pool *best = NULL;
    const struct nodes_pool *own = r->nodes[node]->pool->pool;
    for (size_t i = 0; i < a->cfg.n_pools; i++) {
        struct autoscaler_pool *p = &a->pools[i];
        if (is_cheaper(p->pool, own) && can_grow(p, r->now_ms) &&
            (!best || is_cheaper(p->pool, best->pool) || p->pool->price < best->pool->price) &&
            fits_with(r, m, node, p))
            best = p;
    }
    return best;
}

static void order_replacement(struct autoscaler *a, struct autoscaler_run *r,
                              struct autoscaler_node *n, struct autoscaler_pool *p)
{
    n->replaced_until_ms = r->now_ms + a->cfg.settings.max_provision_time / GS_NS_PER_MS;
    GS_AUTO_FREE char *price =
        p->pool->has_price ? gs_format(" for %.2f instead of %.2f %s an hour", p->pool->price,
                                       n->pool->pool->price, p->pool->currency)
                           : gs_strdup("");
    GS_AUTO_FREE char *why =
        gs_format("its pods fit on a new node of pool %s with %zu GPU%s%s", p->pool->name,
                  p->pool->gpus, p->pool->gpus == 1 ? "" : "s", price);
    kube_event(a->recorder, n->object, "Normal", "Consolidation", "%s", why);
    autoscaler_decided(a, "replacing node %s: %s", n->name, why);
    autoscaler_increase(a, p, 1, r->now_ms);
}

// One node at a time: the next run sees what the replacement takes.
void autoscaler_replace(struct autoscaler *a, struct autoscaler_run *r,
                        struct autoscaler_budgets *budgets)
{
    struct movable m = {a, budgets, r->now_ms};
    if (!a->cfg.settings.consolidation || a->n_deletions)
        return;
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        if (a->pools[i].scaling)
            return;
    for (size_t i = 0; i < r->n_nodes; i++) {
        struct autoscaler_node *n = r->nodes[i];
        if (!n || !n->object || n->deletion || n->unneeded_since_ms || !n->pool->pool->gpus ||
            n->readiness != AUTOSCALER_READY || r->now_ms < n->replaced_until_ms)
            continue;
        struct autoscaler_pool *p = replacement_for(a, r, &m, i);
        if (!p) {
            n->replaceable_since_ms = 0;
            continue;
        }
        if (!n->replaceable_since_ms)
            n->replaceable_since_ms = r->now_ms;
        if (r->now_ms - n->replaceable_since_ms < a->cfg.settings.unneeded_time / GS_NS_PER_MS)
            continue;
        n->replaceable_since_ms = 0;
        order_replacement(a, r, n, p);
        return;
    }
}
