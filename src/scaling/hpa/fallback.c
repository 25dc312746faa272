// SPDX-License-Identifier: Apache-2.0
// A number of replicas for an External metric that fails for a long time, with the fields and the
// rules of KEP-5679. No release of Kubernetes has these fields, so an annotation has them. Without
// it, decisions are those of kube-controller-manager.
#include "hpa/hpa_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/slice.h"
#include "codec/yaml.h"
#include "kube/object.h"

#include <string.h>

#define CONDITION       "ExternalMetricFallbackActive"
#define LEAST_SECONDS   180
#define DEFAULT_SECONDS 180
#define MOST_SECONDS    86400

// --- the annotation ---

static struct gs_error *wrong(const char *metric, const char *fmt, ...) GS_PRINTF(2, 3);
static struct gs_error *wrong(const char *metric, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    return gs_error_new(GS_EINVAL, "annotation " HPA_FALLBACK_ANNOTATION ": %s%s%s",
                        metric ? metric : "", metric ? ": " : "", text);
}

static bool has_external(const json_t *object, const char *name)
{
    const json_t *metrics = codec_json_get(object, "spec", "metrics", NULL), *m;
    size_t i;
    json_array_foreach (metrics, i, m)
        if (gs_streq(codec_json_str(m, "external", "metric", "name", NULL), name))
            return true;
    return false;
}

static struct gs_error *read_number(const json_t *value, const char *metric, const char *field,
                                    int64_t least, int64_t most, int64_t *ret)
{
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    if (n < least || n > most)
        return wrong(metric, "%s: want a whole number from %lld to %lld", field, (long long)least,
                     (long long)most);
    *ret = n;
    return NULL;
}

static struct gs_error *read_one(const json_t *in, const char *metric, struct hpa_fallback *ret)
{
    int64_t replicas = 0, seconds = DEFAULT_SECONDS;
    const char *field;
    json_t *value;
    struct gs_error *err = NULL;
    if (!json_is_object(in))
        return wrong(metric, "want {failureDurationSeconds: SECONDS, replicas: N}");
    json_object_foreach ((json_t *)in, field, value) {
        if (gs_streq(field, "replicas"))
            err = read_number(value, metric, field, 1, INT32_MAX, &replicas);
        else if (gs_streq(field, "failureDurationSeconds"))
            err = read_number(value, metric, field, LEAST_SECONDS, MOST_SECONDS, &seconds);
        else
            err = wrong(metric, "unknown field \"%s\"", field);
        if (err)
            return err;
    }
    if (!replicas)
        return wrong(metric, "replicas is missing");
    *ret = (struct hpa_fallback){.replicas = (int32_t)replicas, .after_ms = seconds * 1000};
    return NULL;
}

// *ret: NULL without the annotation.
static struct gs_error *parse(const json_t *object, json_t **ret)
{
    const char *text = kube_annotation(object, HPA_FALLBACK_ANNOTATION);
    struct codec_yaml_docs docs = {0};
    if (!text)
        return NULL;
    struct gs_error *err =
        codec_yaml_parse(gs_slice_of(text), "annotation " HPA_FALLBACK_ANNOTATION, &docs);
    if (err)
        return err;
    if (docs.len == 1 && json_object_size(docs.items[0].value))
        *ret = json_incref(docs.items[0].value);
    else
        err = wrong(NULL, "want {METRIC: {failureDurationSeconds: SECONDS, replicas: N}}");
    codec_yaml_docs_finish(&docs);
    return err;
}

static struct gs_error *parse_checked(const json_t *object, json_t **ret)
{
    CODEC_AUTO_JSON json_t *all = NULL;
    struct gs_error *err = parse(object, &all);
    const char *name;
    json_t *value;
    json_object_foreach (all, name, value) {
        struct hpa_fallback ignored;
        err = read_one(value, name, &ignored);
        if (!err && !has_external(object, name))
            err = wrong(name, "the spec has no External metric of this name");
        if (err)
            return err;
    }
    if (!err)
        *ret = GS_TAKE(all);
    return err;
}

struct gs_error *hpa_check_fallback(const json_t *object)
{
    CODEC_AUTO_JSON json_t *all = NULL;
    return parse_checked(object, &all);
}

void hpa_read_fallback(const json_t *object, struct hpa_spec *s)
{
    CODEC_AUTO_JSON json_t *all = NULL;
    gs_error_free(parse_checked(object, &all));
    for (size_t i = 0; all && i < s->n_metrics; i++) {
        struct hpa_metric_spec *m = &s->metrics[i];
        const json_t *own = m->type == HPA_METRIC_EXTERNAL ? json_object_get(all, m->name) : NULL;
        if (own)
            gs_error_free(read_one(own, m->name, &m->fallback));
        s->has_fallback |= own != NULL;
    }
}

// --- the decision ---

// The same metric after a change of the spec.
static uint64_t key_of(const struct hpa_metric_spec *m)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    gs_buf_addf(&key, "%s ", m->name);
    hpa_format_selector(m->selector, &key);
    return gs_hash(key.data, key.len);
}

static bool is_read(const struct hpa_metric_observation *obs)
{
    return !obs->error && obs->n_samples;
}

// A controller that has just started goes on with a fallback that the status shows.
static void begin_failure(const struct hpa_evaluation *p, const struct hpa_metric_spec *m,
                          struct hpa_failure *f)
{
    const json_t *c = kube_condition(p->spec->object, CONDITION);
    const char *message = codec_json_str(c, "message", NULL);
    const json_t *time = json_object_get(c, "lastTransitionTime");
    GS_AUTO_FREE char *quoted = gs_format("'%s'", m->name);
    f->since_ms = p->now_ms;
    if (hpa_history_has_read(p->history) || !message || !time || !strstr(message, quoted) ||
        !kube_condition_true(p->spec->object, CONDITION))
        return;
    int64_t at_ms = kube_time_ms(time, p->now_ms);
    f->since_ms = (at_ms > p->now_ms ? p->now_ms : at_ms) - m->fallback.after_ms;
    f->active = true;
}

static void activate(struct hpa_evaluation *p, const struct hpa_metric_spec *m,
                     struct hpa_failure *f)
{
    char after[GS_RFC3339_SIZE];
    if (f->active)
        return;
    f->active = true;
    GS_AUTO_FREE char *text = gs_format(
        "Fallback activated for external metric '%s' after %s of consecutive failures, using "
        "fallback replica count: %d",
        m->name, gs_format_duration(m->fallback.after_ms * GS_NS_PER_MS, after),
        m->fallback.replicas);
    hpa_add_event(p->out, false, "ExternalMetricFallbackActivated", text);
}

static char *explain(const struct hpa_metric_spec *m, const struct hpa_failure *f,
                     const char *error)
{
    char since[GS_RFC3339_SIZE];
    return gs_format("%s: fails since %s: fallback: %d replica%s; %s", m->name,
                     gs_format_rfc3339(f->since_ms, since), m->fallback.replicas,
                     m->fallback.replicas == 1 ? "" : "s", error);
}

struct gs_error *hpa_apply_fallback(struct hpa_evaluation *p, size_t i, struct gs_error *err,
                                    struct hpa_metric_result *res)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[i];
    if (!m->fallback.replicas || hpa_has_extra_value(p->obs, m))
        return err;
    struct hpa_failure *f = hpa_history_failure(p->history, p->spec->n_metrics, i, key_of(m));
    if (!err || is_read(&p->obs->metrics[i])) {
        f->since_ms = 0;
        f->active = false;
        return err;
    }
    if (!f->since_ms)
        begin_failure(p, m, f);
    res->failing_since_ms = f->since_ms;
    if (p->now_ms - f->since_ms < m->fallback.after_ms)
        return err;
    activate(p, m, f);
    res->fallback = true;
    res->proposal = m->fallback.replicas;
    res->explanation = explain(m, f, gs_error_message(err));
    gs_error_free(err);
    return NULL;
}

void hpa_note_fallback(struct hpa_evaluation *p)
{
    struct hpa_decision *d = p->out;
    GS_AUTO_BUF struct gs_buf text = {0};
    char since[GS_RFC3339_SIZE];
    hpa_history_set_read(p->history);
    if (!p->spec->has_fallback)
        return;
    for (size_t i = 0; i < d->n_metrics; i++)
        if (d->metrics[i].fallback)
            gs_buf_addf(&text, "%s'%s' fails since %s: %d replicas", text.len ? "; " : "",
                        p->spec->metrics[i].name,
                        gs_format_rfc3339(d->metrics[i].failing_since_ms, since),
                        p->spec->metrics[i].fallback.replicas);
    if (text.len)
        hpa_set_decision_condition(d, HPA_FALLBACK_ACTIVE, "True", "FailedGetExternalMetric", "%s",
                                   text.data);
    else
        hpa_set_fixed_condition(d, HPA_FALLBACK_ACTIVE, "False", "NoFallback",
                                "no external metric is replaced by its fallback");
}

// --- the explanation ---

static json_t *metric_json(const struct hpa_metric_spec *m, const struct hpa_metric_result *r)
{
    char since[GS_RFC3339_SIZE];
    json_t *out = json_object();
    codec_json_set_str(out, "name", m->name);
    codec_json_set_str(out, "fallbackStatus", r->fallback ? "Fallback" : "Normal");
    if (r->failing_since_ms)
        codec_json_set_str(out, "firstFailureTime", gs_format_rfc3339(r->failing_since_ms, since));
    codec_json_set_int(out, "failureDurationSeconds", m->fallback.after_ms / 1000);
    codec_json_set_int(out, "replicas", m->fallback.replicas);
    return out;
}

json_t *hpa_fallback_json(const struct hpa_spec *spec, const struct hpa_decision *d)
{
    bool active = false;
    if (!spec->has_fallback)
        return NULL;
    json_t *out = json_object(), *metrics = json_array();
    for (size_t i = 0; i < d->n_metrics; i++) {
        active |= d->metrics[i].fallback;
        if (spec->metrics[i].fallback.replicas)
            json_array_append_new(metrics, metric_json(&spec->metrics[i], &d->metrics[i]));
    }
    codec_json_set_bool(out, "active", active);
    json_object_set_new(out, "metrics", metrics);
    return out;
}
