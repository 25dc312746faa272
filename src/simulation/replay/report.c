// SPDX-License-Identifier: Apache-2.0
// Prints results of replays: as a table, CSV, JSON, and side by side. Figures are rows of one
// table, so that all forms show the same ones.
#include "base/columns.h"
#include "base/mem.h"
#include "base/table.h"
#include "replay/report_private.h"
#include "replay/service.h"

#include <math.h>
#include <stdio.h>

static void add_clock_time(struct gs_buf *out, int64_t t_ms)
{
    long long s = (long long)(t_ms / 1000);
    gs_buf_addf(out, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

// --- table ---

static void add_cost(const struct replay_scenario *s, const struct replay_summary *u,
                     struct gs_buf *out)
{
    const char *currency = replay_currency(s);
    gs_buf_addf(out, "GPU hours %.2f of the replicas", u->gpu_hours);
    if (u->drain_gpu_hours > 0)
        gs_buf_addf(out, " (%.2f while terminating)", u->drain_gpu_hours);
    if (s->gpus_per_node)
        gs_buf_addf(out, ", %.2f of the nodes", u->node_gpu_hours);
    if (u->price > 0)
        gs_buf_addf(out, "; price %.2f%s%s", u->price, *currency ? " " : "", currency);
    if (s->gpus_per_node)
        gs_buf_addf(out, "\n%zu node%s at most, %zu added, %zu removed", u->max_nodes,
                    u->max_nodes == 1 ? "" : "s", u->nodes_added, u->nodes_removed);
    if (u->pending_s > 0)
        gs_buf_addf(out, "; replicas waited %.0f s for nodes in total", u->pending_s);
    gs_buf_add_char(out, '\n');
}

static void add_service(const struct replay_scenario *s, const struct replay_summary *u,
                        struct gs_buf *out)
{
    const char *goal = *s->service->goal ? s->service->goal : s->service->slo;
    if (s->service->has_goal)
        gs_buf_addf(out, "%.1f %% of %.0f requests within %s; ", u->within_percent, u->requests,
                    goal);
    else
        gs_buf_addf(out, "%.0f requests; ", u->requests);
    gs_buf_addf(out,
                "time to the first token: half within %.3g s, 90 %% within %.3g s, 99 %% within "
                "%.3g s; between tokens: 90 %% within %.3g s\n"
                "longest queue %.6g; %zu changes of direction; %.6g requests did not end\n"
                "SIMULATED: the engines are a model of %s on %s\n",
                u->ttft_p50_s, u->ttft_p90_s, u->ttft_p99_s, u->itl_p90_s, u->queue_max,
                u->reversals, u->unserved, s->service->setup.model, s->service->setup.gpu);
}

static void add_summary(const struct replay_scenario *s, const struct replay_summary *u,
                        struct gs_buf *out)
{
    gs_buf_addf(
        out, "replicas %d to %d, mean %.2f; %zu scale-ups, %zu scale-downs in %zu evaluations\n",
        u->min_replicas, u->max_replicas, u->mean_replicas, u->ups, u->downs, u->evaluations);
    add_cost(s, u, out);
    if (s->service) {
        add_service(s, u, out);
        return;
    }
    gs_buf_addf(out, "above the target for %.0f s; over %g %% or queueing for %.0f s\n",
                u->over_target_s, s->level, u->over_level_s);
    gs_buf_addf(out,
                "longest queue %.6g; wait: mean %.3g s, half of the work within %g s, 99 %% within "
                "%g s; served %.6g of %.6g",
                u->queue_max, u->wait_s, u->wait_p50_s, u->wait_p99_s, u->served, u->offered);
    if (u->unserved > 0)
        gs_buf_addf(out, ", %.6g waits at the end", u->unserved);
    gs_buf_add_char(out, '\n');
}

void replay_print_table(const struct replay_scenario *s, const struct replay_result *r,
                        struct gs_buf *out)
{
    gs_buf_addf(out, "%s\n%9s %10s %6s %8s %8s %6s%s  %s\n", s->name, "time", "load", "util%",
                "queue", "replicas", "ready", s->gpus_per_node ? "  nodes" : "", "why");
    for (size_t i = 0; i < r->n; i++) {
        const struct replay_row *row = &r->rows[i];
        if (i && i + 1 < r->n && !row->why)
            continue;
        GS_AUTO_BUF struct gs_buf time = {0};
        add_clock_time(&time, row->t_ms);
        gs_buf_addf(out, "%9s %10.6g %6.0f %8.6g %8d %6d", time.data, row->load, row->utilization,
                    row->queue, row->desired, row->ready);
        if (s->gpus_per_node)
            gs_buf_addf(out, " %6zu", row->nodes);
        gs_buf_addf(out, "  %s\n", row->why ? row->why : "");
    }
    gs_buf_add_char(out, '\n');
    add_summary(s, &r->summary, out);
}

void replay_print_csv(const struct replay_result *r, struct gs_buf *out)
{
    gs_buf_add_str(out, "seconds,load,utilization,queue,desired,running,ready,nodes,why\n");
    for (size_t i = 0; i < r->n; i++) {
        const struct replay_row *row = &r->rows[i];
        gs_buf_addf(out, "%lld,%.10g,%.6g,%.10g,%d,%d,%d,%zu,", (long long)(row->t_ms / 1000),
                    row->load, row->utilization, row->queue, row->desired, row->running, row->ready,
                    row->nodes);
        if (row->why) {
            gs_buf_add_char(out, '"');
            for (const char *c = row->why; *c; c++)
                gs_buf_addf(out, "%s%c", *c == '"' ? "\"" : "", *c);
            gs_buf_add_char(out, '"');
        }
        gs_buf_add_char(out, '\n');
    }
}

// --- JSON ---

// --- figures ---

struct figure {
    const char *label, *json;
    double (*of)(const struct replay_summary *u);
    int decimals;
    bool of_service; // only an inference service has it
};

#define FIGURE(name, value)                                                                        \
    static double name(const struct replay_summary *u)                                             \
    {                                                                                              \
        return (double)(value);                                                                    \
    }
FIGURE(price_of, u->price)
FIGURE(gpu_hours_of, u->gpu_hours)
FIGURE(drain_hours_of, u->drain_gpu_hours)
FIGURE(node_gpu_hours_of, u->node_gpu_hours)
FIGURE(node_hours_of, u->node_hours)
FIGURE(max_nodes_of, u->max_nodes)
FIGURE(added_of, u->nodes_added)
FIGURE(removed_of, u->nodes_removed)
FIGURE(pending_of, u->pending_s)
FIGURE(mean_of, u->mean_replicas)
FIGURE(least_of, u->min_replicas)
FIGURE(most_of, u->max_replicas)
FIGURE(ups_of, u->ups)
FIGURE(downs_of, u->downs)
FIGURE(evaluations_of, u->evaluations)
FIGURE(over_target_of, u->over_target_s)
FIGURE(over_level_of, u->over_level_s)
FIGURE(queue_of, u->queue_max)
FIGURE(wait_of, u->wait_s)
FIGURE(wait_p50_of, u->wait_p50_s)
FIGURE(wait_p99_of, u->wait_p99_s)
FIGURE(offered_of, u->offered)
FIGURE(served_of, u->served)
FIGURE(unserved_of, u->unserved)
FIGURE(within_of, u->within_percent)
FIGURE(ttft_p50_of, u->ttft_p50_s)
FIGURE(ttft_p90_of, u->ttft_p90_s)
FIGURE(ttft_p99_of, u->ttft_p99_s)
FIGURE(itl_p90_of, u->itl_p90_s)
FIGURE(reversals_of, u->reversals)
#undef FIGURE

static const struct figure figures[] = {
    {"price", "price", price_of, 2, false},
    {"GPU hours of the replicas", "gpuHours", gpu_hours_of, 2, false},
    {"… while terminating", "drainGpuHours", drain_hours_of, 2, false},
    {"GPU hours of the nodes", "nodeGpuHours", node_gpu_hours_of, 2, false},
    {"node hours", "nodeHours", node_hours_of, 2, false},
    {"nodes, at most", "maxNodes", max_nodes_of, 0, false},
    {"nodes added", "nodesAdded", added_of, 0, false},
    {"nodes removed", "nodesRemoved", removed_of, 0, false},
    {"replicas waiting for nodes, s", "podSecondsWithoutNode", pending_of, 0, false},
    {"replicas, mean", "meanReplicas", mean_of, 2, false},
    {"replicas, least", "minReplicas", least_of, 0, false},
    {"replicas, most", "maxReplicas", most_of, 0, false},
    {"scale-ups", "scaleUps", ups_of, 0, false},
    {"scale-downs", "scaleDowns", downs_of, 0, false},
    {"evaluations", "passes", evaluations_of, 0, false},
    {"above the target, s", "secondsOverTarget", over_target_of, 0, false},
    {"over the level or queueing, s", "secondsOverLevel", over_level_of, 0, false},
    {"longest queue", "longestQueue", queue_of, 0, false},
    {"wait, mean, s", "meanWaitSeconds", wait_of, 1, false},
    {"wait of half of the work, s", "waitP50Seconds", wait_p50_of, 0, false},
    {"wait of 99 % of the work, s", "waitP99Seconds", wait_p99_of, 0, false},
    {"work offered", "offered", offered_of, 0, false},
    {"work served", "served", served_of, 0, false},
    {"work waiting at the end", "unserved", unserved_of, 0, false},
    {"requests within the target, %", "withinPercent", within_of, 1, true},
    {"first token, half within, s", "ttftP50Seconds", ttft_p50_of, 3, true},
    {"first token, 90 % within, s", "ttftP90Seconds", ttft_p90_of, 3, true},
    {"first token, 99 % within, s", "ttftP99Seconds", ttft_p99_of, 3, true},
    {"between tokens, 90 % within, s", "itlP90Seconds", itl_p90_of, 4, true},
    {"changes of direction", "reversals", reversals_of, 0, true},
};

json_t *replay_summary_json(const struct replay_summary *u)
{
    json_t *out = json_object();
    for (size_t i = 0; i < GS_ARRAY_LEN(figures); i++) {
        double v = figures[i].of(u);
        if (figures[i].of_service && !u->of_service)
            continue;
        // Counts are integers; sums of seconds are not.
        bool whole = figures[i].decimals == 0 && v == floor(v) && fabs(v) < 1e15;
        json_object_set_new(out, figures[i].json,
                            whole ? json_integer((json_int_t)v) : json_real(v));
    }
    return out;
}

json_t *replay_json(const struct replay_scenario *s, const struct replay_result *r)
{
    json_t *evaluations = json_array();
    for (size_t i = 0; i < r->n; i++) {
        const struct replay_row *row = &r->rows[i];
        json_t *entry = json_pack("{s:I, s:f, s:f, s:f, s:i, s:i, s:i, s:I}", "seconds",
                                  (json_int_t)(row->t_ms / 1000), "load", row->load, "utilization",
                                  row->utilization, "queue", row->queue, "desired",
                                  (int)row->desired, "running", (int)row->running, "ready",
                                  (int)row->ready, "nodes", (json_int_t)row->nodes);
        if (row->why)
            json_object_set_new(entry, "why", json_string(row->why));
        json_array_append_new(evaluations, entry);
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "name", s->name, "currency", replay_currency(s),
                     "summary", replay_summary_json(&r->summary), "passes", evaluations);
}

// --- side by side ---

static void add_service_summaries(const char *const *names, const struct replay_summary *const *s,
                                  size_t n, struct gs_buf *out)
{
    gs_buf_addf(out, "%-32s %9s %9s %9s %7s %8s %5s %10s %9s %9s %9s\n", "", "GPU hours", "price",
                "within %", "events", "mean", "most", "max queue", "ttft p50", "ttft p90",
                "ttft p99");
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(out, "%-32s %9.2f %9.2f %9.1f %7zu %8.2f %5d %10.6g %9.3g %9.3g %9.3g\n",
                    names[i], s[i]->gpu_hours, s[i]->price, s[i]->within_percent,
                    s[i]->ups + s[i]->downs, s[i]->mean_replicas, s[i]->max_replicas,
                    s[i]->queue_max, s[i]->ttft_p50_s, s[i]->ttft_p90_s, s[i]->ttft_p99_s);
}

void replay_print_summaries(const char *const *names, const struct replay_summary *const *s,
                            size_t n, struct gs_buf *out)
{
    if (n && s[0]->of_service) {
        add_service_summaries(names, s, n, out);
        return;
    }
    gs_buf_addf(out, "%-32s %9s %9s %9s %9s %7s %8s %10s %9s %7s %7s\n", "", "GPU hours", "price",
                "over s", "target s", "events", "mean", "max queue", "wait s", "p50 s", "p99 s");
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(out, "%-32s %9.2f %9.2f %9.0f %9.0f %7zu %8.2f %10.6g %9.3g %7g %7g\n",
                    names[i], s[i]->node_gpu_hours > 0 ? s[i]->node_gpu_hours : s[i]->gpu_hours,
                    s[i]->price, s[i]->over_level_s, s[i]->over_target_s, s[i]->ups + s[i]->downs,
                    s[i]->mean_replicas, s[i]->queue_max, s[i]->wait_s, s[i]->wait_p50_s,
                    s[i]->wait_p99_s);
}

enum { LABEL = 32, COLUMN = 22 };

static void add_figure(double v, double first, bool is_first, int decimals, struct gs_table *t)
{
    if (!is_first && v != first && first > 0)
        gs_table_addf(t, "%.*f (%+.0f %%)", decimals, v, 100 * (v - first) / first);
    else
        gs_table_addf(t, "%.*f", decimals, v);
}

// False: no scenario has a value, such as nodes in a cluster without nodes.
static bool is_shown(const struct figure *f, const struct replay_outcome *shown, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (f->of(&shown[k].result->summary) > 0)
            return true;
    return false;
}

void replay_print_comparison(const struct replay_outcome *shown, size_t n, struct gs_buf *out)
{
    static const struct gs_table_style style = {.least_first = LABEL, .least = COLUMN, .left = 1};
    size_t n_rows = 1;
    for (size_t i = 0; i < GS_ARRAY_LEN(figures); i++)
        n_rows += is_shown(&figures[i], shown, n);
    GS_CLEANUP(gs_table_freep) struct gs_table *t = gs_table_new(n_rows, n + 1);
    if (!t)
        return;
    gs_table_add(t, "");
    for (size_t k = 0; k < n; k++) {
        GS_AUTO_BUF struct gs_buf name = {0};
        gs_columns_fit(&name, gs_slice_of(shown[k].scenario->name), COLUMN - 2);
        gs_table_add(t, name.data);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(figures); i++) {
        const struct figure *f = &figures[i];
        if (!is_shown(f, shown, n))
            continue;
        gs_table_add(t, f->label);
        for (size_t k = 0; k < n; k++)
            add_figure(f->of(&shown[k].result->summary), f->of(&shown[0].result->summary), k == 0,
                       f->decimals, t);
    }
    gs_table_print(t, &style, out);
}

json_t *replay_comparison_json(const struct replay_outcome *shown, size_t n)
{
    json_t *list = json_array();
    for (size_t k = 0; k < n; k++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:o}", "name", shown[k].scenario->name,
                                        "currency", replay_currency(shown[k].scenario), "summary",
                                        replay_summary_json(&shown[k].result->summary)));
    return list;
}
