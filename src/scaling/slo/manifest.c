// SPDX-License-Identifier: Apache-2.0
// Checks the annotation of a latency target and the metrics gpuscale_desired_replicas and
// gpuscale_slo_pressure in the spec. kube-controller-manager multiplies a value target by the pods,
// and keeps the replicas inside its tolerance.
#include "slo/manifest.h"

#include "base/mem.h"
#include "slo/capacity.h"
#include "slo/slo.h"

// From this number on, one replica is within the tolerance of 0.1.
#define EXACT_BELOW 11

static void add(json_t *items, bool error, char *problem, const char *fix)
{
    json_array_append_new(
        items, json_pack("{s:b, s:s, s:s}", "error", error, "problem", problem, "fix", fix));
    free(problem);
}

// --- the annotation ---

static void check_annotation(const char *text, bool *ret_shadow, json_t *items)
{
    struct slo_policy policy;
    GS_AUTO_ERROR struct gs_error *err = slo_policy_parse(text, &policy);
    *ret_shadow = !err && policy.shadow;
    if (err)
        add(items, true, gs_strdup(gs_error_message(err)),
            "Correct the annotation, such as " SLO_ANNOTATION ": \"ttft=1s,itl=50ms,p=90\"");
}

// --- metrics of the spec ---

static bool is_one(const json_t *target, const char *field)
{
    const char *text = codec_json_str(target, field, NULL);
    return gs_streq(text, "1") || gs_streq(text, "1000m");
}

static void check_desired_target(const json_t *target, json_t *items)
{
    bool by_value = gs_streq(codec_json_str(target, "type", NULL), "Value");
    if (by_value)
        add(items, true,
            gs_strdup("The target of " SLO_METRIC_DESIRED " has the type Value: "
                      "kube-controller-manager multiplies the number of replicas by the pods."),
            "Use the type AverageValue with averageValue: \"1\"");
    else if (!is_one(target, "averageValue"))
        add(items, true,
            gs_strdup("The target of " SLO_METRIC_DESIRED " is not 1, so that another number of "
                      "replicas is applied."),
            "Set averageValue: \"1\"");
}

static void check_pressure_target(const json_t *target, json_t *items)
{
    if (!gs_streq(codec_json_str(target, "type", NULL), "Value"))
        add(items, true,
            gs_strdup("The target of " SLO_METRIC_PRESSURE " has the type AverageValue, which "
                      "divides the pressure by the replicas."),
            "Use the type Value with value: \"1\"");
}

// An external metric is the sum of all series that its selector selects.
static void check_selector(const json_t *source, const char *name, json_t *items)
{
    const json_t *selector = codec_json_get(source, "metric", "selector", NULL);
    const char *hpa = codec_json_str(selector, "matchLabels", "horizontalpodautoscaler", NULL);
    if (!hpa && !json_array_size(json_object_get(selector, "matchExpressions")))
        add(items, false,
            gs_format("The external metric %s has no selector: it is the sum of all autoscalers "
                      "of the namespace.",
                      name),
            "Set metric.selector.matchLabels.horizontalpodautoscaler to the name of the "
            "autoscaler");
}

struct metrics {
    size_t n;
    bool desired, pressure;
};

static void check_source(const json_t *source, bool external, struct metrics *m, json_t *items)
{
    const char *name = codec_json_str(source, "metric", "name", NULL);
    const json_t *target = json_object_get(source, "target");
    bool desired = gs_streq(name, SLO_METRIC_DESIRED);
    bool pressure = gs_streq(name, SLO_METRIC_PRESSURE);
    m->desired |= desired;
    m->pressure |= pressure;
    if (desired)
        check_desired_target(target, items);
    if (pressure)
        check_pressure_target(target, items);
    if (external && (desired || pressure))
        check_selector(source, name, items);
}

static struct metrics check_metrics(const json_t *hpa, json_t *items)
{
    struct metrics m = {0};
    const json_t *list = codec_json_get(hpa, "spec", "metrics", NULL), *metric;
    json_array_foreach (list, m.n, metric) {
        check_source(json_object_get(metric, "external"), true, &m, items);
        check_source(json_object_get(metric, "object"), false, &m, items);
    }
    return m;
}

static bool has_zero_tolerance(const json_t *hpa)
{
    const char *text = codec_json_str(hpa, "spec", "behavior", "scaleUp", "tolerance", NULL);
    return text && strspn(text, "0.m") == strlen(text);
}

static void check_tolerance(const json_t *hpa, json_t *items)
{
    int64_t most = codec_json_int(hpa, 0, "spec", "maxReplicas", NULL);
    if (most >= EXACT_BELOW && !has_zero_tolerance(hpa))
        add(items, false,
            gs_format("kube-controller-manager keeps the replicas while " SLO_METRIC_DESIRED
                      " differs by no more than a tenth: from %d replicas on, single replicas are "
                      "not added.",
                      EXACT_BELOW - 1),
            "Set behavior.scaleUp.tolerance and behavior.scaleDown.tolerance to 0 (Kubernetes 1.35 "
            "and later). gpuscale hpa applies each number");
}

static void check_capacity(const json_t *hpa, json_t *items)
{
    struct slo_capacity_policy unused;
    GS_AUTO_ERROR struct gs_error *err = slo_capacity_policy_of(hpa, &unused);
    if (err)
        add(items, true, gs_strdup(gs_error_message(err)),
            "Correct the annotation, such as " SLO_CAPACITY_ANNOTATION
            ": \"buffer\" with " SLO_CAPACITY_MAX_ANNOTATION ": \"2\"");
}

void slo_manifest_mistakes(const json_t *hpa, json_t *items)
{
    const char *text = codec_json_str(hpa, "metadata", "annotations", SLO_ANNOTATION, NULL);
    bool shadow = false;
    if (text)
        check_annotation(text, &shadow, items);
    check_capacity(hpa, items);
    struct metrics m = check_metrics(hpa, items);
    if (!text && (m.desired || m.pressure))
        add(items, true,
            gs_format("spec.metrics has %s, but without the annotation " SLO_ANNOTATION
                      " nothing calculates it.",
                      m.desired ? SLO_METRIC_DESIRED : SLO_METRIC_PRESSURE),
            "Add the annotation, such as " SLO_ANNOTATION ": \"ttft=1s,itl=50ms,p=90\"");
    if (shadow && m.desired)
        add(items, true,
            gs_strdup("The annotation has mode=shadow, but spec.metrics has " SLO_METRIC_DESIRED
                      ", which applies the decision."),
            "Remove the metric or mode=shadow");
    if (text && !m.n)
        add(items, false,
            gs_strdup("spec.metrics is empty: Kubernetes adds a target of 80 % of the CPU "
                      "requests."),
            "Add the external metric " SLO_METRIC_DESIRED " with averageValue: \"1\"");
    if (m.desired)
        check_tolerance(hpa, items);
}
