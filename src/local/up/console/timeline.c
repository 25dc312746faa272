// SPDX-License-Identifier: Apache-2.0
// The table that is printed after a load: what the autoscalers decided, with the usage of the
// GPUs.
#include "up/console/console.h"

#include "base/mem.h"
#include "up/console/console_private.h"

#include <math.h>

enum { REASON_AT = 33, REASON_LEAST = 20 }; // columns

struct row {
    int64_t at_ms;
    bool load;
    double gpu_percent;
    char *replicas, *why;
};

struct console_timeline {
    int64_t start_ms;
    struct row *rows;
    size_t len, cap;
};

struct console_timeline *console_timeline_new(int64_t start_ms)
{
    struct console_timeline *t = gs_alloc(sizeof(*t));
    t->start_ms = start_ms;
    return t;
}

void console_timeline_free(struct console_timeline *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->len; i++) {
        free(t->rows[i].replicas);
        free(t->rows[i].why);
    }
    free(t->rows);
    free(t);
}

void console_timeline_add(struct console_timeline *t, int64_t now_ms, bool load, double gpu_percent,
                          const char *replicas, const char *why)
{
    gs_grow(&t->rows, &t->cap, t->len, sizeof(*t->rows));
    t->rows[t->len++] =
        (struct row){now_ms, load, gpu_percent, gs_strdup(replicas), gs_strdup(why)};
}

static void add_reason(struct gs_buf *out, const char *why, size_t columns)
{
    struct gs_slice rest = gs_slice_of(why);
    bool breaks = columns >= REASON_AT + REASON_LEAST;
    for (bool first = true; first || rest.len; first = false) {
        struct gs_slice line = rest;
        if (breaks)
            line = gs_columns_wrap(&rest, columns - REASON_AT);
        else
            rest.len = 0;
        gs_buf_addf(out, "%*s" GS_SLICE_FMT "\n", first ? 0 : REASON_AT, "", GS_SLICE_ARG(line));
    }
}

void console_timeline_print(const struct console_timeline *t, size_t columns, struct gs_buf *out)
{
    gs_buf_addf(out, "%-7s %-5s %6s  %-10s %s\n", "TIME", "LOAD", "GPU %", "REPLICAS", "REASON");
    for (size_t i = 0; i < t->len; i++) {
        const struct row *r = &t->rows[i];
        long long s = (r->at_ms - t->start_ms) / 1000;
        gs_buf_addf(out, "%3lld:%02lld  %-5s ", s / 60, s % 60, r->load ? "on" : "off");
        if (isnan(r->gpu_percent))
            gs_buf_addf(out, "%6s", "-");
        else
            gs_buf_addf(out, "%6.0f", r->gpu_percent);
        gs_buf_add_str(out, "  ");
        // Not cut: several autoscalers may need more than the width of the column.
        size_t width = gs_columns_width(gs_slice_of(r->replicas));
        gs_columns_pad(out, gs_slice_of(r->replicas), width > 10 ? width : 10);
        gs_buf_add_char(out, ' ');
        add_reason(out, r->why, columns);
    }
}
