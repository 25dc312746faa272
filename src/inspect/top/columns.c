// SPDX-License-Identifier: Apache-2.0
// The columns of each pane: their titles, widths, and the text and value of a cell.
#include "top/top_private.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>

#define RED    "\033[31m"
#define YELLOW "\033[33m"
#define GREEN  "\033[32m"
#define RESET  "\033[0m"

static const struct top_gpu *gpu_at(const struct top_view *v)
{
    return v->model->gpus[v->index];
}

static const struct top_pod *pod_at(const struct top_view *v)
{
    return v->model->pods[v->index];
}

static const struct top_process *process_at(const struct top_view *v)
{
    return v->model->processes[v->index];
}

// --- kinds of cells ---

static void text_cell(const char *text, struct top_cell *ret)
{
    ret->name = text;
    gs_buf_add_str(&ret->text, *text ? text : "-");
}

static void number_cell(double value, const char *unit, struct top_cell *ret)
{
    ret->number = value;
    if (isnan(value))
        gs_buf_add_char(&ret->text, '-');
    else
        gs_buf_addf(&ret->text, "%.0f%s", value, unit);
}

static const char *load_colour(double percent)
{
    return percent >= 80 ? RED : percent >= 30 ? YELLOW : GREEN;
}

static void percent_cell(const struct top_view *v, double percent, const char *mark,
                         struct top_cell *ret)
{
    ret->number = percent;
    if (isnan(percent)) {
        gs_buf_add_char(&ret->text, '-');
        return;
    }
    gs_buf_addf(&ret->text, "%s%s%.0f%%%s", v->colour ? load_colour(percent) : "", mark, percent,
                v->colour ? RESET : "");
}

static void add_gib(struct gs_buf *out, double mib)
{
    gs_buf_addf(out, "%.*f", mib >= 102400 ? 0 : 1, mib / 1024);
}

static void memory_cell(double used_mib, double total_mib, struct top_cell *ret)
{
    ret->number = used_mib;
    if (isnan(used_mib)) {
        gs_buf_add_char(&ret->text, '-');
        return;
    }
    add_gib(&ret->text, used_mib);
    if (!isnan(total_mib))
        gs_buf_addf(&ret->text, "/%.0f", total_mib / 1024);
    gs_buf_add_char(&ret->text, 'G');
}

// "5s", "12m", "3h", "4d": as kubectl's ages.
static void add_age(struct gs_buf *out, double seconds)
{
    if (!(seconds >= 0))
        gs_buf_add_str(out, isnan(seconds) ? "-" : "0s");
    else if (seconds < 120)
        gs_buf_addf(out, "%.0fs", seconds);
    else if (seconds < 2 * 3600)
        gs_buf_addf(out, "%.0fm", floor(seconds / 60));
    else if (seconds < 48 * 3600)
        gs_buf_addf(out, "%.0fh", floor(seconds / 3600));
    else
        gs_buf_addf(out, "%.0fd", floor(seconds / 86400));
}

static double age_of(const struct top_view *v, int64_t at_ms)
{
    return at_ms ? (double)(v->now_ms - at_ms) / 1000 : NAN;
}

static void sample_age_cell(const struct top_view *v, int64_t at_ms, struct top_cell *ret)
{
    ret->number = age_of(v, at_ms);
    bool stale = top_model_is_stale(v->model, at_ms, v->now_ms);
    gs_buf_add_str(&ret->text, stale && v->colour ? YELLOW : "");
    gs_buf_add_str(&ret->text, stale ? "stale " : "");
    add_age(&ret->text, ret->number);
    gs_buf_add_str(&ret->text, stale && v->colour ? RESET : "");
}

static void history_cell(const struct top_view *v, const struct top_history *h,
                         struct top_cell *ret)
{
    top_history_draw(h, v->now_ms / v->model->interval_ms, v->width, 100, &ret->text);
}

// --- GPUs ---

static void gpu_node(const struct top_view *v, struct top_cell *ret)
{
    text_cell(gpu_at(v)->node, ret);
}

static void gpu_index(const struct top_view *v, struct top_cell *ret)
{
    top_gpu_label(gpu_at(v), &ret->text);
    ret->number = strtod(gpu_at(v)->index, NULL);
}

static void gpu_model(const struct top_view *v, struct top_cell *ret)
{
    text_cell(gpu_at(v)->model, ret);
}

static void gpu_util(const struct top_view *v, struct top_cell *ret)
{
    const struct top_gpu *g = gpu_at(v);
    const char *state = g->gone ? "gone" : g->lost ? "lost" : g->hung ? "hung" : NULL;
    if (!state) {
        percent_cell(v, g->util, "", ret);
        return;
    }
    ret->number = NAN;
    gs_buf_addf(&ret->text, "%s%s%s", v->colour ? RED : "", state, v->colour ? RESET : "");
}

static void gpu_history(const struct top_view *v, struct top_cell *ret)
{
    history_cell(v, &gpu_at(v)->utils, ret);
}

static void gpu_memory(const struct top_view *v, struct top_cell *ret)
{
    memory_cell(gpu_at(v)->used_mib, top_gpu_total(gpu_at(v)), ret);
}

static void gpu_memory_percent(const struct top_view *v, struct top_cell *ret)
{
    percent_cell(v, gpu_at(v)->used_mib / top_gpu_total(gpu_at(v)) * 100, "", ret);
}

static void gpu_temp(const struct top_view *v, struct top_cell *ret)
{
    number_cell(gpu_at(v)->temp, "C", ret);
}

static void gpu_power(const struct top_view *v, struct top_cell *ret)
{
    const struct top_gpu *g = gpu_at(v);
    number_cell(g->power, "", ret);
    if (isnan(g->power))
        return;
    if (!isnan(g->power_limit))
        gs_buf_addf(&ret->text, "/%.0f", g->power_limit);
    gs_buf_add_char(&ret->text, 'W');
}

static void gpu_clock(const struct top_view *v, struct top_cell *ret)
{
    number_cell(gpu_at(v)->sm_clock, "MHz", ret);
}

static void gpu_age(const struct top_view *v, struct top_cell *ret)
{
    sample_age_cell(v, gpu_at(v)->at_ms, ret);
}

static void gpu_pods(const struct top_view *v, struct top_cell *ret)
{
    text_cell(gpu_at(v)->pods, ret);
}

// --- pods ---

static void pod_ns(const struct top_view *v, struct top_cell *ret)
{
    text_cell(pod_at(v)->ns, ret);
}

static void pod_name(const struct top_view *v, struct top_cell *ret)
{
    text_cell(pod_at(v)->name, ret);
}

static void pod_node(const struct top_view *v, struct top_cell *ret)
{
    text_cell(pod_at(v)->node, ret);
}

static void pod_phase(const struct top_view *v, struct top_cell *ret)
{
    text_cell(pod_at(v)->phase, ret);
}

static void pod_gpus(const struct top_view *v, struct top_cell *ret)
{
    const struct top_pod *p = pod_at(v);
    bool known = !isnan(p->requested);
    number_cell(known ? p->requested : p->n_gpus ? (double)p->n_gpus : NAN, "", ret);
}

static void pod_util(const struct top_view *v, struct top_cell *ret)
{
    percent_cell(v, pod_at(v)->util, pod_at(v)->estimated ? "~" : "", ret);
}

static void pod_history(const struct top_view *v, struct top_cell *ret)
{
    history_cell(v, &pod_at(v)->utils, ret);
}

static void pod_memory(const struct top_view *v, struct top_cell *ret)
{
    if (pod_at(v)->estimated && !isnan(pod_at(v)->used_mib))
        gs_buf_add_char(&ret->text, '~');
    memory_cell(pod_at(v)->used_mib, NAN, ret);
}

static void pod_queue(const struct top_view *v, struct top_cell *ret)
{
    number_cell(pod_at(v)->waiting, "", ret);
}

static void pod_kv(const struct top_view *v, struct top_cell *ret)
{
    percent_cell(v, pod_at(v)->kv_percent, "", ret);
}

static void pod_age(const struct top_view *v, struct top_cell *ret)
{
    const struct top_pod *p = pod_at(v);
    if (top_model_is_stale(v->model, p->at_ms, v->now_ms)) {
        sample_age_cell(v, p->at_ms, ret);
        return;
    }
    ret->number = (double)v->now_ms / 1000 - p->created_s;
    add_age(&ret->text, ret->number);
}

// --- processes ---

static void process_gpu(const struct top_view *v, struct top_cell *ret)
{
    gs_buf_add_str(&ret->text, process_at(v)->gpu);
    ret->number = strtod(process_at(v)->gpu, NULL);
}

static void process_node(const struct top_view *v, struct top_cell *ret)
{
    text_cell(process_at(v)->node, ret);
}

static void process_pid(const struct top_view *v, struct top_cell *ret)
{
    gs_buf_add_str(&ret->text, process_at(v)->pid);
    ret->number = strtod(process_at(v)->pid, NULL);
}

static void process_type(const struct top_view *v, struct top_cell *ret)
{
    text_cell(process_at(v)->type, ret);
}

static void process_util(const struct top_view *v, struct top_cell *ret)
{
    percent_cell(v, process_at(v)->util, "", ret);
}

static void process_memory(const struct top_view *v, struct top_cell *ret)
{
    memory_cell(process_at(v)->used_mib, NAN, ret);
}

static void process_name(const struct top_view *v, struct top_cell *ret)
{
    text_cell(process_at(v)->name, ret);
}

static void process_pod(const struct top_view *v, struct top_cell *ret)
{
    text_cell(process_at(v)->pod, ret);
}

// --- tables ---

// clang-format off
// name, title, align, priority, least, most, weight, descending, cell
static const struct top_column gpu_columns[] = {
    {"node",    "NODE",    TOP_LEFT,  5, 8, 0, 4, false, gpu_node},
    {"gpu",     "GPU",     TOP_RIGHT, 0, 3, 8, 0, false, gpu_index},
    {"model",   "MODEL",   TOP_LEFT,  6, 8, 0, 3, false, gpu_model},
    {"util",    "UTIL",    TOP_RIGHT, 0, 4, 0, 0, true,  gpu_util},
    {"history", "HISTORY", TOP_LEFT,  3, 10, TOP_HISTORY, 2, false, gpu_history},
    {"mem-percent", "MEM", TOP_RIGHT, 8, 4, 0, 0, true,  gpu_memory_percent},
    {"memory",  "MEMORY",  TOP_RIGHT, 1, 6, 0, 0, true,  gpu_memory},
    {"temp",    "TEMP",    TOP_RIGHT, 4, 4, 0, 0, true,  gpu_temp},
    {"power",   "POWER",   TOP_RIGHT, 7, 5, 0, 0, true,  gpu_power},
    {"clock",   "SM CLOCK", TOP_RIGHT, 9, 7, 0, 0, true, gpu_clock},
    {"age",     "AGE",     TOP_RIGHT, 2, 3, 0, 0, true,  gpu_age},
    {"pods",    "PODS",    TOP_LEFT,  3, 12, 0, 4, false, gpu_pods},
    {0},
};

static const struct top_column pod_columns[] = {
    {"namespace", "NAMESPACE", TOP_LEFT, 5, 8, 0, 3, false, pod_ns},
    {"pod",     "POD",     TOP_LEFT,  0, 12, 0, 5, false, pod_name},
    {"node",    "NODE",    TOP_LEFT,  7, 8, 0, 4, false, pod_node},
    {"status",  "STATUS",  TOP_LEFT,  6, 7, 0, 3, false, pod_phase},
    {"gpus",    "GPUS",    TOP_RIGHT, 4, 4, 0, 0, true,  pod_gpus},
    {"util",    "UTIL",    TOP_RIGHT, 0, 4, 0, 0, true,  pod_util},
    {"history", "HISTORY", TOP_LEFT,  3, 10, TOP_HISTORY, 2, false, pod_history},
    {"memory",  "MEMORY",  TOP_RIGHT, 1, 6, 0, 0, true,  pod_memory},
    {"queue",   "QUEUE",   TOP_RIGHT, 4, 5, 0, 0, true,  pod_queue},
    {"kv",      "KV",      TOP_RIGHT, 6, 4, 0, 0, true,  pod_kv},
    {"age",     "AGE",     TOP_RIGHT, 2, 3, 0, 0, false, pod_age},
    {0},
};

static const struct top_column process_columns[] = {
    {"node",    "NODE",    TOP_LEFT,  5, 8, 0, 4, false, process_node},
    {"gpu",     "GPU",     TOP_RIGHT, 1, 3, 8, 0, false, process_gpu},
    {"pid",     "PID",     TOP_RIGHT, 0, 5, 0, 0, false, process_pid},
    {"type",    "TYPE",    TOP_LEFT,  6, 4, 0, 0, false, process_type},
    {"util",    "UTIL",    TOP_RIGHT, 0, 4, 0, 0, true,  process_util},
    {"memory",  "MEMORY",  TOP_RIGHT, 1, 6, 0, 0, true,  process_memory},
    {"process", "PROCESS", TOP_LEFT,  2, 12, 0, 4, false, process_name},
    {"pod",     "POD",     TOP_LEFT,  3, 12, 0, 5, false, process_pod},
    {0},
};
// clang-format on

const struct top_column *top_columns_of(enum top_pane pane)
{
    return pane == TOP_GPUS ? gpu_columns : pane == TOP_PODS ? pod_columns : process_columns;
}

int top_columns_find(enum top_pane pane, const char *name)
{
    const struct top_column *columns = top_columns_of(pane);
    for (int i = 0; columns[i].name; i++)
        if (gs_streq(columns[i].name, name))
            return i;
    return -1;
}
