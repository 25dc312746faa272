// SPDX-License-Identifier: Apache-2.0
// The status block of `gpuscale up`: its sections and their importance when the window is small.
#include "up/console/console.h"

#include "base/mem.h"
#include "kube/object.h"
#include "up/console/console_private.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

double console_status_gpu_percent(const struct tsdb *db, int64_t now_ms)
{
    struct console_gpus gpus;
    console_gpus_collect(db, now_ms, &gpus);
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < gpus.len; i++) {
        if (gpus.items[i].n_processes && !isnan(gpus.items[i].util)) {
            sum += gpus.items[i].util;
            n++;
        }
    }
    console_gpus_finish(&gpus);
    return n ? sum / (double)n : NAN;
}

void console_status_pods(const struct kube_cache *pods, struct gs_buf *out)
{
    static const char *const phases[] = {"Running", "Pending", "Succeeded", "Failed"};
    size_t counts[GS_ARRAY_LEN(phases)] = {0}, pos = 0, ready = 0, ending = 0;
    for (const json_t *pod; (pod = kube_cache_next(pods, &pos));) {
        if (kube_is_deleting(pod)) {
            ending++;
            continue;
        }
        ready += kube_condition_true(pod, "Ready");
        const char *phase = kube_phase(pod);
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

// Importance of the sections in small windows.
enum {
    KEEP_HEADLINE = 10,
    KEEP_PROBLEMS = 9,
    KEEP_AUTOSCALERS = 8,
    KEEP_PODS = 7,
    KEEP_POOLS = 6,
    KEEP_GPUS = 5,
    KEEP_SERVICE = 4,
    KEEP_HINTS = 3,
    KEEP_LOAD = 2
};

static void add_entry(struct console_block *b, const char *fmt, ...) GS_PRINTF(2, 3);

static void add_entry(struct console_block *b, const char *fmt, ...)
{
    GS_AUTO_BUF struct gs_buf line = {0};
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(&line, fmt, ap);
    va_end(ap);
    console_block_entry(b, gs_buf_slice(&line));
}

static void add_headline(const struct console_status_source *s, struct console_block *b)
{
    console_block_section(b, (struct console_section){.importance = KEEP_HEADLINE, .least = 1});
    // It comes first, so that a narrow window does not cut it off.
    add_entry(b, "── gpuscale up%s: %s", s->simulated ? " [SIMULATED GPUs]" : "", s->headline);
}

static void add_gpus(const struct console_status_source *s, int64_t now_ms, struct console_block *b)
{
    struct console_gpus gpus;
    console_gpus_collect(s->db, now_ms, &gpus);
    console_block_section(b, (struct console_section){KEEP_GPUS, 2, "GPUs"});
    if (!gpus.len)
        add_entry(b, "  GPUs: %s",
                  tsdb_series_count(s->db) ? "the exporter returns no data" : "no sample yet");
    console_gpus_add(&gpus, s->colour, b);
    console_gpus_finish(&gpus);
}

static void add_pods(const struct console_status_source *s, struct console_block *b)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    console_status_pods(s->pods, &text);
    console_block_section(b, (struct console_section){.importance = KEEP_PODS, .least = 1});
    add_entry(b, "  Pods: %s", text.data);
}

static void add_problems(const struct console_status_source *s, struct console_block *b)
{
    console_block_section(
        b, (struct console_section){KEEP_PROBLEMS, 1, "reasons why pods do not run"});
    for (size_t i = 0; s->problems && i < console_problems_len(s->problems); i++) {
        const struct console_problem *p = console_problems_at(s->problems, i);
        // The text repeats the reason, because users search for its name.
        bool narrow = console_block_columns(b) < NARROW;
        GS_AUTO_FREE char *what =
            gs_format("%s: %s%s%s", p->who, narrow ? "" : p->reason, narrow ? "" : ": ", p->text);
        console_block_text(b, 0, s->colour ? "  \033[31m!\033[0m " : "  ! ", "    ",
                           gs_slice_of(what));
        console_block_text(b, 1, "    → ", "      ", gs_slice_of(p->remedy));
    }
}

// "2 → 4 replicas of 1..8"
static void add_replicas(struct gs_buf *out, const struct console_decision *d, bool words,
                         bool colour)
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

// Shortens the line until it fits: omits the age, the target, then the words. At last the name is
// cut, so that the numbers stay visible.
static void add_autoscaler(const struct console_decision *d, int64_t now_ms, bool colour,
                           struct console_block *b)
{
    const char *name = gs_starts(d->key, "default/") ? d->key + strlen("default/") : d->key;
    size_t columns = console_block_columns(b);
    GS_AUTO_BUF struct gs_buf line = {0};
    for (int form = 0; form < 4; form++) {
        gs_buf_clear(&line);
        gs_buf_addf(&line, "  HPA %s", name);
        if (form < 2)
            gs_buf_addf(&line, " → %s", d->target);
        add_replicas(&line, d, form < 3, colour);
        if (form < 1)
            gs_buf_addf(&line, ", decided %.0f s ago", (double)(now_ms - d->decided_ms) / 1e3);
        if (gs_columns_width(gs_buf_slice(&line)) <= columns)
            break;
    }
    size_t width = gs_columns_width(gs_buf_slice(&line)),
           named = gs_columns_width(gs_slice_of(name));
    size_t left = width > columns && named > width - columns ? named - (width - columns) : 1;
    if (width > columns) {
        gs_buf_clear(&line);
        gs_buf_add_str(&line, "  HPA ");
        gs_columns_fit(&line, gs_slice_of(name), left);
        add_replicas(&line, d, false, colour);
    }
    console_block_entry(b, gs_buf_slice(&line));
    console_block_text(b, 1, "      ", "      ", gs_slice_of(d->why));
}

static void add_autoscalers(const struct console_status_source *s, int64_t now_ms,
                            struct console_block *b)
{
    console_block_section(b, (struct console_section){KEEP_AUTOSCALERS, 1, "autoscalers"});
    for (size_t i = 0; i < console_decisions_len(s->decisions); i++)
        add_autoscaler(console_decisions_at(s->decisions, i), now_ms, s->colour, b);
}

static void add_pools(const struct console_status_source *s, struct console_block *b)
{
    console_block_section(b, (struct console_section){KEEP_POOLS, 1, "pools and nodes"});
    struct gs_slice rest = gs_slice_of(s->pools ? s->pools : "");
    while (rest.len)
        console_block_entry(b, gs_slice_cut(&rest, '\n'));
}

// Commands to copy are omitted if they do not fit: a part of a command is useless.
static void add_hints(const struct console_status_source *s, struct console_block *b)
{
    console_block_section(b, (struct console_section){.importance = KEEP_HINTS});
    for (size_t i = 0; i < CONSOLE_STATUS_HINTS && s->hints[i]; i++)
        if (gs_columns_width(gs_slice_of(s->hints[i])) + 2 <= console_block_columns(b))
            add_entry(b, "  %s", s->hints[i]);
}

void console_status_render(const struct console_status_source *s, int64_t now_ms, size_t rows,
                           size_t columns, struct gs_buf *out)
{
    struct console_block *b = console_block_new(rows, columns);
    add_headline(s, b);
    add_gpus(s, now_ms, b);
    add_pods(s, b);
    add_pools(s, b);
    add_problems(s, b);
    add_autoscalers(s, now_ms, b);
    console_block_section(b, (struct console_section){.importance = KEEP_LOAD});
    if (s->load)
        add_entry(b, "  Load: %s", s->load);
    console_block_section(b, (struct console_section){.importance = KEEP_SERVICE, .least = 1});
    if (s->service_url)
        add_entry(b, "  Service: %s", s->service_url);
    add_hints(s, b);
    console_block_print(b, out);
    console_block_free(b);
}
