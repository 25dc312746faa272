// SPDX-License-Identifier: Apache-2.0
// Rows of GPUs in the status block, from the newest samples of the store. Columns shrink and are
// dropped by importance in a narrow window.
#include "up/console/console_private.h"

#include "aliases/aliases.h"
#include "base/hmap.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The scrape interval of a guide's exporter can be 30 s. Older samples are not current.
#define LOOKBACK_MS INT64_C(35000)

static struct console_gpu *row_of(struct console_gpus *gpus, tsdb_ref ref)
{
    GS_AUTO_FREE char *index = gs_slice_dup(tsdb_series_label(gpus->db, ref, "gpu"));
    GS_AUTO_FREE char *instance = gs_slice_dup(tsdb_series_label(gpus->db, ref, "GPU_I_ID"));
    long i = strtol(index, NULL, 10), mig = *instance ? strtol(instance, NULL, 10) : -1;
    struct gs_slice id = tsdb_series_label(gpus->db, ref, "UUID");
    uint64_t uuid = gs_hash(id.data, id.len);
    for (size_t k = 0; k < gpus->len; k++)
        if (gpus->items[k].uuid == uuid && gpus->items[k].index == i &&
            gpus->items[k].instance == mig)
            return &gpus->items[k];
    if (gpus->len == CONSOLE_MAX_GPUS)
        return NULL;
    struct console_gpu *r = &gpus->items[gpus->len++];
    *r = (struct console_gpu){.uuid = uuid,
                              .index = i,
                              .instance = mig,
                              .util = NAN,
                              .used_mib = NAN,
                              .free_mib = NAN,
                              .reserved_mib = NAN};
    struct gs_slice model =
        tsdb_series_label(gpus->db, ref, mig < 0 ? "modelName" : "GPU_I_PROFILE");
    const char vendor[] = "NVIDIA "; // prefix of all models
    if (gs_slice_starts(model, vendor))
        model = gs_slice_make(model.data + strlen(vendor), model.len - strlen(vendor));
    snprintf(r->model, sizeof(r->model), GS_SLICE_FMT, GS_SLICE_ARG(model));
    struct gs_slice node = tsdb_series_label(gpus->db, ref, "NodeName");
    const char machine[] = "gpuscale-";
    if (gs_slice_starts(node, machine))
        node = gs_slice_make(node.data + strlen(machine), node.len - strlen(machine));
    snprintf(r->node, sizeof(r->node), GS_SLICE_FMT, GS_SLICE_ARG(node));
    return r;
}

static void add_pod_name(struct console_gpu *r, struct gs_slice name)
{
    GS_AUTO_FREE char *pod = gs_slice_dup(name);
    if (!*pod || (r->pods.len && strstr(r->pods.data, pod)))
        return;
    gs_buf_addf(&r->pods, "%s%s", r->pods.len ? " " : "", pod);
}

static bool on_value(void *arg, tsdb_ref ref, struct tsdb_point p)
{
    struct console_gpus *gpus = arg;
    struct console_gpu *r = row_of(gpus, ref);
    if (!r)
        return true; // later samples may be of known GPUs
    p.value *= gpus->factor;
    if (gs_streq(gpus->metric, "DCGM_FI_DEV_GPU_UTIL")) {
        r->util = p.value;
    } else if (gs_streq(gpus->metric, "DCGM_FI_DEV_FB_USED")) {
        r->used_mib = p.value;
    } else if (gs_streq(gpus->metric, "DCGM_FI_DEV_FB_FREE")) {
        r->free_mib = p.value;
    } else if (gs_streq(gpus->metric, "DCGM_FI_DEV_FB_RESERVED")) {
        r->reserved_mib = p.value;
    } else if (gs_streq(gpus->metric, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")) {
        if (r->instance >= 0) // the only utilization that NVML has for MIG instances
            r->util = p.value * 100;
    } else if (gs_streq(gpus->metric, "gpuscale_exporter_gpu_lost")) {
        r->lost = p.value > 0;
    } else {
        r->n_processes++;
        add_pod_name(r, tsdb_series_label(gpus->db, ref, "PodName"));
    }
    return true;
}

static int by_index(const void *a, const void *b)
{
    const struct console_gpu *x = a, *y = b;
    int node = strcmp(x->node, y->node);
    if (node)
        return node;
    if (x->index != y->index)
        return (x->index > y->index) - (x->index < y->index);
    return (x->instance > y->instance) - (x->instance < y->instance);
}

static void collect_series(struct console_gpus *gpus, const char *name, int64_t now_ms)
{
    const struct tsdb_matcher m = {GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL};
    tsdb_each_latest(gpus->db, &m, 1, now_ms, now_ms - LOOKBACK_MS, on_value, gpus);
}

static void collect_metric(struct console_gpus *gpus, const char *metric, int64_t now_ms)
{
    struct aliases_name others[ALIASES_MAX];
    size_t n = aliases_of(gs_slice_of(metric), others);
    gpus->metric = metric;
    for (size_t i = 0; i < n; i++) {
        gpus->factor = others[i].multiplier / others[i].divisor;
        collect_series(gpus, others[i].name, now_ms);
    }
    gpus->factor = 1;
    collect_series(gpus, metric, now_ms);
}

void console_gpus_collect(const struct tsdb *db, int64_t now_ms, struct console_gpus *ret)
{
    static const char *const metrics[] = {
        "DCGM_FI_DEV_GPU_UTIL",          "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_FB_FREE",           "DCGM_FI_DEV_FB_RESERVED",
        "DCGM_CUSTOM_PROCESS_MEM_USED",  "gpuscale_exporter_gpu_lost",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    };
    *ret = (struct console_gpus){.db = db};
    for (size_t i = 0; i < GS_ARRAY_LEN(metrics); i++)
        collect_metric(ret, metrics[i], now_ms);
    for (size_t i = 0; i < ret->len; i++)
        ret->several_nodes |= !gs_streq(ret->items[i].node, ret->items[0].node);
    if (ret->len)
        qsort(ret->items, ret->len, sizeof(ret->items[0]), by_index);
}

void console_gpus_finish(struct console_gpus *gpus)
{
    for (size_t i = 0; i < gpus->len; i++)
        gs_buf_finish(&gpus->items[i].pods);
}

// --- text ---

enum {
    INDENT = 2,
    UTIL_WIDTH = 7, // "no data"
    GAP = 2,
    BAR_LEAST = 6,
    BAR_MOST = 20,
    PODS_LEAST = 8,
    MODEL_LEAST = 8,
    OTHER_ROWS = 12,  // of the status block
    NODE_COLUMNS = 72 // in narrower windows the names of nodes are omitted
};

struct widths {
    size_t label, memory, pods, bar, model; // 0: the column is omitted
};

static void add_label(struct gs_buf *out, const struct console_gpu *g, bool node)
{
    if (node)
        gs_buf_addf(out, "%s ", g->node);
    gs_buf_addf(out, "GPU %ld", g->index);
    if (g->instance >= 0)
        gs_buf_addf(out, "/%ld", g->instance);
}

// Memory of the board: used, free and reserved by the driver.
static void add_memory(struct gs_buf *out, const struct console_gpu *g)
{
    if (isnan(g->used_mib) || isnan(g->free_mib))
        return;
    double reserved = isnan(g->reserved_mib) ? 0 : g->reserved_mib;
    gs_buf_addf(out, "%.1f/%.0f GiB", g->used_mib / 1024,
                (g->used_mib + g->free_mib + reserved) / 1024);
}

// The maximum width that any GPU needs.
static struct widths wanted(const struct console_gpus *gpus, bool nodes)
{
    struct widths w = {.bar = BAR_MOST};
    for (size_t i = 0; i < gpus->len; i++) {
        const struct console_gpu *g = &gpus->items[i];
        GS_AUTO_BUF struct gs_buf label = {0}, memory = {0};
        add_label(&label, g, nodes);
        add_memory(&memory, g);
        size_t pods = gs_columns_width(gs_buf_slice(&g->pods));
        size_t model = gs_columns_width(gs_slice_of(g->model));
        w.label = label.len > w.label ? label.len : w.label;
        w.memory = memory.len > w.memory ? memory.len : w.memory;
        w.pods = pods > w.pods ? pods : w.pods;
        w.model = model > w.model ? model : w.model;
    }
    return w;
}

// Gives a column its minimum width, if there is space; a second call gives it more.
static void widen(size_t *column, size_t want, size_t least, size_t *room)
{
    size_t floor = want < least ? want : least;
    if (!*column && floor && *room >= floor + GAP) {
        *column = floor;
        *room -= floor + GAP;
    } else if (*column && want > *column) {
        size_t more = want - *column < *room ? want - *column : *room;
        *column += more;
        *room -= more;
    }
}

static struct widths fit(const struct console_gpus *gpus, bool nodes, size_t columns)
{
    const struct widths want = wanted(gpus, nodes);
    struct widths w = {.label = want.label};
    size_t fixed = INDENT + w.label + 1 + UTIL_WIDTH, room = columns > fixed ? columns - fixed : 0;
    widen(&w.memory, want.memory, want.memory, &room);
    for (int turn = 0; turn < 2; turn++) {
        widen(&w.pods, want.pods, PODS_LEAST, &room);
        widen(&w.bar, turn ? BAR_MOST / 2 : BAR_LEAST, BAR_LEAST, &room);
        widen(&w.model, want.model, MODEL_LEAST, &room);
    }
    widen(&w.bar, BAR_MOST, BAR_LEAST, &room);
    return w;
}

static void add_bar(struct gs_buf *out, double percent, size_t width, bool colour)
{
    long filled = isnan(percent) ? 0 : lround(percent / 100 * (double)width);
    if (colour)
        gs_buf_add_str(out, percent >= 80 ? "\033[31m" : percent >= 30 ? "\033[33m" : "\033[32m");
    for (long i = 0; i < (long)width; i++)
        gs_buf_add_str(out, isnan(percent) ? " " : i < filled ? "█" : "░");
    if (colour)
        gs_buf_add_str(out, "\033[0m");
}

static void add_cell(struct gs_buf *out, const char *text, size_t width)
{
    if (!width)
        return;
    gs_buf_addf(out, "%*s", GAP, "");
    gs_columns_pad(out, gs_slice_of(text ? text : ""), width);
}

static void add_gpu(const struct console_gpu *g, const struct widths *w, bool node, bool colour,
                    struct console_block *block)
{
    GS_AUTO_BUF struct gs_buf out = {0}, label = {0}, memory = {0};
    double shown = g->lost ? NAN : g->util;
    add_label(&label, g, node);
    add_memory(&memory, g);
    gs_buf_addf(&out, "%*s%-*s", INDENT, "", (int)w->label, label.data);
    add_cell(&out, g->model, w->model);
    if (w->bar) {
        gs_buf_addf(&out, "%*s", GAP, "");
        add_bar(&out, shown, w->bar, colour);
    }
    if (isnan(shown))
        gs_buf_addf(&out, " %*s", UTIL_WIDTH, g->lost ? "lost" : "no data");
    else
        gs_buf_addf(&out, " %*.0f %%", UTIL_WIDTH - 2, shown);
    if (w->memory)
        gs_buf_addf(&out, "%*s%*s", GAP, "", (int)w->memory, memory.len ? memory.data : "");
    if (g->pods.len)
        add_cell(&out, g->pods.data, w->pods);
    while (out.len && out.data[out.len - 1] == ' ')
        out.len--;
    console_block_entry(block, gs_buf_slice(&out));
}

void console_gpus_add(const struct console_gpus *gpus, bool colour, struct console_block *block)
{
    bool nodes = gpus->several_nodes && console_block_columns(block) >= NODE_COLUMNS;
    struct widths w = fit(gpus, nodes, console_block_columns(block));
    bool short_of_rows = console_block_rows(block) < gpus->len + OTHER_ROWS;
    for (int turn = short_of_rows ? 0 : 1; turn < 2; turn++)
        for (size_t i = 0; i < gpus->len; i++) {
            bool first = gpus->items[i].n_processes || gpus->items[i].lost;
            if (!short_of_rows || first == (turn == 0))
                add_gpu(&gpus->items[i], &w, nodes, colour, block);
        }
}
