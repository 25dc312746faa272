// SPDX-License-Identifier: Apache-2.0
// Reads scenarios from YAML: the autoscaler, the workload, nodes, prices and events. A file of an
// autoscaler or of prices is relative to the scenario. The same rows read a workload of a scenario
// with pools.
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/yaml.h"
#include "codec/yaml_reader.h"
#include "hpa/convert.h"
#include "kube/object.h"
#include "nodes/prices.h"
#include "replay/scenario_private.h"
#include "replay/service.h"

#include <libgen.h>
#include <math.h>

#define MAX_FILE     ((size_t)16 << 20)
#define MAX_DELAY_MS (INT64_C(24) * 3600 * 1000)

// The state of the reader, with the scenario that it reads.
struct draft {
    struct replay_scenario s;
    struct gs_arena arena;
    const char *hpa_file; // NULL: inline
    bool inline_hpa;
    const char *prices_file;
    bool inline_prices;
};

double replay_read_number(struct codec_reader *r, const json_t *v)
{
    double d = 0;
    const char *text = codec_read_text(r, v);
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(gs_slice_of(text), &d);
    if (err || !isfinite(d) || d < 0) {
        codec_reader_fail(r, v, "\"%s\" is not a number of at least 0", text);
        return 0;
    }
    return d;
}

#define READ_NUMBER(field)                                                                         \
    static void read_##field(struct codec_reader *r, const json_t *v, void *out)                   \
    {                                                                                              \
        ((struct draft *)out)->s.field = replay_read_number(r, v);                                 \
    }
READ_NUMBER(capacity)
READ_NUMBER(price)
READ_NUMBER(level)
#undef READ_NUMBER

static void read_tolerance(struct codec_reader *r, const json_t *v, void *out)
{
    ((struct draft *)out)->s.controller.tolerance = replay_read_number(r, v);
}

static void read_replicas(struct codec_reader *r, const json_t *v, void *out)
{
    double n = replay_read_number(r, v);
    if (n > REPLAY_MAX_REPLICAS || n != floor(n))
        codec_reader_fail(r, v, "replicas: want a whole number up to %d", REPLAY_MAX_REPLICAS);
    else
        ((struct draft *)out)->s.replicas = (int32_t)n;
}

// [[0s, 10], [5m, 200]]
void replay_read_curve(struct codec_reader *r, const json_t *list, struct replay_curve *c)
{
    if (!json_is_array(list))
        codec_reader_fail(r, list, "want a list of points: [[0s, 10], [5m, 200]]");
    for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
        const json_t *p = json_array_get(list, i);
        if (json_array_size(p) != 2) {
            codec_reader_fail(r, p, "a point is [TIME, VALUE]");
            return;
        }
        int64_t t = codec_read_duration(r, json_array_get(p, 0));
        if (c->n && t < c->points[c->n - 1].t_ms)
            codec_reader_fail(r, p, "points must be in the order of their times");
        replay_curve_add(c, t, replay_read_number(r, json_array_get(p, 1)));
    }
}

static void read_load(struct codec_reader *r, const json_t *v, void *out)
{
    replay_read_curve(r, v, &((struct draft *)out)->s.load);
}

#define AT(field) offsetof(struct draft, s.field)

static void read_workload(struct codec_reader *r, const json_t *v, void *out)
{
    static const struct codec_field fields[] = {
        {"capacity", CODEC_FIELD_CUSTOM, 0, read_capacity},
        {"startup", CODEC_FIELD_DURATION, AT(startup_ms), NULL},
        {"drain", CODEC_FIELD_DURATION, AT(drain_ms), NULL},
        {"gpu", CODEC_FIELD_TEXT, AT(gpu), NULL},
        {"load", CODEC_FIELD_CUSTOM, 0, read_load},
        {"repeat", CODEC_FIELD_DURATION, AT(load.repeat_ms), NULL},
        {"gpusPerReplica", CODEC_FIELD_COUNT, AT(gpus_per_replica), NULL},
        {0},
    };
    codec_read_mapping(r, v, fields, "workload", out);
}

static void read_nodes(struct codec_reader *r, const json_t *v, void *out)
{
    static const struct codec_field fields[] = {
        {"gpusPerNode", CODEC_FIELD_COUNT, AT(gpus_per_node), NULL},
        {"instance", CODEC_FIELD_TEXT, AT(instance), NULL},
        {"min", CODEC_FIELD_COUNT, AT(min_nodes), NULL},
        {"max", CODEC_FIELD_COUNT, AT(max_nodes), NULL},
        {"provision", CODEC_FIELD_DURATION, AT(provision_ms), NULL},
        {"idle", CODEC_FIELD_DURATION, AT(idle_ms), NULL},
        {0},
    };
    codec_read_mapping(r, v, fields, "nodes", out);
}

static void read_compat(struct codec_reader *r, const json_t *v, void *out)
{
    struct draft *d = out;
    struct gs_error *err = json_is_string(v)
                               ? hpa_config_follow(&d->s.controller, json_string_value(v))
                               : gs_error_new(GS_EINVAL, "want a text such as \"1.29\"");
    if (err)
        codec_reader_fail(r, v, "compat: %s", gs_error_message(err));
    gs_error_free(err);
}

static void read_controller(struct codec_reader *r, const json_t *v, void *out)
{
    static const struct codec_field fields[] = {
        {"compat", CODEC_FIELD_CUSTOM, 0, read_compat},
        {"sync", CODEC_FIELD_DURATION, AT(sync_ms), NULL},
        {"downscaleWindow", CODEC_FIELD_DURATION, AT(controller.downscale_window_ms), NULL},
        {"cpuInitPeriod", CODEC_FIELD_DURATION, AT(controller.cpu_init_period_ms), NULL},
        {"readinessDelay", CODEC_FIELD_DURATION, AT(controller.readiness_delay_ms), NULL},
        {"tolerance", CODEC_FIELD_CUSTOM, 0, read_tolerance},
        {"scaleToZero", CODEC_FIELD_BOOL, AT(controller.scale_to_zero), NULL},
        {0},
    };
    codec_read_mapping(r, v, fields, "controller", out);
}

// name: utilization | load | queue | … | {series: points, replicas: points}
static void read_metric(struct codec_reader *r, const char *name, const json_t *v,
                        struct replay_metric *m)
{
    static const struct {
        const char *name;
        enum replay_source source;
    } sources[] = {{"utilization", REPLAY_UTILIZATION},
                   {"load", REPLAY_LOAD},
                   {"queue", REPLAY_QUEUE},
                   {"running", REPLAY_RUNNING},
                   {"kv", REPLAY_KV},
                   {"ttft", REPLAY_TTFT},
                   {"itl", REPLAY_ITL}};
    m->name = gs_arena_strdup(r->arena, name);
    if (json_is_object(v)) {
        m->source = REPLAY_SERIES;
        const char *key;
        json_t *points;
        json_object_foreach ((json_t *)v, key, points) {
            if (gs_streq(key, "series"))
                replay_read_curve(r, points, &m->series);
            else if (gs_streq(key, "replicas"))
                replay_read_curve(r, points, &m->series_replicas);
            else
                codec_reader_fail(r, points,
                                  "a metric has no field \"%s\"; it has series and replicas", key);
        }
        return;
    }
    const char *text = codec_read_text(r, v);
    for (size_t i = 0; i < GS_ARRAY_LEN(sources); i++) {
        if (gs_streq(text, sources[i].name)) {
            m->source = sources[i].source;
            return;
        }
    }
    codec_reader_fail(r, v,
                      "metric %s: want utilization, load, queue or {series: points}; of a service "
                      "also running, kv, ttft or itl",
                      name);
}

static void read_metrics(struct codec_reader *r, const json_t *v, void *out)
{
    struct draft *d = out;
    const char *key;
    json_t *item;
    if (!json_is_object(v)) {
        codec_reader_fail(r, v, "metrics: want a mapping from the metrics' names");
        return;
    }
    d->s.metrics = gs_alloc_array(json_object_size(v) + 1, sizeof(*d->s.metrics));
    json_object_foreach ((json_t *)v, key, item) {
        read_metric(r, key, item, &d->s.metrics[d->s.n_metrics++]);
    }
}

static void read_scale_event(struct codec_reader *r, const json_t *v, void *out)
{
    double n = replay_read_number(r, v);
    if (n > REPLAY_MAX_REPLICAS || n != floor(n))
        codec_reader_fail(r, v, "scale: want a whole number up to %d", REPLAY_MAX_REPLICAS);
    ((struct replay_event *)out)->scale = (int32_t)fmin(n, REPLAY_MAX_REPLICAS);
}

// - {at: 10m, lose: 2}
static void read_event(struct codec_reader *r, const json_t *v, struct replay_event *e)
{
#define AT_EVENT(field) offsetof(struct replay_event, field)
    static const struct codec_field fields[] = {
        {"at", CODEC_FIELD_DURATION, AT_EVENT(at_ms), NULL},
        {"for", CODEC_FIELD_DURATION, AT_EVENT(for_ms), NULL},
        {"lose", CODEC_FIELD_COUNT, AT_EVENT(lose), NULL},
        {"scale", CODEC_FIELD_CUSTOM, 0, read_scale_event},
        {"noMetrics", CODEC_FIELD_BOOL, AT_EVENT(no_metrics), NULL},
        {0},
    };
#undef AT_EVENT
    e->scale = -1;
    codec_read_mapping(r, v, fields, "event", e);
    if (e->no_metrics && !e->for_ms && !r->err)
        codec_reader_fail(r, v, "noMetrics needs \"for\", how long");
}

static void read_events(struct codec_reader *r, const json_t *v, void *out)
{
    struct draft *d = out;
    size_t n = json_array_size(v);
    if (!json_is_array(v))
        codec_reader_fail(r, v, "events: want a list");
    d->s.events = gs_alloc_array(n + 1, sizeof(*d->s.events));
    for (size_t i = 0; i < n && !r->err; i++) {
        struct replay_event *e = &d->s.events[d->s.n_events++];
        read_event(r, json_array_get(v, i), e);
        if (i && e->at_ms < e[-1].at_ms)
            codec_reader_fail(r, v, "events must be in the order of their times");
    }
}

static void read_hpa(struct codec_reader *r, const json_t *v, void *out)
{
    struct draft *d = out;
    if (json_is_string(v))
        d->hpa_file = codec_reader_path(r, codec_read_text(r, v));
    else
        d->inline_hpa = true; // read from the document with types
}

static void read_prices(struct codec_reader *r, const json_t *v, void *out)
{
    struct draft *d = out;
    if (json_is_string(v))
        d->prices_file = codec_reader_path(r, codec_read_text(r, v));
    else
        d->inline_prices = true;
}

static void read_service(struct codec_reader *r, const json_t *v, void *out)
{
    struct draft *d = out;
    d->s.service = gs_alloc(sizeof(*d->s.service));
    replay_service_init(d->s.service);
    replay_service_read(r, v, d->s.service, &d->s);
}

static const struct codec_field top_fields[] = {
    {"name", CODEC_FIELD_TEXT, AT(name), NULL},
    {"hpa", CODEC_FIELD_CUSTOM, 0, read_hpa},
    {"controller", CODEC_FIELD_CUSTOM, 0, read_controller},
    {"duration", CODEC_FIELD_DURATION, AT(duration_ms), NULL},
    {"replicas", CODEC_FIELD_CUSTOM, 0, read_replicas},
    {"workload", CODEC_FIELD_CUSTOM, 0, read_workload},
    {"service", CODEC_FIELD_CUSTOM, 0, read_service},
    {"metrics", CODEC_FIELD_CUSTOM, 0, read_metrics},
    {"delay", CODEC_FIELD_DURATION, AT(delay_ms), NULL},
    {"nodes", CODEC_FIELD_CUSTOM, 0, read_nodes},
    {"price", CODEC_FIELD_CUSTOM, 0, read_price},
    {"prices", CODEC_FIELD_CUSTOM, 0, read_prices},
    {"level", CODEC_FIELD_CUSTOM, 0, read_level},
    {"events", CODEC_FIELD_CUSTOM, 0, read_events},
    {0},
};

// A workload of a scenario with pools: what a scenario says of its only one, in one mapping.
static const struct codec_field entry_fields[] = {
    {"name", CODEC_FIELD_TEXT, AT(name), NULL},
    {"hpa", CODEC_FIELD_CUSTOM, 0, read_hpa},
    {"controller", CODEC_FIELD_CUSTOM, 0, read_controller},
    {"replicas", CODEC_FIELD_CUSTOM, 0, read_replicas},
    {"capacity", CODEC_FIELD_CUSTOM, 0, read_capacity},
    {"startup", CODEC_FIELD_DURATION, AT(startup_ms), NULL},
    {"drain", CODEC_FIELD_DURATION, AT(drain_ms), NULL},
    {"load", CODEC_FIELD_CUSTOM, 0, read_load},
    {"repeat", CODEC_FIELD_DURATION, AT(load.repeat_ms), NULL},
    {"gpusPerReplica", CODEC_FIELD_COUNT, AT(gpus_per_replica), NULL},
    {"metrics", CODEC_FIELD_CUSTOM, 0, read_metrics},
    {"delay", CODEC_FIELD_DURATION, AT(delay_ms), NULL},
    {"level", CODEC_FIELD_CUSTOM, 0, read_level},
    {"events", CODEC_FIELD_CUSTOM, 0, read_events},
    // Read by the caller.
    {"jobs", CODEC_FIELD_UNUSED, 0, NULL},
    {"pod", CODEC_FIELD_UNUSED, 0, NULL},
    {"safeToEvict", CODEC_FIELD_UNUSED, 0, NULL},
    {0},
};
#undef AT

static struct hpa_config terse_config(void)
{
    struct hpa_config c = hpa_config_default();
    c.terse = true;
    return c;
}

static struct draft defaults(void)
{
    return (struct draft){.s = {.name = "",
                                .controller = terse_config(),
                                .sync_ms = 15000,
                                .duration_ms = 3600 * 1000,
                                .replicas = 1,
                                .capacity = 1,
                                .startup_ms = 30000,
                                .delay_ms = 5000,
                                .gpus_per_replica = 1,
                                .min_nodes = 1,
                                .max_nodes = 1000,
                                .provision_ms = 120000,
                                .idle_ms = 600000,
                                .level = 90}};
}

// --- the autoscaler ---

static struct gs_error *in_file(struct gs_error *err, const char *path)
{
    return err ? gs_error_wrap(err, "%s", path) : NULL;
}

static struct gs_error *take_object(struct replay_scenario *s, const json_t *obj)
{
    CODEC_AUTO_JSON json_t *v2 = NULL;
    struct gs_error *err = hpa_to_v2(obj, &v2);
    if (err)
        return err;
    if (!codec_json_get(v2, "spec", "scaleTargetRef", NULL))
        codec_json_set(v2,
                       json_pack("{s:s, s:s, s:s}", "apiVersion", "apps/v1", "kind", "Deployment",
                                 "name", "replay"),
                       "spec", "scaleTargetRef", NULL);
    if (!codec_json_str(v2, "metadata", "name", NULL))
        codec_json_set(v2, json_string("replay"), "metadata", "name", NULL);
    hpa_default(v2);
    struct kube_field_errors errors = {0};
    hpa_validate(v2, &errors);
    if (errors.len)
        err = gs_error_new(GS_EINVAL, "hpa: %s", errors.text.data);
    kube_field_errors_finish(&errors);
    if (err)
        return err;
    s->object = GS_TAKE(v2);
    return hpa_spec_parse(s->object, &s->spec);
}

static struct gs_error *load_hpa_file(struct replay_scenario *s, const char *path)
{
    struct codec_yaml_docs docs = {0};
    struct gs_error *err = codec_yaml_load_file(path, &docs);
    const json_t *found = NULL;
    for (size_t i = 0; i < docs.len; i++)
        if (gs_streq(codec_json_str(docs.items[i].value, "kind", NULL), "HorizontalPodAutoscaler"))
            found = docs.items[i].value;
    if (!err && !found)
        err = gs_error_new(GS_EINVAL, "%s: no HorizontalPodAutoscaler in it", path);
    if (!err)
        err = in_file(take_object(s, found), path);
    codec_yaml_docs_finish(&docs);
    return err;
}

static struct gs_error *load_inline_hpa(struct replay_scenario *s, struct gs_slice text,
                                        const char *name)
{
    struct codec_yaml_docs docs = {0};
    struct gs_error *err = codec_yaml_parse(text, name, &docs);
    if (!err)
        err = in_file(take_object(s, json_object_get(docs.items[0].value, "hpa")), name);
    codec_yaml_docs_finish(&docs);
    return err;
}

// --- scenario ---

enum replay_source replay_default_source(const struct replay_scenario *s, const char *name)
{
    static const struct {
        const char *name;
        enum replay_source source;
    } signals[] = {{"gpuscale_inference_waiting", REPLAY_QUEUE},
                   {"gpuscale_inference_running", REPLAY_RUNNING},
                   {"gpuscale_inference_kv_used_ratio", REPLAY_KV},
                   {"gpuscale_inference_ttft_p90_seconds", REPLAY_TTFT},
                   {"gpuscale_inference_itl_p90_seconds", REPLAY_ITL}};
    for (size_t i = 0; s->service && i < GS_ARRAY_LEN(signals); i++)
        if (gs_streq(name, signals[i].name))
            return signals[i].source;
    return REPLAY_UTILIZATION;
}

// In the order of the autoscaler's metrics.
static struct gs_error *order_metrics(struct replay_scenario *s)
{
    struct replay_metric *ordered = gs_alloc_array(s->spec.n_metrics + 1, sizeof(*ordered));
    struct gs_error *err = NULL;
    for (size_t i = 0; i < s->spec.n_metrics; i++) {
        ordered[i].name = s->spec.metrics[i].name;
        ordered[i].source = replay_default_source(s, ordered[i].name);
        for (size_t k = 0; k < s->n_metrics; k++)
            if (s->metrics[k].name && gs_streq(s->metrics[k].name, ordered[i].name)) {
                ordered[i] = s->metrics[k];
                s->metrics[k] = (struct replay_metric){0};
            }
    }
    for (size_t k = 0; k < s->n_metrics; k++) {
        if (s->metrics[k].name && !err)
            err = gs_error_new(GS_EINVAL, "metrics: the autoscaler has no metric \"%s\"",
                               s->metrics[k].name);
        replay_curve_finish(&s->metrics[k].series);
        replay_curve_finish(&s->metrics[k].series_replicas);
    }
    free(s->metrics);
    s->metrics = ordered;
    s->n_metrics = s->spec.n_metrics;
    return err;
}

static struct gs_error *check_sources(const struct replay_scenario *s)
{
    for (size_t i = 0; i < s->n_metrics && !s->service; i++)
        if (s->metrics[i].source > REPLAY_SERIES)
            return gs_error_new(GS_EINVAL, "metric %s: only a scenario with a service has this",
                                s->metrics[i].name);
    return NULL;
}

struct gs_error *replay_scenario_check(const struct replay_scenario *s)
{
    if (s->sync_ms < 1000)
        return gs_error_new(GS_EINVAL, "controller.sync: at least 1s");
    if (s->duration_ms < s->sync_ms || s->duration_ms > REPLAY_MAX_DURATION_MS)
        return gs_error_new(GS_EINVAL, "duration: from one sync period to a year");
    if (s->delay_ms > MAX_DELAY_MS)
        return gs_error_new(GS_EINVAL, "delay: at most a day");
    if (!(s->capacity > 0))
        return gs_error_new(GS_EINVAL, "workload.capacity: more than 0");
    if (s->gpus_per_node && s->gpus_per_replica > s->gpus_per_node)
        return gs_error_new(GS_EINVAL, "a replica with %zu GPUs fits on no node with %zu",
                            s->gpus_per_replica, s->gpus_per_node);
    if (s->max_nodes < s->min_nodes || s->max_nodes > 100000)
        return gs_error_new(GS_EINVAL, "nodes: max is below min, or over 100000");
    return check_sources(s);
}

static struct gs_error *read_draft(const char *path, struct gs_slice text, struct draft *d)
{
    struct codec_yaml_docs docs = {0};
    struct codec_yaml_marks *marks = NULL;
    struct gs_error *err = codec_yaml_parse_texts(text, path, &docs, &marks);
    if (err)
        return err;
    GS_AUTO_FREE char *copy = gs_strdup(path);
    struct codec_reader r = {
        .name = path, .base_dir = dirname(copy), .marks = marks, .arena = &d->arena};
    if (docs.len != 1 || !json_is_object(docs.items[0].value))
        codec_reader_fail(&r, NULL, "a scenario is one YAML mapping");
    else
        codec_read_mapping(&r, docs.items[0].value, top_fields, "a scenario", d);
    free(r.ignored);
    codec_yaml_docs_finish(&docs);
    codec_yaml_marks_free(marks);
    return r.err;
}

static struct gs_error *load_inline_prices(struct replay_scenario *s, struct gs_slice text,
                                           const char *name)
{
    struct codec_yaml_docs docs = {0};
    struct gs_error *err = codec_yaml_parse(text, name, &docs);
    const json_t *table = err ? NULL : json_object_get(docs.items[0].value, "prices");
    if (!err)
        err = in_file(nodes_prices_check(table), name);
    if (!err)
        s->prices = json_incref((json_t *)table);
    codec_yaml_docs_finish(&docs);
    return err;
}

// The latency target is that of the autoscaler's annotation.
static struct gs_error *finish_service(struct replay_scenario *s)
{
    const char *slo = kube_annotation(s->object, SLO_ANNOTATION);
    struct gs_error *err = slo ? replay_service_set_target(s->service->slo, NULL, slo) : NULL;
    return err ? err : replay_service_prepare(s);
}

static struct gs_error *finish_draft(const char *path, struct gs_slice text, struct draft *d)
{
    struct gs_error *err = d->hpa_file ? load_hpa_file(&d->s, d->hpa_file)
                           : d->inline_hpa
                               ? load_inline_hpa(&d->s, text, path)
                               : gs_error_new(GS_EINVAL, "%s: a scenario needs \"hpa\"", path);
    if (!err)
        err = in_file(order_metrics(&d->s), path);
    if (!err && d->prices_file)
        err = nodes_prices_load(d->prices_file, &d->s.prices);
    if (!err && d->inline_prices)
        err = load_inline_prices(&d->s, text, path);
    if (!err)
        err = in_file(replay_scenario_find_prices(&d->s), path);
    if (!err)
        err = in_file(replay_scenario_check(&d->s), path);
    if (!err && d->s.service)
        err = in_file(finish_service(&d->s), path);
    return err;
}

static struct gs_error *finish_entry(const json_t *typed, struct draft *d)
{
    struct gs_error *err = NULL;
    if (d->hpa_file)
        err = load_hpa_file(&d->s, d->hpa_file);
    else if (d->inline_hpa)
        err = take_object(&d->s, json_object_get(typed, "hpa"));
    if (!err)
        err = order_metrics(&d->s);
    return err ? err : replay_scenario_check(&d->s);
}

static struct replay_scenario *keep_draft(const struct draft *d)
{
    struct replay_scenario_file *own = gs_alloc(sizeof(*own));
    own->s = d->s;
    own->arena = d->arena;
    return &own->s;
}

struct replay_scenario *replay_scenario_read_entry(struct codec_reader *r, const json_t *texts,
                                                   const json_t *typed, int64_t duration_ms)
{
    struct draft d = defaults();
    d.s.duration_ms = duration_ms;
    codec_read_mapping(r, texts, entry_fields, "workload", &d);
    struct gs_error *err = r->err ? NULL : finish_entry(typed, &d);
    if (err)
        codec_reader_fail(r, texts, "%s", gs_error_message(err));
    gs_error_free(err);
    return keep_draft(&d);
}

struct gs_error *replay_scenario_load(const char *path, struct replay_scenario **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (err)
        return err;
    struct draft d = defaults();
    err = read_draft(path, gs_buf_slice(&text), &d);
    if (!err)
        err = finish_draft(path, gs_buf_slice(&text), &d);
    struct replay_scenario *s = keep_draft(&d);
    if (err) {
        replay_scenario_free(s);
        return err;
    }
    if (!*s->name)
        s->name = gs_arena_strdup(&GS_CONTAINER_OF(s, struct replay_scenario_file, s)->arena, path);
    *ret = s;
    return NULL;
}

void replay_scenario_free(struct replay_scenario *s)
{
    if (!s)
        return;
    struct replay_scenario_file *own = GS_CONTAINER_OF(s, struct replay_scenario_file, s);
    for (size_t i = 0; s->metrics && i < s->n_metrics; i++) {
        replay_curve_finish(&s->metrics[i].series);
        replay_curve_finish(&s->metrics[i].series_replicas);
    }
    free(s->metrics);
    free(s->events);
    if (s->service)
        replay_service_finish(s->service);
    free(s->service);
    replay_curve_finish(&s->load);
    hpa_spec_finish(&s->spec);
    json_decref(s->object);
    json_decref(s->prices);
    gs_arena_finish(&own->arena);
    free(own);
}
