// SPDX-License-Identifier: Apache-2.0
// The report as a table and as CSV (RFC 4180).
#include "report/report_private.h"

#include "base/columns.h"
#include "base/mem.h"

#include <string.h>

#define MAX_COLUMNS 24

// The numbers of a row, in the order of columns.
static const struct {
    const char *key, *title;
    bool cost;
} numbers[] = {
    {"hours", "GPU HOURS", false},   {"allocated", "ALLOCATED", false},
    {"busy", "BUSY", false},         {"idle", "IDLE", false},
    {"free", "FREE", false},         {"stranded", "STRANDED", false},
    {"missing", "MISSING", false},   {"cost", "COST", true},
    {"idleCost", "IDLE COST", true},
};

bool report_has_costs(const json_t *data)
{
    return json_object_get(json_object_get(data, "total"), "cost") != NULL;
}

static const char *property_of(const json_t *data, size_t i)
{
    const char *name = json_string_value(json_array_get(json_object_get(data, "by"), i));
    return name ? name : "";
}

static bool is_of_pods(const char *property)
{
    return gs_streq(property, "namespace") || gs_streq(property, "workload");
}

const char *report_text(const json_t *data, const json_t *row, size_t i)
{
    const char *property = property_of(data, i), *text = codec_json_str(row, property, NULL);
    if (text && *text)
        return text;
    if (!is_of_pods(property) || report_number(row, "allocated") > 0)
        return NULL;
    for (size_t k = 0; k < i; k++)
        if (is_of_pods(property_of(data, k)))
            return "";
    return "(not allocated)";
}

bool report_has_text(const json_t *data, size_t i)
{
    size_t at;
    json_t *row;
    json_array_foreach (json_object_get(data, "rows"), at, row) {
        const char *text = report_text(data, row, i);
        if (text && *text)
            return true;
    }
    return i == 0;
}

// --- idle GPUs ---

void report_add_place(const json_t *idle, struct gs_buf *out)
{
    const char *model = codec_json_str(idle, "model", NULL);
    const char *texts[] = {"namespace", "workload", "pod", "gpu", "node"};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        texts[i] = codec_json_str(idle, texts[i], NULL);
        if (!texts[i])
            texts[i] = "?";
    }
    gs_buf_addf(out, "%s/%s (pod %s), GPU %s of node %s", texts[0], texts[1], texts[2], texts[3],
                texts[4]);
    if (model && *model)
        gs_buf_addf(out, " (%s)", model);
}

static void add_time_span(double seconds, struct gs_buf *out)
{
    static const struct {
        double seconds;
        const char *unit;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    size_t i = 0;
    // From two of a unit on: "36 hours" is clearer than "1 day".
    while (i + 1 < GS_ARRAY_LEN(units) && seconds < 2 * units[i].seconds)
        i++;
    double n = seconds / units[i].seconds;
    long long whole = n < 1e12 ? (long long)n : 0;
    gs_buf_addf(out, "%lld %s%s", whole, units[i].unit, whole == 1 ? "" : "s");
}

void report_add_idle(const json_t *idle, const char *currency, struct gs_buf *out)
{
    gs_buf_add_str(out, "idle for ");
    add_time_span(report_number(idle, "seconds"), out);
    if (json_object_get(idle, "cost"))
        gs_buf_addf(out, ", %.2f%s%s so far", report_number(idle, "cost"), currency ? " " : "",
                    currency ? currency : "");
}

// --- table ---

struct grid {
    struct gs_buf *cells; // rows of n_columns
    size_t n_rows, n_columns, n_texts;
};

// Texts of an engine: control characters would reach the terminal.
static void add_visible_text(struct gs_buf *out, const char *text)
{
    gs_columns_clean(out, gs_slice_of(text && *text ? text : "-"));
}

static void add_number(struct gs_buf *out, const json_t *row, size_t i)
{
    const json_t *v = json_object_get(row, numbers[i].key);
    if (v)
        gs_buf_addf(out, "%.2f", report_number(row, numbers[i].key));
    else
        gs_buf_add_char(out, '-');
}

static void fill_row(struct gs_buf *cells, const json_t *data, const json_t *row, bool costs,
                     const char *first)
{
    size_t column = 0, n = json_array_size(json_object_get(data, "by"));
    for (size_t i = 0; i < n; i++) {
        const char *text = report_text(data, row, i);
        if (!report_has_text(data, i))
            continue;
        if (!first && !(text && !*text))
            add_visible_text(&cells[column], text);
        else if (first && i == 0)
            gs_buf_add_str(&cells[column], first);
        column++;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++)
        if (costs || !numbers[i].cost)
            add_number(&cells[column++], row, i);
}

static void fill_titles(struct gs_buf *cells, const json_t *data, bool costs)
{
    size_t column = 0, n = json_array_size(json_object_get(data, "by"));
    for (size_t i = 0; i < n; i++) {
        if (!report_has_text(data, i))
            continue;
        for (const char *c = property_of(data, i); *c; c++)
            gs_buf_add_char(&cells[column], (char)(*c >= 'a' && *c <= 'z' ? *c - ('a' - 'A') : *c));
        column++;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++)
        if (costs || !numbers[i].cost)
            gs_buf_add_str(&cells[column++], numbers[i].title);
}

static void print_grid(const struct grid *g, struct gs_buf *out)
{
    size_t widths[MAX_COLUMNS] = {0};
    for (size_t i = 0; i < g->n_rows * g->n_columns; i++) {
        size_t n = gs_columns_width(gs_buf_slice(&g->cells[i]));
        if (n > widths[i % g->n_columns])
            widths[i % g->n_columns] = n;
    }
    for (size_t row = 0; row < g->n_rows; row++) {
        for (size_t c = 0; c < g->n_columns; c++) {
            const struct gs_buf *cell = &g->cells[row * g->n_columns + c];
            int pad = (int)(widths[c] - gs_columns_width(gs_buf_slice(cell)));
            bool left = c < g->n_texts;
            if (!left)
                gs_buf_addf(out, "%*s", pad, "");
            gs_buf_add_slice(out, gs_buf_slice(cell));
            if (left && c + 1 < g->n_columns)
                gs_buf_addf(out, "%*s", pad, "");
            gs_buf_add_str(out, c + 1 < g->n_columns ? "   " : "\n");
        }
    }
}

static void print_notes(const json_t *data, struct gs_buf *out)
{
    const json_t *total = json_object_get(data, "total"), *idle = json_object_get(data, "idle");
    const char *currency = codec_json_str(data, "currency", NULL);
    double unpriced = report_number(total, "withoutPrice");
    size_t i;
    json_t *item;
    if (report_has_costs(data) && currency) {
        gs_buf_add_str(out, "Costs are in ");
        add_visible_text(out, currency);
        gs_buf_add_str(out, ".\n");
    }
    if (report_has_costs(data) && unpriced >= 0.005)
        gs_buf_addf(out, "%.2f GPU hours have no price.\n", unpriced);
    if (json_array_size(idle))
        gs_buf_add_str(out, "\nIdle now:\n");
    json_array_foreach ((json_t *)idle, i, item) {
        GS_AUTO_BUF struct gs_buf line = {0};
        report_add_place(item, &line);
        gs_buf_add_str(&line, ": ");
        report_add_idle(item, currency, &line);
        gs_buf_add_str(out, "  ");
        add_visible_text(out, line.data);
        gs_buf_add_char(out, '\n');
    }
}

void report_print_table(const json_t *data, struct gs_buf *out)
{
    const json_t *by = json_object_get(data, "by"), *rows = json_object_get(data, "rows");
    bool costs = report_has_costs(data);
    struct grid g = {.n_rows = json_array_size(rows) + 2};
    size_t i;
    json_t *row;
    for (i = 0; i < GS_ARRAY_LEN(numbers); i++)
        g.n_columns += costs || !numbers[i].cost;
    for (i = 0; i < json_array_size(by); i++)
        g.n_texts += report_has_text(data, i);
    g.n_columns += g.n_texts;
    gs_buf_add_str(out, "GPU hours from ");
    add_visible_text(out, codec_json_str(data, "since", NULL));
    gs_buf_add_str(out, " to ");
    add_visible_text(out, codec_json_str(data, "until", NULL));
    gs_buf_add_str(out, "\n\n");
    if (json_array_size(rows) == 0) {
        gs_buf_add_str(out, "No GPU was observed.\n");
        return;
    }
    if (g.n_columns > MAX_COLUMNS)
        return;
    g.cells = gs_alloc_array(g.n_rows * g.n_columns, sizeof(*g.cells));
    fill_titles(g.cells, data, costs);
    json_array_foreach ((json_t *)rows, i, row)
        fill_row(&g.cells[(i + 1) * g.n_columns], data, row, costs, NULL);
    // A report without groups has one row, which is the total.
    if (g.n_texts)
        fill_row(&g.cells[(g.n_rows - 1) * g.n_columns], data, json_object_get(data, "total"),
                 costs, "total");
    else
        g.n_rows--;
    print_grid(&g, out);
    for (i = 0; i < (json_array_size(rows) + 2) * g.n_columns; i++)
        gs_buf_finish(&g.cells[i]);
    free(g.cells);
    print_notes(data, out);
}

// --- CSV ---

// A text that begins like a formula is quoted with an apostrophe, so that no spreadsheet runs it.
// Some spreadsheets read semicolons and tabs as separators.
static void add_csv_text(struct gs_buf *out, const char *text)
{
    bool formula = text && *text && strchr("=+-@\t\r", *text);
    bool quoted = formula || (text && strpbrk(text, ",;\"\t\r\n"));
    if (quoted)
        gs_buf_add_char(out, '"');
    if (formula)
        gs_buf_add_char(out, '\'');
    for (; text && *text; text++) {
        if (*text == '"')
            gs_buf_add_char(out, '"');
        gs_buf_add_char(out, *text);
    }
    if (quoted)
        gs_buf_add_char(out, '"');
}

void report_print_csv(const json_t *data, struct gs_buf *out)
{
    const json_t *by = json_object_get(data, "by");
    size_t i, k;
    json_t *row, *name;
    json_array_foreach ((json_t *)by, k, name)
        gs_buf_addf(out, "%s%s", k ? "," : "", json_string_value(name));
    for (k = 0; k < GS_ARRAY_LEN(numbers); k++)
        gs_buf_addf(out, "%s%s", k || json_array_size(by) ? "," : "", numbers[k].key);
    gs_buf_add_str(out, ",currency\n");
    json_array_foreach (json_object_get(data, "rows"), i, row) {
        json_array_foreach ((json_t *)by, k, name) {
            gs_buf_add_str(out, k ? "," : "");
            add_csv_text(out, codec_json_str(row, json_string_value(name), NULL));
        }
        for (k = 0; k < GS_ARRAY_LEN(numbers); k++) {
            gs_buf_add_str(out, k || json_array_size(by) ? "," : "");
            if (json_object_get(row, numbers[k].key))
                gs_buf_addf(out, "%.6f", report_number(row, numbers[k].key));
        }
        gs_buf_add_char(out, ',');
        if (json_object_get(row, "cost"))
            add_csv_text(out, codec_json_str(data, "currency", NULL));
        gs_buf_add_char(out, '\n');
    }
}
