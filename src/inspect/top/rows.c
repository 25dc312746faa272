// SPDX-License-Identifier: Apache-2.0
// Filters and sorts the rows of a pane.
#include "top/top_private.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

static size_t n_rows(const struct top_model *m, enum top_pane pane)
{
    return pane == TOP_GPUS ? m->n_gpus : pane == TOP_PODS ? m->n_pods : m->n_processes;
}

// --- filter ---

static void searched_text(const struct top_model *m, enum top_pane pane, size_t i,
                          struct gs_buf *out)
{
    if (pane == TOP_GPUS) {
        const struct top_gpu *g = m->gpus[i];
        gs_buf_addf(out, "%s %s %s %s gpu", g->node, g->model, g->uuid, g->pods);
        top_gpu_label(g, out);
        gs_buf_add_str(out, g->gone ? " gone" : g->lost ? " lost" : g->hung ? " hung" : "");
    } else if (pane == TOP_PODS) {
        const struct top_pod *p = m->pods[i];
        gs_buf_addf(out, "%s/%s %s %s", p->ns, p->name, p->node, p->phase);
    } else {
        const struct top_process *p = m->processes[i];
        gs_buf_addf(out, "%s gpu%s %s %s %s", p->node, p->gpu, p->pid, p->name, p->pod);
    }
}

// Every word of the filter occurs, in upper or lower case.
static bool matches(const struct top_model *m, enum top_pane pane, size_t i, const char *filter)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_slice rest = gs_slice_of(filter);
    searched_text(m, pane, i, &text);
    while (rest.data) {
        GS_AUTO_FREE char *word = gs_slice_dup(gs_slice_cut(&rest, ' '));
        if (*word && !strcasestr(text.data, word))
            return false;
    }
    return true;
}

// --- order ---

struct sorted {
    size_t index;
    double number;
    char *name; // NULL: by number
};

static int compare_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

// "node-2" before "node-10".
static int compare_names(const char *a, const char *b)
{
    return strverscmp(a, b);
}

static int compare_gpus(const struct top_gpu *a, const struct top_gpu *b)
{
    int by_node = compare_names(a->node, b->node);
    int by_index = by_node ? by_node : compare_names(a->index, b->index);
    int by_slice = by_index ? by_index : compare_names(a->slice, b->slice);
    return by_slice ? by_slice : strcmp(a->key, b->key);
}

static int compare_processes(const struct top_process *a, const struct top_process *b)
{
    int by_node = compare_names(a->node, b->node);
    int by_gpu = by_node ? by_node : compare_names(a->gpu, b->gpu);
    int by_pid = by_gpu ? by_gpu : compare_names(a->pid, b->pid);
    return by_pid ? by_pid : strcmp(a->key, b->key);
}

static int compare_naturally(const struct top_model *m, enum top_pane pane, size_t a, size_t b)
{
    if (pane == TOP_GPUS)
        return compare_gpus(m->gpus[a], m->gpus[b]);
    return pane == TOP_PODS ? compare_names(m->pods[a]->key, m->pods[b]->key)
                            : compare_processes(m->processes[a], m->processes[b]);
}

struct comparison {
    const struct top_model *model;
    enum top_pane pane;
    bool descending;
};

// Rows without a value are last in both directions.
static int compare_rows(const void *x, const void *y, void *arg)
{
    const struct sorted *a = x, *b = y;
    const struct comparison *c = arg;
    int order = 0;
    if (a->name && b->name)
        order = compare_names(a->name, b->name);
    else if (isnan(a->number) != isnan(b->number))
        return isnan(a->number) ? 1 : -1;
    else if (!isnan(a->number))
        order = compare_numbers(a->number, b->number);
    if (order)
        return c->descending ? -order : order;
    return compare_naturally(c->model, c->pane, a->index, b->index);
}

void top_rows_select(const struct top_model *m, enum top_pane pane, const struct top_order *order,
                     const char *filter, int64_t now_ms, struct top_rows *ret)
{
    size_t total = n_rows(m, pane), n = 0;
    const struct top_column *column =
        order->column >= 0 ? &top_columns_of(pane)[order->column] : NULL;
    GS_AUTO_FREE struct sorted *all = gs_alloc_array(total + 1, sizeof(*all));
    for (size_t i = 0; i < total; i++) {
        if (filter && *filter && !matches(m, pane, i, filter))
            continue;
        struct top_cell cell = {.number = NAN};
        struct top_view view = {.model = m, .pane = pane, .index = i, .now_ms = now_ms};
        if (column)
            column->cell(&view, &cell);
        all[n++] = (struct sorted){i, cell.number, gs_strdup(cell.name)};
        gs_buf_finish(&cell.text);
    }
    bool descending = column ? column->descending != order->reverse : false;
    struct comparison c = {m, pane, descending};
    if (n)
        qsort_r(all, n, sizeof(*all), compare_rows, &c);
    *ret = (struct top_rows){gs_alloc_array(n + 1, sizeof(size_t)), n, total};
    for (size_t i = 0; i < n; i++) {
        // The natural order has no column, so it is reversed as a whole.
        ret->items[!column && order->reverse ? n - 1 - i : i] = all[i].index;
        free(all[i].name);
    }
}

void top_rows_finish(struct top_rows *r)
{
    free(r->items);
    *r = (struct top_rows){0};
}
