// SPDX-License-Identifier: Apache-2.0
#include "cmd/up/status.h"

#include "base/mem.h"
#include "cmd/up/block.h"
#include "cmd/up/gpu_rows.h"
#include "cmd/up/text.h"
#include "kube/object.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

double up_status_gpu_percent(const struct tsdb *db, int64_t now_ms)
{
    struct up_gpus gpus;
    up_gpus_collect(db, now_ms, &gpus);
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < gpus.len; i++) {
        if (gpus.items[i].n_processes && !isnan(gpus.items[i].util)) {
            sum += gpus.items[i].util;
            n++;
        }
    }
    up_gpus_finish(&gpus);
    return n ? sum / (double)n : NAN;
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
        const char *phase = codec_json_str(pod, "status", "phase", NULL);
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

// --- the sections of the block ---

#define NARROW 60 // columns

// From the most to the least important when the window is small.
enum {
    KEEP_HEADLINE = 9,
    KEEP_PROBLEMS = 8,
    KEEP_AUTOSCALERS = 7,
    KEEP_PODS = 6,
    KEEP_GPUS = 5,
    KEEP_SERVICE = 4,
    KEEP_HINTS = 3,
    KEEP_LOAD = 2
};

static void entry(struct up_block *b, const char *fmt, ...) GS_PRINTF(2, 3);

static void entry(struct up_block *b, const char *fmt, ...)
{
    GS_AUTO_BUF struct gs_buf line = {0};
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(&line, fmt, ap);
    va_end(ap);
    up_block_entry(b, gs_buf_slice(&line));
}

static void add_headline(const struct up_status_source *s, struct up_block *b)
{
    up_block_section(b, (struct up_section){.importance = KEEP_HEADLINE, .least = 1});
    // First, so that a narrow window does not cut it off.
    entry(b, "── gpuscale up%s: %s", s->simulated ? " [SIMULATED GPUs]" : "", s->headline);
}

static void add_gpus(const struct up_status_source *s, int64_t now_ms, struct up_block *b)
{
    struct up_gpus gpus;
    up_gpus_collect(s->db, now_ms, &gpus);
    up_block_section(b, (struct up_section){KEEP_GPUS, 2, "GPUs"});
    if (!gpus.len)
        entry(b, "  GPUs: %s",
              tsdb_series_count(s->db) ? "the exporter gives no data at present" : "no sample yet");
    up_gpus_add(&gpus, s->colour, b);
    up_gpus_finish(&gpus);
}

static void add_pods(const struct up_status_source *s, struct up_block *b)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    up_status_pods(s->pods, &text);
    up_block_section(b, (struct up_section){.importance = KEEP_PODS, .least = 1});
    entry(b, "  Pods: %s", text.data);
}

static void add_problems(const struct up_status_source *s, struct up_block *b)
{
    up_block_section(b, (struct up_section){KEEP_PROBLEMS, 1, "reasons why pods do not run"});
    for (size_t i = 0; s->problems && i < up_problems_len(s->problems); i++) {
        const struct up_problem *p = up_problems_at(s->problems, i);
        // The reason's name is what one can search for; the text says it too.
        bool narrow = up_block_columns(b) < NARROW;
        GS_AUTO_FREE char *what =
            gs_format("%s: %s%s%s", p->who, narrow ? "" : p->reason, narrow ? "" : ": ", p->text);
        up_block_text(b, 0, s->colour ? "  \033[31m!\033[0m " : "  ! ", "    ", gs_slice_of(what));
        up_block_text(b, 1, "    → ", "      ", gs_slice_of(p->remedy));
    }
}

// "2 → 4 replicas of 1..8"
static void add_replicas(struct gs_buf *out, const struct up_decision *d, bool words, bool colour)
{
    const char *bold = colour ? "\033[1m" : "", *plain = colour ? "\033[0m" : "";
    gs_buf_addf(out, "  %s%s%s  %d", bold, d->reading, plain, d->current);
    if (d->desired != d->current)
        gs_buf_addf(out, " → %s%d%s", bold, d->desired, plain);
    gs_buf_addf(out, " %sof %d..%d",
                !words            ? ""
                : d->desired == 1 ? "replica "
                                  : "replicas ",
                d->min, d->max);
}

// From the whole line down to what fits: without its age, its target, its words; at last the name
// is cut, so that the numbers stay.
static void add_autoscaler(const struct up_decision *d, int64_t now_ms, bool colour,
                           struct up_block *b)
{
    const char *name = gs_starts(d->key, "default/") ? d->key + strlen("default/") : d->key;
    size_t columns = up_block_columns(b);
    GS_AUTO_BUF struct gs_buf line = {0};
    for (int form = 0; form < 4; form++) {
        gs_buf_clear(&line);
        gs_buf_addf(&line, "  HPA %s", name);
        if (form < 2)
            gs_buf_addf(&line, " → %s", d->target);
        add_replicas(&line, d, form < 3, colour);
        if (form < 1)
            gs_buf_addf(&line, ", decided %.0f s ago", (double)(now_ms - d->decided_ms) / 1e3);
        if (up_text_width(gs_buf_slice(&line)) <= columns)
            break;
    }
    size_t width = up_text_width(gs_buf_slice(&line)), named = up_text_width(gs_slice_of(name));
    size_t left = width > columns && named > width - columns ? named - (width - columns) : 1;
    if (width > columns) {
        gs_buf_clear(&line);
        gs_buf_add_str(&line, "  HPA ");
        up_text_fit(&line, gs_slice_of(name), left);
        add_replicas(&line, d, false, colour);
    }
    up_block_entry(b, gs_buf_slice(&line));
    up_block_text(b, 1, "      ", "      ", gs_slice_of(d->why));
}

static void add_autoscalers(const struct up_status_source *s, int64_t now_ms, struct up_block *b)
{
    up_block_section(b, (struct up_section){KEEP_AUTOSCALERS, 1, "autoscalers"});
    for (size_t i = 0; i < up_decisions_len(s->decisions); i++)
        add_autoscaler(up_decisions_at(s->decisions, i), now_ms, s->colour, b);
}

// Commands to copy: half a line is of no use.
static void add_hints(const struct up_status_source *s, struct up_block *b)
{
    up_block_section(b, (struct up_section){.importance = KEEP_HINTS});
    for (size_t i = 0; i < UP_STATUS_HINTS && s->hints[i]; i++)
        if (up_text_width(gs_slice_of(s->hints[i])) + 2 <= up_block_columns(b))
            entry(b, "  %s", s->hints[i]);
}

void up_status_render(const struct up_status_source *s, int64_t now_ms, size_t rows, size_t columns,
                      struct gs_buf *out)
{
    struct up_block *b = up_block_new(rows, columns);
    add_headline(s, b);
    add_gpus(s, now_ms, b);
    add_pods(s, b);
    add_problems(s, b);
    add_autoscalers(s, now_ms, b);
    up_block_section(b, (struct up_section){.importance = KEEP_LOAD});
    if (s->load)
        entry(b, "  Load: %s", s->load);
    up_block_section(b, (struct up_section){.importance = KEEP_SERVICE, .least = 1});
    if (s->service_url)
        entry(b, "  Service: %s", s->service_url);
    add_hints(s, b);
    up_block_print(b, out);
    up_block_free(b);
}
