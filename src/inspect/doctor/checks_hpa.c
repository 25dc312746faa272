// SPDX-License-Identifier: Apache-2.0
// Checks of the targets and the metrics of HorizontalPodAutoscalers.
#include "base/mem.h"
#include "base/option.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

#include <string.h>

#define MAX_VALUE_AGE_MS 180000

const json_t *doctor_hpa_metrics(const json_t *hpa)
{
    return codec_json_get(hpa, "spec", "metrics", NULL);
}

static const json_t *answer_of(const struct doctor_examination *e, const json_t *hpa, size_t i)
{
    GS_AUTO_FREE char *key = kube_key(hpa);
    return json_array_get(codec_json_get(e->facts, "metrics", key, NULL), i);
}

const char *doctor_hpa_metric_name(const json_t *metric)
{
    return codec_json_str(doctor_hpa_metric(metric), "name", NULL);
}

const char *doctor_hpa_message(const json_t *hpa, const char *type)
{
    return doctor_text(codec_json_str(kube_condition(hpa, type), "message", NULL));
}

bool doctor_hpa_condition_is(const json_t *hpa, const char *type, const char *status,
                             const char *reason)
{
    const json_t *c = kube_condition(hpa, type);
    return c && gs_streq(codec_json_str(c, "status", NULL), status) &&
           (!reason || gs_streq(codec_json_str(c, "reason", NULL), reason));
}

void doctor_each_hpa(struct doctor_examination *e,
                     void (*check)(struct doctor_examination *e, const json_t *hpa))
{
    size_t i;
    const json_t *hpa;

    json_array_foreach (doctor_items(e, "hpas"), i, hpa)
        check(e, hpa);
}

void doctor_each_hpa_metric(struct doctor_examination *e,
                            void (*check)(struct doctor_examination *e, const json_t *hpa,
                                          const json_t *metric, const json_t *answer))
{
    size_t i, k;
    const json_t *hpa, *metric;

    json_array_foreach (doctor_items(e, "hpas"), i, hpa)
        json_array_foreach (doctor_hpa_metrics(hpa), k, metric)
            if (!doctor_hpa_decides(hpa, metric))
                check(e, hpa, metric, answer_of(e, hpa, k));
}

// --- the target ---

static void check_target(struct doctor_examination *e, const json_t *hpa)
{
    const json_t *ref = codec_json_get(hpa, "spec", "scaleTargetRef", NULL);
    const char *kind = doctor_text(codec_json_str(ref, "kind", NULL));
    const char *name = doctor_text(codec_json_str(ref, "name", NULL));

    if (!doctor_hpa_condition_is(hpa, "AbleToScale", "False", "FailedGetScale"))
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("The scale target %s %s cannot be read.", kind, name),
        gs_format("FailedGetScale: %s", doctor_hpa_message(hpa, "AbleToScale")),
        gs_format("kubectl -n %s get %s %s\nCompare kind, name, apiVersion and namespace with "
                  "spec.scaleTargetRef",
                  kube_namespace(hpa), kind, name));
}

void doctor_check_hpa_target(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_target);
}

static void check_forbidden(struct doctor_examination *e, const json_t *hpa)
{
    const char *message = doctor_hpa_message(hpa, "ScalingActive");

    if (!doctor_hpa_condition_is(hpa, "ScalingActive", "False", NULL) ||
        !doctor_contains(message, "forbidden"))
        return;
    doctor_report(e, "HorizontalPodAutoscaler", hpa,
                  gs_strdup("The autoscaler's controller may not read the metrics API."),
                  gs_format("%.400s", message),
                  gs_strdup("kubectl create clusterrole custom-metrics-reader --verb=get,list "
                            "--resource='*.custom.metrics.k8s.io,*.external.metrics.k8s.io'\n"
                            "kubectl create clusterrolebinding hpa-custom-metrics "
                            "--clusterrole=custom-metrics-reader "
                            "--serviceaccount=kube-system:horizontal-pod-autoscaler"));
}

void doctor_check_hpa_forbidden(struct doctor_examination *e)
{
    doctor_each_hpa(e, check_forbidden);
}

// --- the metric ---

// Whether discovery lists the metric for a resource; ret_near: a similar name, borrowed.
static bool is_served(const struct doctor_examination *e, const char *api, const char *metric,
                      const char **ret_near)
{
    const json_t *resources = codec_json_get(e->facts, "apis", api, "resources", NULL), *resource;
    const char *names[256];
    size_t i, n = 0;

    *ret_near = NULL;
    json_array_foreach (resources, i, resource) {
        const char *name = doctor_text(codec_json_str(resource, "name", NULL));
        const char *slash = strrchr(name, '/');
        name = slash ? slash + 1 : name;
        if (gs_streq(name, metric))
            return true;
        if (n < sizeof names / sizeof *names)
            names[n++] = name;
    }
    *ret_near = gs_suggest(metric, names, n);
    return false;
}

static const char *api_of(const struct doctor_examination *e, const json_t *metric)
{
    if (gs_streq(codec_json_str(metric, "type", NULL), "External"))
        return "external.metrics.k8s.io/v1beta1";
    return codec_json_get(e->facts, "apis", "custom.metrics.k8s.io/v1beta1", "resources", NULL)
               ? "custom.metrics.k8s.io/v1beta1"
               : "custom.metrics.k8s.io/v1beta2";
}

static void check_served(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                         const json_t *answer)
{
    const char *name = doctor_hpa_metric_name(metric), *api = api_of(e, metric), *near;
    int64_t status = codec_json_int(answer, 0, "status", NULL);

    if (!name || status == 200 ||
        json_array_size(codec_json_get(answer, "others", "items", NULL)) ||
        !codec_json_get(e->facts, "apis", api, "resources", NULL) ||
        is_served(e, api, name, &near) || doctor_metric_is_retired(metric, answer) ||
        doctor_metric_is_diagnosed(e, hpa, metric, answer))
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("No metric of the name %s is served%s%s%s.", name,
                  near ? "; a similar one is " : "", near ? near : "", ""),
        gs_format("GET /apis/%s lists %zu metrics, not this one%s%.300s", api,
                  json_array_size(codec_json_get(e->facts, "apis", api, "resources", NULL)),
                  *doctor_hpa_message(hpa, "ScalingActive") ? "; " : "",
                  doctor_hpa_message(hpa, "ScalingActive")),
        near ? gs_format("kubectl -n %s edit hpa %s   # metric name: %s", kube_namespace(hpa),
                         kube_name(hpa), near)
             : gs_format("gpuscale check adapter --source=URL FILE   # which step of which rule "
                         "drops %s",
                         name));
}

void doctor_check_metric_not_served(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_served);
}

// Whether the object belongs to the target: a Service that selects its pods.
static bool is_of_target(const struct doctor_examination *e, const json_t *hpa,
                         const json_t *described)
{
    const json_t *template = codec_json_get(doctor_hpa_target(e, hpa), "spec", "template", NULL);
    const char *name = codec_json_str(described, "name", NULL);
    const json_t *service = name && gs_streq(codec_json_str(described, "kind", NULL), "Service")
                                ? doctor_find(e, "services", kube_namespace(hpa), name)
                                : NULL;

    return template && service &&
           doctor_selects(codec_json_get(service, "spec", "selector", NULL), template);
}

static void check_object(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                         const json_t *answer)
{
    const json_t *others = codec_json_get(answer, "others", "items", NULL), *item;
    const json_t *wanted = codec_json_get(metric, "object", "describedObject", NULL);
    GS_AUTO_BUF struct gs_buf names = {0};
    const char *right = NULL;
    bool certain = false;
    size_t i;

    if (codec_json_int(answer, 0, "status", NULL) != 404 || !json_array_size(others))
        return;
    json_array_foreach (others, i, item) {
        const char *name = codec_json_str(item, "describedObject", "name", NULL);
        if (!right ||
            (!certain && is_of_target(e, hpa, json_object_get(item, "describedObject")))) {
            right = name;
            certain = is_of_target(e, hpa, json_object_get(item, "describedObject"));
        }
        if (i < 5)
            gs_buf_addf(&names, "%s%s", names.len ? ", " : "", doctor_text(name));
    }
    const char *kind = doctor_text(codec_json_str(wanted, "kind", NULL));
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("The metric %s exists, but not for %s %s: it exists for %s.",
                  doctor_hpa_metric_name(metric), kind,
                  doctor_text(codec_json_str(wanted, "name", NULL)), names.data),
        gs_format("GET %s: 404", doctor_text(codec_json_str(answer, "path", NULL))),
        gs_format("describedObject:       # in the metric of HPA %s\n  kind: %s\n  name: %s",
                  kube_name(hpa), kind, doctor_text(right)));
}

void doctor_check_metric_wrong_object(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_object);
}

static bool target_has_running_pods(const struct doctor_examination *e, const json_t *hpa)
{
    const json_t *target = doctor_hpa_target(e, hpa);
    return !target || codec_json_int(target, 0, "status", "readyReplicas", NULL) > 0;
}

static void check_samples(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                          const json_t *answer)
{
    const char *name = doctor_hpa_metric_name(metric), *near;
    int64_t status = codec_json_int(answer, 0, "status", NULL);
    const json_t *items = codec_json_get(answer, "body", "items", NULL);
    bool empty = status == 200 && json_is_array(items) && !json_array_size(items);

    if (!name || (!empty && status != 404) ||
        json_array_size(codec_json_get(answer, "others", "items", NULL)) ||
        !is_served(e, api_of(e, metric), name, &near) || !target_has_running_pods(e, hpa) ||
        doctor_metric_is_diagnosed(e, hpa, metric, answer))
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("The metric %s is served, but has no value for this target.", name),
        gs_format("GET %s: %s", doctor_text(codec_json_str(answer, "path", NULL)),
                  empty ? "no items"
                        : doctor_text(codec_json_str(answer, "body", "message", NULL))),
        gs_format("gpuscale explain metric '%s'   # the query and its result\nUsual causes: the "
                  "series have exported_pod where the rule expects pod, metricsQuery lacks by "
                  "(<<.GroupBy>>), or the pods use no GPU",
                  doctor_text(codec_json_str(answer, "path", NULL))));
}

void doctor_check_metric_without_value(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_samples);
}

static void check_server_error(struct doctor_examination *e, const json_t *hpa,
                               const json_t *metric, const json_t *answer)
{
    int64_t status = codec_json_int(answer, 0, "status", NULL);
    const char *text = codec_json_str(answer, "body", "message", NULL);

    if (!doctor_hpa_metric_name(metric) || status < 500)
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("The metrics API answers with an error for %s.", doctor_hpa_metric_name(metric)),
        gs_format("GET %s: %lld %.300s", doctor_text(codec_json_str(answer, "path", NULL)),
                  (long long)status,
                  text ? text : doctor_text(json_string_value(json_object_get(answer, "body")))),
        gs_strdup("kubectl logs of the adapter names the cause; usually Prometheus does not answer "
                  "it, or metricsQuery is not valid PromQL (gpuscale check adapter FILE)"));
}

void doctor_check_metric_server_error(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_server_error);
}

static void check_age(struct doctor_examination *e, const json_t *hpa, const json_t *metric,
                      const json_t *answer)
{
    size_t i;
    const json_t *item;
    int64_t oldest = -1;

    json_array_foreach (codec_json_get(answer, "body", "items", NULL), i, item) {
        int64_t age = doctor_age_ms(e, codec_json_str(item, "timestamp", NULL));
        oldest = age > oldest ? age : oldest;
    }
    if (oldest < MAX_VALUE_AGE_MS || !doctor_hpa_metric_name(metric))
        return;
    doctor_report(
        e, "HorizontalPodAutoscaler", hpa,
        gs_format("The value of %s is %lld s old.", doctor_hpa_metric_name(metric),
                  (long long)oldest / 1000),
        gs_format("GET %s", doctor_text(codec_json_str(answer, "path", NULL))),
        gs_strdup("Check the scrape targets of the exporters and the adapter's connection to "
                  "Prometheus; shorten scrape intervals and windows of metricsQuery"));
}

void doctor_check_metric_old(struct doctor_examination *e)
{
    doctor_each_hpa_metric(e, check_age);
}
