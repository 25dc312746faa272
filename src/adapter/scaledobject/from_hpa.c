// SPDX-License-Identifier: Apache-2.0
// A HorizontalPodAutoscaler as a ScaledObject: External metrics with a rule of the adapter become
// triggers of Prometheus, Object metrics those of gpuscale's scaler. Fields that the annotation
// keeps are restored.
#include "adapter/scaledobject/scaledobject_private.h"

#include "base/num.h"
#include "codec/yaml.h"
#include "kube/names.h"
#include "kube/object.h"
#include "kube/quantity.h"

#include <stdio.h>

#define TRANSFER "scaledobject.keda.sh/transfer-hpa-ownership"

// --- the rule of a metric ---

static const struct adapter_config_rule *rule_of(const struct adapter_config *rules,
                                                 const char *metric)
{
    for (size_t i = rules ? rules->n_custom : 0; rules && i < rules->n_rules; i++) {
        GS_AUTO_BUF struct gs_buf name = {0};
        if (adapter_config_rule_own_name(&rules->rules[i], &name) && gs_streq(name.data, metric))
            return &rules->rules[i];
    }
    return NULL;
}

static void add_matcher(struct gs_buf *out, const char *label, const char *value)
{
    gs_buf_addf(out, "%s%s=", out->len ? "," : "", label);
    kube_quote(gs_slice_of(value), out);
}

// The label of namespaces, if the rule reads one namespace.
static void add_namespace(const struct adapter_config_resources *r, const char *ns,
                          struct gs_buf *label, struct gs_buf *matchers)
{
    for (size_t i = 0; i < r->n_overrides && !label->len; i++)
        if (gs_starts(r->overrides[i].resource, "namespace"))
            gs_buf_add_str(label, r->overrides[i].label);
    if (!label->len && r->label_template)
        gs_error_free(adapter_config_label_expand(r->label_template, GS_SLICE(""),
                                                  GS_SLICE("namespace"), label));
    if (r->namespaced && label->len)
        add_matcher(matchers, label->data, ns ? ns : "default");
}

// The query for one autoscaler. Caller frees; NULL: the selector or the template is too much.
static char *expand(const json_t *hpa, const json_t *source, const struct adapter_config_rule *rule)
{
    GS_AUTO_BUF struct gs_buf matchers = {0}, label = {0}, series = {0}, out = {0};
    const json_t *selector = codec_json_get(source, "metric", "selector", NULL);
    json_t *value;
    const char *key;
    if (json_array_size(json_object_get(selector, "matchExpressions")))
        return NULL;
    add_namespace(&rule->resources, kube_namespace(hpa), &label, &matchers);
    json_object_foreach (json_object_get(selector, "matchLabels"), key, value)
        if (json_is_string(value))
            add_matcher(&matchers, key, json_string_value(value));
    adapter_config_rule_own_series(rule, &series);
    const struct adapter_config_query_data data = {.series = gs_buf_slice(&series),
                                                   .matchers = gs_buf_slice(&matchers),
                                                   .group_by = gs_buf_slice(&label)};
    GS_AUTO_ERROR struct gs_error *err = adapter_config_query_expand(rule->query, &data, &out);
    return err ? NULL : gs_buf_take(&out);
}

// --- triggers ---

static void set_query(json_t *metadata, const char *query)
{
    struct scaledobject_query q = {0};
    char above[GS_DOUBLE_SIZE];
    scaledobject_query_unwrap(query, &q);
    codec_json_set_str(metadata, "query", q.text);
    if (q.activates)
        codec_json_set_str(metadata, "activationThreshold", gs_format_double(q.above, above));
    if (!q.zero)
        codec_json_set_str(metadata, "ignoreNullValues", "false");
    scaledobject_query_finish(&q);
}

static json_t *prometheus_trigger(const json_t *hpa, const json_t *source, json_t *metadata,
                                  const struct scaledobject_sources *sources,
                                  struct scaledobject_result *r)
{
    const char *name = codec_json_str(source, "metric", "name", NULL);
    const json_t *target = json_object_get(source, "target");
    const char *type = codec_json_str(target, "type", NULL);
    const struct adapter_config_rule *rule = name ? rule_of(sources->rules, name) : NULL;
    GS_AUTO_FREE char *query = rule ? expand(hpa, source, rule) : NULL;
    GS_AUTO_FREE char *threshold = scaledobject_threshold(target);
    if (!query || !threshold) {
        scaledobject_problem(r, hpa, "External metric %s: %s", name ? name : "without a name",
                             !rule    ? "no rule of this name in --rules"
                             : !query ? "its selector or the template of its rule has no query"
                                      : "its target has no number");
        return NULL;
    }
    set_query(metadata, query);
    codec_json_set_str(metadata, "threshold", threshold);
    if (!json_object_get(metadata, "serverAddress") && sources->server)
        codec_json_set_str(metadata, "serverAddress", sources->server);
    if (!json_object_get(metadata, "serverAddress"))
        scaledobject_problem(r, hpa,
                             "External metric %s: the address of Prometheus is unknown: "
                             "set --server",
                             name);
    return json_pack("{s:s, s:s}", "type", "prometheus", "metricType", type ? type : "");
}

static json_t *resource_trigger(const json_t *hpa, const json_t *source, json_t *metadata,
                                struct scaledobject_result *r)
{
    const char *name = codec_json_str(source, "name", NULL);
    const char *container = codec_json_str(source, "container", NULL);
    const json_t *target = json_object_get(source, "target");
    const char *type = codec_json_str(target, "type", NULL);
    const char *average = codec_json_str(target, "averageValue", NULL);
    json_t *percent = json_object_get(target, "averageUtilization");
    if (!gs_streq(name, "cpu") && !gs_streq(name, "memory")) {
        scaledobject_problem(r, hpa, "resource %s: KEDA has triggers for cpu and memory only",
                             name ? name : "without a name");
        return NULL;
    }
    GS_AUTO_FREE char *value =
        json_is_integer(percent) ? scaledobject_text(percent) : gs_strdup(average ? average : "");
    codec_json_set_str(metadata, "value", value);
    if (container)
        codec_json_set_str(metadata, "containerName", container);
    return json_pack("{s:s, s:s}", "type", name, "metricType", type ? type : "");
}

// Whether gpuscale's scaler gives an External metric, and not a query.
static bool reads_signal(const json_t *metric, const struct scaledobject_sources *sources,
                         const json_t *kept_metadata)
{
    const char *name = codec_json_str(metric, "external", "metric", "name", NULL);
    return codec_json_str(kept_metadata, "signal", NULL) ||
           (sources->scaler && name && !rule_of(sources->rules, name));
}

json_t *scaledobject_trigger(const json_t *hpa, const json_t *metric, const json_t *kept,
                             const struct scaledobject_sources *sources,
                             struct scaledobject_result *r)
{
    const json_t *old = json_object_get(kept, "metadata");
    const char *type = codec_json_str(metric, "type", NULL);
    CODEC_AUTO_JSON json_t *metadata = old ? json_deep_copy(old) : json_object();
    json_t *out = NULL;
    if (gs_streq(type, "Object") ||
        (gs_streq(type, "External") && reads_signal(metric, sources, old)))
        out = scaledobject_signal_trigger(hpa, metric, metadata, sources->scaler, r);
    else if (gs_streq(type, "External"))
        out = prometheus_trigger(hpa, json_object_get(metric, "external"), metadata, sources, r);
    else if (gs_streq(type, "Resource"))
        out = resource_trigger(hpa, json_object_get(metric, "resource"), metadata, r);
    else if (gs_streq(type, "ContainerResource"))
        out = resource_trigger(hpa, json_object_get(metric, "containerResource"), metadata, r);
    else
        scaledobject_problem(
            r, hpa,
            "a metric of the type %s has no trigger: KEDA does not know which pods "
            "have a value; use an external rule with the sum",
            type ? type : "");
    if (!out)
        return NULL;
    const char *kept_type = codec_json_str(kept, "type", NULL);
    json_object_update_missing(out, (json_t *)kept);
    if (kept_type && gs_starts(kept_type, "external-"))
        codec_json_set_str(out, "type", kept_type);
    json_object_set(out, "metadata", metadata);
    return out;
}

// --- the object ---

// The kept trigger of a metric: by the index in its name, by its resource, or by its signal.
static const json_t *kept_trigger(const json_t *triggers, const json_t *metric)
{
    const char *name = codec_json_str(metric, "external", "metric", "name", NULL);
    const char *resource = codec_json_str(metric, "resource", "name", NULL);
    int i = name ? scaledobject_trigger_index(name) : -1;
    resource = resource ? resource : codec_json_str(metric, "containerResource", "name", NULL);
    if (i >= 0)
        return json_array_get(triggers, (size_t)i);
    name = name ? name : codec_json_str(metric, "object", "metric", "name", NULL);
    for (size_t k = 0; k < json_array_size(triggers); k++) {
        const json_t *t = json_array_get(triggers, k);
        const char *signal = codec_json_str(t, "metadata", "signal", NULL);
        if ((resource && gs_streq(codec_json_str(t, "type", NULL), resource)) ||
            (name && gs_streq(signal, name)))
            return t;
    }
    return NULL;
}

static json_t *triggers_of(const json_t *hpa, const json_t *kept,
                           const struct scaledobject_sources *sources,
                           struct scaledobject_result *r)
{
    const json_t *metrics = codec_json_get(hpa, "spec", "metrics", NULL), *m;
    const json_t *old = json_object_get(kept, "triggers");
    json_t *out = json_array();
    size_t i;
    json_array_foreach (metrics, i, m) {
        json_t *t = scaledobject_trigger(hpa, m, kept_trigger(old, m), sources, r);
        if (t)
            json_array_append_new(out, t);
    }
    if (!json_array_size(metrics))
        scaledobject_problem(r, hpa, "spec.metrics: want at least one");
    return out;
}

static bool same_fallback(const json_t *all)
{
    const char *key;
    json_t *value, *first = NULL;
    json_object_foreach ((json_t *)all, key, value) {
        first = first ? first : value;
        if (!json_equal(first, value))
            return false;
    }
    return first != NULL;
}

static bool has_external(const json_t *hpa)
{
    size_t i;
    const json_t *m;
    json_array_foreach (codec_json_get(hpa, "spec", "metrics", NULL), i, m)
        if (gs_streq(codec_json_str(m, "type", NULL), "External"))
            return true;
    return false;
}

// Whether the annotation has still the fallback that was kept.
static bool is_kept(const json_t *kept, json_int_t seconds, json_int_t replicas)
{
    int64_t times = codec_json_int(kept, 0, "failureThreshold", NULL);
    return kept && times >= 0 && times <= INT16_MAX &&
           scaledobject_failure_seconds(times) == seconds &&
           codec_json_int(kept, 0, "replicas", NULL) == replicas;
}

static void set_fallback(const json_t *hpa, json_t *spec, struct scaledobject_result *r)
{
    const char *text = kube_annotation(hpa, SCALEDOBJECT_FALLBACK);
    struct codec_yaml_docs docs = {0};
    if (!text && has_external(hpa))
        json_object_del(spec, "fallback");
    if (!text)
        return;
    GS_AUTO_ERROR struct gs_error *err = codec_yaml_parse(gs_slice_of(text), "annotation", &docs);
    const json_t *all = !err && docs.len == 1 ? docs.items[0].value : NULL;
    if (same_fallback(all)) {
        const json_t *one = json_object_iter_value(json_object_iter((json_t *)all));
        json_int_t seconds =
            codec_json_int(one, SCALEDOBJECT_LEAST_FAILURE, "failureDurationSeconds", NULL);
        json_int_t failures = 1 + (seconds - 1) / SCALEDOBJECT_READ_SECONDS;
        json_int_t replicas = codec_json_int(one, 0, "replicas", NULL);
        if (!is_kept(json_object_get(spec, "fallback"), seconds, replicas))
            json_object_set_new(
                spec, "fallback",
                json_pack("{s:I, s:I}", "failureThreshold", failures, "replicas", replicas));
    } else {
        scaledobject_problem(
            r, hpa, "annotation " SCALEDOBJECT_FALLBACK ": KEDA has one fallback for all triggers");
    }
    codec_yaml_docs_finish(&docs);
}

static json_t *metadata_of(const json_t *hpa)
{
    json_t *out = json_object(), *value;
    json_t *annotations = json_pack("{s:s}", TRANSFER, "true");
    const json_t *labels = codec_json_get(hpa, "metadata", "labels", NULL);
    const char *key;
    codec_json_set_str(out, "name", kube_name(hpa));
    codec_json_set_str(out, "namespace", kube_namespace(hpa));
    if (json_object_size(labels))
        json_object_set(out, "labels", (json_t *)labels);
    json_object_foreach (codec_json_get(hpa, "metadata", "annotations", NULL), key, value)
        if (!gs_streq(key, SCALEDOBJECT_ANNOTATION) && !gs_streq(key, SCALEDOBJECT_FALLBACK) &&
            !gs_streq(key, "kubectl.kubernetes.io/last-applied-configuration"))
            json_object_set(annotations, key, value);
    json_object_set_new(out, "annotations", annotations);
    return out;
}

// The fields of the annotation, without triggers. New reference.
static json_t *kept_of(const json_t *hpa)
{
    const char *text = kube_annotation(hpa, SCALEDOBJECT_ANNOTATION);
    json_t *out = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        text ? codec_json_parse(gs_slice_of(text), true, &out) : NULL;
    if (json_is_object(out))
        return out;
    json_decref(out);
    return json_object();
}

static json_t *spec_of(const json_t *hpa, const struct scaledobject_sources *sources,
                       struct scaledobject_result *r)
{
    const json_t *in = json_object_get(hpa, "spec");
    json_t *behavior = json_object_get(in, "behavior");
    CODEC_AUTO_JSON json_t *kept = kept_of(hpa);
    json_t *triggers = triggers_of(hpa, kept, sources, r);
    json_t *spec = json_deep_copy(kept);
    json_object_set_new(spec, "triggers", triggers);
    json_t *target = json_deep_copy(json_object_get(in, "scaleTargetRef"));
    json_object_update_missing(target, json_object_get(kept, "scaleTargetRef"));
    json_object_set_new(spec, "scaleTargetRef", target);
    codec_json_set_int(spec, "minReplicaCount", codec_json_int(in, 1, "minReplicas", NULL));
    codec_json_set_int(spec, "maxReplicaCount", codec_json_int(in, 0, "maxReplicas", NULL));
    codec_json_set(spec, json_string(kube_name(hpa)), "advanced", "horizontalPodAutoscalerConfig",
                   "name", NULL);
    if (behavior)
        codec_json_set(spec, json_incref(behavior), "advanced", "horizontalPodAutoscalerConfig",
                       "behavior", NULL);
    set_fallback(hpa, spec, r);
    return spec;
}

void scaledobject_from_hpa(const json_t *hpa, const struct scaledobject_sources *sources,
                           struct scaledobject_result *r)
{
    size_t before = r->n_problems;
    if (!kube_name(hpa) || !json_is_object(codec_json_get(hpa, "spec", "scaleTargetRef", NULL))) {
        scaledobject_problem(r, hpa, "want metadata.name and spec.scaleTargetRef");
        return;
    }
    json_t *spec = spec_of(hpa, sources, r);
    if (r->n_problems > before) {
        json_decref(spec);
        return;
    }
    json_array_append_new(r->objects, json_pack("{s:s, s:s, s:o, s:o}", "apiVersion",
                                                "keda.sh/v1alpha1", "kind", "ScaledObject",
                                                "metadata", metadata_of(hpa), "spec", spec));
}
