// SPDX-License-Identifier: Apache-2.0
// Converts HPAs between API versions as kube-apiserver does: what an older version lacks is kept
// in annotations, and read back from them.
#include "hpa/convert.h"

#include "base/mem.h"
#include "hpa/hpa_private.h"

static const char *const round_trip_annotations[] = {
    HPA_ANNOTATION_METRICS,
    HPA_ANNOTATION_CURRENT_METRICS,
    HPA_ANNOTATION_CONDITIONS,
    HPA_ANNOTATION_BEHAVIOR,
};

static void drop_annotations(json_t *obj)
{
    json_t *annotations = codec_json_get(obj, "metadata", "annotations", NULL);
    if (!json_is_object(annotations))
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(round_trip_annotations); i++)
        json_object_del(annotations, round_trip_annotations[i]);
    if (json_object_size(annotations) == 0)
        codec_json_del(obj, "metadata", "annotations", NULL);
}

static const char *annotation(const json_t *obj, const char *name)
{
    return codec_json_str(obj, "metadata", "annotations", name, NULL);
}

static void set_annotation(json_t *obj, const char *name, const json_t *value)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_json_dump(value, &text);
    codec_json_set(obj, json_string(text.data), "metadata", "annotations", name, NULL);
}

static void copy_member(const json_t *from, json_t *to, const char *name)
{
    const json_t *v = json_object_get(from, name);
    if (v && !json_is_null(v))
        json_object_set_new(to, name, json_deep_copy(v));
}

static struct gs_error *check_shape(const json_t *obj)
{
    const json_t *spec = codec_json_get(obj, "spec", NULL);
    const json_t *status = codec_json_get(obj, "status", NULL);
    if (!json_is_object(obj))
        return gs_error_new(GS_EINVAL, "HorizontalPodAutoscaler: must be an object");
    if (spec && !json_is_object(spec) && !json_is_null(spec))
        return gs_error_new(GS_EINVAL, "HorizontalPodAutoscaler: spec must be an object");
    if (status && !json_is_object(status) && !json_is_null(status))
        return gs_error_new(GS_EINVAL, "HorizontalPodAutoscaler: status must be an object");
    const json_t *metrics = codec_json_get(spec, "metrics", NULL);
    if (metrics && !json_is_array(metrics) && !json_is_null(metrics))
        return gs_error_new(GS_EINVAL, "HorizontalPodAutoscaler: spec.metrics must be a list");
    return NULL;
}

// Head of an object of another version: kind, apiVersion, metadata; empty spec and status.
static json_t *new_head(const json_t *obj, const char *api_version)
{
    json_t *out = json_object();
    json_object_set_new(out, "kind", json_string("HorizontalPodAutoscaler"));
    json_object_set_new(out, "apiVersion", json_string(api_version));
    copy_member(obj, out, "metadata");
    json_object_set_new(out, "spec", json_object());
    json_object_set_new(out, "status", json_object());
    return out;
}

static void copy_common_spec(const json_t *from, json_t *to)
{
    copy_member(from, to, "scaleTargetRef");
    copy_member(from, to, "minReplicas");
    copy_member(from, to, "maxReplicas");
}

static void copy_common_status(const json_t *from, json_t *to)
{
    copy_member(from, to, "observedGeneration");
    copy_member(from, to, "lastScaleTime");
    copy_member(from, to, "currentReplicas");
    copy_member(from, to, "desiredReplicas");
}

static json_t *parse_list(const char *text)
{
    json_t *list = NULL;
    if (text)
        gs_error_free(codec_json_parse(gs_slice_of(text), false, &list));
    if (list && !json_is_array(list)) {
        json_decref(list);
        list = NULL;
    }
    return list;
}

// Malformed annotations are ignored, as the API server does.
static json_t *metrics_from_annotation(const char *text, json_t *(*convert)(const json_t *),
                                       const char *part)
{
    CODEC_AUTO_JSON json_t *list = parse_list(text);
    if (!list)
        return NULL;
    CODEC_AUTO_JSON json_t *metrics = convert(list);
    GS_AUTO_ERROR struct gs_error *err = hpa_canonical_metrics(metrics, "annotation", part);
    return err ? NULL : json_incref(metrics);
}

static json_t *cpu_metric(const char *part, const json_t *utilization)
{
    json_t *metric = json_object();
    json_object_set_new(metric, "type", json_string("Resource"));
    codec_json_set(metric, json_string("cpu"), "resource", "name", NULL);
    if (gs_streq(part, "target"))
        codec_json_set(metric, json_string("Utilization"), "resource", part, "type", NULL);
    codec_json_set(metric, json_deep_copy(utilization), "resource", part, "averageUtilization",
                   NULL);
    return metric;
}

static void behavior_from_annotation(const json_t *obj, json_t *spec)
{
    const char *text = annotation(obj, HPA_ANNOTATION_BEHAVIOR);
    json_t *behavior = text ? hpa_behavior_from_annotation(text) : NULL;
    if (behavior)
        json_object_set_new(spec, "behavior", behavior);
}

static void v1_status_to_v2(const json_t *obj, json_t *status)
{
    const json_t *in = json_object_get(obj, "status");
    copy_common_status(in, status);
    json_t *current = metrics_from_annotation(annotation(obj, HPA_ANNOTATION_CURRENT_METRICS),
                                              hpa_statuses_from_beta1, "current");
    const json_t *cpu = json_object_get(in, "currentCPUUtilizationPercentage");
    if (!current && json_is_integer(cpu)) {
        current = json_array();
        json_array_append_new(current, cpu_metric("current", cpu));
    }
    if (current)
        json_object_set_new(status, "currentMetrics", current);
    json_t *conditions = parse_list(annotation(obj, HPA_ANNOTATION_CONDITIONS));
    if (conditions)
        json_object_set_new(status, "conditions", conditions);
}

static json_t *v1_to_v2(const json_t *obj)
{
    json_t *out = new_head(obj, "autoscaling/v2");
    json_t *spec = json_object_get(out, "spec");
    const json_t *in = json_object_get(obj, "spec");
    copy_common_spec(in, spec);
    json_t *metrics = metrics_from_annotation(annotation(obj, HPA_ANNOTATION_METRICS),
                                              hpa_specs_from_beta1, "target");
    const json_t *cpu = json_object_get(in, "targetCPUUtilizationPercentage");
    if (cpu && !json_is_null(cpu)) {
        metrics = metrics ? metrics : json_array();
        json_array_append_new(metrics, cpu_metric("target", cpu));
    }
    if (metrics)
        json_object_set_new(spec, "metrics", metrics);
    behavior_from_annotation(obj, spec);
    v1_status_to_v2(obj, json_object_get(out, "status"));
    return out;
}

static json_t *beta1_to_v2(const json_t *obj)
{
    json_t *out = new_head(obj, "autoscaling/v2");
    json_t *spec = json_object_get(out, "spec"), *status = json_object_get(out, "status");
    const json_t *in = json_object_get(obj, "spec");
    copy_common_spec(in, spec);
    if (json_is_array(json_object_get(in, "metrics")))
        json_object_set_new(spec, "metrics", hpa_specs_from_beta1(json_object_get(in, "metrics")));
    behavior_from_annotation(obj, spec);
    in = json_object_get(obj, "status");
    copy_common_status(in, status);
    if (json_is_array(json_object_get(in, "currentMetrics")))
        json_object_set_new(status, "currentMetrics",
                            hpa_statuses_from_beta1(json_object_get(in, "currentMetrics")));
    copy_member(in, status, "conditions");
    return out;
}

static struct gs_error *canonical(json_t *v2)
{
    struct gs_error *err = hpa_canonical_metrics(codec_json_get(v2, "spec", "metrics", NULL),
                                                 "spec.metrics", "target");
    if (!err)
        err = hpa_canonical_metrics(codec_json_get(v2, "status", "currentMetrics", NULL),
                                    "status.currentMetrics", "current");
    if (!err)
        err = hpa_canonical_behavior(codec_json_get(v2, "spec", "behavior", NULL));
    return err;
}

struct gs_error *hpa_to_v2(const json_t *obj, json_t **ret)
{
    struct gs_error *err = check_shape(obj);
    if (err)
        return err;
    const char *version = codec_json_str(obj, "apiVersion", NULL);
    CODEC_AUTO_JSON json_t *out = NULL;
    if (gs_streq(version, "autoscaling/v1")) {
        out = v1_to_v2(obj);
    } else if (gs_streq(version, "autoscaling/v2beta1")) {
        out = beta1_to_v2(obj);
    } else if (gs_streq(version, "autoscaling/v2") || gs_streq(version, "autoscaling/v2beta2")) {
        out = json_deep_copy(obj);
        codec_json_set_str(out, "apiVersion", "autoscaling/v2");
        if (json_is_null(json_object_get(out, "status")))
            json_object_del(out, "status");
        // The older of the two versions lacks the field.
        if (gs_streq(version, "autoscaling/v2beta2")) {
            codec_json_del(out, "spec", "behavior", "scaleUp", "tolerance", NULL);
            codec_json_del(out, "spec", "behavior", "scaleDown", "tolerance", NULL);
        }
    } else {
        return gs_error_new(GS_EINVAL,
                            "no kind \"HorizontalPodAutoscaler\" in version \"%s\": use "
                            "autoscaling/v2 (v1, v2beta1 and v2beta2 are read too)",
                            version ? version : "");
    }
    drop_annotations(out);
    err = canonical(out);
    if (err)
        return err;
    *ret = GS_TAKE(out);
    return NULL;
}

static bool is_cpu_utilization(const json_t *metric)
{
    return gs_streq(codec_json_str(metric, "type", NULL), "Resource") &&
           gs_streq(codec_json_str(metric, "resource", "name", NULL), "cpu") &&
           codec_json_get(metric, "resource", "target", "averageUtilization", NULL);
}

static void behavior_to_annotation(const json_t *v2, json_t *out)
{
    const json_t *behavior = codec_json_get(v2, "spec", "behavior", NULL);
    if (!json_is_object(behavior))
        return;
    GS_AUTO_FREE char *text = hpa_behavior_to_annotation(behavior);
    codec_json_set(out, json_string(text), "metadata", "annotations", HPA_ANNOTATION_BEHAVIOR,
                   NULL);
}

// Older versions print these numbers even if they are zero.
static void status_counts(json_t *status)
{
    if (!json_object_get(status, "currentReplicas"))
        codec_json_set_int(status, "currentReplicas", 0);
    if (!json_object_get(status, "desiredReplicas"))
        codec_json_set_int(status, "desiredReplicas", 0);
}

static void v2_status_to_v1(const json_t *v2, json_t *out)
{
    const json_t *in = json_object_get(v2, "status");
    json_t *status = json_object_get(out, "status");
    copy_common_status(in, status);
    status_counts(status);
    const json_t *current = json_object_get(in, "currentMetrics");
    for (size_t i = 0; i < json_array_size(current); i++) {
        const json_t *m = json_array_get(current, i);
        const json_t *u = codec_json_get(m, "resource", "current", "averageUtilization", NULL);
        if (json_is_integer(u) && gs_streq(codec_json_str(m, "resource", "name", NULL), "cpu"))
            codec_json_set_int(status, "currentCPUUtilizationPercentage", json_integer_value(u));
    }
    if (json_array_size(current)) {
        CODEC_AUTO_JSON json_t *flat = hpa_statuses_to_beta1(current);
        set_annotation(out, HPA_ANNOTATION_CURRENT_METRICS, flat);
    }
    const json_t *conditions = json_object_get(in, "conditions");
    if (json_array_size(conditions))
        set_annotation(out, HPA_ANNOTATION_CONDITIONS, conditions);
}

static json_t *v2_to_v1(const json_t *v2)
{
    json_t *out = new_head(v2, "autoscaling/v1");
    json_t *spec = json_object_get(out, "spec");
    copy_common_spec(json_object_get(v2, "spec"), spec);
    const json_t *metrics = codec_json_get(v2, "spec", "metrics", NULL);
    CODEC_AUTO_JSON json_t *others = json_array();
    for (size_t i = 0; i < json_array_size(metrics); i++) {
        json_t *m = json_array_get(metrics, i);
        if (!is_cpu_utilization(m))
            json_array_append(others, m);
        else if (!json_object_get(spec, "targetCPUUtilizationPercentage"))
            json_object_set(spec, "targetCPUUtilizationPercentage",
                            codec_json_get(m, "resource", "target", "averageUtilization", NULL));
    }
    if (json_array_size(others)) {
        CODEC_AUTO_JSON json_t *flat = hpa_specs_to_beta1(others);
        set_annotation(out, HPA_ANNOTATION_METRICS, flat);
    }
    behavior_to_annotation(v2, out);
    v2_status_to_v1(v2, out);
    return out;
}

static void list_or_null(const json_t *from, json_t *to, const char *name,
                         json_t *(*convert)(const json_t *))
{
    const json_t *v = json_object_get(from, name);
    json_t *out = json_null();
    if (json_is_array(v))
        out = convert ? convert(v) : json_deep_copy(v);
    json_object_set_new(to, name, out);
}

static json_t *v2_to_beta1(const json_t *v2)
{
    json_t *out = new_head(v2, "autoscaling/v2beta1");
    json_t *spec = json_object_get(out, "spec"), *status = json_object_get(out, "status");
    const json_t *in = json_object_get(v2, "spec");
    copy_common_spec(in, spec);
    if (json_is_array(json_object_get(in, "metrics")))
        json_object_set_new(spec, "metrics", hpa_specs_to_beta1(json_object_get(in, "metrics")));
    behavior_to_annotation(v2, out);
    in = json_object_get(v2, "status");
    copy_common_status(in, status);
    status_counts(status);
    list_or_null(in, status, "currentMetrics", hpa_statuses_to_beta1);
    list_or_null(in, status, "conditions", NULL);
    return out;
}

static json_t *v2_to_same_shape(const json_t *v2, const char *version)
{
    json_t *out = json_deep_copy(v2);
    GS_AUTO_FREE char *api_version = gs_format("autoscaling/%s", version);
    codec_json_set_str(out, "apiVersion", api_version);
    if (!json_is_object(json_object_get(out, "status")))
        json_object_set_new(out, "status", json_object());
    json_t *status = json_object_get(out, "status");
    if (!json_object_get(status, "currentMetrics"))
        json_object_set_new(status, "currentMetrics", json_null());
    if (!json_object_get(status, "desiredReplicas"))
        codec_json_set_int(status, "desiredReplicas", 0);
    if (gs_streq(version, "v2beta2")) {
        codec_json_del(out, "spec", "behavior", "scaleUp", "tolerance", NULL);
        codec_json_del(out, "spec", "behavior", "scaleDown", "tolerance", NULL);
        status_counts(status);
        if (!json_object_get(status, "conditions"))
            json_object_set_new(status, "conditions", json_null());
    }
    return out;
}

struct gs_error *hpa_from_v2(const json_t *v2, const char *version, json_t **ret)
{
    struct gs_error *err = check_shape(v2);
    if (err)
        return err;
    if (gs_streq(version, "v1"))
        *ret = v2_to_v1(v2);
    else if (gs_streq(version, "v2beta1"))
        *ret = v2_to_beta1(v2);
    else if (gs_streq(version, "v2beta2") || gs_streq(version, "v2"))
        *ret = v2_to_same_shape(v2, version);
    else
        return gs_error_new(GS_EINVAL, "autoscaling/%s is not a version of HorizontalPodAutoscaler",
                            version ? version : "");
    return NULL;
}
