// SPDX-License-Identifier: Apache-2.0
// Checks of what limits and disturbs HorizontalPodAutoscalers: ceilings of metrics, limits, other
// controllers, flapping.
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"
#include "kube/quantity.h"

#include <math.h>
#include <string.h>

#define LIMITED_MS 600000

// --- steering ---

static bool is_percentage(const char *name)
{
    return name && !doctor_contains(name, "_RATIO") &&
           (doctor_contains(name, "DEV_GPU_UTIL") || doctor_contains(name, "gpu_util") ||
            doctor_contains(name, "SM_UTIL"));
}

double doctor_hpa_metric_target(const json_t *metric)
{
    static const char *const types[] = {"pods", "object", "external", NULL};
    static const char *const values[] = {"averageValue", "value", NULL};

    for (size_t i = 0; types[i]; i++) {
        for (size_t k = 0; values[k]; k++) {
            const char *text = codec_json_str(metric, types[i], "target", values[k], NULL);
            int64_t milli = 0;
            GS_AUTO_ERROR struct gs_error *err =
                text ? kube_quantity_parse_milli(gs_slice_of(text), &milli) : NULL;
            if (text && !err)
                return (double)milli / 1000;
        }
    }
    return NAN;
}

static void check_ceiling(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                          const json_t *answer)
{
    double target = doctor_hpa_metric_target(metric);

    (void)answer;
    if (!is_percentage(doctor_hpa_metric_name(metric)) || !(target > 100 / 1.1))
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("The target of %s is %g, but the metric cannot exceed 100: the autoscaler never "
                  "scales up.",
                  doctor_hpa_metric_name(metric), target),
        gs_format("100 / %g = %.3f, within the tolerance of 0.1", target, 100 / target),
        gs_format("kubectl -n %s edit hpa %s   # a target of 50 to 80", kube_namespace(hpa),
                  kube_name(hpa)));
}

void doctor_check_target_above_ceiling(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_ceiling);
}

static bool at_maximum(const json_t *hpa)
{
    int64_t max = codec_json_int(hpa, 0, "spec", "maxReplicas", NULL);
    return max > 0 && codec_json_int(hpa, 0, "status", "currentReplicas", NULL) >= max;
}

static bool is_pod_of(const struct doctor_examination *e, const json_t *sample,
                      const json_t *target)
{
    GS_AUTO_FREE char *name = gs_slice_dup(doctor_gpu_owner(e, sample).pod);
    const json_t *pod = *name ? doctor_find(e, "pods", kube_namespace(target), name) : NULL;

    return pod && doctor_label_selects(codec_json_get(target, "spec", "selector", NULL), pod);
}

static void check_flat(struct doctor_examination *e, const json_t *hpa)
{
    const json_t *target = doctor_hpa_target(e, hpa), *sample;
    size_t i, full = 0, all = 0;
    bool used = false;

    json_array_foreach (doctor_hpa_metrics(hpa), i, sample)
        used = used || is_percentage(doctor_hpa_metric_name(sample));
    if (!target || !used || !at_maximum(hpa))
        return;
    json_array_foreach (doctor_query(e, "utilization"), i, sample)
        all += is_pod_of(e, sample, target);
    json_array_foreach (doctor_query(e, "full"), i, sample)
        full += is_pod_of(e, sample, target);
    if (!all || full < all)
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_strdup("GPU utilization is flat at its ceiling: it stays at 100 whatever the number of "
                  "replicas is, so it cannot steer."),
        gs_format("all %zu GPUs of the target are at 99 or more for 30 minutes, with maxReplicas "
                  "reached",
                  all),
        gs_strdup("Scale by a signal of demand, such as the queue length "
                  "(vllm:num_requests_waiting) or requests per second, and keep GPU utilization "
                  "for scale-down"));
}

void doctor_check_metric_flat(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_flat);
}

// Whether the metrics API serves the metric as Prometheus stores it, without a rate: a value is
// that of a series, or the sum, apart from its growth in between.
static bool is_served_raw(const json_t *answer, const json_t *values)
{
    size_t i, k;
    const json_t *item, *sample;

    json_array_foreach (codec_json_get(answer, "body", "items", NULL), i, item) {
        const char *text = codec_json_str(item, "value", NULL);
        int64_t milli = 0;
        GS_AUTO_ERROR struct gs_error *err =
            text ? kube_quantity_parse_milli(gs_slice_of(text), &milli) : NULL;
        double served = err ? 0 : (double)milli / 1000;
        json_array_foreach (codec_json_get(values, "result", NULL), k, sample) {
            double stored = doctor_sample_value(sample);
            if (served > 0 && fabs(served - stored) <= 0.05 * fabs(stored))
                return true;
        }
    }
    return false;
}

static void check_counter(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                          const json_t *answer)
{
    const char *name = doctor_text(doctor_hpa_metric_name(metric));
    const json_t *known = codec_json_get(e->prometheus, "metrics", name, NULL);
    const char *type = codec_json_str(known, "type", NULL);
    bool grows = json_array_size(codec_json_get(known, "grows", "result", NULL)) > 0;

    if (!at_maximum(hpa) || (!gs_streq(type, "counter") && (type || !grows)) ||
        !is_served_raw(answer, json_object_get(known, "values")))
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("%s is a counter, which only grows: the autoscaler stays at its maximum of %lld.",
                  name, (long long)codec_json_int(hpa, 0, "spec", "maxReplicas", NULL)),
        type
            ? gs_format("the type of %s is counter, and the metrics API serves it without a rate",
                        name)
            : gs_format("%s has not fallen for 30 minutes, and the metrics API serves it without a "
                        "rate",
                        name),
        gs_strdup(
            "metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)   "
            "# in the rule of the adapter"));
}

void doctor_check_metric_counter(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_counter);
}

static void check_limited(struct doctor_examination *e, const json_t *hpa)
{
    const json_t *c = kube_condition(hpa, "ScalingLimited");
    int64_t age = doctor_age_ms(e, codec_json_str(c, "lastTransitionTime", NULL));

    if (!doctor_hpa_condition_is(hpa, "ScalingLimited", "True", "TooManyReplicas") ||
        age < LIMITED_MS)
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("The autoscaler wants more than maxReplicas (%lld) for %lld minutes.",
                  (long long)codec_json_int(hpa, 0, "spec", "maxReplicas", NULL),
                  (long long)age / 60000),
        gs_format("ScalingLimited: %s", doctor_hpa_message(hpa, "ScalingLimited")),
        gs_format("kubectl -n %s patch hpa %s --type=merge -p '{\"spec\":{\"maxReplicas\":%lld}}'",
                  kube_namespace(hpa), kube_name(hpa),
                  (long long)codec_json_int(hpa, 0, "spec", "maxReplicas", NULL) * 2));
}

void doctor_check_max_replicas(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_limited);
}

static void check_disabled(struct doctor_examination *e, const json_t *hpa)
{
    if (!doctor_hpa_condition_is(hpa, "ScalingActive", "False", "ScalingDisabled"))
        return;
    const json_t *ref = codec_json_get(hpa, "spec", "scaleTargetRef", NULL);
    doctor_report(e, "HorizontalPodAutoscaler", hpa,
                  gs_strdup("The autoscaler is disabled, because the target has 0 replicas."),
                  gs_format("ScalingDisabled: %s", doctor_hpa_message(hpa, "ScalingActive")),
                  gs_format("kubectl -n %s scale %s/%s --replicas=1", kube_namespace(hpa),
                            doctor_text(codec_json_str(ref, "kind", NULL)),
                            doctor_text(codec_json_str(ref, "name", NULL))));
}

void doctor_check_scaling_disabled(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_disabled);
}

static void check_request(struct doctor_examination *e, const json_t *hpa)
{
    const char *message = doctor_hpa_message(hpa, "ScalingActive");

    if (!doctor_hpa_condition_is(hpa, "ScalingActive", "False", NULL) ||
        !doctor_contains(message, "missing request"))
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_strdup("The utilization cannot be calculated, because a container has no request."),
        gs_format("%.400s", message),
        gs_strdup("resources:           # of every container of the target\n  requests:\n"
                  "    cpu: 500m"));
}

void doctor_check_request_missing(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_request);
}

static void check_other(struct doctor_examination *e, const json_t *hpa)
{
    const char *message = doctor_hpa_message(hpa, "ScalingActive");
    const json_t *c = kube_condition(hpa, "ScalingActive");
    int64_t age = doctor_age_ms(e, codec_json_str(c, "lastTransitionTime", NULL));

    if (!doctor_hpa_condition_is(hpa, "ScalingActive", "False", NULL) ||
        doctor_hpa_condition_is(hpa, "ScalingActive", "False", "ScalingDisabled") ||
        doctor_hpa_condition_is(hpa, "ScalingActive", "False", "AmbiguousSelector") ||
        doctor_contains(message, "missing request") || doctor_contains(message, "forbidden") ||
        age < 60000)
        return;
    doctor_report(e, "HorizontalPodAutoscaler", hpa,
                  gs_strdup("The autoscaler cannot calculate a number of replicas."),
                  gs_format("%s: %.400s", doctor_text(codec_json_str(c, "reason", NULL)), message),
                  gs_format("gpuscale explain hpa %s -n %s", kube_name(hpa), kube_namespace(hpa)));
}

void doctor_check_hpa_inactive(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_other);
}

// --- several controllers ---

static bool same_target(const json_t *a, const json_t *b)
{
    return gs_streq(codec_json_str(a, "kind", NULL), codec_json_str(b, "kind", NULL)) &&
           gs_streq(codec_json_str(a, "name", NULL), codec_json_str(b, "name", NULL));
}

void doctor_check_two_hpas(struct doctor_examination *e)
{
    const json_t *all = doctor_items(e, "hpas"), *a;
    size_t i;

    json_array_foreach (all, i, a) {
        const json_t *ref = codec_json_get(a, "spec", "scaleTargetRef", NULL);
        for (size_t k = i + 1; k < json_array_size(all); k++) {
            const json_t *b = json_array_get(all, k);
            if (!gs_streq(kube_namespace(a), kube_namespace(b)) ||
                !same_target(ref, codec_json_get(b, "spec", "scaleTargetRef", NULL)))
                continue;
            doctor_report(e, "HorizontalPodAutoscaler", b,
                          gs_format("Two autoscalers scale %s %s: %s and %s.",
                                    doctor_text(codec_json_str(ref, "kind", NULL)),
                                    doctor_text(codec_json_str(ref, "name", NULL)), kube_name(a),
                                    kube_name(b)),
                          gs_strdup("their spec.scaleTargetRef are equal"),
                          gs_format("Put all metrics into one: the highest proposal counts.\n"
                                    "kubectl -n %s delete hpa %s",
                                    kube_namespace(b), kube_name(b)));
        }
    }
}

// Another autoscaler of the same target is a finding of its own, and the cause.
static bool shares_target(const struct doctor_examination *e, const json_t *hpa)
{
    const json_t *ref = codec_json_get(hpa, "spec", "scaleTargetRef", NULL), *other;
    size_t i;

    json_array_foreach (doctor_items(e, "hpas"), i, other)
        if (other != hpa && gs_streq(kube_namespace(other), kube_namespace(hpa)) &&
            same_target(ref, codec_json_get(other, "spec", "scaleTargetRef", NULL)))
            return true;
    return false;
}

static void check_ambiguous(struct doctor_examination *e, const json_t *hpa)
{
    if (!doctor_hpa_condition_is(hpa, "ScalingActive", "False", "AmbiguousSelector") ||
        shares_target(e, hpa))
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_strdup("The pods of the target are also selected by another autoscaler's target."),
        gs_format("%.400s", doctor_hpa_message(hpa, "ScalingActive")),
        gs_strdup("Give the two Deployments different labels in spec.selector and in the template "
                  "(a selector cannot be changed: create the Deployment again)"));
}

void doctor_check_ambiguous_selector(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_ambiguous);
}

static void check_foreign_pods(struct doctor_examination *e, const json_t *hpa)
{
    const json_t *target = doctor_hpa_target(e, hpa), *pod;
    const json_t *selector = codec_json_get(target, "spec", "selector", NULL);
    GS_AUTO_FREE char *prefix = gs_format("%s-", doctor_text(kube_name(target)));
    size_t i;

    if (!target || !selector)
        return;
    json_array_foreach (doctor_pods_of(e, kube_namespace(target)), i, pod) {
        const json_t *owner = kube_controller_ref(pod);
        const char *name = codec_json_str(owner, "name", NULL);
        if (kube_is_deleting(pod) || !doctor_label_selects(selector, pod) ||
            (name && (gs_starts(name, prefix) || gs_streq(name, kube_name(target)))))
            continue;
        GS_AUTO_FREE char *labels = doctor_labels_text(json_object_get(selector, "matchLabels"));
        doctor_report(
            e, "HorizontalPodAutoscaler", hpa,
            gs_format("The target's selector also matches Pod %s, which %s owns.", kube_name(pod),
                      name ? name : "nobody"),
            gs_format("selector %s; the autoscaler counts this pod and its metric", labels),
            gs_strdup("Give the pods of the target a label of their own in spec.selector and in "
                      "the template"));
        return;
    }
}

void doctor_check_selector_overlap(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_foreign_pods);
}

static void check_keda(struct doctor_examination *e, const json_t *hpa)
{
    size_t i;
    const json_t *scaled;

    if (gs_streq(codec_json_str(kube_controller_ref(hpa), "kind", NULL), "ScaledObject"))
        return;
    json_array_foreach (doctor_items(e, "scaledobjects"), i, scaled) {
        const json_t *ref = codec_json_get(scaled, "spec", "scaleTargetRef", NULL);
        const json_t *own = codec_json_get(hpa, "spec", "scaleTargetRef", NULL);
        const char *kind = codec_json_str(ref, "kind", NULL);
        if (!gs_streq(kube_namespace(scaled), kube_namespace(hpa)) ||
            !gs_streq(codec_json_str(ref, "name", NULL), codec_json_str(own, "name", NULL)) ||
            (kind && !gs_streq(kind, codec_json_str(own, "kind", NULL))))
            continue;
        doctor_report(
            e, "HorizontalPodAutoscaler", hpa,
            gs_format("ScaledObject %s of KEDA scales the same target.", kube_name(scaled)),
            gs_format("both scale %s %s", doctor_text(codec_json_str(own, "kind", NULL)),
                      doctor_text(codec_json_str(own, "name", NULL))),
            gs_format("kubectl -n %s delete hpa %s   # and add its metric as a trigger of the "
                      "ScaledObject",
                      kube_namespace(hpa), kube_name(hpa)));
    }
}

void doctor_check_keda_and_hpa(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_keda);
}

static void check_vpa(struct doctor_examination *e, const json_t *hpa)
{
    size_t i;
    const json_t *vpa;
    bool resources = false;

    json_array_foreach (doctor_hpa_metrics(hpa), i, vpa)
        resources = resources || gs_streq(codec_json_str(vpa, "type", NULL), "Resource");
    json_array_foreach (doctor_items(e, "verticalpodautoscalers"), i, vpa) {
        const char *mode = codec_json_str(vpa, "spec", "updatePolicy", "updateMode", NULL);
        if (!resources || gs_streq(mode, "Off") ||
            !gs_streq(kube_namespace(vpa), kube_namespace(hpa)) ||
            !same_target(codec_json_get(vpa, "spec", "targetRef", NULL),
                         codec_json_get(hpa, "spec", "scaleTargetRef", NULL)))
            continue;
        doctor_report(
            e, "HorizontalPodAutoscaler", hpa,
            gs_format("VerticalPodAutoscaler %s changes the requests that this autoscaler divides "
                      "by.",
                      kube_name(vpa)),
            gs_format("updateMode %s, and a Resource metric", mode ? mode : "Auto"),
            gs_format("kubectl -n %s patch vpa %s --type=merge -p "
                      "'{\"spec\":{\"updatePolicy\":{\"updateMode\":\"Off\"}}}'",
                      kube_namespace(vpa), kube_name(vpa)));
    }
}

void doctor_check_vpa_and_hpa(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_vpa);
}

// Whether a manager of the object wrote spec.replicas after the autoscaler's last scaling.
static const json_t *other_writer(const struct doctor_examination *e, const json_t *target,
                                  const char *last_scale)
{
    int64_t scaled = doctor_age_ms(e, last_scale);
    size_t i;
    const json_t *field;

    json_array_foreach (codec_json_get(target, "metadata", "managedFields", NULL), i, field) {
        const char *manager = doctor_text(codec_json_str(field, "manager", NULL));
        int64_t age = doctor_age_ms(e, codec_json_str(field, "time", NULL));
        if (codec_json_get(field, "fieldsV1", "f:spec", "f:replicas", NULL) && scaled >= 0 &&
            age >= 0 && age + 5000 < scaled && !gs_streq(manager, "kube-controller-manager") &&
            !gs_starts(manager, "gpuscale"))
            return field;
    }
    return NULL;
}

static void check_writer(struct doctor_examination *e, const json_t *hpa)
{
    const json_t *target = doctor_hpa_target(e, hpa);
    const char *last = codec_json_str(hpa, "status", "lastScaleTime", NULL);
    const json_t *field = target && last ? other_writer(e, target, last) : NULL;

    if (!field)
        return;
    const char *manager = doctor_text(codec_json_str(field, "manager", NULL));
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format(
            "%s also writes spec.replicas of the target, after the autoscaler's last scaling.",
            manager),
        gs_format("managedFields: %s wrote f:replicas at %s; lastScaleTime %s", manager,
                  doctor_text(codec_json_str(field, "time", NULL)), last),
        gs_strdup("Remove spec.replicas from the manifest. Argo CD: ignoreDifferences with "
                  "jsonPointers: [/spec/replicas]"));
}

void doctor_check_replicas_written(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_writer);
}

// --- flapping ---

static void check_flapping(struct doctor_examination *e, const json_t *hpa)
{
    size_t i;
    const json_t *event;
    int64_t up = 0, down = 0;

    json_array_foreach (doctor_items(e, "events"), i, event) {
        const json_t *about = json_object_get(event, "involvedObject");
        const char *message = codec_json_str(event, "message", NULL);
        const char *time = codec_json_str(event, "lastTimestamp", NULL);
        int64_t age = doctor_age_ms(e, time ? time : codec_json_str(event, "eventTime", NULL));
        int64_t count = codec_json_int(event, 1, "count", NULL);
        if (!gs_streq(codec_json_str(event, "reason", NULL), "SuccessfulRescale") || age < 0 ||
            age > 1800000 || !gs_streq(codec_json_str(about, "name", NULL), kube_name(hpa)) ||
            !gs_streq(codec_json_str(about, "namespace", NULL), kube_namespace(hpa)))
            continue;
        count = count < 1 ? 1 : count > 1000 ? 1000 : count;
        up += doctor_contains(message, "above target") ? count : 0;
        down += doctor_contains(message, "below target") ? count : 0;
    }
    if (up < 3 || down < 3)
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("The autoscaler alternates between scale-up and scale-down: %lld times up and "
                  "%lld times down within 30 "
                  "minutes.",
                  (long long)up, (long long)down),
        gs_strdup(
            "events SuccessfulRescale; from N to N-1 replicas each of the others gets N/(N-1) "
            "of its load, which is above the target again"),
        gs_format(
            "kubectl -n %s patch hpa %s --type=merge -p '{\"spec\":{\"behavior\":{\"scaleDown\":"
            "{\"stabilizationWindowSeconds\":600,\"policies\":[{\"type\":\"Pods\",\"value\":1,"
            "\"periodSeconds\":120}]}}}}'",
            kube_namespace(hpa), kube_name(hpa)));
}

void doctor_check_flapping(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_flapping);
}
