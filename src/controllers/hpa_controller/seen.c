// SPDX-License-Identifier: Apache-2.0
// Whether a changed value can change a decision, from what the last evaluation has seen. Values
// that vary within the tolerance, or below it, or above it at the maximum, cause no evaluation.
#include "hpa_controller/hints.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/selector.h"

#include <math.h>

#define BURST 8.0 // evaluations at once

struct seen_metric {
    enum hpa_metric_type type;
    char *name;
    bool ok;      // it had a value
    double value; // in the unit of a hint: of pods the average, else the sum
    double ratio; // of the value and its target
};

struct hpa_seen {
    char *selector;
    bool at_min, at_max;
    double tolerance;
    struct seen_metric *metrics;
    size_t n;
};

// The result has an average per replica for metrics that are not of pods.
static double value_of(const struct hpa_metric_spec *m, const struct hpa_metric_result *r,
                       int32_t replicas)
{
    if (r->has_value && m->type != HPA_METRIC_PODS)
        return (double)r->value / 1000;
    double average = (double)r->average_value / 1000;
    return m->type == HPA_METRIC_PODS ? average : average * (replicas > 0 ? replicas : 1);
}

struct hpa_seen *hpa_seen_new(const struct hpa_spec *spec, const struct hpa_decision *d,
                              const char *selector, double tolerance)
{
    struct hpa_seen *s = gs_alloc(sizeof(*s));
    int32_t min = spec->has_min ? spec->min_replicas : 1;
    s->selector = gs_strdup(selector ? selector : "");
    s->at_min = d->desired <= min;
    s->at_max = d->desired >= spec->max_replicas;
    s->tolerance = tolerance;
    s->n = spec->n_metrics;
    s->metrics = gs_alloc_array(s->n ? s->n : 1, sizeof(*s->metrics));
    for (size_t i = 0; i < s->n; i++) {
        const struct hpa_metric_result *r = i < d->n_metrics ? &d->metrics[i] : NULL;
        s->metrics[i] = (struct seen_metric){.type = spec->metrics[i].type,
                                             .name = gs_strdup(spec->metrics[i].name),
                                             .ok = r && r->ok && !r->fallback,
                                             .ratio = r ? r->ratio : 0};
        if (s->metrics[i].ok)
            s->metrics[i].value = value_of(&spec->metrics[i], r, d->current);
    }
    return s;
}

void hpa_seen_free(struct hpa_seen *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        free(s->metrics[i].name);
    free(s->metrics);
    free(s->selector);
    free(s);
}

// --- hints ---

// a: as kube_selector_format() writes it. b: as anybody does.
static bool same_selector(const char *a, const char *b)
{
    struct kube_selector parsed = {0};
    GS_AUTO_BUF struct gs_buf text = {0};
    if (gs_streq(a, b))
        return true;
    GS_AUTO_ERROR struct gs_error *err = kube_selector_parse(b, &parsed);
    kube_selector_format(&parsed, &text);
    kube_selector_finish(&parsed);
    return !err && gs_slice_eq_str(gs_buf_slice(&text), a);
}

static bool is_of(const struct hpa_seen *s, const struct seen_metric *m,
                  const struct hpa_hint *hint)
{
    if (!gs_streq(m->name, hint->metric))
        return false;
    if (m->type == HPA_METRIC_EXTERNAL)
        return hint->external;
    if (m->type == HPA_METRIC_OBJECT)
        return !hint->external && !hint->pods;
    return m->type == HPA_METRIC_PODS && hint->pods && same_selector(s->selector, hint->selector);
}

// -1: below the tolerance, 0: within, 1: above.
static int side_of(double ratio, double tolerance)
{
    return ratio > 1 + tolerance ? 1 : ratio < 1 - tolerance ? -1 : 0;
}

static bool metric_matters(const struct hpa_seen *s, const struct seen_metric *m,
                           const struct hpa_hint *hint)
{
    double items = hint->items > 0 ? (double)hint->items : 1;
    double value = m->type == HPA_METRIC_PODS ? hint->sum / items : hint->sum;
    // Without a value before, or with 0, the ratio of the new one is unknown.
    double ratio =
        !m->ok || m->value <= 0 ? (value > 0 ? INFINITY : 0) : m->ratio * value / m->value;
    int was = m->ok ? side_of(m->ratio, s->tolerance) : 0, is = side_of(ratio, s->tolerance);
    if ((is > 0 && s->at_max) || (is < 0 && s->at_min))
        return false;
    return !m->ok || is != was || (is > 0 && ratio > m->ratio);
}

bool hpa_seen_matters(const struct hpa_seen *s, const struct hpa_hint *hint)
{
    for (size_t i = 0; i < s->n; i++)
        if (is_of(s, &s->metrics[i], hint) && metric_matters(s, &s->metrics[i], hint))
            return true;
    return false;
}

// --- the queue ---

struct kube_request *hpa_queue_follow(struct kube_client *client, const char *ns,
                                      const struct kube_selector *selector, kube_done cb, void *arg)
{
    GS_AUTO_BUF struct gs_buf path = {0}, text = {0};
    if (!selector)
        return NULL;
    kube_selector_format(selector, &text);
    gs_buf_add_str(&path, "/apis/custom.metrics.k8s.io/v1beta1/namespaces/");
    http_encode(gs_slice_of(ns), &path);
    gs_buf_add_str(&path, "/pods/%2A/" HPA_QUEUE_METRIC "?labelSelector=");
    http_encode(gs_buf_slice(&text), &path);
    return kube_raw_get(client, path.data, cb, arg);
}

bool hpa_queue_grows(const struct hpa_hint *hint, const struct kube_selector *selector,
                     double *queue)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!selector || !hint->pods || !gs_streq(hint->metric, HPA_QUEUE_METRIC))
        return false;
    kube_selector_format(selector, &text);
    if (!same_selector(text.data ? text.data : "", hint->selector))
        return false;
    bool grows = hint->sum > *queue;
    *queue = hint->sum;
    return grows;
}

// --- the budget ---

bool hpa_hint_budget_take(struct hpa_hint_budget *b, int64_t period_ms, int64_t now_ns)
{
    double periods = (double)(now_ns - b->since_ns) / ((double)period_ms * GS_NS_PER_MS);
    double tokens = b->since_ns ? b->tokens + periods : BURST;
    b->tokens = tokens < BURST ? tokens : BURST;
    b->since_ns = now_ns;
    if (b->tokens < 1)
        return false;
    b->tokens -= 1;
    return true;
}

void hpa_hint_budget_fill(struct hpa_hint_budget *b)
{
    b->tokens = BURST;
}
