// SPDX-License-Identifier: Apache-2.0
// Output for other programs and for terminals that cannot place the cursor: tables and JSON.
#include "top/top_private.h"

#include "base/clock.h"
#include "base/columns.h"
#include "base/mem.h"

#include <math.h>

static void trim_line(struct gs_buf *out)
{
    while (out->len && out->data[out->len - 1] == ' ')
        out->len--;
    gs_buf_add_char(out, '\n');
}

static void print_pane(const struct top_model *m, enum top_pane pane, const struct top_rows *rows,
                       const struct top_ui *ui, const struct top_status *s, size_t columns,
                       struct gs_buf *out)
{
    struct top_layout layout;
    top_layout_fit(m, pane, rows, s->now_ms, columns, &layout);
    // One sample has no history.
    size_t n = 0;
    for (size_t i = 0; i < layout.n; i++)
        if (top_columns_of(pane)[layout.items[i].column].most != TOP_HISTORY)
            layout.items[n++] = layout.items[i];
    layout.n = n;
    top_layout_header(pane, &layout, &ui->order[pane], out);
    trim_line(out);
    for (size_t i = 0; i < rows->len; i++) {
        top_layout_row(m, pane, &layout, rows->items[i], s->now_ms, s->colour, out);
        trim_line(out);
    }
}

void top_print_table(const struct top_model *m, const struct top_ui *ui, const struct top_status *s,
                     size_t columns, struct gs_buf *out)
{
    bool any = false;
    for (int i = 0; i < TOP_PANES; i++) {
        struct top_rows rows;
        enum top_pane pane = (enum top_pane)i;
        top_rows_select(m, pane, &ui->order[i], ui->filter, s->now_ms, &rows);
        if (rows.len) {
            gs_buf_add_str(out, any ? "\n" : "");
            print_pane(m, pane, &rows, ui, s, columns, out);
            any = true;
        } else if (pane == TOP_GPUS && !m->n_pods) {
            gs_buf_addf(out, "%s\n", top_frame_no_rows(pane, &rows));
            any = true;
        }
        top_rows_finish(&rows);
    }
}

// --- JSON ---

// A value that is not available is null.
static void set_number(json_t *j, const char *name, double value)
{
    bool whole = !isnan(value) && fabs(value) < 1e15 && value == floor(value);
    json_object_set_new(j, name,
                        isnan(value) || isinf(value) ? json_null()
                        : whole                      ? json_integer((json_int_t)value)
                                                     : json_real(value));
}

static void set_text(json_t *j, const char *name, const char *text)
{
    if (*text)
        codec_json_set_str(j, name, text);
    else
        json_object_set_new(j, name, json_null());
}

static void set_sampled(const struct top_model *m, json_t *j, int64_t at_ms, int64_t now_ms)
{
    char text[GS_RFC3339_SIZE];
    set_text(j, "sampledAt", at_ms ? gs_format_rfc3339(at_ms, text) : "");
    set_number(j, "ageSeconds", at_ms ? floor((double)(now_ms - at_ms) / 1000) : NAN);
    codec_json_set_bool(j, "stale", top_model_is_stale(m, at_ms, now_ms));
}

static json_t *gpu_json(const struct top_model *m, const struct top_gpu *g, int64_t now_ms)
{
    json_t *j = json_object(), *pods = json_array();
    struct gs_slice rest = gs_slice_of(g->pods);
    set_text(j, "node", g->node);
    set_text(j, "index", g->index);
    set_text(j, "migInstance", g->slice);
    set_text(j, "uuid", g->uuid);
    set_text(j, "model", g->model);
    codec_json_set_bool(j, "simulated", g->simulated);
    codec_json_set_str(j, "state", g->gone ? "gone" : g->lost ? "lost" : g->hung ? "hung" : "ok");
    set_number(j, "utilizationPercent", g->util);
    set_number(j, "memoryUsedMiB", g->used_mib);
    set_number(j, "memoryTotalMiB", top_gpu_total(g));
    set_number(j, "memoryTrafficPercent", g->mem_copy);
    set_number(j, "encoderPercent", g->encoder);
    set_number(j, "decoderPercent", g->decoder);
    set_number(j, "temperatureCelsius", g->temp);
    set_number(j, "powerWatts", g->power);
    set_number(j, "powerLimitWatts", g->power_limit);
    set_number(j, "smClockMHz", g->sm_clock);
    set_sampled(m, j, g->at_ms, now_ms);
    while (rest.len) {
        GS_AUTO_FREE char *name = gs_slice_dup(gs_slice_cut(&rest, ' '));
        json_array_append_new(pods, json_string(name));
    }
    json_object_set_new(j, "pods", pods);
    return j;
}

static json_t *pod_json(const struct top_model *m, const struct top_pod *p, int64_t now_ms)
{
    json_t *j = json_object();
    set_text(j, "namespace", p->ns);
    set_text(j, "name", p->name);
    set_text(j, "node", p->node);
    set_text(j, "status", p->phase);
    set_number(j, "gpusRequested", p->requested);
    set_number(j, "gpusWithData", (double)p->n_gpus);
    set_number(j, "utilizationPercent", p->util);
    set_number(j, "memoryUsedMiB", p->used_mib);
    set_number(j, "requestsWaiting", p->waiting);
    set_number(j, "requestsRunning", p->running);
    set_number(j, "kvCacheUsedPercent", p->kv_percent);
    codec_json_set_bool(j, "estimated", p->estimated);
    set_sampled(m, j, p->at_ms, now_ms);
    return j;
}

static json_t *process_json(const struct top_model *m, const struct top_process *p, int64_t now_ms)
{
    json_t *j = json_object();
    set_text(j, "node", p->node);
    set_text(j, "gpu", p->gpu);
    set_text(j, "pid", p->pid);
    set_text(j, "name", p->name);
    set_text(j, "type", p->type);
    set_text(j, "pod", p->pod);
    set_number(j, "utilizationPercent", p->util);
    set_number(j, "memoryUsedMiB", p->used_mib);
    set_sampled(m, j, p->at_ms, now_ms);
    return j;
}

json_t *top_print_json(const struct top_model *m, const struct top_ui *ui,
                       const struct top_status *s)
{
    static const char *const names[] = {"gpus", "pods", "processes"};
    json_t *all = json_object();
    char text[GS_RFC3339_SIZE];
    codec_json_set_str(all, "source", s->source);
    codec_json_set_str(all, "time", gs_format_rfc3339(s->now_ms, text));
    codec_json_set_bool(all, "simulated", m->simulated);
    for (int i = 0; i < TOP_PANES; i++) {
        struct top_rows rows;
        json_t *list = json_array();
        top_rows_select(m, (enum top_pane)i, &ui->order[i], ui->filter, s->now_ms, &rows);
        for (size_t k = 0; k < rows.len; k++) {
            size_t at = rows.items[k];
            json_array_append_new(list, i == TOP_GPUS ? gpu_json(m, m->gpus[at], s->now_ms)
                                        : i == TOP_PODS
                                            ? pod_json(m, m->pods[at], s->now_ms)
                                            : process_json(m, m->processes[at], s->now_ms));
        }
        json_object_set_new(all, names[i], list);
        top_rows_finish(&rows);
    }
    return all;
}
