// SPDX-License-Identifier: Apache-2.0
// How many replicas another controller wants, from the status that it wrote. If maxReplicas limits
// it, desiredReplicas hides what the metrics want, so they are evaluated again.
#include "hpa/status.h"

#include "base/slice.h"
#include "hpa/hpa_private.h"
#include "kube/object.h"
#include "kube/quantity.h"

#include <math.h>

#define TOLERANCE 0.1 // of kube-controller-manager by default

static const json_t *current_of(const json_t *entry)
{
    const char *key;
    json_t *source;
    json_object_foreach ((json_t *)(uintptr_t)entry, key, source)
        if (json_is_object(source))
            return json_object_get(source, "current");
    return NULL;
}

static double milli_of(const json_t *current, const char *name)
{
    const char *text = codec_json_str(current, name, NULL);
    int64_t milli = 0;
    GS_AUTO_ERROR struct gs_error *err =
        text ? kube_quantity_parse_milli(gs_slice_of(text), &milli) : NULL;
    return text && !err ? (double)milli : NAN;
}

// The current value divided by its target. NAN: the status has none.
static double ratio_of(const struct hpa_metric_spec *m, const json_t *entry)
{
    const json_t *current = current_of(entry);
    const json_t *percent = json_object_get(current, "averageUtilization");
    if (!gs_streq(codec_json_str(entry, "type", NULL), m->type_text))
        return NAN;
    if (m->has_utilization)
        return json_is_integer(percent) && m->utilization > 0
                   ? (double)json_integer_value(percent) / m->utilization
                   : NAN;
    if (m->has_average_value)
        return m->average_value > 0 ? milli_of(current, "averageValue") / (double)m->average_value
                                    : NAN;
    return m->value > 0 ? milli_of(current, "value") / (double)m->value : NAN;
}

static bool is_limited(const json_t *object)
{
    const char *reason = codec_json_str(kube_condition(object, "ScalingLimited"), "reason", NULL);
    return kube_condition_true(object, "ScalingLimited") && gs_streq(reason, "TooManyReplicas");
}

// Of the metrics, or max if one is unknown.
static double wanted_by_metrics(const struct hpa_spec *spec, int32_t replicas, int32_t max)
{
    const json_t *list = codec_json_get(spec->object, "status", "currentMetrics", NULL);
    double most = replicas;
    for (size_t i = 0; i < spec->n_metrics; i++) {
        double ratio = ratio_of(&spec->metrics[i], json_array_get(list, i));
        if (isnan(ratio))
            return max;
        if (ratio > 1 + TOLERANCE)
            most = fmax(most, ceil(ratio * replicas));
    }
    return most;
}

int32_t hpa_status_demand(const struct hpa_spec *spec, int32_t replicas, int32_t max)
{
    int32_t min = spec->has_min ? spec->min_replicas : 1;
    double demand =
        (double)codec_json_int(spec->object, replicas, "status", "desiredReplicas", NULL);
    // A metric that fails says nothing about the demand.
    if (!kube_condition_true(spec->object, "ScalingActive"))
        demand = replicas;
    else if (is_limited(spec->object))
        demand = wanted_by_metrics(spec, replicas, max);
    return (int32_t)fmin(max, fmax(min, demand));
}
