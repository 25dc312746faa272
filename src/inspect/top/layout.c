// SPDX-License-Identifier: Apache-2.0
// Which columns fit into the window, and how wide they are. Columns have priorities; one that says
// the same for all rows is left out. Texts are measured in columns of the terminal, not bytes.
#include "top/top_private.h"

#include "base/columns.h"

#include <math.h>

enum { GAP = 1, MAX_PRIORITY = 9, MEASURED_ROWS = 200 };

// Widths follow from some of many rows, spread over all of them.
static size_t n_measured(const struct top_rows *rows)
{
    return rows->len < MEASURED_ROWS ? rows->len : MEASURED_ROWS;
}

static size_t measured_row(const struct top_rows *rows, size_t i)
{
    return rows->items[rows->len - 1 - i * (rows->len / n_measured(rows))];
}

// The width of the widest cell, at least that of the title.
static size_t widest(const struct top_model *m, enum top_pane pane, const struct top_rows *rows,
                     const struct top_column *c, int64_t now_ms)
{
    size_t width = gs_columns_width(gs_slice_of(c->title)) + 1; // and the arrow of the order
    for (size_t i = 0; i < n_measured(rows); i++) {
        struct top_view v = {
            .model = m, .pane = pane, .index = measured_row(rows, i), .now_ms = now_ms};
        struct top_cell cell = {.number = NAN};
        c->cell(&v, &cell);
        size_t n = gs_columns_width(gs_buf_slice(&cell.text));
        width = n > width ? n : width;
        gs_buf_finish(&cell.text);
    }
    return width;
}

// A column that says the same for all rows, or nothing, needs no space.
static bool is_useless(const struct top_model *m, enum top_pane pane, const struct top_rows *rows,
                       const struct top_column *c, int64_t now_ms)
{
    static const char *const often_empty[] = {"node", "clock", "queue", "kv"};
    bool is_node = gs_streq(c->name, "node"), empty = true, same = true, may_be = c->weight > 0;
    GS_AUTO_BUF struct gs_buf first = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(often_empty); i++)
        may_be = may_be || gs_streq(c->name, often_empty[i]);
    if (!may_be)
        return false;
    if (c->most == TOP_HISTORY)
        return false;
    for (size_t i = 0; i < n_measured(rows); i++) {
        struct top_view v = {
            .model = m, .pane = pane, .index = measured_row(rows, i), .now_ms = now_ms};
        struct top_cell cell = {.number = NAN};
        c->cell(&v, &cell);
        struct gs_slice text = gs_buf_slice(&cell.text);
        empty = empty && gs_slice_eq_str(text, "-");
        same = same && (!first.data || gs_slice_eq(text, gs_buf_slice(&first)));
        if (!first.data)
            gs_buf_add_slice(&first, text);
        gs_buf_finish(&cell.text);
    }
    return empty || (is_node && same);
}

void top_layout_fit(const struct top_model *m, enum top_pane pane, const struct top_rows *rows,
                    int64_t now_ms, size_t width, struct top_layout *ret)
{
    const struct top_column *columns = top_columns_of(pane);
    size_t want[TOP_MAX_COLUMNS] = {0}, has[TOP_MAX_COLUMNS] = {0}, used = 0;
    for (int i = 0; columns[i].name; i++) {
        const struct top_column *c = &columns[i];
        size_t n = c->most == TOP_HISTORY ? TOP_HISTORY : widest(m, pane, rows, c, now_ms);
        want[i] = is_useless(m, pane, rows, c, now_ms) && c->priority ? 0
                  : c->most && n > c->most                            ? c->most
                                                                      : n;
    }
    for (unsigned priority = 0; priority <= MAX_PRIORITY; priority++)
        for (int i = 0; columns[i].name; i++) {
            const struct top_column *c = &columns[i];
            // Columns with a share of the rest begin with their minimum.
            size_t n = c->weight && want[i] > c->least ? c->least : want[i];
            if (c->priority != priority || !want[i] || used + n + (used ? GAP : 0) > width)
                continue;
            used += n + (used ? GAP : 0);
            has[i] = n;
        }
    for (size_t rest = width > used ? width - used : 0; rest > 0; rest--) {
        // One column of the terminal for the one that is furthest from its share.
        int best = -1;
        double lowest = 0;
        for (int i = 0; columns[i].name; i++) {
            double share = columns[i].weight ? (double)has[i] / columns[i].weight : 0;
            if (has[i] && columns[i].weight && has[i] < want[i] && (best < 0 || share < lowest)) {
                best = i;
                lowest = share;
            }
        }
        if (best < 0)
            break;
        has[best]++;
    }
    *ret = (struct top_layout){0};
    size_t at = 0;
    for (int i = 0; columns[i].name; i++) {
        if (!has[i])
            continue;
        ret->items[ret->n].column = i;
        ret->items[ret->n].at = at;
        ret->items[ret->n++].width = has[i];
        at += has[i] + GAP;
    }
}

static void add_cell(struct gs_buf *out, struct gs_slice text, size_t width, enum top_align align)
{
    size_t columns = gs_columns_width(text);
    if (align == TOP_RIGHT && columns <= width) {
        gs_buf_addf(out, "%*s", (int)(width - columns), "");
        gs_buf_add_slice(out, text);
    } else {
        gs_columns_pad(out, text, width);
    }
}

void top_layout_header(enum top_pane pane, const struct top_layout *l,
                       const struct top_order *order, struct gs_buf *out)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct top_column *c = &top_columns_of(pane)[l->items[i].column];
        GS_AUTO_BUF struct gs_buf title = {0};
        gs_buf_add_str(&title, c->title);
        if (order->column == l->items[i].column)
            gs_buf_add_str(&title, c->descending != order->reverse ? "▼" : "▲");
        gs_buf_add_str(out, i ? " " : "");
        add_cell(out, gs_buf_slice(&title), l->items[i].width, c->align);
    }
}

void top_layout_row(const struct top_model *m, enum top_pane pane, const struct top_layout *l,
                    size_t index, int64_t now_ms, bool colour, struct gs_buf *out)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct top_column *c = &top_columns_of(pane)[l->items[i].column];
        struct top_view v = {m, pane, index, now_ms, l->items[i].width, colour};
        struct top_cell cell = {.number = NAN};
        c->cell(&v, &cell);
        gs_buf_add_str(out, i ? " " : "");
        add_cell(out, gs_buf_slice(&cell.text), l->items[i].width, c->align);
        gs_buf_finish(&cell.text);
    }
}
