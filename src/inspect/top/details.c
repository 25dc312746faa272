// SPDX-License-Identifier: Apache-2.0
// The page about one GPU, pod or process.
#include "top/top_private.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>

enum { LEAST_CHART = 3, MOST_CHART = 8, AXIS = 5 };

struct page {
    const struct top_model *m;
    int64_t now_ms;
    size_t columns, rows;
    struct gs_buf *out;
};

static void add_text(struct page *p, const char *name, const char *text)
{
    gs_buf_addf(p->out, "%-14s %s\n", name, *text ? text : "-");
}

static void add_number(struct page *p, const char *name, double value, const char *unit)
{
    if (isnan(value))
        gs_buf_addf(p->out, "%-14s -\n", name);
    else
        gs_buf_addf(p->out, "%-14s %.0f%s\n", name, value, unit);
}

static void add_age(struct page *p, int64_t at_ms)
{
    char text[GS_RFC3339_SIZE];
    if (!at_ms) {
        add_text(p, "Sampled", "at an unknown time");
        return;
    }
    gs_format_duration((p->now_ms - at_ms) / 1000 * GS_NS_PER_SEC, text);
    gs_buf_addf(p->out, "%-14s %s ago%s\n", "Sampled", text,
                top_model_is_stale(p->m, at_ms, p->now_ms) ? " (stale)" : "");
}

// The largest value of a history; 0 without values.
static double highest(const struct top_history *h)
{
    double most = 0;
    for (int64_t i = h->last - TOP_HISTORY + 1; i <= h->last; i++) {
        double v = top_history_at(h, i);
        most = v > most ? v : most;
    }
    return most;
}

static void add_chart(struct page *p, const char *title, const struct top_history *h, double max,
                      const char *unit)
{
    size_t rows = p->rows / 4, columns = p->columns > AXIS ? p->columns - AXIS : 0;
    char span[GS_RFC3339_SIZE];
    GS_AUTO_BUF struct gs_buf chart = {0};
    if (!(max > 0))
        max = highest(h) > 0 ? highest(h) : 1;
    rows = rows < LEAST_CHART ? LEAST_CHART : rows > MOST_CHART ? MOST_CHART : rows;
    columns = columns > TOP_HISTORY ? TOP_HISTORY : columns;
    gs_format_units((int64_t)columns * p->m->interval_ms * GS_NS_PER_MS, span);
    gs_buf_addf(p->out, "\n\033[1m%s\033[0m  last %s, a full column is %.0f%s\n", title, span, max,
                unit);
    top_history_chart(h, p->now_ms / p->m->interval_ms, rows, columns, max, &chart);
    struct gs_slice rest = gs_slice_make(chart.data, chart.len ? chart.len - 1 : 0);
    for (size_t i = 0; rest.data; i++) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        gs_buf_addf(p->out, "%*s|" GS_SLICE_FMT "\n", AXIS - 1,
                    i == 0          ? ""
                    : i + 1 == rows ? "0"
                                    : "",
                    GS_SLICE_ARG(line));
    }
}

// A table of the rows of another pane that fn selects.
static void add_rows(struct page *p, enum top_pane pane, const char *title, size_t n,
                     bool (*wanted)(const struct page *p, size_t i, const void *of), const void *of)
{
    struct top_rows rows = {gs_alloc_array(n + 1, sizeof(size_t)), 0, n};
    struct top_order order = {.column = -1};
    struct top_layout layout;
    for (size_t i = 0; i < n; i++)
        if (wanted(p, i, of))
            rows.items[rows.len++] = i;
    if (rows.len) {
        gs_buf_addf(p->out, "\n\033[1m%s\033[0m\n", title);
        top_layout_fit(p->m, pane, &rows, p->now_ms, p->columns, &layout);
        top_layout_header(pane, &layout, &order, p->out);
        gs_buf_add_char(p->out, '\n');
        for (size_t i = 0; i < rows.len; i++) {
            top_layout_row(p->m, pane, &layout, rows.items[i], p->now_ms, false, p->out);
            gs_buf_add_char(p->out, '\n');
        }
    }
    top_rows_finish(&rows);
}

// Whether the names, separated by blanks, contain the name.
static bool lists_name(const char *names, const char *name)
{
    struct gs_slice rest = gs_slice_of(names);
    while (rest.data)
        if (gs_slice_eq_str(gs_slice_cut(&rest, ' '), name))
            return true;
    return false;
}

static bool pod_holds(const struct page *p, size_t i, const void *of)
{
    const struct top_gpu *g = of;
    GS_AUTO_FREE char *name = gs_format("%s/%s", p->m->pods[i]->ns, p->m->pods[i]->name);
    return lists_name(g->pods, name);
}

static bool gpu_is_held(const struct page *p, size_t i, const void *of)
{
    const struct top_pod *pod = of;
    GS_AUTO_FREE char *name = gs_format("%s/%s", pod->ns, pod->name);
    return lists_name(p->m->gpus[i]->pods, name);
}

static bool process_is_on(const struct page *p, size_t i, const void *of)
{
    GS_AUTO_BUF struct gs_buf label = {0};
    top_gpu_label(of, &label);
    const struct top_gpu *g = of;
    return gs_streq(p->m->processes[i]->node, g->node) &&
           gs_streq(p->m->processes[i]->gpu, label.data);
}

static bool process_is_of(const struct page *p, size_t i, const void *of)
{
    const struct top_pod *pod = of;
    GS_AUTO_FREE char *name = gs_format("%s/%s", pod->ns, pod->name);
    return gs_streq(p->m->processes[i]->pod, name);
}

static void gpu_page(struct page *p, const struct top_gpu *g)
{
    GS_AUTO_BUF struct gs_buf label = {0};
    top_gpu_label(g, &label);
    gs_buf_addf(p->out, "\033[1mGPU %s\033[0m  %s%s\n", label.data, g->model,
                g->simulated ? "  (simulated)" : "");
    add_text(p, "Node", g->node);
    add_text(p, "UUID", g->uuid);
    if (g->lost || g->hung || g->gone)
        add_text(p, "State",
                 g->lost   ? "lost: the driver has lost the GPU"
                 : g->hung ? "hung: calls of the driver do not return"
                           : "gone: the source no longer reports it");
    add_age(p, g->at_ms);
    add_number(p, "Utilization", g->util, " %");
    gs_buf_addf(p->out, "%-14s ", "Memory");
    if (isnan(g->used_mib))
        gs_buf_add_char(p->out, '-');
    else
        gs_buf_addf(p->out, "%.0f MiB used", g->used_mib);
    if (!isnan(top_gpu_total(g)))
        gs_buf_addf(p->out, " of %.0f MiB", top_gpu_total(g));
    gs_buf_add_char(p->out, '\n');
    add_number(p, "Memory traffic", g->mem_copy, " %");
    add_number(p, "Encoder", g->encoder, " %");
    add_number(p, "Decoder", g->decoder, " %");
    add_number(p, "Temperature", g->temp, " C");
    add_number(p, "Power", g->power, " W");
    add_number(p, "Power limit", g->power_limit, " W");
    add_number(p, "SM clock", g->sm_clock, " MHz");
    add_chart(p, "Utilization", &g->utils, 100, " %");
    add_chart(p, "Memory", &g->memory, top_gpu_total(g), " MiB");
    add_rows(p, TOP_PODS, "Pods", p->m->n_pods, pod_holds, g);
    add_rows(p, TOP_PROCESSES, "Processes", p->m->n_processes, process_is_on, g);
}

static void pod_page(struct page *p, const struct top_pod *pod)
{
    gs_buf_addf(p->out, "\033[1mPod %s/%s\033[0m\n", pod->ns, pod->name);
    add_text(p, "Node", pod->node);
    add_text(p, "Status", pod->phase);
    add_number(p, "GPUs requested", pod->requested, "");
    add_number(p, "GPUs with data", (double)pod->n_gpus, "");
    add_age(p, pod->at_ms);
    add_number(p, "Utilization", pod->util, pod->estimated ? " % (estimated)" : " %");
    add_number(p, "Memory", pod->used_mib, pod->estimated ? " MiB (estimated)" : " MiB");
    if (!isnan(pod->waiting))
        add_number(p, "Waiting", pod->waiting, " requests");
    if (!isnan(pod->running))
        add_number(p, "Running", pod->running, " requests");
    if (!isnan(pod->kv_percent))
        add_number(p, "KV cache", pod->kv_percent, " %");
    add_chart(p, "Utilization", &pod->utils, 100, " %");
    add_rows(p, TOP_GPUS, "GPUs", p->m->n_gpus, gpu_is_held, pod);
    add_rows(p, TOP_PROCESSES, "Processes", p->m->n_processes, process_is_of, pod);
}

static void process_page(struct page *p, const struct top_process *x)
{
    gs_buf_addf(p->out, "\033[1mProcess %s\033[0m  %s\n", x->pid, x->name);
    add_text(p, "Node", x->node);
    add_text(p, "GPU", x->gpu);
    add_text(p, "Type", x->type);
    add_text(p, "Pod", x->pod);
    add_age(p, x->at_ms);
    add_number(p, "Utilization", x->util, " %");
    add_number(p, "Memory", x->used_mib, " MiB");
}

void top_details_text(const struct top_model *m, enum top_pane pane, const char *key,
                      int64_t now_ms, size_t columns, size_t rows, struct gs_buf *out)
{
    struct page p = {m, now_ms, columns, rows, out};
    const void *row = top_model_find(m, pane, key);
    if (!row)
        gs_buf_add_str(out, "It no longer exists.\n");
    else if (pane == TOP_GPUS)
        gpu_page(&p, row);
    else if (pane == TOP_PODS)
        pod_page(&p, row);
    else
        process_page(&p, row);
}
