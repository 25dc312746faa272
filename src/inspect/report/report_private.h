// SPDX-License-Identifier: Apache-2.0
// Internals of this module.
#pragma once

#include "ledger/ledger.h"
#include "query/query.h"
#include "report/report.h"

// --- sources: each returns the JSON of ledger_report_json() ---

// A request, with times and groups already read.
struct report_request {
    const struct report_options *o;
    struct ledger_report_options report; // with prices, if a file was given
};

// *ret_source: the line that names the engine; NULL: the command line does. The caller frees it.
struct gs_error *report_from_engine(const struct report_request *r, char **ret_source,
                                    json_t **ret);
struct gs_error *report_from_file(const struct report_request *r, json_t **ret);
// settings: as of struct query_peer.
struct gs_error *report_from_prometheus(const struct report_request *r, const char *url,
                                        const struct endpoint_settings *settings, json_t **ret);
// Reads the rows of a report that is grouped by more than the new one. Wrong rows are errors.
struct gs_error *report_regroup(const json_t *data, const struct ledger_report_options *o,
                                json_t **ret);

// Adds "starts": [{"namespace", "workload", "n", "p90Seconds": {"pending", "image", "ready",
// "total"}}] of the workloads that are rows, from the series of the server. Absent without series.
void report_fetch_starts(const struct query_peer *peer, json_t *data);
// The same of the response of the server.
void report_read_starts(const json_t *answer, json_t *data);

// Adds "budgets": [{"name", "gpus", "mode", "hours", "granted", "used", "refused", "over",
// "limited", "others", "workloads": [{"namespace", "autoscaler", "granted", …}], "moves": [{"from",
// "to", "idle", "gpus"}]}] of the time, and "simulated". All but "gpus" are hours: "hours" are
// those of the GPUs of the budget, "others" of pods without an autoscaler. Absent without series.
// If a query fails, only "budgetsUnknown" is added, with the reason.
void report_fetch_budgets(const struct query_peer *peer, int64_t since_ms, int64_t until_ms,
                          json_t *data);
// The same of the responses to the queries, in their order; NULL: none.
void report_read_budgets(const json_t *const *answers, json_t *data);
void report_set_budgets_unknown(json_t *data, const char *why);

// --- output ---

void report_print_table(const json_t *data, struct gs_buf *out);
void report_print_starts(const json_t *data, struct gs_buf *out);  // of the table
void report_print_budgets(const json_t *data, struct gs_buf *out); // of the table
void report_print_budgets_csv(const json_t *data, struct gs_buf *out);
void report_print_budgets_html(const json_t *data, struct gs_buf *out); // of the page
void report_print_csv(const json_t *data, struct gs_buf *out);
void report_add_csv_text(struct gs_buf *out, const char *text); // NULL: nothing
void report_print_html(const json_t *data, struct gs_buf *out);

// A number of a row: "hours", "busy" … 0 if it is absent.
double report_number(const json_t *row, const char *key);
bool report_has_costs(const json_t *data);
bool report_has_saved(const json_t *data); // hours of workloads at zero replicas
// The text of the property data.by[i] of a row. NULL: it has none. GPUs without a pod have
// "(not allocated)" as namespace or workload, and "" as the second of both.
const char *report_text(const json_t *data, const json_t *row, size_t i);
// Whether a row has a text of the property data.by[i]. A property without texts is no column,
// unless it is the first.
bool report_has_text(const json_t *data, size_t i);
// "ml/deployment/trainer (pod trainer-0), GPU 1 of node-a (NVIDIA H100)": what is idle, where.
void report_add_place(const json_t *idle, struct gs_buf *out);
// "idle for 2 hours, 48.00 USD so far"
void report_add_idle(const json_t *idle, const char *currency, struct gs_buf *out);
