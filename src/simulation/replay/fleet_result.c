// SPDX-License-Identifier: Apache-2.0
// What a run with pools adds up: rows, events, GPU hours, prices and waits.
#include "replay/fleet_run.h"

#include "base/mem.h"
#include "base/num.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define MAX_LINES ((size_t)200000)
#define MAX_ROWS  ((size_t)1000000)

// --- the typical pod ---

// Each job counts once, a workload with replicas with the mean of its limits.
static void add_typical(const struct replay_fleet_run *run, size_t workload, double *count)
{
    const struct replay_scenario *s = run->f->workloads[workload].s;
    double replicas = s->object ? (s->spec.min_replicas + s->spec.max_replicas) / 2.0 : s->replicas;
    count[s->gpus_per_replica] += replicas;
    for (size_t i = 0; i < run->jobs[workload].n; i++)
        count[run->jobs[workload].jobs[i].gpus]++;
}

void replay_fleet_find_typical(struct replay_fleet_run *run)
{
    double all = 0, larger = 0;
    double *count = gs_alloc_array(REPLAY_MAX_GPUS + 1, sizeof(*count));
    for (size_t i = 0; i < run->f->n_workloads; i++)
        add_typical(run, i, count);
    for (size_t gpus = 1; gpus <= REPLAY_MAX_GPUS; gpus++)
        all += count[gpus];
    for (size_t gpus = REPLAY_MAX_GPUS + 1; gpus-- > 0;) {
        double n = gpus ? count[gpus] : 0;
        count[gpus] = all > 0 ? larger / all : 0;
        larger += n;
    }
    run->larger = count;
}

// --- events ---

void replay_fleet_log(struct replay_fleet_run *run, const char *fmt, ...)
{
    struct replay_fleet_result *r = run->result;
    va_list args;
    if (r->n_lines == MAX_LINES)
        return;
    gs_grow(&r->lines, &r->lines_cap, r->n_lines, sizeof(*r->lines));
    va_start(args, fmt);
    r->lines[r->n_lines++] = (struct replay_fleet_line){run->t_ms, gs_vformat(fmt, args)};
    va_end(args);
}

// --- states ---

static double add_nodes(const struct replay_fleet_run *run, struct replay_fleet_row *row)
{
    double stranded = 0;
    for (size_t i = 0; i < run->n_nodes; i++) {
        const struct replay_fleet_node *n = &run->nodes[i];
        if (n->state == REPLAY_NODE_ABSENT)
            continue;
        row->pool_nodes[n->pool]++;
        if (n->state == REPLAY_NODE_CREATING)
            continue;
        size_t free = n->gpus > n->used ? n->gpus - n->used : 0;
        row->nodes++;
        row->gpus += n->gpus;
        row->used += n->used;
        stranded += (double)free * run->larger[free < REPLAY_MAX_GPUS ? free : REPLAY_MAX_GPUS];
    }
    return stranded;
}

static bool same_row(const struct replay_fleet_row *a, const struct replay_fleet_row *b,
                     size_t pools)
{
    return a->waiting == b->waiting && a->nodes == b->nodes && a->gpus == b->gpus &&
           a->used == b->used && a->stranded == b->stranded &&
           !memcmp(a->pool_nodes, b->pool_nodes, pools * sizeof(*a->pool_nodes));
}

static void add_hours(struct replay_fleet_run *run, double hours)
{
    struct replay_fleet_summary *u = &run->result->summary;
    for (size_t i = 0; i < run->n_nodes; i++) {
        const struct replay_fleet_node *n = &run->nodes[i];
        if (n->state == REPLAY_NODE_ABSENT || n->failure == NODES_FAILURE_CAPACITY)
            continue;
        struct replay_fleet_pool_summary *p = &run->result->pools[n->pool];
        double price = run->f->pools.items[n->pool].price * hours;
        p->node_hours += hours;
        p->gpu_hours += (double)n->gpus * hours;
        p->used_gpu_hours += (double)n->used * hours;
        p->price += price;
        u->node_hours += hours;
        u->gpu_hours += (double)n->gpus * hours;
        u->used_gpu_hours += (double)n->used * hours;
        u->price += price;
    }
}

static void count_most_nodes(struct replay_fleet_result *r, const struct replay_fleet_row *row)
{
    size_t all = 0;
    for (size_t i = 0; i < r->n_pools; i++) {
        all += row->pool_nodes[i];
        if (row->pool_nodes[i] > r->pools[i].max_nodes)
            r->pools[i].max_nodes = row->pool_nodes[i];
    }
    if (all > r->summary.max_nodes)
        r->summary.max_nodes = all;
}

void replay_fleet_account(struct replay_fleet_run *run, int64_t until_ms)
{
    struct replay_fleet_result *r = run->result;
    double hours = (double)(until_ms - run->t_ms) / 3600000;
    struct replay_fleet_row row = {.t_ms = run->t_ms,
                                   .waiting = run->waiting.len,
                                   .pool_nodes =
                                       gs_alloc_array(r->n_pools + 1, sizeof(*row.pool_nodes))};
    row.stranded = add_nodes(run, &row);
    r->summary.stranded_gpu_hours += row.stranded * hours;
    add_hours(run, hours);
    count_most_nodes(r, &row);
    if (r->n_rows == MAX_ROWS ||
        (r->n_rows && same_row(&row, &r->rows[r->n_rows - 1], r->n_pools))) {
        free(row.pool_nodes);
        return;
    }
    gs_grow(&r->rows, &r->rows_cap, r->n_rows, sizeof(*r->rows));
    r->rows[r->n_rows++] = row;
}

// --- waits ---

static void add_wait(struct replay_fleet_waits *w, double s)
{
    gs_grow(&w->items, &w->cap, w->len, sizeof(*w->items));
    w->items[w->len++] = s;
}

void replay_fleet_add_wait(struct replay_fleet_run *run, size_t workload, int64_t ms)
{
    add_wait(&run->waits[workload], (double)ms / 1000);
}

static void set_waits(struct replay_fleet_waits *w, struct replay_pod_waits *ret)
{
    double sum = 0;
    ret->pods = w->len;
    if (!w->len)
        return;
    qsort(w->items, w->len, sizeof(*w->items), gs_compare_doubles);
    for (size_t i = 0; i < w->len; i++)
        sum += w->items[i];
    ret->mean_s = sum / (double)w->len;
    ret->p50_s = w->items[(w->len - 1) / 2];
    ret->p99_s = w->items[(size_t)ceil(0.99 * (double)w->len) - 1];
    ret->max_s = w->items[w->len - 1];
}

// --- beginning and end ---

static void add_warnings(struct replay_fleet_run *run)
{
    enum nodes_policy policy = run->f->plan.policy;
    struct replay_fleet_result *r = run->result;
    struct nodes_findings found = {0};
    nodes_pools_check(&run->f->pools, policy == NODES_POLICY_COST || policy == NODES_POLICY_PRICE,
                      &found);
    for (size_t i = 0; i < found.len; i++) {
        gs_grow(&r->warnings, &r->warnings_cap, r->n_warnings, sizeof(*r->warnings));
        r->warnings[r->n_warnings++] = gs_strdup(found.items[i].text);
    }
    nodes_findings_finish(&found);
}

// The scheduler's reasons, and those of the node autoscaler.
static char *why_waiting(struct replay_fleet_run *run, const struct replay_fleet_pod *p)
{
    struct nodes_reasons nodes = {0};
    GS_AUTO_BUF struct gs_buf out = {0};
    size_t ready = 0;
    for (size_t i = 0; i < run->n_nodes; i++)
        ready += run->nodes[i].state == REPLAY_NODE_READY;
    (void)nodes_best(run->snapshot, p->index, run->f->scoring, &nodes);
    GS_AUTO_FREE char *text = nodes_reasons_text(ready, &nodes);
    // The list goes on, so without the full stop.
    size_t len = strlen(text);
    gs_buf_add(&out, text, len && text[len - 1] == '.' ? len - 1 : len);
    replay_fleet_add_reasons(run, p->index, &out);
    nodes_reasons_finish(&nodes);
    return gs_strdup(out.data);
}

void replay_fleet_start_result(struct replay_fleet_run *run)
{
    struct replay_fleet_result *r = run->result;
    *r = (struct replay_fleet_result){
        .fleet = run->f, .n_workloads = run->f->n_workloads, .n_pools = run->f->pools.len};
    r->workloads = gs_alloc_array(r->n_workloads + 1, sizeof(*r->workloads));
    r->pools = gs_alloc_array(r->n_pools + 1, sizeof(*r->pools));
    run->waits = gs_alloc_array(r->n_workloads + 1, sizeof(*run->waits));
    add_warnings(run);
    for (size_t i = 0; i < r->n_workloads; i++)
        r->workloads[i].name = run->f->workloads[i].s->name;
    for (size_t i = 0; i < r->n_pools; i++)
        r->pools[i].name = run->f->pools.items[i].name;
}

static void finish_workload(struct replay_fleet_run *run, size_t i)
{
    struct replay_workload_run *w = &run->workloads[i];
    struct replay_fleet_workload_summary *u = &run->result->workloads[i];
    replay_workload_finish(w);
    u->load = w->result.summary;
    u->has_load = run->f->workloads[i].s->load.n > 0 || run->f->workloads[i].s->object;
    replay_result_finish(&w->result);
}

void replay_fleet_finish_result(struct replay_fleet_run *run)
{
    struct replay_fleet_result *r = run->result;
    struct replay_fleet_waits all = {0};
    for (size_t i = 0; i < run->waiting.len; i++) {
        const struct replay_fleet_pod *p = &run->pods[run->waiting.items[i]];
        replay_fleet_add_wait(run, p->workload, run->t_ms - p->created_ms);
        if (!r->workloads[p->workload].waits.waiting++)
            r->workloads[p->workload].why = why_waiting(run, p);
    }
    r->summary.waits.waiting = run->waiting.len;
    for (size_t i = 0; i < r->n_workloads; i++) {
        for (size_t k = 0; k < run->waits[i].len; k++)
            add_wait(&all, run->waits[i].items[k]);
        set_waits(&run->waits[i], &r->workloads[i].waits);
    }
    set_waits(&all, &r->summary.waits);
    free(all.items);
    for (size_t i = 0; i < r->n_workloads; i++)
        finish_workload(run, i);
}

void replay_fleet_result_finish(struct replay_fleet_result *r)
{
    for (size_t i = 0; i < r->n_rows; i++)
        free(r->rows[i].pool_nodes);
    for (size_t i = 0; i < r->n_lines; i++)
        free(r->lines[i].text);
    for (size_t i = 0; i < r->n_warnings; i++)
        free(r->warnings[i]);
    for (size_t i = 0; i < r->n_workloads; i++)
        free(r->workloads[i].why);
    free(r->rows);
    free(r->lines);
    free(r->warnings);
    free(r->workloads);
    free(r->pools);
    *r = (struct replay_fleet_result){0};
}
