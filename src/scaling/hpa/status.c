// SPDX-License-Identifier: Apache-2.0
// The status of an HPA after a decision, with the fields of the Kubernetes release that is
// followed, and whether it differs from the stored one: an equal status is not written.
#include "hpa/status.h"

#include "base/clock.h"
#include "base/slice.h"
#include "hpa/hpa_private.h"
#include "kube/object.h"
#include "kube/quantity.h"

static json_t *milli_quantity(int64_t milli)
{
    char text[KUBE_QUANTITY_SIZE];
    return json_string(kube_quantity_format_milli(milli, text));
}

// Memory has binary suffixes, unless the value is not a whole number of bytes.
static json_t *resource_quantity(const char *resource, int64_t milli, int release)
{
    char text[KUBE_QUANTITY_SIZE];
    if (gs_streq(resource, "memory") && milli % 1000 == 0 &&
        hpa_since(release, HPA_SINCE_BINARY_MEMORY))
        return json_string(kube_quantity_format_bytes(milli / 1000, text));
    return milli_quantity(milli);
}

static json_t *current_values(const struct hpa_metric_spec *m, const struct hpa_metric_result *r,
                              int release)
{
    bool resource = m->type == HPA_METRIC_RESOURCE || m->type == HPA_METRIC_CONTAINER_RESOURCE;
    json_t *current = json_object();
    if (r->has_utilization)
        codec_json_set_int(current, "averageUtilization", r->utilization);
    if (r->has_average_value)
        json_object_set_new(current, "averageValue",
                            resource ? resource_quantity(m->name, r->average_value, release)
                                     : milli_quantity(r->average_value));
    if (r->has_value)
        json_object_set_new(current, "value", milli_quantity(r->value));
    return current;
}

static const char *status_member(enum hpa_metric_type type)
{
    switch (type) {
    case HPA_METRIC_RESOURCE:
        return "resource";
    case HPA_METRIC_CONTAINER_RESOURCE:
        return "containerResource";
    case HPA_METRIC_PODS:
        return "pods";
    case HPA_METRIC_OBJECT:
        return "object";
    case HPA_METRIC_EXTERNAL:
        return "external";
    case HPA_METRIC_UNKNOWN:
        break;
    }
    return NULL;
}

static json_t *described_object(const struct hpa_metric_spec *m)
{
    json_t *o = json_object();
    codec_json_set_str(o, "kind", m->object_kind);
    codec_json_set_str(o, "name", m->object_name);
    if (*m->object_api_version)
        codec_json_set_str(o, "apiVersion", m->object_api_version);
    return o;
}

// A failed metric has an entry without a type, so that the others keep their index.
static json_t *metric_status(const struct hpa_metric_spec *m, const struct hpa_metric_result *r,
                             int release)
{
    json_t *out = json_object();
    const char *member = r->ok && !r->fallback ? status_member(m->type) : NULL;
    codec_json_set_str(out, "type", member ? m->type_text : "");
    if (!member)
        return out;
    json_t *source = json_object();
    if (m->type == HPA_METRIC_RESOURCE || m->type == HPA_METRIC_CONTAINER_RESOURCE) {
        codec_json_set_str(source, "name", m->name);
        if (m->type == HPA_METRIC_CONTAINER_RESOURCE)
            codec_json_set_str(source, "container", m->container);
    } else {
        codec_json_set(source, json_string(m->name), "metric", "name", NULL);
        if (m->selector)
            codec_json_set(source, json_deep_copy(m->selector), "metric", "selector", NULL);
    }
    json_object_set_new(source, "current", current_values(m, r, release));
    if (m->type == HPA_METRIC_OBJECT)
        json_object_set_new(source, "describedObject", described_object(m));
    json_object_set_new(out, member, source);
    return out;
}

static json_t *current_metrics(const struct hpa_spec *spec, const struct hpa_decision *d)
{
    if (!d->metrics)
        return json_null();
    json_t *out = json_array();
    for (size_t k = 0; k < d->n_metrics; k++) {
        size_t i = hpa_metric_at(spec, d->release, k);
        json_array_append_new(out, metric_status(&spec->metrics[i], &d->metrics[i], d->release));
    }
    return out;
}

static void drop_condition(json_t *conditions, const char *type)
{
    for (size_t i = json_array_size(conditions); i-- > 0;)
        if (gs_streq(codec_json_str(json_array_get(conditions, i), "type", NULL), type))
            json_array_remove(conditions, i);
}

static void apply_conditions(json_t *status, const struct hpa_spec *spec,
                             const struct hpa_decision *d)
{
    if (!json_is_array(json_object_get(status, "conditions")))
        json_object_set_new(status, "conditions", json_array());
    json_t *conditions = json_object_get(status, "conditions");
    for (size_t i = 0; i < d->n_conditions; i++)
        kube_set_condition(conditions, d->conditions[i].type, d->conditions[i].status,
                           d->conditions[i].reason, d->conditions[i].message, d->decided_ms);
    if (d->drop_scaled_to_zero)
        drop_condition(conditions, "ScaledToZero");
    if (!spec->has_fallback)
        drop_condition(conditions, "ExternalMetricFallbackActive");
}

static void apply_counts(json_t *status, const struct hpa_decision *d)
{
    if (d->current)
        codec_json_set_int(status, "currentReplicas", d->current);
    else
        json_object_del(status, "currentReplicas");
    bool keep = d->outcome == HPA_OUTCOME_NO_COUNT || d->write == HPA_WRITE_FAILED;
    if (!keep)
        codec_json_set_int(status, "desiredReplicas", d->desired);
    else if (!json_is_integer(json_object_get(status, "desiredReplicas")))
        codec_json_set_int(status, "desiredReplicas", 0);
    if (d->write == HPA_WRITE_DONE) {
        char now[GS_RFC3339_SIZE];
        codec_json_set_str(status, "lastScaleTime", gs_format_rfc3339(d->decided_ms, now));
    }
}

json_t *hpa_status_build(const struct hpa_spec *spec, const struct hpa_decision *d)
{
    const json_t *old = json_object_get(spec->object, "status");
    json_t *status = json_is_object(old) ? json_deep_copy(old) : json_object();
    int64_t generation = codec_json_int(spec->object, 0, "metadata", "generation", NULL);
    if (generation > 0 && hpa_since(d->release, HPA_SINCE_GENERATION))
        codec_json_set_int(status, "observedGeneration", generation);
    if (d->outcome != HPA_OUTCOME_NO_SCALE) {
        bool failed = d->outcome == HPA_OUTCOME_NO_COUNT || d->write == HPA_WRITE_FAILED;
        apply_counts(status, d);
        if (!failed || hpa_since(d->release, HPA_SINCE_FRESH_METRICS))
            json_object_set_new(status, "currentMetrics", current_metrics(spec, d));
    }
    apply_conditions(status, spec, d);
    return status;
}

static const json_t *or_nothing(const json_t *v)
{
    bool empty = !v || json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0) ||
                 (json_is_integer(v) && json_integer_value(v) == 0);
    return empty ? NULL : v;
}

bool hpa_status_differs(const json_t *old, const json_t *fresh)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)old, key, value) {
        if (or_nothing(value) && !or_nothing(json_object_get(fresh, key)))
            return true;
    }
    json_object_foreach ((json_t *)fresh, key, value) {
        const json_t *a = or_nothing(json_object_get(old, key)), *b = or_nothing(value);
        if ((a || b) && !json_equal(a, b))
            return true;
    }
    return false;
}
