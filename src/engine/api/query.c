// SPDX-License-Identifier: Apache-2.0
// query, query_range, format_query.
#include "engine/api/api_private.h"

#include "base/clock.h"

enum { MAX_POINTS = 11000 }; // steps of a range query, as in Prometheus

struct query {
    struct promql_expr *expr;
    struct promql_result result;
    size_t limit;
    int64_t timeout_ns, lookback_ns; // 0: the default of the engine
    const char *stats;               // "": none
    int64_t begun_ns, prepared_ns, evaluated_ns;
};

static void query_finish(struct query *q)
{
    promql_expr_free(q->expr);
    promql_result_finish(&q->result);
}
#define AUTO_QUERY GS_CLEANUP(query_finish)

// --- parameters that both kinds have ---

static bool read_timeout(struct engine_api_request *r, struct query *q)
{
    int64_t ns = r->api->cfg.timeout_ms * GS_NS_PER_MS;
    if (!engine_api_duration(r, "timeout", &ns))
        return false;
    q->timeout_ns = ns;
    if (ns > 0 || !*engine_api_param(r, "timeout"))
        return true;
    engine_api_fail(r, ENGINE_API_TIMEOUT, "query timed out in expression evaluation");
    return false;
}

static bool read_options(struct engine_api_request *r, struct query *q)
{
    const char *lookback = engine_api_param(r, "lookback_delta");
    struct gs_error *err = *lookback ? engine_api_parse_duration(lookback, &q->lookback_ns) : NULL;
    if (err) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "error parsing lookback delta duration: %s",
                        gs_error_message(err));
        gs_error_free(err);
        return false;
    }
    q->stats = engine_api_param(r, "stats");
    return true;
}

static bool parse_expression(struct engine_api_request *r, struct query *q)
{
    struct gs_error *err = promql_parse(gs_slice_of(engine_api_param(r, "query")), &q->expr);
    if (err)
        engine_api_fail_param(r, "query", err);
    q->prepared_ns = gs_mono_ns();
    return !err;
}

static void set_limits(struct engine_api_request *r, const struct query *q)
{
    // The limit of the configuration still applies.
    int64_t timeout_ms = q->timeout_ns / GS_NS_PER_MS;
    if (timeout_ms > r->api->cfg.timeout_ms)
        timeout_ms = r->api->cfg.timeout_ms;
    promql_engine_set_limits(r->api->cfg.promql, timeout_ms ? timeout_ms : 1,
                             q->lookback_ns / GS_NS_PER_MS);
    promql_engine_set_statistics(r->api->cfg.promql, *q->stats);
}

// --- reply ---

static double seconds_between(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) / (double)GS_NS_PER_SEC;
}

static void add_timing(struct gs_buf *out, const char *key, double seconds)
{
    gs_buf_addf(out, "\"%s\":", key);
    engine_api_json_add_seconds(out, seconds);
    gs_buf_add_char(out, ',');
}

static void add_total(struct gs_buf *out, const struct query *q, const char *key, uint64_t total,
                      const uint64_t *by_step)
{
    const struct promql_result *r = &q->result;
    bool each = gs_streq(q->stats, "all") && (promql_features() & PROMQL_PER_STEP_STATS);
    for (size_t i = 0; each && i < r->n_steps; i++) {
        char time[ENGINE_API_JSON_VALUE_SIZE];
        char *end = engine_api_json_put_time(time, r->start_ms + (int64_t)i * r->step_ms);
        gs_buf_addf(out, i ? ",[" : "\"%sPerStep\":[[", key);
        gs_buf_add(out, time, (size_t)(end - time));
        gs_buf_addf(out, ",%llu]", (unsigned long long)by_step[i]);
    }
    if (each)
        gs_buf_add_str(out, "],");
    gs_buf_addf(out, "\"%s\":%llu,", key, (unsigned long long)total);
}

static void add_samples(struct gs_buf *out, const struct query *q)
{
    const struct promql_statistics *s = q->result.statistics;
    add_total(out, q, "totalQueryableSamples", s->used, s->used_at);
    add_total(out, q, "samplesRead", s->read, s->read_at);
    gs_buf_addf(out, "\"seriesTouched\":%llu,\"peakSamples\":%zu", (unsigned long long)s->series,
                q->result.samples);
}

static void add_stats(struct gs_buf *out, const struct query *q)
{
    double eval = seconds_between(q->prepared_ns, q->evaluated_ns);
    gs_buf_add_str(out, ",\"stats\":{\"timings\":{");
    add_timing(out, "evalTotalTime", eval);
    add_timing(out, "resultSortTime", 0);
    add_timing(out, "queryPreparationTime", seconds_between(q->begun_ns, q->prepared_ns));
    add_timing(out, "innerEvalTime", eval);
    add_timing(out, "execQueueTime", 0);
    gs_buf_add_str(out, "\"execTotalTime\":");
    engine_api_json_add_seconds(out, seconds_between(q->begun_ns, q->evaluated_ns));
    gs_buf_add_str(out, "},\"samples\":{");
    add_samples(out, q);
    gs_buf_add_str(out, "}}");
}

// NULL: the value is known.
static char *warning_of_stats(const char *value)
{
    if (!*value || gs_streq(value, "true") || gs_streq(value, "all"))
        return NULL;
    return gs_format("value \"%s\" for parameter \"stats\" is deprecated and will be rejected in "
                     "the next major release, use \"true\" or \"all\"",
                     value);
}

static void reply_result(struct engine_api_request *r, struct query *q, struct gs_error *err)
{
    q->evaluated_ns = gs_mono_ns();
    promql_engine_set_limits(r->api->cfg.promql, 0, 0);
    promql_engine_set_statistics(r->api->cfg.promql, false);
    r->api->n_queries++;
    r->api->query_seconds += seconds_between(q->begun_ns, q->evaluated_ns);
    if (err) {
        engine_api_fail_query(r, err);
        return;
    }
    struct gs_buf *out = engine_api_begin(r);
    gs_buf_add_char(out, '{');
    engine_api_write_result(out, &q->result, q->limit, engine_api_go_on, r, &r->truncated);
    if (*q->stats)
        add_stats(out, q);
    gs_buf_add_char(out, '}');
    GS_AUTO_FREE char *stats_warning = warning_of_stats(q->stats);
    GS_AUTO_FREE const char **warnings =
        gs_alloc_array(q->result.n_warnings + 1, sizeof(*warnings));
    if (q->result.n_warnings)
        memcpy(warnings, q->result.warnings, q->result.n_warnings * sizeof(*warnings));
    warnings[q->result.n_warnings] = stats_warning;
    r->warnings = warnings;
    r->n_warnings = q->result.n_warnings + (stats_warning != NULL);
    r->infos = q->result.infos;
    r->n_infos = q->result.n_infos;
    engine_api_end(r);
}

// --- the endpoints ---

void engine_api_query(struct engine_api_request *r)
{
    AUTO_QUERY struct query q = {.begun_ns = gs_mono_ns()};
    int64_t t_ms;
    if (!engine_api_limit(r, &q.limit) || !engine_api_time(r, "time", r->now_ms, &t_ms) ||
        !read_timeout(r, &q) || !read_options(r, &q) || !parse_expression(r, &q))
        return;
    set_limits(r, &q);
    reply_result(r, &q, promql_instant(r->api->cfg.promql, q.expr, t_ms, &q.result));
}

static bool read_step(struct engine_api_request *r, int64_t *ret_ns)
{
    struct gs_error *err = engine_api_parse_duration(engine_api_param(r, "step"), ret_ns);
    if (!err && *ret_ns <= 0)
        err = gs_error_new(GS_EINVAL, "zero or negative query resolution step widths are not "
                                      "accepted. Try a positive integer");
    if (err)
        engine_api_fail_param(r, "step", err);
    return !err;
}

struct window {
    int64_t start_ms, end_ms, step_ns;
};

static bool read_window(struct engine_api_request *r, struct window *w)
{
    if (!engine_api_required_time(r, "start", &w->start_ms) ||
        !engine_api_required_time(r, "end", &w->end_ms))
        return false;
    if (w->end_ms < w->start_ms) {
        engine_api_fail(r, ENGINE_API_BAD_DATA,
                        "invalid parameter \"end\": end timestamp must not be before start time");
        return false;
    }
    if (!read_step(r, &w->step_ns))
        return false;
    __extension__ typedef __int128 wide;
    if ((wide)(w->end_ms - w->start_ms) * GS_NS_PER_MS / w->step_ns > MAX_POINTS) {
        engine_api_fail(
            r, ENGINE_API_BAD_DATA,
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the "
            "query resolution (?step=XX)");
        return false;
    }
    return true;
}

void engine_api_query_range(struct engine_api_request *r)
{
    AUTO_QUERY struct query q = {.begun_ns = gs_mono_ns()};
    struct window w;
    if (!engine_api_limit(r, &q.limit) || !read_window(r, &w) || !read_timeout(r, &q) ||
        !read_options(r, &q) || !parse_expression(r, &q))
        return;
    int64_t step_ms = w.step_ns / GS_NS_PER_MS;
    set_limits(r, &q);
    reply_result(r, &q,
                 promql_range(r->api->cfg.promql, q.expr, w.start_ms, w.end_ms,
                              step_ms ? step_ms : 1, &q.result));
}

void engine_api_format_query(struct engine_api_request *r)
{
    AUTO_QUERY struct query q = {.begun_ns = gs_mono_ns()};
    if (!parse_expression(r, &q))
        return;
    GS_AUTO_BUF struct gs_buf text = {0};
    promql_print_pretty(promql_expr_root(q.expr), &text);
    codec_json_add_string(engine_api_begin(r), gs_buf_slice(&text), CODEC_JSON_PLAIN);
    engine_api_end(r);
}
