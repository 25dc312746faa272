// SPDX-License-Identifier: Apache-2.0
// The budgets of a report as a table, as CSV and as HTML.
#include "report/report_private.h"

#include "base/columns.h"
#include "base/mem.h"
#include "base/slice.h"
#include "base/table.h"
#include "codec/encoding.h"

#define MAX_LISTED 20 // workloads of a budget, and moves, in a table

static const struct {
    const char *key, *title;
} numbers[] = {
    {"granted", "GRANTED"}, {"used", "USED"},       {"refused", "REFUSED"},
    {"over", "OVER"},       {"limited", "LIMITED"},
};

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = codec_json_str(o, key, NULL);
    return text ? text : "";
}

static bool is_dry_run(const json_t *budget)
{
    return gs_streq(text_of(budget, "mode"), "dryRun");
}

static bool is_simulated(const json_t *data)
{
    return codec_json_bool(data, false, "simulated", NULL);
}

// "chat/web". The caller frees it.
static char *name_of(const json_t *workload)
{
    return gs_format("%s/%s", text_of(workload, "namespace"), text_of(workload, "autoscaler"));
}

#define OTHERS "(pods without one)"

// The row of pods without an autoscaler; NULL: they have no GPU.
static json_t *others_of(const json_t *budget)
{
    double hours = report_number(budget, "others");
    return hours > 0 ? json_pack("{s:f}", "used", hours) : NULL;
}

// "chat/web took 2 GPUs from batch/train, which were idle"
static void add_move(const json_t *move, struct gs_buf *out)
{
    int64_t n = codec_json_int(move, 0, "gpus", NULL);
    gs_buf_addf(out, "%s took %lld GPU%s from %s%s", text_of(move, "to"), (long long)n,
                n == 1 ? "" : "s", text_of(move, "from"),
                !codec_json_bool(move, false, "idle", NULL) ? ""
                : n == 1                                    ? ", which was idle"
                                                            : ", which were idle");
}

// False: the server has no counters, such as those of an older gpuscale hpa.
static bool has_hours(const json_t *budget)
{
    return json_object_get(budget, "hours") != NULL;
}

// "Budget h100: 16 GPUs, 384.00 GPU hours, dry run"
static void add_title(const json_t *data, const json_t *budget, struct gs_buf *out)
{
    gs_buf_addf(out, "Budget %s: %lld GPUs, ", text_of(budget, "name"),
                (long long)codec_json_int(budget, 0, "gpus", NULL));
    if (has_hours(budget))
        gs_buf_addf(out, "%.2f GPU hours", report_number(budget, "hours"));
    else
        gs_buf_add_str(out, "GPU hours unknown: no series");
    gs_buf_addf(out, "%s%s", is_dry_run(budget) ? ", dry run: nothing was limited" : "",
                is_simulated(data) ? ", simulated GPUs" : "");
}

// "GPU budgets are unknown: REASON". False: they are known.
static bool add_unknown(const json_t *data, struct gs_buf *out)
{
    const char *why = codec_json_str(data, "budgetsUnknown", NULL);
    if (why)
        gs_buf_addf(out, "GPU budgets are unknown: %s", why);
    return why != NULL;
}

// --- table ---

static void add_clean(struct gs_table *t, const char *text)
{
    GS_AUTO_BUF struct gs_buf visible = {0};
    gs_columns_clean(&visible, gs_slice_of(text));
    gs_table_add(t, visible.data);
}

static void add_numbers(struct gs_table *t, const json_t *row)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++)
        gs_table_addf(t, "%.2f", report_number(row, numbers[i].key));
}

static void add_workloads(const json_t *budget, struct gs_buf *out)
{
    static const struct gs_table_style style = {.indent = 2, .gap = 3, .left = 1};
    const json_t *list = json_object_get(budget, "workloads");
    size_t n = json_array_size(list), shown = n < MAX_LISTED ? n : MAX_LISTED;
    CODEC_AUTO_JSON json_t *others = others_of(budget);
    GS_CLEANUP(gs_table_freep)
    struct gs_table *t = gs_table_new(shown + 2 + (others != NULL), GS_ARRAY_LEN(numbers) + 1);
    if (!t)
        return;
    gs_table_add(t, "AUTOSCALER");
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++)
        gs_table_add(t, numbers[i].title);
    for (size_t i = 0; i < shown; i++) {
        GS_AUTO_FREE char *name = name_of(json_array_get(list, i));
        add_clean(t, name);
        add_numbers(t, json_array_get(list, i));
    }
    if (others) {
        gs_table_add(t, OTHERS);
        add_numbers(t, others);
    }
    gs_table_add(t, "total");
    add_numbers(t, budget);
    gs_table_print(t, &style, out);
    if (n > shown)
        gs_buf_addf(out, "  and %zu more\n", n - shown);
}

static void add_lines_of_moves(const json_t *budget, struct gs_buf *out)
{
    const json_t *moves = json_object_get(budget, "moves");
    size_t n = json_array_size(moves);
    for (size_t i = 0; i < n && i < MAX_LISTED; i++) {
        GS_AUTO_BUF struct gs_buf line = {0};
        add_move(json_array_get(moves, i), &line);
        gs_buf_add_str(out, "  ");
        gs_columns_clean(out, gs_buf_slice(&line));
        gs_buf_add_char(out, '\n');
    }
    if (n > MAX_LISTED)
        gs_buf_addf(out, "  and %zu more\n", n - MAX_LISTED);
}

void report_print_budgets(const json_t *data, struct gs_buf *out)
{
    size_t i;
    json_t *budget;
    GS_AUTO_BUF struct gs_buf unknown = {0};
    if (add_unknown(data, &unknown)) {
        gs_buf_add_char(out, '\n');
        gs_columns_clean(out, gs_buf_slice(&unknown));
        gs_buf_add_char(out, '\n');
    }
    json_array_foreach (json_object_get(data, "budgets"), i, budget) {
        GS_AUTO_BUF struct gs_buf title = {0};
        add_title(data, budget, &title);
        gs_buf_add_char(out, '\n');
        gs_columns_clean(out, gs_buf_slice(&title));
        gs_buf_add_char(out, '\n');
        if (has_hours(budget))
            add_workloads(budget, out);
        add_lines_of_moves(budget, out);
    }
}

// --- CSV ---

static void add_csv_row(const json_t *data, const json_t *budget, const char *autoscaler,
                        const json_t *row, struct gs_buf *out)
{
    report_add_csv_text(out, text_of(budget, "name"));
    gs_buf_add_char(out, ',');
    report_add_csv_text(out, text_of(budget, "mode"));
    gs_buf_addf(out, ",%s,", is_simulated(data) ? "true" : "false");
    report_add_csv_text(out, autoscaler);
    gs_buf_add_str(out, ",,");
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        gs_buf_add_char(out, ',');
        if (has_hours(budget))
            gs_buf_addf(out, "%.6f", report_number(row, numbers[i].key));
    }
    gs_buf_add_str(out, ",\n");
}

static void add_csv_move(const json_t *data, const json_t *budget, const json_t *move,
                         struct gs_buf *out)
{
    report_add_csv_text(out, text_of(budget, "name"));
    gs_buf_add_char(out, ',');
    report_add_csv_text(out, text_of(budget, "mode"));
    gs_buf_addf(out, ",%s,", is_simulated(data) ? "true" : "false");
    report_add_csv_text(out, text_of(move, "to"));
    gs_buf_add_char(out, ',');
    report_add_csv_text(out, text_of(move, "from"));
    gs_buf_addf(out, ",%s", codec_json_bool(move, false, "idle", NULL) ? "true" : "false");
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++)
        gs_buf_add_char(out, ',');
    gs_buf_addf(out, ",%lld\n", (long long)codec_json_int(move, 0, "gpus", NULL));
}

void report_print_budgets_csv(const json_t *data, struct gs_buf *out)
{
    size_t i, k;
    json_t *budget, *row;
    gs_buf_add_str(out, "budget,mode,simulated,autoscaler,took from,idle");
    for (i = 0; i < GS_ARRAY_LEN(numbers); i++)
        gs_buf_addf(out, ",%s", numbers[i].key);
    gs_buf_add_str(out, ",taken gpus\n");
    json_array_foreach (json_object_get(data, "budgets"), i, budget) {
        add_csv_row(data, budget, "", budget, out);
        json_array_foreach (json_object_get(budget, "workloads"), k, row) {
            GS_AUTO_FREE char *name = name_of(row);
            add_csv_row(data, budget, name, row, out);
        }
        CODEC_AUTO_JSON json_t *others = others_of(budget);
        if (others)
            add_csv_row(data, budget, OTHERS, others, out);
        json_array_foreach (json_object_get(budget, "moves"), k, row)
            add_csv_move(data, budget, row, out);
    }
}

// --- HTML ---

static void add_html_row(const char *name, const json_t *row, bool total, struct gs_buf *out)
{
    gs_buf_addf(out, "<tr%s><td>", total ? " class=\"total\"" : "");
    codec_html_escape(gs_slice_of(name), out);
    gs_buf_add_str(out, "</td>");
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++)
        gs_buf_addf(out, "<td class=\"n\">%.2f</td>", report_number(row, numbers[i].key));
    gs_buf_add_str(out, "</tr>\n");
}

void report_print_budgets_html(const json_t *data, struct gs_buf *out)
{
    size_t i, k;
    json_t *budget, *row;
    GS_AUTO_BUF struct gs_buf unknown = {0};
    if (add_unknown(data, &unknown)) {
        gs_buf_add_str(out, "<p>");
        codec_html_escape(gs_buf_slice(&unknown), out);
        gs_buf_add_str(out, "</p>\n");
    }
    json_array_foreach (json_object_get(data, "budgets"), i, budget) {
        GS_AUTO_BUF struct gs_buf title = {0};
        add_title(data, budget, &title);
        gs_buf_add_str(out, "<h2>");
        codec_html_escape(gs_buf_slice(&title), out);
        gs_buf_add_str(out, "</h2>\n");
        if (!has_hours(budget))
            continue;
        gs_buf_add_str(out, "<div class=\"scroll\"><table>\n<tr><th>autoscaler</th>");
        for (k = 0; k < GS_ARRAY_LEN(numbers); k++)
            gs_buf_addf(out, "<th class=\"n\">%s</th>", numbers[k].key);
        gs_buf_add_str(out, "</tr>\n");
        json_array_foreach (json_object_get(budget, "workloads"), k, row) {
            GS_AUTO_FREE char *name = name_of(row);
            add_html_row(name, row, false, out);
        }
        CODEC_AUTO_JSON json_t *others = others_of(budget);
        if (others)
            add_html_row(OTHERS, others, false, out);
        add_html_row("total", budget, true, out);
        gs_buf_add_str(out, "</table></div>\n<ul>\n");
        json_array_foreach (json_object_get(budget, "moves"), k, row) {
            GS_AUTO_BUF struct gs_buf line = {0};
            add_move(row, &line);
            gs_buf_add_str(out, "<li>");
            codec_html_escape(gs_buf_slice(&line), out);
            gs_buf_add_str(out, "</li>\n");
        }
        gs_buf_add_str(out, "</ul>\n");
    }
}
