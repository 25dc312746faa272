// SPDX-License-Identifier: Apache-2.0
// The plan of nodes in a run with pools: its input from the simulation, and what it changes there.
#include "replay/fleet_run.h"
#include "replay/scenario_private.h"

#include "base/mem.h"

#define DECISIONS UINT64_C(1000000007) // so that seeds of decisions differ

static void set_earlier(int64_t *t_ms, int64_t other_ms)
{
    if (other_ms < *t_ms)
        *t_ms = other_ms;
}

// --- the input ---

static int64_t unix_ms(int64_t t_ms)
{
    return REPLAY_T0_MS + t_ms;
}

// Back-offs count in the time of the run.
static struct nodes_backoff backoff_of(const struct replay_fleet_run *run, size_t pool)
{
    struct nodes_backoff b = run->pools[pool].backoff;
    nodes_backoff_expire(&b, run->t_ms, &run->f->times.backoff);
    b.until_ms = unix_ms(b.until_ms);
    b.last_failure_ms = unix_ms(b.last_failure_ms);
    return b;
}

// As for a cloud, the size includes nodes that are drained.
static void add_groups(const struct replay_fleet_run *run, struct replay_fleet_input *r)
{
    size_t n = run->f->pools.len;
    r->groups = gs_alloc_array(n + 1, sizeof(*r->groups));
    r->leaving = gs_alloc_array(n + 1, sizeof(*r->leaving));
    r->growing = gs_alloc_array(n + 1, sizeof(*r->growing));
    for (size_t i = 0; i < n; i++) {
        const struct replay_fleet_pool *p = &run->pools[i];
        r->groups[i] = (struct nodes_group){.name = p->pool->name,
                                            .pool = p->pool,
                                            .node = p->template[0],
                                            .size = p->size,
                                            .max = p->pool->max,
                                            .backoff = backoff_of(run, i)};
        r->growing[i] = p->creating > 0;
    }
}

static void add_nodes(const struct replay_fleet_run *run, struct replay_fleet_input *r)
{
    static const enum nodes_condition conditions[] = {
        [REPLAY_NODE_ABSENT] = NODES_ABSENT,
        [REPLAY_NODE_CREATING] = NODES_UPCOMING,
        [REPLAY_NODE_READY] = NODES_READY,
        [REPLAY_NODE_DRAINING] = NODES_LEAVING,
    };
    r->nodes = gs_alloc_array(run->n_nodes + 1, sizeof(*r->nodes));
    for (size_t i = 0; i < run->n_nodes; i++) {
        const struct replay_fleet_node *n = &run->nodes[i];
        r->nodes[i] = (struct nodes_plan_node){.condition = conditions[n->state],
                                               .group = n->pool,
                                               .unneeded_since_ms = n->unneeded_since_ms,
                                               .replaceable_since_ms = n->replaceable_since_ms,
                                               .replaced_until_ms = n->replaced_until_ms};
        r->in.n_total += n->state != REPLAY_NODE_ABSENT;
        if (n->state != REPLAY_NODE_DRAINING)
            continue;
        r->groups[n->pool].size++;
        r->leaving[n->pool]++;
        r->in.n_removing++;
        r->in.n_draining++;
    }
}

void replay_fleet_input_init(struct replay_fleet_run *run, struct replay_fleet_input *r)
{
    *r = (struct replay_fleet_input){.in = {.now_ms = unix_ms(run->t_ms),
                                            .settings = run->f->plan,
                                            .snapshot = run->snapshot,
                                            .n_nodes = run->n_nodes,
                                            .n_groups = run->f->pools.len,
                                            .last_add_ms = run->last_add_ms}};
    r->in.settings.seed = run->f->seed * DECISIONS + run->decisions;
    add_groups(run, r);
    add_nodes(run, r);
    r->in.nodes = r->nodes;
    r->in.groups = r->groups;
    r->in.leaving = r->leaving;
    r->in.growing = r->growing;
}

void replay_fleet_input_finish(struct replay_fleet_input *r)
{
    free(r->nodes);
    free(r->groups);
    free(r->leaving);
    free(r->growing);
}

void replay_fleet_add_reasons(struct replay_fleet_run *run, size_t pod, struct gs_buf *out)
{
    struct replay_fleet_input r;
    replay_fleet_input_init(run, &r);
    const struct nodes_choice_settings settings = {.policy = run->f->plan.policy,
                                                   .now_ms = r.in.now_ms};
    for (size_t pool = 0; pool < r.in.n_groups; pool++) {
        struct nodes_reasons reasons = {0};
        gs_buf_addf(out, "; pool %s: ", r.groups[pool].name);
        nodes_group_reasons(run->snapshot, pod, &r.groups[pool], &settings, &reasons);
        for (size_t i = 0; i < reasons.len; i++)
            gs_buf_addf(out, "%s%s", i ? ", " : "", reasons.items[i].text);
        nodes_reasons_finish(&reasons);
    }
    replay_fleet_input_finish(&r);
}

// --- what the plan changes ---

static void log_node(struct replay_fleet_run *run, size_t node, const char *what, const char *why)
{
    const struct replay_fleet_node *n = &run->nodes[node];
    replay_fleet_log(run, "node %s-%u %s: %s", run->pools[n->pool].pool->name, n->number + 1, what,
                     why);
}

static void take_states(struct replay_fleet_run *run, const struct nodes_plan *p)
{
    for (size_t i = 0; i < run->n_nodes; i++) {
        struct replay_fleet_node *n = &run->nodes[i];
        if (n->state != REPLAY_NODE_READY)
            continue;
        n->unneeded_since_ms = p->nodes[i].unneeded_since_ms;
        n->replaceable_since_ms = p->nodes[i].replaceable_since_ms;
        n->replaced_until_ms = p->nodes[i].replaced_until_ms;
    }
}

static void order_nodes(struct replay_fleet_run *run, const struct nodes_plan *p,
                        const struct nodes_order *o, const struct nodes_plan_input *in)
{
    struct replay_fleet_pool *pool = &run->pools[o->group];
    size_t to = pool->size + o->count;
    if (o->cause == NODES_CAUSE_REPLACEMENT) {
        GS_AUTO_FREE char *why = nodes_plan_replacement_text(in, o);
        log_node(run, o->node, "replaced", why);
    } else {
        replay_fleet_log(run, "%s %zu->%zu (max: %zu) for %zu waiting pod%s: %s", pool->pool->name,
                         pool->size, to, pool->pool->max, o->n_pods, o->n_pods == 1 ? "" : "s",
                         p->decision.options[p->decision.chosen].text);
        run->last_add_ms = in->now_ms;
    }
    for (size_t i = 0; i < o->count; i++)
        replay_fleet_add_node(run, o->group, false);
    run->result->summary.nodes_added += o->count;
    run->result->pools[o->group].added += o->count;
}

// The texts are made before the first node is removed, because it changes the snapshot.
static void remove_nodes(struct replay_fleet_run *run, const struct nodes_plan *p,
                         const struct nodes_plan_input *in)
{
    char **texts = gs_alloc_array(p->n_removals + 1, sizeof(*texts));
    for (size_t i = 0; i < p->n_removals; i++)
        texts[i] = nodes_plan_node_text(in, p, p->removals[i].node);
    for (size_t i = 0; i < p->n_removals; i++) {
        replay_fleet_drain_node(run, p->removals[i].node, texts[i]);
        free(texts[i]);
    }
    free(texts);
}

static void cordon_nodes(struct replay_fleet_run *run, const struct nodes_plan *p)
{
    for (size_t i = 0; i < p->cordons.len; i++) {
        const struct nodes_cordon *c = &p->cordons.items[i];
        log_node(run, c->node, c->cordon ? "cordoned" : "uncordoned", c->why);
        replay_fleet_cordon_node(run, c->node, c->cordon);
    }
}

static int64_t plan(struct replay_fleet_run *run)
{
    struct replay_fleet_input r;
    struct nodes_plan p;
    replay_fleet_input_init(run, &r);
    nodes_plan(&r.in, &p);
    run->decisions += p.decided;
    take_states(run, &p);
    for (size_t i = 0; i < p.n_orders; i++)
        order_nodes(run, &p, &p.orders[i], &r.in);
    remove_nodes(run, &p, &r.in);
    cordon_nodes(run, &p);
    int64_t again_ms = p.again_ms;
    nodes_plan_finish(&p);
    replay_fleet_input_finish(&r);
    return again_ms == INT64_MAX ? again_ms : again_ms - REPLAY_T0_MS;
}

// --- scans ---

static int64_t next_grid_time(const struct replay_fleet_run *run, int64_t t_ms)
{
    int64_t scan = run->f->times.scan_ms;
    return t_ms == INT64_MAX ? t_ms : (t_ms + scan - 1) / scan * scan;
}

int64_t replay_fleet_scan(struct replay_fleet_run *run)
{
    int64_t scan = run->f->times.scan_ms;
    if (run->t_ms % scan == 0 && (run->changed || run->t_ms >= run->next_scan_ms)) {
        run->changed = false;
        replay_fleet_schedule(run);
        int64_t next_ms = plan(run);
        // A pod of a drained node, or one that waited for the end of a cordon, may have a node at
        // once.
        replay_fleet_schedule(run);
        run->next_scan_ms = next_grid_time(run, next_ms > run->t_ms ? next_ms : run->t_ms + 1);
    }
    if (run->changed)
        set_earlier(&run->next_scan_ms, next_grid_time(run, run->t_ms + 1));
    return run->next_scan_ms;
}
