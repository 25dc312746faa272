// SPDX-License-Identifier: Apache-2.0
#include "cmd/up/status.h"

#include "base/mem.h"
#include "kube/object.h"

#include <math.h>
#include <stdlib.h>

#define MAX_GPUS    32
#define LOOKBACK_MS INT64_C(5000) // older than that is not "now": the bar is left out
#define BAR_WIDTH   20

struct gpu_row {
    long index;
    char model[64];
    double util, used_mib, free_mib; // NAN: absent
    struct gs_buf pods;              // names, each once
    size_t n_processes;
    bool lost;
};

struct gpu_rows {
    struct gpu_row items[MAX_GPUS];
    size_t len;
    const struct tsdb *db;
    const char *metric;
};

static struct gpu_row *row_of(struct gpu_rows *rows, tsdb_ref ref)
{
    GS_AUTO_FREE char *index = gs_slice_dup(tsdb_series_label(rows->db, ref, "gpu"));
    long i = strtol(index, NULL, 10);
    for (size_t k = 0; k < rows->len; k++)
        if (rows->items[k].index == i)
            return &rows->items[k];
    if (rows->len == MAX_GPUS)
        return NULL;
    struct gpu_row *r = &rows->items[rows->len++];
    *r = (struct gpu_row){.index = i, .util = NAN, .used_mib = NAN, .free_mib = NAN};
    struct gs_slice model = tsdb_series_label(rows->db, ref, "modelName");
    snprintf(r->model, sizeof(r->model), GS_SLICE_FMT, GS_SLICE_ARG(model));
    return r;
}

static void add_pod(struct gpu_row *r, struct gs_slice name)
{
    GS_AUTO_FREE char *pod = gs_slice_dup(name);
    if (!*pod || (r->pods.len && strstr(r->pods.data, pod)))
        return;
    gs_buf_addf(&r->pods, "%s%s", r->pods.len ? " " : "", pod);
}

static bool on_value(void *arg, tsdb_ref ref, struct tsdb_point p)
{
    struct gpu_rows *rows = arg;
    struct gpu_row *r = row_of(rows, ref);
    if (!r)
        return false;
    if (gs_streq(rows->metric, "DCGM_FI_DEV_GPU_UTIL")) {
        r->util = p.value;
    } else if (gs_streq(rows->metric, "DCGM_FI_DEV_FB_USED")) {
        r->used_mib = p.value;
    } else if (gs_streq(rows->metric, "DCGM_FI_DEV_FB_FREE")) {
        r->free_mib = p.value;
    } else if (gs_streq(rows->metric, "gpuscale_exporter_gpu_lost")) {
        r->lost = p.value > 0;
    } else {
        r->n_processes++;
        add_pod(r, tsdb_series_label(rows->db, ref, "PodName"));
    }
    return true;
}

static int compare_rows(const void *a, const void *b)
{
    long x = ((const struct gpu_row *)a)->index, y = ((const struct gpu_row *)b)->index;
    return (x > y) - (x < y);
}

static void collect(const struct tsdb *db, int64_t now_ms, struct gpu_rows *ret)
{
    static const char *const metrics[] = {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED",
                                          "DCGM_FI_DEV_FB_FREE", "DCGM_CUSTOM_PROCESS_MEM_USED",
                                          "gpuscale_exporter_gpu_lost"};
    *ret = (struct gpu_rows){.db = db};
    for (size_t i = 0; i < GS_ARRAY_LEN(metrics); i++) {
        const struct tsdb_matcher m = {GS_SLICE("__name__"), gs_slice_of(metrics[i]), TSDB_EQ,
                                       NULL};
        ret->metric = metrics[i];
        tsdb_each_latest(db, &m, 1, now_ms, now_ms - LOOKBACK_MS, on_value, ret);
    }
    qsort(ret->items, ret->len, sizeof(ret->items[0]), compare_rows);
}

static void rows_finish(struct gpu_rows *rows)
{
    for (size_t i = 0; i < rows->len; i++)
        gs_buf_finish(&rows->items[i].pods);
}

double up_status_gpu_percent(const struct tsdb *db, int64_t now_ms)
{
    struct gpu_rows rows;
    collect(db, now_ms, &rows);
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < rows.len; i++) {
        if (rows.items[i].n_processes && !isnan(rows.items[i].util)) {
            sum += rows.items[i].util;
            n++;
        }
    }
    rows_finish(&rows);
    return n ? sum / (double)n : NAN;
}

static void add_bar(struct gs_buf *out, double percent, bool colour)
{
    int filled = (int)lround(percent / 100 * BAR_WIDTH);
    if (colour)
        gs_buf_add_str(out, percent >= 80 ? "\033[31m" : percent >= 30 ? "\033[33m" : "\033[32m");
    for (int i = 0; i < BAR_WIDTH; i++)
        gs_buf_add_str(out, i < filled ? "█" : "░");
    if (colour)
        gs_buf_add_str(out, "\033[0m");
}

static void add_gpu(struct gs_buf *out, const struct gpu_row *r, bool colour)
{
    gs_buf_addf(out, "  GPU %-2ld %-24s ", r->index, r->model);
    if (r->lost) {
        gs_buf_addf(out, "%-*s   lost", BAR_WIDTH, "");
    } else if (isnan(r->util)) {
        gs_buf_addf(out, "%-*s   no data", BAR_WIDTH, "");
    } else {
        add_bar(out, r->util, colour);
        gs_buf_addf(out, " %3.0f %%", r->util);
    }
    if (!isnan(r->used_mib) && !isnan(r->free_mib))
        gs_buf_addf(out, "  %5.1f/%.0f GiB", r->used_mib / 1024,
                    (r->used_mib + r->free_mib) / 1024);
    if (r->pods.len)
        gs_buf_addf(out, "  %s", r->pods.data);
    gs_buf_add_char(out, '\n');
}

void up_status_pods(const struct kube_cache *pods, struct gs_buf *out)
{
    static const char *const phases[] = {"Running", "Pending", "Succeeded", "Failed"};
    size_t counts[GS_ARRAY_LEN(phases)] = {0}, pos = 0, ready = 0, ending = 0;
    for (const json_t *pod; (pod = kube_cache_next(pods, &pos));) {
        if (kube_is_deleting(pod)) {
            ending++;
            continue;
        }
        ready += kube_condition_true(pod, "Ready");
        const char *phase = gs_json_str(pod, "status", "phase", NULL);
        for (size_t i = 0; i < GS_ARRAY_LEN(phases); i++)
            counts[i] += gs_streq(phase, phases[i]);
    }
    if (!kube_cache_len(pods)) {
        gs_buf_add_str(out, "no pods");
        return;
    }
    gs_buf_addf(out, "%zu running (%zu ready), %zu pending", counts[0], ready, counts[1]);
    if (counts[2] || counts[3])
        gs_buf_addf(out, ", %zu succeeded, %zu failed", counts[2], counts[3]);
    if (ending)
        gs_buf_addf(out, ", %zu ending", ending);
}

static void add_autoscaler(struct gs_buf *out, const struct up_decision *d, int64_t now_ms,
                           bool colour)
{
    const char *bold = colour ? "\033[1m" : "", *plain = colour ? "\033[0m" : "";
    gs_buf_addf(out, "  HPA %s → %s  %s%s%s  %d", d->key, d->target, bold, d->reading, plain,
                d->current);
    if (d->desired != d->current)
        gs_buf_addf(out, " → %s%d%s", bold, d->desired, plain);
    gs_buf_addf(out, " replicas of %d..%d, decided %.0f s ago\n", d->min, d->max,
                (double)(now_ms - d->decided_ms) / 1e3);
    if (*d->why)
        gs_buf_addf(out, "      %s\n", d->why);
}

void up_status_render(const struct up_status_source *s, int64_t now_ms, struct gs_buf *out)
{
    struct gpu_rows rows;
    collect(s->db, now_ms, &rows);
    // Before what a narrow terminal cuts off.
    gs_buf_addf(out, "── gpuscale up%s: %s\n", s->simulated ? " [SIMULATED GPUs]" : "",
                s->headline);
    if (!rows.len)
        gs_buf_addf(out, "  GPUs: %s\n",
                    tsdb_series_count(s->db) ? "the exporter gives no data at present"
                                             : "no sample yet");
    for (size_t i = 0; i < rows.len; i++)
        add_gpu(out, &rows.items[i], s->colour);
    rows_finish(&rows);
    gs_buf_add_str(out, "  Pods: ");
    up_status_pods(s->pods, out);
    gs_buf_add_char(out, '\n');
    for (size_t i = 0; i < up_decisions_len(s->decisions); i++)
        add_autoscaler(out, up_decisions_at(s->decisions, i), now_ms, s->colour);
    if (s->load)
        gs_buf_addf(out, "  Load: %s\n", s->load);
    if (s->service_url)
        gs_buf_addf(out, "  Service: %s\n", s->service_url);
    gs_buf_addf(out, "  %s\n", s->hint);
}
