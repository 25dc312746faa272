// SPDX-License-Identifier: Apache-2.0
// What an autoscaler would have done with other settings on recorded history: both settings run in
// the replay, on load that follows from the recorded metrics and replicas. Only a GPU utilization
// of pods has a model in which work waits; other metrics keep their recorded totals.
#include "replay/history.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "hpa/convert.h"
#include "replay/history_private.h"
#include "replay/scenario_private.h"
#include "replay/service.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define MAX_RANGE_MS    (INT64_C(31) * 86400 * 1000)
#define MAX_COST        2e7 // evaluations x replicas
#define MAX_STARTUP_S   86400
#define MAX_GPUS        1024
#define DEFAULT_STARTUP 30
#define GAP_STEPS       3 // a longer time without samples is a gap

// --- reading ---

static struct gs_error *read_sample(const json_t *pair, double *ret_t, double *ret_v)
{
    const json_t *time = json_array_get(pair, 0);
    const char *text = json_string_value(json_array_get(pair, 1));
    GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_double(gs_slice_of(text), ret_v) : NULL;
    *ret_t = json_number_value(time);
    if (!json_is_number(time) || !text || err || !(*ret_t >= 0 && *ret_t < 1e11))
        return gs_error_new(GS_EINVAL, "want [seconds, \"value\"]");
    return NULL;
}

struct gs_error *replay_history_read_series(const json_t *in, struct replay_curve *ret)
{
    size_t n = json_array_size(in);
    int64_t last_ms = -1;
    if (n > REPLAY_HISTORY_SAMPLES)
        return gs_error_new(GS_ELIMIT, "%zu samples; at most %d", n, REPLAY_HISTORY_SAMPLES);
    for (size_t i = 0; i < n; i++) {
        double t = 0, v = 0;
        struct gs_error *err = read_sample(json_array_get(in, i), &t, &v);
        int64_t t_ms = err ? 0 : llround(t * 1000);
        if (!err && t_ms <= last_ms)
            err = gs_error_new(GS_EINVAL, "the times are not in order");
        if (err)
            return gs_error_wrap(err, "sample %zu", i + 1);
        last_ms = t_ms;
        if (isfinite(v) && v >= 0 && v < 1e15)
            replay_curve_add(ret, t_ms, v);
    }
    if (ret->n < 2)
        return gs_error_new(GS_EINVAL, "fewer than two samples");
    return NULL;
}

static struct gs_error *read_metrics(struct replay_history *h, const json_t *question)
{
    const json_t *metrics = json_object_get(question, "metrics");
    if (h->spec.n_metrics == 0 || h->spec.n_metrics > REPLAY_HISTORY_METRICS)
        return gs_error_new(GS_EINVAL, "the autoscaler has %zu metrics; want 1 to %d",
                            h->spec.n_metrics, REPLAY_HISTORY_METRICS);
    if (json_array_size(metrics) != h->spec.n_metrics)
        return gs_error_new(GS_EINVAL, "%zu series of metrics; the autoscaler has %zu",
                            json_array_size(metrics), h->spec.n_metrics);
    h->values = gs_alloc_array(h->spec.n_metrics, sizeof(*h->values));
    for (size_t i = 0; i < h->spec.n_metrics; i++) {
        // Engines have their own values.
        if (h->engines && !json_is_array(json_array_get(metrics, i)))
            continue;
        struct gs_error *err =
            replay_history_read_series(json_array_get(metrics, i), &h->values[i]);
        if (err)
            return gs_error_wrap(err, "metric %s", h->spec.metrics[i].name);
    }
    struct gs_error *err =
        replay_history_read_series(json_object_get(question, "replicas"), &h->replicas);
    if (!err)
        for (size_t i = 0; i < h->replicas.n; i++)
            if (h->replicas.points[i].v > REPLAY_MAX_REPLICAS)
                return gs_error_new(GS_ELIMIT, "replicas: more than %d", REPLAY_MAX_REPLICAS);
    return err ? gs_error_wrap(err, "replicas") : NULL;
}

// The spec of the question, checked as the API server does.
static struct gs_error *read_spec(const json_t *question, struct hpa_spec *ret)
{
    GS_CLEANUP(kube_field_errors_finish) struct kube_field_errors wrong = {0};
    CODEC_AUTO_JSON json_t *object = json_object();
    json_t *spec = json_object_get(question, "spec");
    const char *ns = codec_json_str(question, "namespace", NULL),
               *name = codec_json_str(question, "name", NULL);
    if (!json_is_object(spec) || !ns || !name)
        return gs_error_new(GS_EINVAL, "want an object with namespace, name and spec");
    codec_json_set_str(object, "apiVersion", "autoscaling/v2");
    codec_json_set_str(object, "kind", "HorizontalPodAutoscaler");
    codec_json_set(object, json_string(ns), "metadata", "namespace", NULL);
    codec_json_set(object, json_string(name), "metadata", "name", NULL);
    json_object_set_new(object, "spec", json_deep_copy(spec));
    hpa_default(object);
    hpa_validate(object, &wrong);
    if (wrong.len)
        return gs_error_new(GS_EINVAL, "%.*s", (int)wrong.text.len, wrong.text.data);
    return hpa_spec_parse(object, ret);
}

static struct gs_error *read_settings(const json_t *in, struct hpa_setting *ret, size_t *ret_n)
{
    const char *name;
    json_t *value;
    if (in && !json_is_object(in))
        return gs_error_new(GS_EINVAL, "settings: want an object");
    json_object_foreach ((json_t *)in, name, value) {
        if (!json_is_string(value))
            return gs_error_new(GS_EINVAL, "settings.%s: want a string", name);
        if (*ret_n == HPA_MAX_SETTINGS)
            return gs_error_new(GS_ELIMIT, "more than %d settings", HPA_MAX_SETTINGS);
        ret[(*ret_n)++] = (struct hpa_setting){name, json_string_value(value)};
    }
    if (!*ret_n)
        return gs_error_new(GS_EINVAL, "settings: want at least one");
    return NULL;
}

// --- the recorded time ---

// All series exist from the start to the end.
static struct gs_error *find_span(struct replay_history *h, int64_t sync_ms)
{
    int64_t start = h->replicas.points[0].t_ms, end = h->replicas.points[h->replicas.n - 1].t_ms;
    for (size_t i = 0; i < h->spec.n_metrics; i++) {
        const struct replay_curve *c = &h->values[i];
        if (!c->n)
            continue;
        start = c->points[0].t_ms > start ? c->points[0].t_ms : start;
        end = c->points[c->n - 1].t_ms < end ? c->points[c->n - 1].t_ms : end;
    }
    if (h->engines)
        replay_history_engines_span(h, &start, &end);
    h->start_ms = start;
    h->duration_ms = end - start;
    if (h->duration_ms < 2 * sync_ms)
        return gs_error_new(GS_EINVAL, "the series have less than two sync periods in common");
    if (h->duration_ms > MAX_RANGE_MS)
        return gs_error_new(GS_ELIMIT, "%lld days; at most %lld",
                            (long long)(h->duration_ms / 86400000),
                            (long long)(MAX_RANGE_MS / 86400000));
    return NULL;
}

// The part of the time in which samples exist: a pause of more than some steps is a gap.
static double coverage_of(const struct replay_curve *c)
{
    int64_t step = INT64_MAX, missing = 0, all = c->points[c->n - 1].t_ms - c->points[0].t_ms;
    for (size_t i = 1; i < c->n; i++) {
        int64_t pause = c->points[i].t_ms - c->points[i - 1].t_ms;
        step = pause < step ? pause : step;
    }
    for (size_t i = 1; i < c->n; i++) {
        int64_t pause = c->points[i].t_ms - c->points[i - 1].t_ms;
        missing += pause > GAP_STEPS * step ? pause - step : 0;
    }
    return 1 - (double)missing / (double)all;
}

void replay_history_move(struct replay_curve *c, int64_t start_ms)
{
    for (size_t i = 0; i < c->n; i++)
        c->points[i].t_ms -= start_ms;
}

static void align(struct replay_history *h)
{
    h->coverage = coverage_of(&h->replicas);
    replay_history_move(&h->replicas, h->start_ms);
    for (size_t i = 0; i < h->spec.n_metrics; i++) {
        if (h->values[i].n)
            h->coverage = fmin(h->coverage, coverage_of(&h->values[i]));
        replay_history_move(&h->values[i], h->start_ms);
    }
}

// --- the model ---

static bool has_word(const char *name, const char *word)
{
    size_t n = strlen(word);
    for (; *name; name++)
        if (strncasecmp(name, word, n) == 0)
            return true;
    return false;
}

static bool is_utilization(const char *metric)
{
    return has_word(metric, "util") || has_word(metric, "duty_cycle");
}

// A single metric of the pods that is the utilization of GPUs in percent: at 100 a replica serves
// no more, and work waits.
static bool is_gpu_utilization(const struct replay_history *h)
{
    const struct hpa_metric_spec *m = &h->spec.metrics[0];
    if (h->spec.n_metrics != 1 || m->type != HPA_METRIC_PODS || !m->has_average_value ||
        !is_utilization(m->name))
        return false;
    for (size_t i = 0; i < h->values[0].n; i++)
        if (h->values[0].points[i].v > REPLAY_HISTORY_FULL)
            return false;
    return true;
}

static struct replay_curve copy_of(const struct replay_curve *c, double factor)
{
    struct replay_curve copy = {0};
    for (size_t i = 0; i < c->n; i++)
        replay_curve_add(&copy, c->points[i].t_ms, c->points[i].v * factor);
    return copy;
}

// The average of a metric times the replicas.
static struct replay_curve total_of(const struct replay_curve *average,
                                    const struct replay_curve *replicas)
{
    struct replay_curve_piece piece = {0};
    struct replay_curve total = copy_of(average, 1);
    for (size_t i = 0; i < total.n; i++)
        total.points[i].v *= replay_curve_at(replicas, total.points[i].t_ms, &piece);
    return total;
}

bool replay_history_is_of_pods(const struct hpa_metric_spec *m)
{
    return m->type != HPA_METRIC_OBJECT && m->type != HPA_METRIC_EXTERNAL;
}

static void set_metric(const struct replay_history *h, const struct replay_scenario *s, size_t i,
                       struct replay_metric *ret)
{
    const struct hpa_metric_spec *m = &h->spec.metrics[i];
    ret->name = m->name;
    ret->source = h->engines ? replay_default_source(s, m->name) : REPLAY_SERIES;
    if (h->engines && (ret->source != REPLAY_UTILIZATION || is_utilization(m->name)))
        return;
    if (h->queue) {
        ret->source = REPLAY_UTILIZATION;
        return;
    }
    ret->source = REPLAY_SERIES;
    if (replay_history_is_of_pods(m)) {
        // A simulated replica requests 1 of each resource, and values are percent of it.
        bool amount = m->type != HPA_METRIC_PODS && !m->has_utilization;
        ret->series = copy_of(&h->values[i], amount ? REPLAY_HISTORY_FULL : 1);
        ret->series_replicas = copy_of(&h->replicas, 1);
    } else {
        ret->series = m->has_average_value ? total_of(&h->values[i], &h->replicas)
                                           : copy_of(&h->values[i], 1);
    }
}

static int32_t first_replicas(const struct replay_history *h)
{
    struct replay_curve_piece piece = {0};
    return (int32_t)llround(replay_curve_at(&h->replicas, 0, &piece));
}

static struct gs_error *set_scenario(const struct replay_history *h, const struct hpa_config *cfg,
                                     int64_t sync_ms, int64_t startup_ms, struct replay_scenario *s)
{
    s->name = h->spec.name;
    s->object = s->spec.object;
    s->controller = *cfg;
    s->controller.terse = true;
    s->sync_ms = sync_ms;
    s->duration_ms = h->duration_ms;
    s->replicas = first_replicas(h);
    s->capacity = h->queue ? REPLAY_HISTORY_FULL : 1;
    s->startup_ms = startup_ms;
    s->gpus_per_replica = 1; // hours of replicas are counted
    s->level = REPLAY_HISTORY_FULL;
    s->load = copy_of(&h->load, 1);
    s->n_metrics = s->spec.n_metrics;
    s->metrics = gs_alloc_array(s->n_metrics, sizeof(*s->metrics));
    struct gs_error *err = h->engines ? replay_history_engines_set(h, s == &h->changed.s, s) : NULL;
    for (size_t i = 0; i < s->n_metrics; i++)
        set_metric(h, s, i, &s->metrics[i]);
    return err;
}

static void finish_run(struct replay_history_side *r)
{
    for (size_t i = 0; r->s.metrics && i < r->s.n_metrics; i++) {
        replay_curve_finish(&r->s.metrics[i].series);
        replay_curve_finish(&r->s.metrics[i].series_replicas);
    }
    free(r->s.metrics);
    if (r->s.service)
        replay_service_finish(r->s.service);
    free(r->s.service);
    replay_curve_finish(&r->s.load);
    hpa_spec_finish(&r->s.spec);
    replay_result_finish(&r->result);
}

static struct gs_error *check_cost(const struct replay_history *h, int64_t sync_ms)
{
    int32_t most = h->changed.s.spec.max_replicas > h->spec.max_replicas
                       ? h->changed.s.spec.max_replicas
                       : h->spec.max_replicas;
    double evaluations = (double)h->duration_ms / (double)sync_ms;
    if (most > REPLAY_MAX_REPLICAS)
        return gs_error_new(GS_ELIMIT, "maxReplicas: at most %d here", REPLAY_MAX_REPLICAS);
    if (evaluations * most > MAX_COST)
        return gs_error_new(GS_ELIMIT,
                            "%.0f evaluations with up to %d replicas are too many: "
                            "choose a shorter time",
                            evaluations, most);
    return NULL;
}

static struct gs_error *prepare(struct replay_history *h, const json_t *question, int64_t sync_ms)
{
    struct hpa_setting settings[HPA_MAX_SETTINGS];
    struct hpa_config changed = h->cfg;
    size_t n = 0;
    double startup = DEFAULT_STARTUP;
    const json_t *given = json_object_get(question, "startupSeconds");
    struct gs_error *err = read_spec(question, &h->spec);
    if (!err)
        err = read_settings(h->settings, settings, &n);
    if (!err)
        err = replay_history_engines_read(h, question, settings, &n);
    if (!err)
        err = hpa_spec_with(&h->spec, settings, 0, &h->cfg, &h->present.s.spec, &changed);
    if (!err)
        err = hpa_spec_with(&h->spec, settings, n, &h->cfg, &h->changed.s.spec, &changed);
    if (!err)
        err = read_metrics(h, question);
    if (!err)
        err = find_span(h, sync_ms);
    if (!err)
        err = check_cost(h, sync_ms);
    if (err)
        return err;
    if (json_is_number(given) && json_number_value(given) > 0)
        startup = fmin(json_number_value(given), MAX_STARTUP_S);
    align(h);
    h->queue = !h->engines && is_gpu_utilization(h);
    if (h->queue)
        h->load = total_of(&h->values[0], &h->replicas);
    err = set_scenario(h, &h->cfg, sync_ms, llround(startup * 1000), &h->present.s);
    return err ? err : set_scenario(h, &changed, sync_ms, llround(startup * 1000), &h->changed.s);
}

struct gs_error *replay_history_new(const json_t *question, const struct hpa_config *cfg,
                                    int64_t sync_ms, struct replay_history **ret)
{
    struct replay_history *h = gs_alloc(sizeof(*h));
    int64_t gpus = codec_json_int(question, 0, "gpusPerReplica", NULL);
    h->cfg = *cfg;
    h->gpus = gpus > 0 && gpus <= MAX_GPUS ? (size_t)gpus : 0;
    h->settings = json_incref(json_object_get(question, "settings"));
    struct gs_error *err = prepare(h, question, sync_ms);
    if (err) {
        replay_history_free(h);
        return err;
    }
    *ret = h;
    return NULL;
}

void replay_history_free(struct replay_history *h)
{
    if (!h)
        return;
    for (size_t i = 0; h->values && i < h->spec.n_metrics; i++)
        replay_curve_finish(&h->values[i]);
    free(h->values);
    replay_curve_finish(&h->replicas);
    replay_curve_finish(&h->load);
    finish_run(&h->present);
    finish_run(&h->changed);
    replay_history_engines_free(h->engines);
    json_decref(h->settings);
    hpa_spec_finish(&h->spec);
    free(h);
}

// --- the run ---

// What the value of a metric was with that many ready replicas.
static double value_at(const struct replay_history *h, size_t i, const struct replay_row *row,
                       struct replay_curve_piece *value, struct replay_curve_piece *replicas)
{
    const struct hpa_metric_spec *m = &h->spec.metrics[i];
    if (h->queue)
        return row->utilization;
    double v = replay_curve_at(&h->values[i], row->t_ms, value);
    if (!replay_history_is_of_pods(m) && !m->has_average_value)
        return v;
    return v * replay_curve_at(&h->replicas, row->t_ms, replicas) / fmax(row->ready, 1);
}

static double target_of(const struct hpa_metric_spec *m)
{
    return m->has_utilization     ? m->utilization
           : m->has_average_value ? (double)m->average_value / 1000
                                  : (double)m->value / 1000;
}

// The present target is the measure of both runs.
static double above_target_s(const struct replay_history *h, const struct replay_history_side *r)
{
    double tolerance = h->spec.up.has_tolerance ? h->spec.up.tolerance : h->cfg.tolerance, sum = 0;
    struct replay_curve_piece values[REPLAY_HISTORY_METRICS] = {{0}},
                              replicas[REPLAY_HISTORY_METRICS] = {{0}};
    for (size_t k = 0; k < r->result.n; k++) {
        bool above = false;
        for (size_t i = 0; i < h->spec.n_metrics; i++)
            above = above || value_at(h, i, &r->result.rows[k], &values[i], &replicas[i]) >
                                 target_of(&h->spec.metrics[i]) * (1 + tolerance);
        sum += above ? (double)r->s.sync_ms / 1000 : 0;
    }
    return sum;
}

void replay_history_run(struct replay_history *h)
{
    replay_run(&h->present.s, &h->present.result);
    replay_run(&h->changed.s, &h->changed.result);
    if (h->engines)
        return;
    h->present.above_s = above_target_s(h, &h->present);
    h->changed.above_s = above_target_s(h, &h->changed);
}
