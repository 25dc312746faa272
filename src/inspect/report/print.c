// SPDX-License-Identifier: Apache-2.0
// The report as a table and as CSV (RFC 4180).
#include "report/report_private.h"

#include "base/columns.h"
#include "base/mem.h"
#include "base/table.h"

#include <string.h>

// The numbers of a row, in the order of columns.
static const struct {
    const char *key, *title;
    bool cost, saved; // the column exists with prices; with hours at zero replicas
} numbers[] = {
    {"hours", "GPU HOURS", false},
    {"allocated", "ALLOCATED", false},
    {"busy", "BUSY", false},
    {"idle", "IDLE", false},
    {"free", "FREE", false},
    {"stranded", "STRANDED", false},
    {"missing", "MISSING", false},
    {"cost", "COST", true},
    {"idleCost", "IDLE COST", true},
    {"saved", "SAVED", false, true},
    {"savedCost", "SAVED COST", true, true},
};

bool report_has_costs(const json_t *data)
{
    return json_object_get(json_object_get(data, "total"), "cost") != NULL;
}

bool report_has_saved(const json_t *data)
{
    return json_object_get(json_object_get(data, "total"), "saved") != NULL;
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

// Texts of an engine: control characters would reach the terminal.
static void add_visible_text(struct gs_buf *out, const char *text)
{
    gs_columns_clean(out, gs_slice_of(text && *text ? text : "-"));
}

static void add_cell(struct gs_table *t, const char *text)
{
    GS_AUTO_BUF struct gs_buf visible = {0};
    add_visible_text(&visible, text);
    gs_table_add(t, visible.data);
}

static bool has_column(const json_t *data, size_t i)
{
    const json_t *total = json_object_get(data, "total");
    return numbers[i].saved ? json_object_get(total, numbers[i].key) != NULL
                            : !numbers[i].cost || report_has_costs(data);
}

static void add_numbers(struct gs_table *t, const json_t *data, const json_t *row)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        if (!has_column(data, i))
            continue;
        if (json_object_get(row, numbers[i].key))
            gs_table_addf(t, "%.2f", report_number(row, numbers[i].key));
        else
            gs_table_add(t, NULL);
    }
}

static void add_row(struct gs_table *t, const json_t *data, const json_t *row)
{
    size_t n = json_array_size(json_object_get(data, "by"));
    for (size_t i = 0; i < n; i++) {
        const char *text = report_text(data, row, i);
        if (!report_has_text(data, i))
            continue;
        if (text && !*text) // of a pod, although no pod has the GPU
            gs_table_add(t, "");
        else
            add_cell(t, text);
    }
    add_numbers(t, data, row);
}

static void add_total(struct gs_table *t, const json_t *data, size_t n_texts)
{
    for (size_t i = 0; i < n_texts; i++)
        gs_table_add(t, i ? "" : "total");
    add_numbers(t, data, json_object_get(data, "total"));
}

static void add_titles(struct gs_table *t, const json_t *data)
{
    size_t n = json_array_size(json_object_get(data, "by"));
    for (size_t i = 0; i < n; i++) {
        GS_AUTO_BUF struct gs_buf title = {0};
        if (!report_has_text(data, i))
            continue;
        for (const char *c = property_of(data, i); *c; c++)
            gs_buf_add_char(&title, (char)(*c >= 'a' && *c <= 'z' ? *c - ('a' - 'A') : *c));
        gs_table_add(t, title.data);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++)
        if (has_column(data, i))
            gs_table_add(t, numbers[i].title);
}

// A report without groups has one row, which is the total.
static void print_rows(const json_t *data, struct gs_buf *out)
{
    const json_t *by = json_object_get(data, "by"), *rows = json_object_get(data, "rows");
    size_t n_texts = 0, n_columns = 0, i;
    json_t *row;
    for (i = 0; i < json_array_size(by); i++)
        n_texts += report_has_text(data, i);
    for (i = 0; i < GS_ARRAY_LEN(numbers); i++)
        n_columns += has_column(data, i);
    const struct gs_table_style style = {.gap = 3, .left = n_texts};
    GS_CLEANUP(gs_table_freep)
    struct gs_table *t =
        gs_table_new(json_array_size(rows) + 1 + (n_texts > 0), n_columns + n_texts);
    if (!t)
        return;
    add_titles(t, data);
    json_array_foreach ((json_t *)rows, i, row)
        add_row(t, data, row);
    if (n_texts)
        add_total(t, data, n_texts);
    gs_table_print(t, &style, out);
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
    if (json_object_get(total, "saved"))
        gs_buf_add_str(out, "SAVED: GPUs of one replica while an autoscaler kept a workload at "
                            "zero.\n");
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
    gs_buf_add_str(out, "GPU hours from ");
    add_visible_text(out, codec_json_str(data, "since", NULL));
    gs_buf_add_str(out, " to ");
    add_visible_text(out, codec_json_str(data, "until", NULL));
    gs_buf_add_str(out, "\n\n");
    if (json_array_size(json_object_get(data, "rows")) == 0) {
        gs_buf_add_str(out, "No GPU was observed.\n");
        report_print_budgets(data, out);
        return;
    }
    print_rows(data, out);
    print_notes(data, out);
    report_print_starts(data, out);
    report_print_budgets(data, out);
}

// --- CSV ---

// A text that begins like a formula is quoted with an apostrophe, so that no spreadsheet runs it.
// Some spreadsheets read semicolons and tabs as separators.
void report_add_csv_text(struct gs_buf *out, const char *text)
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
        if (!numbers[k].saved || has_column(data, k))
            gs_buf_addf(out, "%s%s", k || json_array_size(by) ? "," : "", numbers[k].key);
    gs_buf_add_str(out, ",currency\n");
    json_array_foreach (json_object_get(data, "rows"), i, row) {
        json_array_foreach ((json_t *)by, k, name) {
            gs_buf_add_str(out, k ? "," : "");
            report_add_csv_text(out, codec_json_str(row, json_string_value(name), NULL));
        }
        for (k = 0; k < GS_ARRAY_LEN(numbers); k++) {
            if (numbers[k].saved && !has_column(data, k))
                continue;
            gs_buf_add_str(out, k || json_array_size(by) ? "," : "");
            if (json_object_get(row, numbers[k].key))
                gs_buf_addf(out, "%.6f", report_number(row, numbers[k].key));
        }
        gs_buf_add_char(out, ',');
        if (json_object_get(row, "cost"))
            report_add_csv_text(out, codec_json_str(data, "currency", NULL));
        gs_buf_add_char(out, '\n');
    }
}
