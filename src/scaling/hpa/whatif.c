// SPDX-License-Identifier: Apache-2.0
// Decisions for other values than those observed, without changing the history, and the thresholds
// at which the count changes. The decision function is searched, not inverted: it has tolerances,
// missing pods and rounding.
#include "hpa/whatif.h"

#include "hpa/hpa_private.h"

#include <string.h>

#define LONG_AGO_MS  INT64_C(86400000) // older than every window
#define MAX_FACTOR   1000.0
#define FROM_NOTHING 1e15 // the largest factor of one milli-unit, where all values are zero
#define STEP         1.02 // of the search, which is refined by bisection
#define HALVINGS     40
#define TRIES        50 // numbers near the result that are tried

const char *hpa_pod_state_text(enum hpa_pod_state state)
{
    switch (state) {
    case HPA_POD_COUNTED:
        return "counted";
    case HPA_POD_OVER:
        return "ignored: terminating or finished";
    case HPA_POD_NOT_RUNNING:
        return "Pending: ignored when scaling down, counted as 0 when scaling up";
    case HPA_POD_NO_SAMPLE:
        return "no sample: counted as busy when scaling down, as 0 when scaling up";
    case HPA_POD_NOT_READY:
        return "not ready yet, or sampled before it was ready: ignored when scaling down, "
               "counted as 0 when scaling up";
    }
    return "";
}

static struct hpa_evaluation pass_of(const struct hpa_spec *spec, const struct hpa_observation *obs,
                                     const struct hpa_config *cfg, int64_t now_ms)
{
    return (struct hpa_evaluation){.spec = spec, .obs = obs, .cfg = cfg, .now_ms = now_ms};
}

static bool has(const struct hpa_pod *const *list, size_t n, const struct hpa_pod *pod)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == pod)
            return true;
    return false;
}

void hpa_pod_states(const struct hpa_spec *spec, const struct hpa_observation *obs,
                    const struct hpa_config *cfg, size_t metric, int64_t now_ms,
                    enum hpa_pod_state *ret)
{
    struct hpa_evaluation pass = pass_of(spec, obs, cfg, now_ms);
    struct hpa_groups g;
    hpa_groups_init(&pass, metric, &g);
    for (size_t i = 0; i < obs->n_pods; i++) {
        const struct hpa_pod *pod = &obs->pods[i];
        if (has(g.missing, g.n_missing, pod))
            ret[i] = HPA_POD_NO_SAMPLE;
        else if (has(g.unready, g.n_unready, pod))
            ret[i] = pod->phase == HPA_POD_PENDING ? HPA_POD_NOT_RUNNING : HPA_POD_NOT_READY;
        else
            ret[i] = hpa_pod_is_over(cfg, pod) ? HPA_POD_OVER : HPA_POD_COUNTED;
    }
    hpa_groups_finish(&g);
}

void hpa_decide_with(const struct hpa_history *history, const struct hpa_spec *spec,
                     const struct hpa_observation *obs, const struct hpa_config *cfg,
                     int64_t now_ms, struct hpa_decision *ret)
{
    struct hpa_history *copy = history ? hpa_history_copy(history) : hpa_history_new();
    if (!history)
        hpa_history_seed(copy, obs->spec_replicas, now_ms - LONG_AGO_MS);
    hpa_decide(spec, obs, cfg, copy, now_ms, ret);
    hpa_history_free(copy);
}

// --- thresholds ---
struct search {
    const struct hpa_history *history;
    const struct hpa_spec *spec;
    const struct hpa_config *cfg;
    size_t metric;
    int64_t now_ms;
    struct hpa_observation obs; // with its own samples of that metric
    struct hpa_metric_observation *metrics;
    struct hpa_sample *samples;
    const struct hpa_sample *original;
    bool all_zero;
    int32_t base;
};

// The decision with the current samples. False: no decision was computed.
static bool try_samples(struct search *s, struct hpa_threshold *ret)
{
    struct hpa_decision d;
    hpa_decide_with(s->history, s->spec, &s->obs, s->cfg, s->now_ms, &d);
    bool ok = d.metrics && d.metrics[s->metric].ok;
    if (ok) {
        *ret = (struct hpa_threshold){
            .found = d.desired != s->base, .at = d.metrics[s->metric], .desired = d.desired};
        ret->at.description = ret->at.explanation = NULL;
    }
    hpa_decision_finish(&d);
    return ok;
}

// The same with the metric's samples multiplied by a factor.
static bool try_factor(struct search *s, double factor, struct hpa_threshold *ret)
{
    size_t n = s->metrics[s->metric].n_samples;
    for (size_t i = 0; i < n; i++) {
        s->samples[i] = s->original[i];
        double from = s->all_zero ? 1 : (double)s->original[i].value;
        s->samples[i].value = hpa_ceil64(from * factor);
    }
    return try_samples(s, ret);
}

// --- the stated value ---

static int64_t shown_number(const struct hpa_metric_result *r)
{
    return r->has_utilization ? r->utilization : r->has_value ? r->value : r->average_value;
}

static int64_t request_of(const struct search *s, const char *pod)
{
    for (size_t i = 0; i < s->obs.n_pods; i++) {
        const struct hpa_pod *p = &s->obs.pods[i];
        if (pod && strcmp(p->name, pod) == 0 && p->requests_milli)
            return p->requests_milli[s->metric];
    }
    return 0;
}

// Sets all samples to the number: each pod, or a single series.
static void show_number(struct search *s, const struct hpa_metric_result *like, int64_t number)
{
    const struct hpa_metric_spec *m = &s->spec->metrics[s->metric];
    bool outside = m->type == HPA_METRIC_OBJECT || m->type == HPA_METRIC_EXTERNAL;
    for (size_t i = 0; i < s->metrics[s->metric].n_samples; i++) {
        struct hpa_sample *sample = &s->samples[i];
        *sample = s->original[i];
        sample->value = outside && i ? 0 : number;
        if (like->has_utilization)
            sample->value = hpa_ceil64((double)request_of(s, sample->pod) * (double)number / 100);
        else if (outside && !like->has_value)
            sample->value = hpa_ceil64((double)number * (double)s->obs.status_replicas);
    }
}

// Tries the number that is reported: it is rounded, and must hold for any samples with that result.
// False: no number near it gives another count.
static bool confirm(struct search *s, bool above, struct hpa_threshold *turn)
{
    const struct hpa_metric_result like = turn->at;
    int64_t number = shown_number(&like);
    for (int i = 0; i < TRIES; i++) {
        struct hpa_threshold t;
        show_number(s, &like, number);
        if (try_samples(s, &t) && t.found && shown_number(&t.at) == number) {
            *turn = t;
            return true;
        }
        int64_t step = number / 1000;
        number += (above ? 1 : -1) * (step > 0 && !like.has_utilization ? step : 1);
        if (number < 0)
            break;
    }
    return false;
}

static void find_turn(struct search *s, bool above, struct hpa_threshold *ret)
{
    double same = 1, other = 1;
    struct hpa_threshold t = {0};
    while (!t.found) {
        same = other;
        other = above ? other * STEP : other / STEP;
        bool end = other > (s->all_zero ? FROM_NOTHING : MAX_FACTOR) || other < 1 / MAX_FACTOR;
        if (end && !above)
            other = 0;
        if ((end && above) || !try_factor(s, other, &t) || (end && !t.found))
            return;
    }
    *ret = t;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (same + other) / 2;
        if (!try_factor(s, middle, &t))
            return;
        if (t.found)
            *ret = t;
        *(t.found ? &other : &same) = middle;
    }
}

void hpa_find_thresholds(const struct hpa_history *history, const struct hpa_spec *spec,
                         const struct hpa_observation *obs, const struct hpa_config *cfg,
                         size_t metric, int64_t now_ms, struct hpa_threshold *ret_below,
                         struct hpa_threshold *ret_above)
{
    *ret_below = *ret_above = (struct hpa_threshold){0};
    if (!obs->metrics || obs->metrics[metric].error || !obs->metrics[metric].n_samples)
        return;
    if (hpa_lacks_replicas(&spec->metrics[metric], obs))
        return; // no average at which the count would change
    struct search s = {.history = history,
                       .spec = spec,
                       .cfg = cfg,
                       .metric = metric,
                       .now_ms = now_ms,
                       .obs = *obs};
    size_t n = obs->metrics[metric].n_samples;
    s.original = obs->metrics[metric].samples;
    s.samples = gs_alloc_array(n, sizeof(*s.samples));
    s.metrics = gs_alloc_array(spec->n_metrics, sizeof(*s.metrics));
    memcpy(s.metrics, obs->metrics, spec->n_metrics * sizeof(*s.metrics));
    s.metrics[metric].samples = s.samples;
    s.obs.metrics = s.metrics;
    struct hpa_decision d;
    hpa_decide_with(history, spec, obs, cfg, now_ms, &d);
    s.base = d.desired;
    bool usable = d.outcome == HPA_OUTCOME_COMPUTED && d.metrics[metric].ok;
    hpa_decision_finish(&d);
    if (usable) {
        s.all_zero = true;
        for (size_t i = 0; i < n; i++)
            s.all_zero = s.all_zero && s.original[i].value == 0;
        if (!s.all_zero)
            find_turn(&s, false, ret_below);
        find_turn(&s, true, ret_above);
        ret_below->found = ret_below->found && confirm(&s, false, ret_below);
        ret_above->found = ret_above->found && confirm(&s, true, ret_above);
    }
    free(s.samples);
    free(s.metrics);
}
