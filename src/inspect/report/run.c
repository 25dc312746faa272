// SPDX-License-Identifier: Apache-2.0
// Options of the command, and the reports of an engine and of a file.
#include "report/report_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/yaml_reader.h"
#include "kube/engine_url.h"
#include "nodes/prices.h"

#include <inttypes.h>
#include <stdio.h>

#define DEFAULT_MS (INT64_C(7) * 24 * LEDGER_HOUR_MS)
#define NOW_MS     (INT64_C(10) * 60 * 1000) // an older ledger does not state what is idle now

// --- options ---

// "7d" (before reference_ms), "2026-01-02", RFC 3339, "now" or Unix seconds.
static struct gs_error *parse_when(const char *flag, const char *text, int64_t reference_ms,
                                   int64_t now_ms, int64_t *ret)
{
    int64_t ms;
    if (codec_parse_duration(text, &ms)) {
        *ret = reference_ms - ms;
        return NULL;
    }
    GS_AUTO_FREE char *day = gs_format("%sT00:00:00Z", text);
    struct gs_error *err = gs_parse_rfc3339(gs_slice_of(day), ret);
    if (!err)
        return NULL;
    gs_error_free(err);
    err = query_parse_time(text, now_ms, ret);
    if (!err)
        return NULL;
    gs_error_free(err);
    return gs_error_new(GS_EINVAL,
                        "%s \"%s\": want a duration such as 7d, a date such as 2026-01-02, or a "
                        "time such as 2026-01-02T15:00:00Z",
                        flag, text);
}

static struct gs_error *read_times(const struct report_options *o, int64_t *ret_since,
                                   int64_t *ret_until)
{
    int64_t now = gs_unix_ms();
    int64_t until = now, since;
    struct gs_error *err = o->until ? parse_when("--until", o->until, now, now, &until) : NULL;
    until = until < now ? until : now;
    since = until - DEFAULT_MS;
    if (!err && o->since)
        err = parse_when("--since", o->since, now, now, &since);
    if (!err && since >= now)
        err = gs_error_new(GS_EINVAL, "--since is not in the past");
    else if (!err && since >= until)
        err = gs_error_new(GS_EINVAL, "--since is not before --until");
    if (!err && until - since > (int64_t)(LEDGER_DAYS + 1) * 24 * LEDGER_HOUR_MS)
        err = gs_error_new(GS_EINVAL, "--since: want at most %d days", LEDGER_DAYS);
    if (err)
        return err;
    *ret_since = since;
    *ret_until = until;
    return NULL;
}

static struct gs_error *check_output(const char *output)
{
    static const char *const formats[] = {"table", "csv", "json", "html"};
    for (size_t i = 0; i < GS_ARRAY_LEN(formats); i++)
        if (gs_streq(output, formats[i]))
            return NULL;
    return gs_error_new(GS_EINVAL, "--output \"%s\": want table, csv, json or html", output);
}

static void print_report(const struct report_options *o, const json_t *data)
{
    const char *output = o->output;
    GS_AUTO_BUF struct gs_buf out = {0};
    if (gs_streq(output, "csv") && o->budgets) {
        report_print_budgets_csv(data, &out);
    } else if (gs_streq(output, "csv")) {
        report_print_csv(data, &out);
    } else if (gs_streq(output, "html")) {
        report_print_html(data, &out);
    } else if (gs_streq(output, "json")) {
        codec_json_dump_pretty(data, &out);
        gs_buf_add_char(&out, '\n');
    } else {
        report_print_table(data, &out);
    }
    (void)fwrite(out.data, 1, out.len, stdout);
    (void)fflush(stdout);
}

struct gs_error *report_run(const struct report_options *o)
{
    CODEC_AUTO_JSON json_t *prices = NULL;
    CODEC_AUTO_JSON json_t *data = NULL;
    GS_AUTO_FREE char *source = NULL;
    struct report_request r = {
        .o = o, .report = {.currency = o->currency, .idle_after_ms = o->idle_ns / GS_NS_PER_MS}};
    if (o->file && o->prometheus)
        return gs_error_new(GS_EINVAL, "--file and --prometheus cannot both be given");
    struct gs_error *err = check_output(o->output);
    if (!err && o->budgets && !gs_streq(o->output, "csv"))
        err = gs_error_new(GS_EINVAL, "--budgets belongs to --output=csv: the other formats have "
                                      "the budgets beside the GPU hours");
    if (!err && o->budgets && o->file)
        err = gs_error_new(GS_EINVAL, "--budgets: the file of a ledger has no budgets; use --url "
                                      "or --prometheus");
    if (!err)
        err = read_times(o, &r.report.since_ms, &r.report.until_ms);
    if (!err)
        err = ledger_parse_by(o->by, r.report.by, &r.report.n_by);
    if (!err && o->prices)
        err = nodes_prices_load(o->prices, &prices);
    if (err)
        return err;
    r.report.prices = prices;
    err = o->file         ? report_from_file(&r, &data)
          : o->prometheus ? report_from_prometheus(&r, o->prometheus, NULL, &data)
                          : report_from_engine(&r, &source, &data);
    const char *unknown = codec_json_str(data, "budgetsUnknown", NULL);
    if (!err && o->budgets && unknown)
        err = gs_error_new(GS_EUNAVAIL, "the GPU budgets are unknown: %s", unknown);
    if (err)
        return err;
    print_report(o, data);
    if (source && gs_streq(o->output, "table"))
        fprintf(stderr, "%s\n", source);
    return NULL;
}

// --- an engine ---

// What prices need, in addition to what the user wants.
static void add_groups(const struct ledger_report_options *o, struct gs_buf *out)
{
    static const unsigned needed[] = {LEDGER_NAMESPACE, LEDGER_MACHINE, LEDGER_POOL, LEDGER_MODEL};
    for (size_t i = 0; i < o->n_by; i++)
        gs_buf_addf(out, "%s%s", i ? "," : "", ledger_by_name(o->by[i]));
    for (size_t i = 0; o->prices && i < GS_ARRAY_LEN(needed); i++) {
        bool present = false;
        for (size_t k = 0; k < o->n_by; k++)
            present = present || o->by[k] == needed[i];
        if (!present)
            gs_buf_addf(out, "%s%s", out->len ? "," : "", ledger_by_name(needed[i]));
    }
}

struct gs_error *report_from_engine(const struct report_request *r, char **ret_source, json_t **ret)
{
    const struct report_options *o = r->o;
    GS_CLEANUP(kube_engine_url_finish) struct kube_engine_url server = {0};
    struct gs_error *err = kube_engine_url_locate(o->url, NULL, NULL, &server);
    if (err)
        return err;
    const struct query_peer peer = {.url = server.url,
                                    .settings = kube_engine_url_settings(&server),
                                    .http_config_file = o->http_config_file,
                                    .headers = o->headers.items,
                                    .n_headers = o->headers.len,
                                    .timeout_ms = o->timeout_ns / GS_NS_PER_MS};
    GS_AUTO_BUF struct gs_buf parameters = {0};
    GS_AUTO_BUF struct gs_buf by = {0};
    CODEC_AUTO_JSON json_t *answer = NULL;
    add_groups(&r->report, &by);
    gs_buf_add_str(&parameters, "since=");
    query_add_seconds(&parameters, r->report.since_ms);
    gs_buf_add_str(&parameters, "&until=");
    query_add_seconds(&parameters, r->report.until_ms);
    gs_buf_addf(&parameters, "&idle=%" PRId64 "ms&by=%s", r->report.idle_after_ms,
                by.len ? by.data : "none");
    err = query_fetch(&peer, "/api/v1/gpuscale/report", gs_buf_slice(&parameters), &answer);
    // A Service can be that of a Prometheus, which has no ledger.
    if (err && server.origin == KUBE_ENGINE_OF_SERVICE && gs_error_code(err) == GS_EUNAVAIL) {
        gs_error_free(err);
        *ret_source = kube_engine_url_source(&server);
        return report_from_prometheus(r, server.url, kube_engine_url_settings(&server), ret);
    }
    if (err && server.reason)
        return gs_error_wrap(err, "the ledger of %s (%s)", peer.url, server.reason);
    if (err)
        return gs_error_wrap(err, "the ledger of %s", peer.url);
    *ret_source = kube_engine_url_source(&server);
    json_t *data = json_object_get(answer, "data");
    if (!r->report.prices && !json_is_array(json_object_get(data, "rows")))
        return gs_error_new(GS_EPROTO, "%s: the response has no report", peer.url);
    if (r->report.prices)
        err = report_regroup(data, &r->report, ret);
    else
        *ret = json_incref(data);
    if (err)
        return err;
    if (!r->report.prices && r->report.currency)
        codec_json_set_str(*ret, "currency", r->report.currency);
    report_fetch_starts(&peer, *ret);
    report_fetch_budgets(&peer, r->report.since_ms, r->report.until_ms, *ret);
    return NULL;
}

// --- a file ---

struct gs_error *report_from_file(const struct report_request *r, json_t **ret)
{
    GS_CLEANUP(ledger_store_closep) struct ledger_store *store = NULL;
    GS_CLEANUP(ledger_report_freep) struct ledger_report *report = ledger_report_new(&r->report);
    GS_CLEANUP(ledger_meter_freep) struct ledger_meter *meter = ledger_meter_new();
    int64_t written = 0;
    struct gs_error *err = ledger_store_open_reader(r->o->file, &store);
    if (!err)
        err = ledger_store_read(store, r->report.since_ms, r->report.until_ms, ledger_report_add,
                                report);
    if (!err)
        err = ledger_store_until(store, &written);
    if (!err && written > gs_unix_ms() - NOW_MS)
        err = ledger_store_restore(store, meter);
    if (err)
        return err;
    const struct ledger_gpu *g;
    for (size_t pos = 0; (g = ledger_meter_next(meter, &pos));)
        ledger_report_add_idle(report, g);
    *ret = ledger_report_json(report);
    return NULL;
}
