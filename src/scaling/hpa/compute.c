// SPDX-License-Identifier: Apache-2.0
// Computes all metrics of a spec and takes the highest proposal. Sets conditions and events if some
// metrics fail.
#include "hpa/hpa_private.h"

#include "base/slice.h"

#define UNABLE "the HPA was unable to compute the replica count: %s"

// A failed metric: `err` goes into event and condition, wrapped once more into the overall error.
struct failure {
    const char *reason;
    char *condition_message;
    char *overall;
};

static struct gs_error *neither(const char *what, const char *which)
{
    return gs_error_new(GS_EINVAL, "invalid %s metric source: neither %s was set", what, which);
}

// The name of the metric in conditions and reasons.
static char *describe(const struct hpa_evaluation *p, const struct hpa_metric_spec *m,
                      bool fallback)
{
    struct gs_buf out = {0};
    bool container = m->type == HPA_METRIC_CONTAINER_RESOURCE &&
                     hpa_since(p->cfg->release, HPA_SINCE_CONTAINER_NAMED);
    switch (m->type) {
    case HPA_METRIC_RESOURCE:
    case HPA_METRIC_CONTAINER_RESOURCE:
        if (m->has_average_value)
            return gs_format("%s resource", m->name);
        return gs_format("%s %sresource utilization (percentage of request)", m->name,
                         container ? "container " : "");
    case HPA_METRIC_PODS:
        return gs_format("pods metric %s", m->name);
    case HPA_METRIC_OBJECT:
        if (m->target == HPA_TARGET_VALUE)
            return gs_format("%s metric %s", m->object_kind, m->name);
        break; // the controller names it like External
    case HPA_METRIC_EXTERNAL:
    case HPA_METRIC_UNKNOWN:
        break;
    }
    gs_buf_addf(&out, "%sexternal metric %s(", fallback ? "the fallback of " : "", m->name);
    hpa_format_selector(m->selector, &out);
    gs_buf_add_char(&out, ')');
    return gs_buf_take(&out);
}

// The error of the observation. An empty response is an error, too.
static const char *observation_error(const struct hpa_metric_observation *obs, const char *empty)
{
    if (obs->error)
        return obs->error;
    return obs->n_samples ? NULL : empty;
}

// --- Resource and ContainerResource ---
static struct gs_error *compute_resource(const struct hpa_evaluation *p, size_t i,
                                         struct hpa_metric_result *res,
                                         struct hpa_calculation *calc)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[i];
    if (!m->has_average_value && !m->has_utilization)
        return neither("resource", "an average utilization target nor an average value (usage) "
                                   "target");
    const char *observed = p->obs->metrics[i].error;
    struct gs_error *err = NULL;
    if (observed)
        err = gs_error_new(GS_EUNAVAIL, "unable to get metrics for resource %s: %s", m->name,
                           observed);
    else if (m->has_average_value)
        err = hpa_replicas_plain(p, i, res, calc);
    else
        err = hpa_replicas_utilization(p, i, res, calc);
    if (err)
        return gs_error_wrap(err, "failed to get %s %s", m->name,
                             m->has_average_value && hpa_since(p->cfg->release, HPA_SINCE_USAGE)
                                 ? "usage"
                                 : "utilization");
    return NULL;
}

static struct gs_error *compute_pods(const struct hpa_evaluation *p, size_t i,
                                     struct hpa_metric_result *res, struct hpa_calculation *calc)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[i];
    const char *observed =
        observation_error(&p->obs->metrics[i], "no metrics returned from custom metrics API");
    if (observed)
        return gs_error_new(GS_EUNAVAIL, "unable to get metric %s: %s", m->name, observed);
    return hpa_replicas_plain(p, i, res, calc);
}

static struct gs_error *object_unavailable(const struct hpa_evaluation *p,
                                           const struct hpa_metric_spec *m, const char *why)
{
    const char *kind = m->object_kind, *name = m->object_name;
    if (hpa_since(p->cfg->release, HPA_SINCE_OBJECT_TEXT))
        return gs_error_new(GS_EUNAVAIL, "unable to get metric %s on %s %s/%s: %s", m->name, kind,
                            p->spec->ns, name, why);
    // Older releases print the error at the end, without a place for it in the text.
    return gs_error_new(GS_EUNAVAIL, "unable to get metric %s: %s on %s %s/%s", m->name, kind,
                        p->spec->ns, name, why);
}

static struct gs_error *compute_object(const struct hpa_evaluation *p, size_t i,
                                       struct hpa_metric_result *res, struct hpa_calculation *calc)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[i];
    bool by_value = m->target == HPA_TARGET_VALUE && m->has_value;
    bool by_average = m->target == HPA_TARGET_AVERAGE_VALUE && m->has_average_value;
    if (!by_value && !by_average)
        return neither("object", "a value target nor an average value target");
    const char *observed =
        observation_error(&p->obs->metrics[i],
                          "unable to fetch metrics from custom metrics API: the custom metrics API "
                          "server returned 0 results when we asked for exactly one");
    struct gs_error *err = NULL;
    int64_t usage = observed ? 0 : p->obs->metrics[i].samples[0].value;
    if (observed)
        err = object_unavailable(p, m, observed);
    else if (by_value)
        err = hpa_replicas_value(p, i, usage, res, calc);
    else
        hpa_replicas_per_replica(p, i, usage, res, calc);
    return err;
}

// Adds as the controller does. Sums wrap. For averages, newer releases treat a negative sum as
// overflow, even if the values were negative. For values, newer releases saturate at the largest
// number.
static int64_t sum_of(const struct hpa_evaluation *p, const struct hpa_metric_observation *obs,
                      bool for_average)
{
    bool negative_is_overflow = for_average && hpa_since(p->cfg->release, HPA_SINCE_OVERFLOW);
    bool stops_at_largest = !for_average && hpa_since(p->cfg->release, HPA_SINCE_VALUE_OVERFLOW);
    int64_t sum = 0;
    for (size_t s = 0; s < obs->n_samples; s++) {
        int64_t value = obs->samples[s].value;
        bool overflow = __builtin_add_overflow(sum, value, &sum); // the sum wraps on overflow
        if ((overflow && value > 0 && stops_at_largest) || (sum < 0 && negative_is_overflow))
            return INT64_MAX;
    }
    return sum;
}

static struct gs_error *compute_external(const struct hpa_evaluation *p, size_t i,
                                         struct hpa_metric_result *res,
                                         struct hpa_calculation *calc)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[i];
    const struct hpa_metric_observation *obs = &p->obs->metrics[i];
    if (!m->has_average_value && !m->has_value)
        return neither("external", "a value target nor an average value target");
    const char *observed = observation_error(obs, "no metrics returned from external metrics API");
    struct gs_error *err = NULL;
    if (observed) {
        GS_AUTO_BUF struct gs_buf selector = {0};
        hpa_format_selector(m->selector, &selector);
        err = gs_error_new(GS_EUNAVAIL, "unable to get external metric %s/%s/%s: %s", p->spec->ns,
                           m->name, selector.data, observed);
    } else {
        int64_t sum = sum_of(p, obs, m->has_average_value);
        if (m->has_average_value)
            hpa_replicas_per_replica(p, i, sum, res, calc);
        else
            err = hpa_replicas_value(p, i, sum, res, calc);
    }
    return err;
}

static const char *failure_reason(enum hpa_metric_type type)
{
    switch (type) {
    case HPA_METRIC_RESOURCE:
        return "FailedGetResourceMetric";
    case HPA_METRIC_CONTAINER_RESOURCE:
        return "FailedGetContainerResourceMetric";
    case HPA_METRIC_PODS:
        return "FailedGetPodsMetric";
    case HPA_METRIC_OBJECT:
        return "FailedGetObjectMetric";
    case HPA_METRIC_EXTERNAL:
        return "FailedGetExternalMetric";
    case HPA_METRIC_UNKNOWN:
        break;
    }
    return "InvalidMetricSourceType";
}

static struct gs_error *compute_one(const struct hpa_evaluation *p, size_t i,
                                    struct hpa_metric_result *res, struct hpa_calculation *calc)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[i];
    if (hpa_has_extra_value(p->obs, m))
        return hpa_compute_extra(p, i, res, calc);
    switch (m->type) {
    case HPA_METRIC_RESOURCE:
    case HPA_METRIC_CONTAINER_RESOURCE:
        return compute_resource(p, i, res, calc);
    case HPA_METRIC_PODS:
        return compute_pods(p, i, res, calc);
    case HPA_METRIC_OBJECT:
        return compute_object(p, i, res, calc);
    case HPA_METRIC_EXTERNAL:
        return compute_external(p, i, res, calc);
    case HPA_METRIC_UNKNOWN:
        break;
    }
    return gs_error_new(GS_EINVAL, "unknown metric source type \"%s\"", m->type_text);
}

// The layers that surround the text of the event in the overall error.
static struct gs_error *wrap_overall(const struct hpa_metric_spec *m, int release,
                                     struct gs_error *err)
{
    bool all = hpa_since(release, HPA_SINCE_VALUE_LAYER);
    switch (m->type) {
    case HPA_METRIC_RESOURCE:
        return all ? gs_error_wrap(err, "failed to get %s resource metric value", m->name) : err;
    case HPA_METRIC_CONTAINER_RESOURCE:
        return all ? gs_error_wrap(err, "failed to get %s container metric value", m->container)
                   : err;
    case HPA_METRIC_PODS:
        return gs_error_wrap(err, "failed to get pods metric value");
    case HPA_METRIC_OBJECT:
        if (m->target == HPA_TARGET_AVERAGE_VALUE && m->has_average_value)
            err = gs_error_wrap(err, "failed to get %s object metric", m->name);
        return gs_error_wrap(err, "failed to get object metric value");
    case HPA_METRIC_EXTERNAL:
        if (m->has_average_value)
            err = gs_error_wrap(err, "failed to get %s external metric", m->name);
        else if (m->has_value)
            err = gs_error_wrap(err, "failed to get external metric %s", m->name);
        return all ? gs_error_wrap(err, "failed to get %s external metric value", m->name) : err;
    case HPA_METRIC_UNKNOWN:
        break;
    }
    return err;
}

static void note_failure(struct hpa_evaluation *p, size_t i, struct gs_error *err,
                         struct failure *first)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[i];
    struct hpa_metric_result *res = &p->out->metrics[i];
    hpa_add_event(p->out, true, failure_reason(m->type), gs_error_message(err));
    // Partial results of a failed metric are not shown.
    free(res->description);
    *res = (struct hpa_metric_result){
        .failing_since_ms = res->failing_since_ms,
        .explanation = gs_format("%s: %s", m->name, gs_error_message(err)),
    };
    if (!first->reason) {
        first->reason = failure_reason(m->type);
        first->condition_message = gs_format(UNABLE, gs_error_message(err));
        err = wrap_overall(m, p->cfg->release, err);
        first->overall = gs_strdup(gs_error_message(err));
    }
    gs_error_free(err);
}

static bool selector_usable(struct hpa_evaluation *p)
{
    const struct hpa_observation *obs = p->obs;
    const char *event, *reason = "InvalidSelector";
    GS_AUTO_FREE char *message = NULL;
    GS_AUTO_FREE char *condition = NULL;
    if (!obs->selector || !*obs->selector) {
        event = "SelectorRequired";
        message = gs_strdup("selector is required");
        condition = gs_strdup("the HPA target's scale is missing a selector");
    } else if (obs->selector_error) {
        event = "InvalidSelector";
        message =
            gs_format("couldn't convert selector into a corresponding internal selector object: %s",
                      obs->selector_error);
    } else if (obs->ambiguous_with && hpa_since(p->cfg->release, HPA_SINCE_AMBIGUOUS)) {
        event = reason = "AmbiguousSelector";
        message = gs_format("pods by selector %s are controlled by multiple HPAs: %s",
                            obs->selector, obs->ambiguous_with);
    } else {
        return true;
    }
    hpa_add_event(p->out, true, event, message);
    hpa_set_decision_condition(p->out, HPA_SCALING_ACTIVE, "False", reason, "%s",
                               condition ? condition : message);
    hpa_add_event(p->out, true, "FailedComputeMetricsReplicas", message);
    hpa_explain(p, "no scaling: %s", message);
    return false;
}

static void report_failure(struct hpa_evaluation *p, size_t n_failed, const struct failure *first)
{
    GS_AUTO_FREE char *overall =
        gs_format("invalid metrics (%zu invalid out of %zu), first error is: %s", n_failed,
                  p->spec->n_metrics, first->overall);
    hpa_set_decision_condition(p->out, HPA_SCALING_ACTIVE, "False", first->reason, "%s",
                               first->condition_message);
    hpa_add_event(p->out, true, "FailedComputeMetricsReplicas", overall);
    if (n_failed < p->spec->n_metrics)
        hpa_explain(p, "no scaling down while a metric is missing: %s", first->overall);
    else
        hpa_explain(p, "no scaling: %s", first->overall);
}

// A terse evaluation records the calculations that may scale up, and explains them at the end.
static void record_result(struct hpa_evaluation *p, size_t i, struct hpa_metric_result *res,
                          const struct hpa_calculation *calc)
{
    bool later = p->cfg->terse && i < HPA_KEPT_CALCULATIONS;
    res->ok = true;
    if (later)
        p->kept[i] = *calc;
    else if (!res->fallback)
        res->explanation = hpa_explain_metric(p, i, res, calc);
    if (!later || res->proposal > p->obs->spec_replicas)
        res->description = describe(p, &p->spec->metrics[i], res->fallback);
}

void hpa_explain_kept(struct hpa_evaluation *p)
{
    for (size_t i = 0; i < p->out->n_metrics && i < HPA_KEPT_CALCULATIONS; i++) {
        struct hpa_metric_result *res = &p->out->metrics[i];
        if (res->ok && !res->explanation)
            res->explanation = hpa_explain_metric(p, i, res, &p->kept[i]);
    }
}

bool hpa_compute_metrics(struct hpa_evaluation *p, int32_t *ret_proposal, const char **ret_name)
{
    if (!selector_usable(p))
        return false;
    struct hpa_decision *d = p->out;
    size_t n = p->spec->n_metrics, n_failed = 0;
    struct failure first = {0};
    int32_t highest = 0;
    const char *name = "";
    d->metrics = n <= HPA_FEW_METRICS ? d->few : gs_alloc_array(n, sizeof(*d->metrics));
    d->n_metrics = n;
    for (size_t k = 0; k < n; k++) {
        size_t i = hpa_metric_at(p->spec, p->cfg->release, k);
        struct hpa_metric_result *res = &d->metrics[i];
        struct hpa_calculation calc = {0};
        struct gs_error *err = compute_one(p, i, res, &calc);
        err = hpa_apply_fallback(p, i, err, res);
        if (err) {
            note_failure(p, i, err, &first);
            n_failed++;
            continue;
        }
        record_result(p, i, res, &calc);
        hpa_apply_credit(p, i, res, &calc);
        if (highest == 0 || res->proposal > highest) {
            highest = res->proposal;
            d->keeps_existing = res->keeps_existing;
            name = res->description ? res->description : "";
        }
    }
    hpa_note_fallback(p);
    bool usable = n_failed < n || hpa_extra_proposes(p->obs);
    if (usable)
        hpa_consider_extra(p, &highest, &name);
    bool held = n_failed && highest < p->obs->spec_replicas &&
                hpa_since(p->cfg->release, HPA_SINCE_PARTIAL_DOWN);
    usable = usable && !held;
    if (usable) {
        hpa_set_decision_condition(
            d, HPA_SCALING_ACTIVE, "True", "ValidMetricFound",
            "the HPA was able to successfully calculate a replica count from %s", name);
        // A negative value of a metric requires zero replicas.
        *ret_proposal = highest > 0 ? highest : 0;
        *ret_name = name;
    } else if (n_failed) {
        report_failure(p, n_failed, &first);
    } else {
        hpa_explain(p, "no scaling: the spec has no metrics");
    }
    free(first.condition_message);
    free(first.overall);
    return usable;
}
