// SPDX-License-Identifier: Apache-2.0
// The report as one HTML file, without scripts and without anything from other hosts.
#include "report/report_private.h"

#include "base/mem.h"
#include "codec/encoding.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'\">\n"
    "<title>GPU hours</title>\n"
    "<style>\n"
    ":root { color-scheme: light dark; --busy: #2f7d4f; --idle: #d9822b; --free: #8aa4b8;\n"
    "  --stranded: #7a5ba8; --missing: #b8b8b8 }\n"
    "body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; "
    "padding: 0 1rem }\n"
    "table { border-collapse: collapse; width: 100% }\n"
    "th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid #8884 }\n"
    "td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }\n"
    "tr.total { font-weight: 600 }\n"
    ".scroll { overflow-x: auto }\n"
    ".bar { display: flex; height: .8rem; min-width: 8rem }\n"
    ".bar span { display: block }\n"
    ".busy { background: var(--busy) } .idle { background: var(--idle) }\n"
    ".free { background: var(--free) } .stranded { background: var(--stranded) }\n"
    ".missing { background: var(--missing) }\n"
    ".key { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 1rem }\n"
    "</style>\n";

static void add_html(struct gs_buf *out, const char *text)
{
    codec_html_escape(gs_slice_of(text ? text : ""), out);
}

static void add_number_cell(struct gs_buf *out, const json_t *row, const char *key)
{
    gs_buf_add_str(out, "<td class=\"n\">");
    if (json_object_get(row, key))
        gs_buf_addf(out, "%.2f", report_number(row, key));
    gs_buf_add_str(out, "</td>");
}

static void add_html_row(struct gs_buf *out, const json_t *data, const json_t *row, bool total,
                         bool costs)
{
    const json_t *by = json_object_get(data, "by");
    bool saved = report_has_saved(data);
    double hours = report_number(row, "hours");
    size_t k;
    json_t *name;
    gs_buf_add_str(out, total ? "<tr class=\"total\">" : "<tr>");
    json_array_foreach ((json_t *)by, k, name) {
        const char *text = report_text(data, row, k);
        if (!report_has_text(data, k))
            continue;
        gs_buf_add_str(out, "<td>");
        add_html(out, total ? (k ? "" : "total") : text ? text : "–");
        gs_buf_add_str(out, "</td>");
    }
    gs_buf_add_str(out, "<td><div class=\"bar\">");
    for (enum ledger_state s = 0; s < LEDGER_N_STATES; s++) {
        double part = hours > 0 ? report_number(row, ledger_state_name(s)) / hours * 100 : 0;
        if (part > 0.05)
            gs_buf_addf(out, "<span class=\"%s\" style=\"width: %.1f%%\"></span>",
                        ledger_state_name(s), part);
    }
    gs_buf_add_str(out, "</div></td>");
    add_number_cell(out, row, "hours");
    add_number_cell(out, row, "allocated");
    for (enum ledger_state s = 0; s < LEDGER_N_STATES; s++)
        add_number_cell(out, row, ledger_state_name(s));
    if (costs) {
        add_number_cell(out, row, "cost");
        add_number_cell(out, row, "idleCost");
    }
    if (saved)
        add_number_cell(out, row, "saved");
    if (saved && costs)
        add_number_cell(out, row, "savedCost");
    gs_buf_add_str(out, "</tr>\n");
}

static void add_html_titles(struct gs_buf *out, const json_t *data, bool costs,
                            const char *currency)
{
    const json_t *by = json_object_get(data, "by");
    size_t k;
    json_t *name;
    gs_buf_add_str(out, "<tr>");
    json_array_foreach ((json_t *)by, k, name) {
        if (!report_has_text(data, k))
            continue;
        gs_buf_add_str(out, "<th>");
        add_html(out, json_string_value(name));
        gs_buf_add_str(out, "</th>");
    }
    gs_buf_add_str(out, "<th></th><th class=\"n\">GPU hours</th><th class=\"n\">allocated</th>");
    for (enum ledger_state s = 0; s < LEDGER_N_STATES; s++)
        gs_buf_addf(out, "<th class=\"n\">%s</th>", ledger_state_name(s));
    for (size_t i = 0; costs && i < 2; i++) {
        gs_buf_addf(out, "<th class=\"n\">%s", i ? "idle cost" : "cost");
        if (currency) {
            gs_buf_add_str(out, " (");
            add_html(out, currency);
            gs_buf_add_char(out, ')');
        }
        gs_buf_add_str(out, "</th>");
    }
    if (report_has_saved(data))
        gs_buf_addf(out, "<th class=\"n\">saved</th>%s",
                    costs ? "<th class=\"n\">saved cost</th>" : "");
    gs_buf_add_str(out, "</tr>\n");
}

static void add_html_idle(struct gs_buf *out, const json_t *idle, const char *currency)
{
    size_t i;
    json_t *item;
    if (json_array_size(idle) == 0)
        return;
    gs_buf_add_str(out, "<h2>Idle now</h2>\n<ul>\n");
    json_array_foreach ((json_t *)idle, i, item) {
        GS_AUTO_BUF struct gs_buf line = {0};
        report_add_place(item, &line);
        gs_buf_add_str(&line, ": ");
        report_add_idle(item, currency, &line);
        gs_buf_add_str(out, "<li>");
        add_html(out, line.data);
        gs_buf_add_str(out, "</li>\n");
    }
    gs_buf_add_str(out, "</ul>\n");
}

void report_print_html(const json_t *data, struct gs_buf *out)
{
    const json_t *by = json_object_get(data, "by"), *total = json_object_get(data, "total");
    const char *currency = codec_json_str(data, "currency", NULL);
    bool costs = report_has_costs(data);
    size_t i;
    json_t *row;
    gs_buf_add_str(out, head);
    gs_buf_add_str(out, "<h1>GPU hours</h1>\n<p>");
    add_html(out, codec_json_str(data, "since", NULL));
    gs_buf_add_str(out, " to ");
    add_html(out, codec_json_str(data, "until", NULL));
    gs_buf_add_str(out, "</p>\n<p>");
    for (enum ledger_state s = 0; s < LEDGER_N_STATES; s++)
        gs_buf_addf(out, "<span class=\"key %s\"></span>%s", ledger_state_name(s),
                    ledger_state_name(s));
    gs_buf_add_str(out, "</p>\n<div class=\"scroll\"><table>\n");
    add_html_titles(out, data, costs, currency);
    json_array_foreach (json_object_get(data, "rows"), i, row)
        add_html_row(out, data, row, false, costs);
    if (json_array_size(by))
        add_html_row(out, data, total, true, costs);
    gs_buf_add_str(out, "</table></div>\n");
    if (costs && report_number(total, "withoutPrice") >= 0.005)
        gs_buf_addf(out, "<p>%.2f GPU hours have no price.</p>\n",
                    report_number(total, "withoutPrice"));
    add_html_idle(out, json_object_get(data, "idle"), currency);
    report_print_budgets_html(data, out);
}
