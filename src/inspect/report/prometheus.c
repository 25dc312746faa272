// SPDX-License-Identifier: Apache-2.0
// The report from the series of a Prometheus, without a ledger: range queries, in parts.
#include "report/report_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"

#include <math.h>

#define STEPS_OF_PART 20
#define MAX_ROWS      10000 // of an hour
#define MAX_LABELS    64
#define MAX_STEPS     100000
#define FINE_MS       (24 * LEDGER_HOUR_MS) // shorter ranges have a step of one minute
#define FINE_STEP_MS  (INT64_C(60) * 1000)
#define STEP_MS       (INT64_C(300) * 1000)

struct part {
    struct ledger_observation *at[STEPS_OF_PART];
    size_t n;
    int64_t first_ms, step_ms; // the end of the first interval
};

static struct gs_error *wrong(const char *what)
{
    return gs_error_new(GS_EPROTO, "the response has no %s", what);
}

// [[1700000000, "1"], …]
static struct gs_error *read_points(struct part *p, enum ledger_series series,
                                    const struct metrics_label *labels, size_t n,
                                    const json_t *points)
{
    size_t i;
    json_t *point;
    json_array_foreach ((json_t *)points, i, point) {
        const json_t *t = json_array_get(point, 0);
        const char *text = json_string_value(json_array_get(point, 1));
        double v, at = (json_number_value(t) * 1000 - (double)p->first_ms) / (double)p->step_ms;
        if (!json_is_number(t) || !text)
            return wrong("pair of time and value");
        struct gs_error *err = gs_parse_double(gs_slice_of(text), &v);
        if (err)
            return err;
        if (at > -0.5 && at < (double)p->n - 0.5)
            ledger_observation_add(p->at[lround(at)], series, labels, n, v);
    }
    return NULL;
}

static struct gs_error *read_series(struct part *p, enum ledger_series series, const json_t *item)
{
    struct metrics_label labels[MAX_LABELS];
    const json_t *metric = json_object_get(item, "metric"),
                 *points = json_object_get(item, "values");
    const char *name;
    json_t *value;
    size_t n = 0;
    if (!json_is_object(metric) || !json_is_array(points))
        return wrong("series");
    json_object_foreach ((json_t *)metric, name, value) {
        if (json_is_string(value) && n < MAX_LABELS)
            labels[n++] =
                (struct metrics_label){gs_slice_of(name), gs_slice_of(json_string_value(value))};
    }
    return read_points(p, series, labels, n, points);
}

static struct gs_error *fetch_series(const struct query_peer *peer, const char *query,
                                     struct part *p, enum ledger_series series)
{
    GS_AUTO_BUF struct gs_buf parameters = {0};
    CODEC_AUTO_JSON json_t *answer = NULL;
    query_add_param(&parameters, "query", gs_slice_of(query));
    gs_buf_add_str(&parameters, "&start=");
    query_add_seconds(&parameters, p->first_ms);
    gs_buf_add_str(&parameters, "&end=");
    query_add_seconds(&parameters, p->first_ms + (int64_t)(p->n - 1) * p->step_ms);
    gs_buf_add_str(&parameters, "&step=");
    query_add_seconds(&parameters, p->step_ms);
    struct gs_error *err =
        query_fetch(peer, "/api/v1/query_range", gs_buf_slice(&parameters), &answer);
    const json_t *result = codec_json_get(answer, "data", "result", NULL);
    size_t i;
    json_t *item;
    if (!err && !json_is_array(result))
        err = wrong("result");
    json_array_foreach ((json_t *)result, i, item) {
        if (!err)
            err = read_series(p, series, item);
    }
    return err ? gs_error_wrap(err, "%s", query) : NULL;
}

static struct gs_error *run_part(const struct query_peer *peer, const char *owner, struct part *p,
                                 struct ledger_meter *meter, struct ledger_table *table)
{
    struct gs_error *err = NULL;
    for (size_t i = 0; i < p->n; i++)
        p->at[i] = ledger_observation_new(owner);
    for (enum ledger_series s = 0; !err && s < LEDGER_N_SERIES; s++) {
        GS_AUTO_FREE char *query = ledger_query(s, owner, p->step_ms / 1000);
        err = fetch_series(peer, query, p, s);
    }
    for (size_t i = 0; i < p->n; i++) {
        int64_t end = p->first_ms + (int64_t)i * p->step_ms;
        if (!err)
            ledger_meter_observe(meter, p->at[i], end - p->step_ms, end, table);
        ledger_observation_free(p->at[i]);
    }
    return err;
}

static struct gs_error *choose_step(const struct report_request *r, int64_t *ret)
{
    int64_t range = r->report.until_ms - r->report.since_ms;
    int64_t step = r->o->step_ns / GS_NS_PER_MS;
    if (step == 0)
        step = range <= FINE_MS ? FINE_STEP_MS : STEP_MS;
    if (step < 1000 || step % 1000)
        return gs_error_new(GS_EINVAL, "--step: want whole seconds");
    if (range / step > MAX_STEPS)
        return gs_error_new(GS_EINVAL, "--step: %d steps are the maximum; choose a longer step",
                            MAX_STEPS);
    *ret = step;
    return NULL;
}

struct gs_error *report_from_prometheus(const struct report_request *r, const char *url,
                                        const struct endpoint_settings *settings, json_t **ret)
{
    const struct report_options *o = r->o;
    const struct query_peer peer = {.url = url,
                                    .settings = settings,
                                    .http_config_file = o->http_config_file,
                                    .headers = o->headers.items,
                                    .n_headers = o->headers.len,
                                    .timeout_ms = o->timeout_ns / GS_NS_PER_MS};
    const char *owner = o->owner_label;
    int64_t step = 0;
    struct gs_error *err = choose_step(r, &step);
    if (!err)
        err = ledger_check_owner(owner);
    if (err)
        return err;
    GS_CLEANUP(ledger_meter_freep) struct ledger_meter *meter = ledger_meter_new();
    GS_CLEANUP(ledger_table_freep) struct ledger_table *table = ledger_table_new(MAX_ROWS);
    GS_CLEANUP(ledger_report_freep) struct ledger_report *report = ledger_report_new(&r->report);
    int64_t at = r->report.since_ms - r->report.since_ms % step;
    while (!err && at + step <= r->report.until_ms) {
        size_t left = (size_t)((r->report.until_ms - at) / step);
        struct part p = {.n = left < STEPS_OF_PART ? left : STEPS_OF_PART,
                         .first_ms = at + step,
                         .step_ms = step};
        err = run_part(&peer, owner, &p, meter, table);
        ledger_table_each(table, ledger_report_add, report);
        at += (int64_t)p.n * step;
        ledger_table_written(table, at);
    }
    if (err)
        return gs_error_wrap(err, "%s", url);
    const struct ledger_gpu *g;
    for (size_t pos = 0; (g = ledger_meter_next(meter, &pos));)
        ledger_report_add_idle(report, g);
    *ret = ledger_report_json(report);
    report_fetch_budgets(&peer, r->report.since_ms, r->report.until_ms, *ret);
    return NULL;
}
