// SPDX-License-Identifier: Apache-2.0
// Metric specs and statuses in v2beta1 form (flat fields) and v2 form (metric, target, current).
#include "hpa/hpa_private.h"

#include "base/slice.h"
#include "kube/quantity.h"

const struct hpa_source hpa_sources[HPA_N_SOURCES] = {
    {"Object", "object"},
    {"External", "external"},
    {"Pods", "pods"},
    {"Resource", "resource"},
    {"ContainerResource", "containerResource"},
};

enum { OBJECT, EXTERNAL, PODS, RESOURCE, CONTAINER_RESOURCE };

// The v2beta1 names of a source's fields; NULL: the source has no such field.
struct flat_names {
    const char *selector;
    const char *utilization, *average_value, *value;
};
static const struct flat_names flat_spec[HPA_N_SOURCES] = {
    [OBJECT] = {"selector", NULL, "averageValue", "targetValue"},
    [EXTERNAL] = {"metricSelector", NULL, "targetAverageValue", "targetValue"},
    [PODS] = {"selector", NULL, "targetAverageValue", NULL},
    [RESOURCE] = {NULL, "targetAverageUtilization", "targetAverageValue", NULL},
    [CONTAINER_RESOURCE] = {NULL, "targetAverageUtilization", "targetAverageValue", NULL},
};
static const struct flat_names flat_status[HPA_N_SOURCES] = {
    [OBJECT] = {"selector", NULL, "averageValue", "currentValue"},
    [EXTERNAL] = {"metricSelector", NULL, "currentAverageValue", "currentValue"},
    [PODS] = {"selector", NULL, "currentAverageValue", NULL},
    [RESOURCE] = {NULL, "currentAverageUtilization", "currentAverageValue", NULL},
    [CONTAINER_RESOURCE] = {NULL, "currentAverageUtilization", "currentAverageValue", NULL},
};

static bool copy(const json_t *from, const char *from_name, json_t *to, const char *to_name)
{
    if (!from_name)
        return false;
    const json_t *v = json_object_get(from, from_name);
    if (!v || json_is_null(v))
        return false;
    json_object_set_new(to, to_name, json_deep_copy(v));
    return true;
}

static bool is_zero_member(const json_t *quantity)
{
    int64_t milli = json_is_string(quantity) ? -1 : (int64_t)json_number_value(quantity);
    GS_AUTO_ERROR struct gs_error *err =
        json_is_string(quantity)
            ? kube_quantity_parse_milli(gs_slice_of(json_string_value(quantity)), &milli)
            : NULL;
    return !err && milli == 0;
}

// The flat form has no type: the field that is set decides.
static const char *derive_target_type(int source, const json_t *target)
{
    bool average = json_object_get(target, "averageValue") != NULL;
    switch (source) {
    case OBJECT:
        return average ? "AverageValue" : "Value";
    case EXTERNAL:
        return json_object_get(target, "value") ? "Value" : "AverageValue";
    case PODS:
        return "AverageValue";
    default:
        return json_object_get(target, "averageUtilization") ? "Utilization" : "AverageValue";
    }
}

static json_t *source_from_flat(int source, const json_t *in, const struct flat_names *names,
                                const char *part)
{
    json_t *out = json_object();
    if (source == RESOURCE || source == CONTAINER_RESOURCE) {
        copy(in, "name", out, "name");
        if (source == CONTAINER_RESOURCE)
            copy(in, "container", out, "container");
    } else {
        if (source == OBJECT)
            copy(in, "target", out, "describedObject");
        json_t *metric = json_object();
        copy(in, "metricName", metric, "name");
        copy(in, names->selector, metric, "selector");
        json_object_set_new(out, "metric", metric);
    }
    json_t *values = json_object();
    bool is_spec = gs_streq(part, "target");
    copy(in, names->utilization, values, "averageUtilization");
    copy(in, names->average_value, values, "averageValue");
    bool plain = copy(in, names->value, values, "value");
    // Required fields of the flat form are 0 when they are absent. The 0 beside the average of an
    // Object metric is therefore dropped.
    if (source == PODS && is_spec && !json_object_get(values, "averageValue"))
        json_object_set_new(values, "averageValue", json_string("0"));
    if (source == OBJECT && is_spec && json_object_get(values, "averageValue")) {
        if (plain && is_zero_member(json_object_get(values, "value")))
            json_object_del(values, "value");
    } else if (source == OBJECT && is_spec && !plain) {
        json_object_set_new(values, "value", json_string("0"));
    }
    if (is_spec)
        json_object_set_new(values, "type", json_string(derive_target_type(source, values)));
    json_object_set_new(out, part, values);
    return out;
}

static json_t *source_to_flat(int source, const json_t *in, const struct flat_names *names,
                              const char *part)
{
    json_t *out = json_object();
    if (source == RESOURCE || source == CONTAINER_RESOURCE) {
        copy(in, "name", out, "name");
        if (source == CONTAINER_RESOURCE)
            copy(in, "container", out, "container");
    } else {
        if (source == OBJECT)
            copy(in, "describedObject", out, "target");
        const json_t *metric = json_object_get(in, "metric");
        copy(metric, "name", out, "metricName");
        if (names->selector)
            copy(metric, "selector", out, names->selector);
    }
    const json_t *values = json_object_get(in, part);
    if (names->utilization)
        copy(values, "averageUtilization", out, names->utilization);
    bool average = names->average_value && copy(values, "averageValue", out, names->average_value);
    bool plain = names->value && copy(values, "value", out, names->value);
    // In the flat form these fields are required.
    if (!average && source == PODS)
        json_object_set_new(out, names->average_value, json_string("0"));
    if (!plain && (source == OBJECT || (source == EXTERNAL && gs_streq(part, "current"))))
        json_object_set_new(out, names->value, json_string("0"));
    if (!average && gs_streq(part, "current") &&
        (source == RESOURCE || source == CONTAINER_RESOURCE))
        json_object_set_new(out, names->average_value, json_string("0"));
    return out;
}

typedef json_t *(*source_fn)(int source, const json_t *in, const struct flat_names *names,
                             const char *part);

static json_t *convert_list(const json_t *metrics, source_fn fn, const struct flat_names *names,
                            const char *part)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(metrics); i++) {
        const json_t *in = json_array_get(metrics, i);
        json_t *metric = json_object();
        const char *type = codec_json_str(in, "type", NULL);
        json_object_set_new(metric, "type", json_string(type ? type : ""));
        for (int s = 0; s < HPA_N_SOURCES; s++) {
            const json_t *source = json_object_get(in, hpa_sources[s].member);
            if (json_is_object(source))
                json_object_set_new(metric, hpa_sources[s].member, fn(s, source, &names[s], part));
        }
        json_array_append_new(out, metric);
    }
    return out;
}

json_t *hpa_specs_from_beta1(const json_t *metrics)
{
    return convert_list(metrics, source_from_flat, flat_spec, "target");
}

json_t *hpa_specs_to_beta1(const json_t *metrics)
{
    return convert_list(metrics, source_to_flat, flat_spec, "target");
}

json_t *hpa_statuses_from_beta1(const json_t *metrics)
{
    return convert_list(metrics, source_from_flat, flat_status, "current");
}

json_t *hpa_statuses_to_beta1(const json_t *metrics)
{
    return convert_list(metrics, source_to_flat, flat_status, "current");
}
