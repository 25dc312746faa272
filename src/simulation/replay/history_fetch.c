// SPDX-License-Identifier: Apache-2.0
// The recorded history of an autoscaler from a Prometheus: the values of its status, and its
// replicas.
#include "base/clock.h"
#include "base/mem.h"
#include "net/http/client.h"
#include "query/query.h"
#include "replay/history.h"
#include "replay/history_private.h"

enum { TIMEOUT_MS = 60000, MAX_STEPS = 5000 };

// Labels of kube-state-metrics' targets.
static const char *target_type(const json_t *metric)
{
    const char *type = codec_json_str(metric, "target", "type", NULL);
    return gs_streq(type, "Utilization") ? "utilization"
           : gs_streq(type, "Value")     ? "value"
                                         : "average";
}

void replay_history_add_matcher(struct gs_buf *out, const char *label, const char *op,
                                const char *value)
{
    GS_AUTO_FREE char *text = NULL;
    json_t *string = json_string(value);
    text = json_dumps(string, JSON_ENCODE_ANY);
    json_decref(string);
    gs_buf_addf(out, "%s%s%s", label, op, text ? text : "\"\"");
}

static void add_quoted(struct gs_buf *out, const char *label, const char *value)
{
    replay_history_add_matcher(out, label, "=", value);
}

static void add_object_labels(struct gs_buf *out, const json_t *explanation)
{
    add_quoted(out, "namespace", codec_json_str(explanation, "namespace", NULL));
    gs_buf_add_str(out, ",");
    add_quoted(out, "horizontalpodautoscaler", codec_json_str(explanation, "name", NULL));
}

static void add_metric_query(struct gs_buf *out, const json_t *explanation, const json_t *metric)
{
    gs_buf_add_str(out, "max(kube_horizontalpodautoscaler_status_target_metric{");
    add_object_labels(out, explanation);
    gs_buf_add_str(out, ",");
    add_quoted(out, "metric_name", codec_json_str(metric, "name", NULL));
    gs_buf_addf(out, ",metric_target_type=\"%s\"})", target_type(metric));
}

// The ready replicas. Those of the status, which belong to its values, are fewer right after a
// scale-up: the values are of fewer pods then.
static void add_replicas_query(struct gs_buf *out, const json_t *explanation)
{
    GS_AUTO_BUF struct gs_buf ready = {0};
    GS_AUTO_BUF struct gs_buf current = {0};
    const char *target = codec_json_str(explanation, "target", NULL);
    const char *slash = target ? strchr(target, '/') : NULL;
    gs_buf_add_str(&ready, "max(kube_deployment_status_replicas_ready{");
    add_quoted(&ready, "namespace", codec_json_str(explanation, "namespace", NULL));
    gs_buf_add_str(&ready, ",");
    add_quoted(&ready, "deployment", slash ? slash + 1 : "");
    gs_buf_add_str(&ready, "})");
    gs_buf_add_str(&current, "max(kube_horizontalpodautoscaler_status_current_replicas{");
    add_object_labels(&current, explanation);
    gs_buf_add_str(&current, "})");
    gs_buf_add(&ready, "", 1);
    gs_buf_add(&current, "", 1);
    gs_buf_addf(out, "(%s < %s) or %s or %s", ready.data, current.data, current.data, ready.data);
}

static void add_parameter(struct gs_buf *out, const char *name, struct gs_slice value)
{
    gs_buf_addf(out, "%s%s=", out->len ? "&" : "", name);
    http_encode(value, out);
}

static void add_time(struct gs_buf *out, const char *name, int64_t ms)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    query_add_seconds(&text, ms);
    add_parameter(out, name, gs_buf_slice(&text));
}

int64_t replay_history_step_ms(const struct replay_history_source *s)
{
    return s->range_ms / MAX_STEPS < 1000 ? 1000 : s->range_ms / MAX_STEPS;
}

struct gs_error *replay_history_query(const struct replay_history_source *s, struct gs_slice expr,
                                      int64_t now_ms, json_t **ret)
{
    const struct query_peer peer = {.url = s->url,
                                    .http_config_file = s->http_config_file,
                                    .settings = s->settings_of_url,
                                    .timeout_ms = TIMEOUT_MS};
    GS_AUTO_BUF struct gs_buf params = {0};
    CODEC_AUTO_JSON json_t *answer = NULL;
    add_parameter(&params, "query", expr);
    add_time(&params, "start", now_ms - s->range_ms);
    add_time(&params, "end", now_ms);
    add_time(&params, "step", replay_history_step_ms(s));
    struct gs_error *err =
        query_fetch(&peer, "/api/v1/query_range", gs_buf_slice(&params), &answer);
    if (err)
        return gs_error_wrap(err, "%s", s->url);
    json_t *series = json_array_get(codec_json_get(answer, "data", "result", NULL), 0);
    if (!json_is_array(json_object_get(series, "values")))
        return gs_error_new(GS_ENOTFOUND,
                            "%s has no samples of " GS_SLICE_FMT " in this time: they come from "
                            "gpuscale up, gpuscale engine --kube-state or kube-state-metrics",
                            s->url, GS_SLICE_ARG(expr));
    *ret = json_incref(series);
    return NULL;
}

static struct gs_error *fetch(const struct replay_history_source *s, struct gs_slice expr,
                              int64_t now_ms, json_t **ret)
{
    CODEC_AUTO_JSON json_t *series = NULL;
    struct gs_error *err = replay_history_query(s, expr, now_ms, &series);
    if (!err)
        *ret = json_incref(json_object_get(series, "values"));
    return err;
}

static json_t *settings_json(const struct replay_history_source *s)
{
    json_t *out = json_object();
    for (size_t i = 0; i < s->n_settings; i++)
        codec_json_set_str(out, s->settings[i].name, s->settings[i].value);
    return out;
}

// Whether a latency target is a part of the question.
static bool wants_engines(const struct replay_history_source *s, const json_t *explanation)
{
    for (size_t i = 0; i < s->n_settings; i++)
        if (replay_history_has_setting(s->settings[i].name))
            return true;
    return codec_json_str(explanation, "slo", "annotation", NULL);
}

static struct gs_error *fetch_series(const struct replay_history_source *s,
                                     const json_t *explanation, json_t *question)
{
    const json_t *metrics = json_object_get(explanation, "metrics");
    json_t *series = json_array(), *values = NULL;
    int64_t now_ms = gs_unix_ms();
    struct gs_error *err = NULL;
    json_object_set_new(question, "metrics", series);
    if (wants_engines(s, explanation))
        err = replay_history_fetch_engines(s, explanation, now_ms, question);
    bool engines = json_object_get(question, "inference");
    for (size_t i = 0; !err && i < json_array_size(metrics); i++) {
        GS_AUTO_BUF struct gs_buf expr = {0};
        add_metric_query(&expr, explanation, json_array_get(metrics, i));
        err = fetch(s, gs_buf_slice(&expr), now_ms, &values);
        if (engines && err && gs_error_code(err) == GS_ENOTFOUND) {
            gs_error_free(err);
            err = NULL;
            values = json_null(); // the engines may have it
        }
        if (!err)
            json_array_append_new(series, values);
    }
    GS_AUTO_BUF struct gs_buf expr = {0};
    add_replicas_query(&expr, explanation);
    if (!err)
        err = fetch(s, gs_buf_slice(&expr), now_ms, &values);
    if (!err)
        json_object_set_new(question, "replicas", values);
    return err;
}

struct gs_error *replay_history_fetch(const struct replay_history_source *source,
                                      const json_t *explanation, const struct hpa_config *cfg,
                                      json_t **ret)
{
    static const char *const same[] = {"namespace", "name", "spec", "gpusPerReplica"};
    CODEC_AUTO_JSON json_t *question = json_object();
    struct replay_history *history = NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(same); i++)
        json_object_set(question, same[i], json_object_get(explanation, same[i]));
    json_object_set(question, "slo", codec_json_get(explanation, "slo", "annotation", NULL));
    json_object_set(question, "startupSeconds",
                    codec_json_get(explanation, "startup", "p50Seconds", NULL));
    json_object_set_new(question, "settings", settings_json(source));
    struct gs_error *err = fetch_series(source, explanation, question);
    if (!err)
        err = replay_history_new(question, cfg, source->sync_ms, &history);
    if (err)
        return err;
    replay_history_run(history);
    *ret = replay_history_answer(history);
    replay_history_free(history);
    return NULL;
}
