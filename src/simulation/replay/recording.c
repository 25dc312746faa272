// SPDX-License-Identifier: Apache-2.0
// A scenario from the metrics that a Prometheus has recorded: the autoscaler of a manifest, and the
// results of a range query per metric.
#include "replay/command_private.h"

#include "aliases/aliases.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/yaml.h"
#include "hpa/convert.h"
#include "hpa/hpa.h"
#include "net/http/client.h"
#include "query/query.h"

#include <math.h>

#define TIMEOUT_MS 120000

struct span {
    int64_t start_ms, end_ms, step_ms;
};

// --- the autoscaler ---

static struct gs_error *load_hpa(const char *path, json_t **ret_object, struct hpa_spec *ret)
{
    struct codec_yaml_docs docs = {0};
    const json_t *found = NULL;
    struct gs_error *err = codec_yaml_load_file(path, &docs);
    for (size_t i = 0; i < docs.len; i++)
        if (gs_streq(codec_json_str(docs.items[i].value, "kind", NULL), "HorizontalPodAutoscaler"))
            found = docs.items[i].value;
    if (!err && !found)
        err = gs_error_new(GS_EINVAL, "%s: contains no HorizontalPodAutoscaler", path);
    if (!err)
        err = hpa_to_v2(found, ret_object);
    codec_yaml_docs_finish(&docs);
    if (err)
        return err;
    json_object_del(*ret_object, "status");
    hpa_default(*ret_object);
    return hpa_spec_parse(*ret_object, ret);
}

// --- the recording ---

static void add_param(struct gs_buf *out, const char *name, const char *value)
{
    gs_buf_addf(out, "%s%s=", out->len ? "&" : "", name);
    http_encode(gs_slice_of(value), out);
}

static void add_query_time(struct gs_buf *out, const char *name, int64_t ms)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    query_add_seconds(&text, ms);
    add_param(out, name, text.data);
}

// [["0s", 1.5], …]; samples that are not finite are omitted.
static struct gs_error *read_recorded(const json_t *series, int64_t start_ms, json_t *ret)
{
    const json_t *values = json_object_get(series, "values");
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *pair = json_array_get(values, i);
        const char *text = json_string_value(json_array_get(pair, 1));
        double at = json_number_value(json_array_get(pair, 0)), v = 0;
        GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_double(gs_slice_of(text), &v) : NULL;
        if (!text || err)
            return gs_error_new(GS_EPROTO, "a sample is not a pair of time and number");
        if (!isfinite(v))
            continue;
        json_t *time = codec_json_strf("%lldms", (long long)(llround(at * 1000) - start_ms));
        json_array_append_new(ret, json_pack("[o, f]", time, v));
    }
    return NULL;
}

static bool may_exist(void *arg, struct gs_slice metric)
{
    (void)arg, (void)metric;
    return true;
}

// A recording may be from before and after an upgrade of the exporters: both names of a GPU metric
// are read. out: empty: the expression as it is.
static void read_both_names(const char *expr, struct gs_buf *out)
{
    const struct aliases_source source = {may_exist, NULL, false};
    GS_CLEANUP(promql_expr_freep) struct promql_expr *x = NULL;
    GS_AUTO_ERROR struct gs_error *err = promql_parse(gs_slice_of(expr), &x);
    if (!err) // the server reports the error otherwise
        aliases_read(x, &source, out, NULL);
}

static struct gs_error *fetch_points(const struct replay_recording *r, const char *expr,
                                     const struct span *span, json_t **ret)
{
    const struct query_peer peer = {
        .url = r->from, .http_config_file = r->http_config_file, .timeout_ms = TIMEOUT_MS};
    GS_AUTO_BUF struct gs_buf params = {0};
    CODEC_AUTO_JSON json_t *answer = NULL;
    GS_AUTO_BUF struct gs_buf both = {0};
    read_both_names(expr, &both);
    add_param(&params, "query", both.len ? both.data : expr);
    add_query_time(&params, "start", span->start_ms);
    add_query_time(&params, "end", span->end_ms);
    add_query_time(&params, "step", span->step_ms);
    struct gs_error *err =
        query_fetch(&peer, "/api/v1/query_range", gs_buf_slice(&params), &answer);
    if (err)
        return gs_error_wrap(query_point_at(err, expr), "%s", expr);
    const json_t *result = codec_json_get(answer, "data", "result", NULL);
    if (json_array_size(result) != 1)
        return gs_error_new(GS_EINVAL,
                            "%s: %zu series in that range; want one series (use sum() or avg())",
                            expr, json_array_size(result));
    json_t *points = json_array();
    err = read_recorded(json_array_get(result, 0), span->start_ms, points);
    if (!err && !json_array_size(points))
        err = gs_error_new(GS_EINVAL, "no finite sample in the range");
    if (err) {
        json_decref(points);
        return gs_error_wrap(err, "%s", expr);
    }
    *ret = points;
    return NULL;
}

static struct gs_error *record_metrics(const struct replay_recording *r,
                                       const struct hpa_spec *spec, const struct span *span,
                                       const json_t *replicas, json_t *ret)
{
    if (r->queries.len != spec->n_metrics)
        return gs_error_new(GS_EINVAL, "the autoscaler has %zu metric%s, but %zu --query %s given",
                            spec->n_metrics, spec->n_metrics == 1 ? "" : "s", r->queries.len,
                            r->queries.len == 1 ? "is" : "are");
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < spec->n_metrics; i++) {
        json_t *points = NULL;
        err = fetch_points(r, r->queries.items[i], span, &points);
        if (err)
            break;
        json_t *metric = json_pack("{s:o}", "series", points);
        if (replicas)
            json_object_set(metric, "replicas", (json_t *)replicas);
        json_object_set_new(ret, spec->metrics[i].name, metric);
    }
    return err;
}

static struct gs_error *read_span(const struct replay_recording *r, struct span *ret)
{
    int64_t now_ms = gs_unix_ms();
    ret->end_ms = now_ms;
    ret->step_ms = r->step_ns / GS_NS_PER_MS;
    if (ret->step_ms < 1 || r->range_ns < r->step_ns)
        return gs_error_new(GS_EINVAL, "--range must be at least one --step");
    struct gs_error *err = r->end ? query_parse_time(r->end, now_ms, &ret->end_ms) : NULL;
    ret->start_ms = ret->end_ms - r->range_ns / GS_NS_PER_MS;
    return err ? gs_error_wrap(err, "--end") : NULL;
}

static int64_t first_count(const json_t *points, const struct hpa_spec *spec)
{
    double v = json_number_value(json_array_get(json_array_get(points, 0), 1));
    if (points && v >= 0 && v <= spec->max_replicas)
        return llround(v);
    return spec->has_min ? spec->min_replicas : 1;
}

static struct gs_error *make_scenario(const struct replay_recording *r, const struct hpa_spec *spec,
                                      json_t *object, struct gs_buf *out)
{
    struct span span = {0};
    CODEC_AUTO_JSON json_t *replicas = NULL;
    CODEC_AUTO_JSON json_t *metrics = json_object();
    struct gs_error *err = read_span(r, &span);
    if (!err && r->replicas_query)
        err = fetch_points(r, r->replicas_query, &span, &replicas);
    if (!err)
        err = record_metrics(r, spec, &span, replicas, metrics);
    if (err)
        return err;
    char start[GS_RFC3339_SIZE];
    CODEC_AUTO_JSON json_t *scenario = json_object();
    json_object_set_new(scenario, "name",
                        codec_json_strf("%s, recorded from %s", spec->name,
                                        gs_format_rfc3339(span.start_ms, start)));
    json_object_set(scenario, "hpa", object);
    json_object_set_new(scenario, "duration",
                        codec_json_strf("%lldms", (long long)(span.end_ms - span.start_ms)));
    json_object_set_new(scenario, "replicas", json_integer(first_count(replicas, spec)));
    json_object_set(scenario, "metrics", metrics);
    codec_json_dump_pretty(scenario, out);
    gs_buf_add_char(out, '\n');
    return NULL;
}

struct gs_error *replay_recording_write(const struct replay_recording *r, const char *path)
{
    struct hpa_spec spec = {0};
    CODEC_AUTO_JSON json_t *object = NULL;
    GS_AUTO_BUF struct gs_buf out = {0};
    if (!r->hpa || !r->from)
        return gs_error_new(GS_EINVAL, "a recording needs --hpa, --from and a --query for each "
                                       "metric of the autoscaler");
    struct gs_error *err = load_hpa(r->hpa, &object, &spec);
    if (!err)
        err = make_scenario(r, &spec, object, &out);
    hpa_spec_finish(&spec);
    return err ? err : gs_file_write_atomic(path, 0666, gs_buf_slice(&out));
}
