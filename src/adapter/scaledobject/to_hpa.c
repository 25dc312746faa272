// SPDX-License-Identifier: Apache-2.0
// A ScaledObject as a HorizontalPodAutoscaler. The fields are rows of a table; what the autoscaler
// cannot express is kept in an annotation.
#include "adapter/scaledobject/scaledobject_private.h"

#include "kube/names.h"
#include "kube/object.h"

#define DEFAULT_MAX 100

struct conversion {
    const json_t *object, *spec;
    json_t *kept; // fields of the spec
    struct scaledobject_result *r;
    size_t problems_before;
};

// --- metadata ---

// Of KEDA: the object is paused or forced.
static bool is_state(const char *annotation, const json_t *value)
{
    return gs_starts(annotation, "autoscaling.keda.sh/") &&
           !gs_streq(json_string_value(value), "false");
}

static json_t *metadata_of(const struct conversion *c)
{
    const json_t *labels = codec_json_get(c->object, "metadata", "labels", NULL);
    json_t *old = codec_json_get(c->object, "metadata", "annotations", NULL), *value;
    const char *own =
        codec_json_str(c->spec, "advanced", "horizontalPodAutoscalerConfig", "name", NULL);
    const char *key, *ns = kube_namespace(c->object);
    json_t *out = json_object(), *annotations = json_object();
    codec_json_set_str(out, "name", own && *own ? own : kube_name(c->object));
    codec_json_set_str(out, "namespace", ns);
    if (json_object_size(labels))
        json_object_set(out, "labels", (json_t *)labels);
    json_object_foreach (old, key, value) {
        if (is_state(key, value))
            scaledobject_problem(c->r, c->object,
                                 "annotation %s: a HorizontalPodAutoscaler has no such state", key);
        else if (!gs_streq(key, "kubectl.kubernetes.io/last-applied-configuration"))
            json_object_set(annotations, key, value);
    }
    json_object_set_new(out, "annotations", annotations);
    return out;
}

// --- the spec ---

static int64_t count_of(const struct conversion *c, const char *field, int64_t missing)
{
    const json_t *v = json_object_get(c->spec, field);
    if (!v || json_is_null(v))
        return missing;
    if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= INT32_MAX)
        return json_integer_value(v);
    scaledobject_problem(c->r, c->object, "spec.%s: want a number of replicas", field);
    return missing;
}

// Of a part of the spec.
static void report_unknown(const struct conversion *c, const json_t *in, const char *const *known,
                           size_t n, const char *part)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)in, key, value)
        if (!gs_is_one_of(key, known, n))
            scaledobject_problem(c->r, c->object, "spec.%s.%s: unknown field", part, key);
}

static json_t *target_of(struct conversion *c)
{
    const json_t *in = json_object_get(c->spec, "scaleTargetRef");
    const char *name = codec_json_str(in, "name", NULL), *kind = codec_json_str(in, "kind", NULL);
    const char *api = codec_json_str(in, "apiVersion", NULL);
    static const char *const known[] = {"name", "kind", "apiVersion", "envSourceContainerName"};
    json_t *env = json_object_get(in, "envSourceContainerName");
    report_unknown(c, in, known, GS_ARRAY_LEN(known), "scaleTargetRef");
    if (!name)
        scaledobject_problem(c->r, c->object, "spec.scaleTargetRef.name: is missing");
    if (env)
        codec_json_set(c->kept, json_incref(env), "scaleTargetRef", "envSourceContainerName", NULL);
    return json_pack("{s:s, s:s, s:s}", "apiVersion", api && *api ? api : "apps/v1", "kind",
                     kind && *kind ? kind : "Deployment", "name", name ? name : "");
}

static json_t *metrics_of(struct conversion *c, bool from_zero)
{
    const json_t *triggers = json_object_get(c->spec, "triggers");
    json_t *out = json_array(), *kept = json_array();
    size_t n = json_array_size(triggers);
    if (!n)
        scaledobject_problem(c->r, c->object, "spec.triggers: want at least one");
    for (size_t i = 0; i < n; i++) {
        json_t *kept_one = json_object();
        json_t *metric = scaledobject_metric(c->object, i, from_zero, kept_one, c->r);
        codec_json_set_str(kept_one, "type",
                           codec_json_str(json_array_get(triggers, i), "type", NULL));
        json_array_append_new(kept, kept_one);
        if (metric)
            json_array_append_new(out, metric);
    }
    json_object_set_new(c->kept, "triggers", kept);
    return out;
}

// --- advanced and fallback ---

static void convert_advanced(struct conversion *c, json_t *spec)
{
    json_t *advanced = json_object_get(c->spec, "advanced"), *value;
    json_t *config = json_object_get(advanced, "horizontalPodAutoscalerConfig");
    json_t *behavior = json_object_get(config, "behavior");
    static const char *const known[] = {"behavior", "name"};
    const char *key;
    report_unknown(c, config, known, GS_ARRAY_LEN(known), "advanced.horizontalPodAutoscalerConfig");
    if (json_is_object(behavior))
        json_object_set(spec, "behavior", behavior);
    if (codec_json_str(config, "name", NULL))
        codec_json_set(c->kept, json_incref(json_object_get(config, "name")), "advanced",
                       "horizontalPodAutoscalerConfig", "name", NULL);
    json_object_foreach (advanced, key, value) {
        if (gs_streq(key, "scalingModifiers") && json_object_size(value))
            scaledobject_problem(c->r, c->object,
                                 "spec.advanced.scalingModifiers: a HorizontalPodAutoscaler takes "
                                 "the highest of its metrics; put the formula into one query");
        else if (!gs_streq(key, "horizontalPodAutoscalerConfig"))
            codec_json_set(c->kept, json_incref(value), "advanced", key, NULL);
    }
}

static void add_fallback(struct conversion *c, const json_t *metrics, int64_t seconds,
                         int64_t replicas, json_t *annotations)
{
    CODEC_AUTO_JSON json_t *all = json_object();
    size_t i;
    const json_t *m;
    json_array_foreach (metrics, i, m) {
        const char *name = codec_json_str(m, "external", "metric", "name", NULL);
        if (name)
            json_object_set_new(all, name,
                                json_pack("{s:I, s:I}", "failureDurationSeconds",
                                          (json_int_t)seconds, "replicas", (json_int_t)replicas));
        else if (gs_streq(codec_json_str(m, "type", NULL), "Object"))
            scaledobject_problem(c->r, c->object,
                                 "spec.fallback: the metric of the type Object of "
                                 "spec.triggers[%zu] has none; give the trigger an External one",
                                 i);
    }
    if (!json_object_size(all)) // KEDA's does not apply to resource metrics either
        return;
    GS_AUTO_FREE char *text = codec_json_text(all);
    codec_json_set_str(annotations, SCALEDOBJECT_FALLBACK, text);
    scaledobject_note(c->r, c->object,
                      "spec.fallback: the annotation " SCALEDOBJECT_FALLBACK " after %lld s, which "
                      "only gpuscale's controller reads",
                      (long long)seconds);
}

static void convert_fallback(struct conversion *c, const json_t *metrics, json_t *annotations)
{
    json_t *in = json_object_get(c->spec, "fallback");
    const char *behavior = codec_json_str(in, "behavior", NULL);
    int64_t times = codec_json_int(in, 0, "failureThreshold", NULL);
    int64_t replicas = codec_json_int(in, 0, "replicas", NULL);
    if (!json_is_object(in))
        return;
    if (behavior && *behavior && !gs_streq(behavior, "static"))
        scaledobject_problem(c->r, c->object, "spec.fallback.behavior: %s: want static", behavior);
    else if (replicas < 1 || replicas > INT32_MAX)
        scaledobject_problem(c->r, c->object, "spec.fallback.replicas: want at least 1");
    else if (times < 0 || times > INT16_MAX)
        scaledobject_problem(c->r, c->object, "spec.fallback.failureThreshold: want 0 to 32767");
    else
        add_fallback(c, metrics, scaledobject_failure_seconds(times), replicas, annotations);
    json_object_set(c->kept, "fallback", in);
}

// --- other fields ---

static void keep_rest(struct conversion *c, int64_t min)
{
    static const char *const converted[] = {"scaleTargetRef", "minReplicaCount", "maxReplicaCount",
                                            "triggers",       "advanced",        "fallback"};
    static const char *const kept[] = {"pollingInterval", "cooldownPeriod",
                                       "initialCooldownPeriod"};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)c->spec, key, value) {
        bool known = json_is_null(value) || gs_is_one_of(key, converted, GS_ARRAY_LEN(converted));
        if (gs_is_one_of(key, kept, GS_ARRAY_LEN(kept)))
            json_object_set(c->kept, key, value);
        else if (gs_streq(key, "idleReplicaCount"))
            scaledobject_problem(
                c->r, c->object,
                "spec.idleReplicaCount: a HorizontalPodAutoscaler has one minimum; "
                "use minReplicaCount: 0");
        else if (!known)
            scaledobject_problem(c->r, c->object, "spec.%s: unknown field", key);
    }
    if (min == 0)
        scaledobject_note(c->r, c->object,
                          "minReplicaCount 0: minReplicas 0 needs the feature gate HPAScaleToZero, "
                          "or gpuscale's controller; the stabilization window of scaleDown "
                          "replaces the cooldownPeriod");
}

static json_t *autoscaler_of(struct conversion *c)
{
    int64_t min = count_of(c, "minReplicaCount", 0);
    int64_t max = count_of(c, "maxReplicaCount", DEFAULT_MAX);
    if (max < 1 || min > max)
        scaledobject_problem(c->r, c->object,
                             "spec.maxReplicaCount: want at least 1, and at least minReplicaCount");
    json_t *spec = json_object(), *metadata = metadata_of(c);
    json_t *annotations = json_object_get(metadata, "annotations");
    json_t *metrics = metrics_of(c, min == 0);
    json_object_set_new(spec, "scaleTargetRef", target_of(c));
    codec_json_set_int(spec, "minReplicas", min);
    codec_json_set_int(spec, "maxReplicas", max);
    json_object_set_new(spec, "metrics", metrics);
    convert_advanced(c, spec);
    convert_fallback(c, metrics, annotations);
    keep_rest(c, min);
    GS_AUTO_FREE char *kept = codec_json_text(c->kept);
    codec_json_set_str(annotations, SCALEDOBJECT_ANNOTATION, kept);
    return json_pack("{s:s, s:s, s:o, s:o}", "apiVersion", "autoscaling/v2", "kind",
                     "HorizontalPodAutoscaler", "metadata", metadata, "spec", spec);
}

// The names become the name of a metric.
static bool has_names(const json_t *object)
{
    const char *ns = kube_namespace(object), *name = kube_name(object);
    return name && kube_check_dns_subdomain(gs_slice_of(name), NULL) &&
           (!ns || kube_check_dns_label(gs_slice_of(ns), NULL));
}

void scaledobject_to_hpa(const json_t *scaled_object, struct scaledobject_result *r)
{
    CODEC_AUTO_JSON json_t *kept = json_object();
    struct conversion c = {.object = scaled_object,
                           .spec = json_object_get(scaled_object, "spec"),
                           .kept = kept,
                           .r = r,
                           .problems_before = r->n_problems};
    size_t rules_before = json_array_size(r->rules);
    if (!json_is_object(c.spec) || !has_names(scaled_object)) {
        scaledobject_problem(r, scaled_object, "want spec and a valid metadata.name");
        return;
    }
    json_t *hpa = autoscaler_of(&c);
    if (r->n_problems == c.problems_before) {
        json_array_append_new(r->objects, hpa);
        return;
    }
    json_decref(hpa);
    while (json_array_size(r->rules) > rules_before)
        json_array_remove(r->rules, json_array_size(r->rules) - 1);
}
