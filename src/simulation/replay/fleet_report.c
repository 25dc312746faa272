// SPDX-License-Identifier: Apache-2.0
// Results of scenarios with pools as tables, CSV and JSON.
#include "base/mem.h"
#include "replay/fleet_private.h"
#include "replay/report_private.h"

#include <stdio.h>

static void add_time(struct gs_buf *out, int64_t t_ms)
{
    long long s = (long long)(t_ms / 1000);
    GS_AUTO_FREE char *text = gs_format("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    gs_buf_addf(out, "%9s", text);
}

static double percent(double part, double all)
{
    return all > 0 ? 100 * part / all : 0;
}

// "USD" if all pools have this currency, else "".
static const char *currency_of(const struct replay_fleet *f)
{
    const char *currency = "";
    for (size_t i = 0; i < f->pools.len; i++) {
        const struct nodes_pool *p = &f->pools.items[i];
        if (!p->has_price)
            continue;
        if (*currency && !gs_streq(currency, p->currency))
            return "";
        currency = p->currency;
    }
    return currency;
}

// --- table ---

static void add_pools(const struct replay_fleet_result *r, struct gs_buf *out)
{
    gs_buf_addf(out, "\n%-20s %9s %6s %8s %7s %9s %11s %10s %6s %10s\n", "pool", "max nodes",
                "added", "removed", "failed", "preempted", "node hours", "GPU hours", "used%",
                "price");
    for (size_t i = 0; i < r->n_pools; i++) {
        const struct replay_fleet_pool_summary *p = &r->pools[i];
        gs_buf_addf(out, "%-20s %9zu %6zu %8zu %7zu %9zu %11.2f %10.2f %6.0f %10.2f\n", p->name,
                    p->max_nodes, p->added, p->removed, p->failures, p->preempted, p->node_hours,
                    p->gpu_hours, percent(p->used_gpu_hours, p->gpu_hours), p->price);
    }
}

static void add_workloads(const struct replay_fleet_result *r, struct gs_buf *out)
{
    gs_buf_addf(out, "\n%-20s %6s %9s %9s %9s %8s %14s %10s\n", "workload", "pods", "wait p50",
                "p99", "max s", "waiting", "replicas mean", "work p99 s");
    for (size_t i = 0; i < r->n_workloads; i++) {
        const struct replay_fleet_workload_summary *w = &r->workloads[i];
        gs_buf_addf(out, "%-20s %6zu %9.0f %9.0f %9.0f %8zu", w->name, w->waits.pods,
                    w->waits.p50_s, w->waits.p99_s, w->waits.max_s, w->waits.waiting);
        if (w->has_load)
            gs_buf_addf(out, " %14.2f %10g", w->load.mean_replicas, w->load.wait_p99_s);
        gs_buf_add_char(out, '\n');
    }
    for (size_t i = 0; i < r->n_workloads; i++)
        if (r->workloads[i].why)
            gs_buf_addf(out, "%s waits: %s\n", r->workloads[i].name, r->workloads[i].why);
}

static void add_totals(const struct replay_fleet_result *r, struct gs_buf *out)
{
    const struct replay_fleet_summary *u = &r->summary;
    const char *currency = currency_of(r->fleet);
    gs_buf_addf(out,
                "\n%.2f GPU hours, %.0f %% of them used, %.2f stranded; price %.2f%s%s\n"
                "nodes: %zu added, %zu removed, %zu preempted, at most %zu; %zu without capacity, "
                "%zu failed to start; pods evicted: %zu\n"
                "wait of the pods: half within %g s, 99 %% within %g s, the longest %g s; %zu of "
                "%zu wait at the end\n",
                u->gpu_hours, percent(u->used_gpu_hours, u->gpu_hours), u->stranded_gpu_hours,
                u->price, *currency ? " " : "", currency, u->nodes_added, u->nodes_removed,
                u->preemptions, u->max_nodes, u->capacity_failures, u->start_failures, u->evictions,
                u->waits.p50_s, u->waits.p99_s, u->waits.max_s, u->waits.waiting, u->waits.pods);
}

void replay_fleet_print_table(const struct replay_fleet_result *r, struct gs_buf *out)
{
    for (size_t i = 0; i < r->n_warnings; i++)
        gs_buf_addf(out, "warning: %s\n", r->warnings[i]);
    gs_buf_addf(out, "%s, policy %s\n%9s  event\n", r->fleet->name,
                nodes_policy_name(r->fleet->plan.policy), "time");
    for (size_t i = 0; i < r->n_lines; i++) {
        add_time(out, r->lines[i].t_ms);
        gs_buf_addf(out, "  %s\n", r->lines[i].text);
    }
    add_pools(r, out);
    add_workloads(r, out);
    add_totals(r, out);
}

// --- CSV ---

static void add_csv_name(const char *name, struct gs_buf *out)
{
    gs_buf_add_str(out, ",\"");
    for (const char *c = name; *c; c++)
        gs_buf_addf(out, "%s%c", *c == '"' ? "\"" : "", *c);
    gs_buf_add_char(out, '"');
}

void replay_fleet_print_csv(const struct replay_fleet_result *r, struct gs_buf *out)
{
    gs_buf_add_str(out, "seconds,waiting,nodes,gpus,used,stranded");
    for (size_t i = 0; i < r->n_pools; i++)
        add_csv_name(r->pools[i].name, out);
    gs_buf_add_char(out, '\n');
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct replay_fleet_row *row = &r->rows[i];
        gs_buf_addf(out, "%lld,%zu,%zu,%zu,%zu,%.6g", (long long)(row->t_ms / 1000), row->waiting,
                    row->nodes, row->gpus, row->used, row->stranded);
        for (size_t k = 0; k < r->n_pools; k++)
            gs_buf_addf(out, ",%zu", row->pool_nodes[k]);
        gs_buf_add_char(out, '\n');
    }
}

// --- JSON ---

static void set_int(json_t *obj, const char *name, size_t v)
{
    json_object_set_new(obj, name, json_integer((json_int_t)v));
}

static void set_real(json_t *obj, const char *name, double v)
{
    json_object_set_new(obj, name, json_real(v));
}

static void set_waits(json_t *obj, const struct replay_pod_waits *w)
{
    set_int(obj, "pods", w->pods);
    set_int(obj, "waitingAtEnd", w->waiting);
    set_real(obj, "meanWaitSeconds", w->mean_s);
    set_real(obj, "waitP50Seconds", w->p50_s);
    set_real(obj, "waitP99Seconds", w->p99_s);
    set_real(obj, "maxWaitSeconds", w->max_s);
}

static json_t *summary_json(const struct replay_fleet_summary *u)
{
    json_t *out = json_object();
    set_real(out, "price", u->price);
    set_real(out, "nodeHours", u->node_hours);
    set_real(out, "gpuHours", u->gpu_hours);
    set_real(out, "usedGpuHours", u->used_gpu_hours);
    set_real(out, "strandedGpuHours", u->stranded_gpu_hours);
    set_int(out, "nodesAdded", u->nodes_added);
    set_int(out, "nodesRemoved", u->nodes_removed);
    set_int(out, "maxNodes", u->max_nodes);
    set_int(out, "capacityFailures", u->capacity_failures);
    set_int(out, "startFailures", u->start_failures);
    set_int(out, "evictions", u->evictions);
    set_int(out, "preemptions", u->preemptions);
    set_waits(out, &u->waits);
    return out;
}

static json_t *pools_json(const struct replay_fleet_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_pools; i++) {
        const struct replay_fleet_pool_summary *p = &r->pools[i];
        json_t *item = json_pack("{s:s}", "name", p->name);
        set_real(item, "price", p->price);
        set_real(item, "nodeHours", p->node_hours);
        set_real(item, "gpuHours", p->gpu_hours);
        set_real(item, "usedGpuHours", p->used_gpu_hours);
        set_int(item, "nodesAdded", p->added);
        set_int(item, "nodesRemoved", p->removed);
        set_int(item, "failures", p->failures);
        set_int(item, "preemptions", p->preempted);
        set_int(item, "maxNodes", p->max_nodes);
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *workloads_json(const struct replay_fleet_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_workloads; i++) {
        const struct replay_fleet_workload_summary *w = &r->workloads[i];
        json_t *item = json_pack("{s:s}", "name", w->name);
        set_waits(item, &w->waits);
        if (w->why)
            json_object_set_new(item, "whyWaiting", json_string(w->why));
        if (w->has_load)
            json_object_set_new(item, "load", replay_summary_json(&w->load));
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *rows_json(const struct replay_fleet_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct replay_fleet_row *row = &r->rows[i];
        json_t *item = json_object(), *pools = json_object();
        set_int(item, "seconds", (size_t)(row->t_ms / 1000));
        set_int(item, "waiting", row->waiting);
        set_int(item, "nodes", row->nodes);
        set_int(item, "gpus", row->gpus);
        set_int(item, "usedGpus", row->used);
        set_real(item, "strandedGpus", row->stranded);
        for (size_t k = 0; k < r->n_pools; k++)
            set_int(pools, r->pools[k].name, row->pool_nodes[k]);
        json_object_set_new(item, "poolNodes", pools);
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *lines_json(const struct replay_fleet_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_lines; i++)
        json_array_append_new(list, json_pack("{s:I, s:s}", "seconds",
                                              (json_int_t)(r->lines[i].t_ms / 1000), "event",
                                              r->lines[i].text));
    return list;
}

static json_t *warnings_json(const struct replay_fleet_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_warnings; i++)
        json_array_append_new(list, json_string(r->warnings[i]));
    return list;
}

json_t *replay_fleet_json(const struct replay_fleet_result *r)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name", r->fleet->name,
                     "policy", nodes_policy_name(r->fleet->plan.policy), "currency",
                     currency_of(r->fleet), "warnings", warnings_json(r), "summary",
                     summary_json(&r->summary), "pools", pools_json(r), "workloads",
                     workloads_json(r), "events", lines_json(r), "states", rows_json(r));
}

// --- side by side ---

void replay_fleet_print_summaries(const char *const *names, const struct replay_fleet_result *r,
                                  size_t n, struct gs_buf *out)
{
    gs_buf_addf(out, "%-24s %9s %6s %9s %9s %6s %9s %9s %9s %8s %8s\n", "", "GPU hours", "used%",
                "stranded", "price", "nodes", "failures", "wait p50", "p99", "max s", "waiting");
    for (size_t i = 0; i < n; i++) {
        const struct replay_fleet_summary *u = &r[i].summary;
        gs_buf_addf(out, "%-24s %9.2f %6.0f %9.2f %9.2f %6zu %9zu %9.0f %9.0f %8.0f %8zu\n",
                    names[i], u->gpu_hours, percent(u->used_gpu_hours, u->gpu_hours),
                    u->stranded_gpu_hours, u->price, u->nodes_added,
                    u->capacity_failures + u->start_failures, u->waits.p50_s, u->waits.p99_s,
                    u->waits.max_s, u->waits.waiting);
    }
}

json_t *replay_fleet_summaries_json(const char *const *names, const struct replay_fleet_result *r,
                                    size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:o, s:o}", "name", names[i], "currency",
                                        currency_of(r[i].fleet), "summary",
                                        summary_json(&r[i].summary), "pools", pools_json(&r[i])));
    return list;
}
