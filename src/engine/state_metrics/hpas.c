// SPDX-License-Identifier: Apache-2.0
// Metrics of HorizontalPodAutoscalers, as in kube-state-metrics. Quantities are in base units.
#include "base/num.h"
#include "engine/state_metrics/state_metrics_private.h"
#include "kube/object.h"
#include "kube/quantity.h"

static void add_hpa_identity(struct state_metrics_writer *w, const void *hpa)
{
    state_metrics_label(w, "namespace", kube_namespace(hpa));
    state_metrics_label(w, "horizontalpodautoscaler", kube_name(hpa));
}

static void begin_hpa_sample(struct state_metrics_writer *w, const json_t *hpa)
{
    state_metrics_begin(w);
    add_hpa_identity(w, hpa);
}

static void write_hpa_info(struct state_metrics_writer *w, const json_t *hpa)
{
    begin_hpa_sample(w, hpa);
    state_metrics_label(w, "scaletargetref_api_version",
                        codec_json_str(hpa, "spec", "scaleTargetRef", "apiVersion", NULL));
    state_metrics_label(w, "scaletargetref_kind",
                        codec_json_str(hpa, "spec", "scaleTargetRef", "kind", NULL));
    state_metrics_label(w, "scaletargetref_name",
                        codec_json_str(hpa, "spec", "scaleTargetRef", "name", NULL));
    state_metrics_end(w, 1);
}

static void write_hpa_labels(struct state_metrics_writer *w, const json_t *hpa)
{
    begin_hpa_sample(w, hpa);
    state_metrics_object_labels(w, hpa);
    state_metrics_end(w, 1);
}

static void write_hpa_number(struct state_metrics_writer *w, const json_t *hpa, int64_t v)
{
    begin_hpa_sample(w, hpa);
    state_metrics_end(w, (double)v);
}

static void min_replicas(struct state_metrics_writer *w, const json_t *hpa)
{
    write_hpa_number(w, hpa, codec_json_int(hpa, 1, "spec", "minReplicas", NULL));
}

static void max_replicas(struct state_metrics_writer *w, const json_t *hpa)
{
    write_hpa_number(w, hpa, codec_json_int(hpa, 0, "spec", "maxReplicas", NULL));
}

static void current_replicas(struct state_metrics_writer *w, const json_t *hpa)
{
    write_hpa_number(w, hpa, codec_json_int(hpa, 0, "status", "currentReplicas", NULL));
}

static void desired_replicas(struct state_metrics_writer *w, const json_t *hpa)
{
    write_hpa_number(w, hpa, codec_json_int(hpa, 0, "status", "desiredReplicas", NULL));
}

static void generation(struct state_metrics_writer *w, const json_t *hpa)
{
    if (json_is_integer(codec_json_get(hpa, "metadata", "generation", NULL)))
        write_hpa_number(w, hpa, codec_json_int(hpa, 0, "metadata", "generation", NULL));
}

static void write_hpa_conditions(struct state_metrics_writer *w, const json_t *hpa)
{
    state_metrics_conditions(w, codec_json_get(hpa, "status", "conditions", NULL), add_hpa_identity,
                             hpa);
}

// --- targets and current values of metrics ---

// "pods" -> the object of the metric {metric or name, target or current}.
static const char *metric_name(const json_t *source)
{
    const char *name = codec_json_str(source, "metric", "name", NULL);
    return name ? name : codec_json_str(source, "name", NULL);
}

static void metric_value(struct state_metrics_writer *w, const json_t *hpa, const char *name,
                         const char *type, double v)
{
    begin_hpa_sample(w, hpa);
    state_metrics_label(w, "metric_name", name);
    state_metrics_label(w, "metric_target_type", type);
    state_metrics_end(w, v);
}

static void quantity_value(struct state_metrics_writer *w, const json_t *hpa, const char *name,
                           const char *type, const json_t *amount, const char *key)
{
    const char *text = codec_json_str(amount, key, NULL);
    int64_t milli;
    struct gs_error *err = text ? kube_quantity_parse_milli(gs_slice_of(text), &milli) : NULL;
    if (text && !err)
        metric_value(w, hpa, name, type, (double)milli / 1000);
    gs_error_free(err);
}

// part: "target" of the spec or "current" of the status.
static void metrics(struct state_metrics_writer *w, const json_t *hpa, const json_t *list,
                    const char *part)
{
    static const char *const kinds[] = {"resource", "containerResource", "pods", "object",
                                        "external"};
    const json_t *m;
    size_t i;
    json_array_foreach ((json_t *)list, i, m) {
        for (size_t k = 0; k < GS_ARRAY_LEN(kinds); k++) {
            const json_t *source = codec_json_get(m, kinds[k], NULL);
            const json_t *amount = codec_json_get(source, part, NULL);
            if (!json_is_object(amount))
                continue;
            const char *name = metric_name(source);
            quantity_value(w, hpa, name, "value", amount, "value");
            quantity_value(w, hpa, name, "average", amount, "averageValue");
            if (json_is_integer(codec_json_get(amount, "averageUtilization", NULL)))
                metric_value(w, hpa, name, "utilization",
                             (double)codec_json_int(amount, 0, "averageUtilization", NULL));
        }
    }
}

static void spec_metrics(struct state_metrics_writer *w, const json_t *hpa)
{
    metrics(w, hpa, codec_json_get(hpa, "spec", "metrics", NULL), "target");
}

static void status_metrics(struct state_metrics_writer *w, const json_t *hpa)
{
    metrics(w, hpa, codec_json_get(hpa, "status", "currentMetrics", NULL), "current");
}

#define PREFIX "kube_horizontalpodautoscaler_"
const struct state_metrics_family state_metrics_hpa_families[] = {
    {PREFIX "info", "The scale target of the autoscaler.", METRICS_GAUGE, write_hpa_info},
    {PREFIX "labels", "The labels of the object, as label_*.", METRICS_GAUGE, write_hpa_labels},
    {PREFIX "metadata_generation", "The generation of the desired state.", METRICS_GAUGE,
     generation},
    {PREFIX "spec_min_replicas", "The lower limit of replicas.", METRICS_GAUGE, min_replicas},
    {PREFIX "spec_max_replicas", "The upper limit of replicas.", METRICS_GAUGE, max_replicas},
    {PREFIX "spec_target_metric", "The target of each metric.", METRICS_GAUGE, spec_metrics},
    {PREFIX "status_target_metric", "The last value of each metric.", METRICS_GAUGE,
     status_metrics},
    {PREFIX "status_current_replicas", "Current replicas.", METRICS_GAUGE, current_replicas},
    {PREFIX "status_desired_replicas", "Desired replicas.", METRICS_GAUGE, desired_replicas},
    {PREFIX "status_condition", "1 for the status of each condition.", METRICS_GAUGE,
     write_hpa_conditions},
    {0},
};
#undef PREFIX
