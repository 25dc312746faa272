// SPDX-License-Identifier: Apache-2.0
// Access to the facts.
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/engine_url.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "kube/selector.h"
#include "nodes/scheduling.h"
#include "slo/slo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const json_t *doctor_items(const struct doctor_examination *e, const char *list)
{
    return codec_json_get(e->kube, list, "items", NULL);
}

bool doctor_known(const struct doctor_examination *e, const char *list)
{
    return doctor_items(e, list) || doctor_absent(e, list);
}

bool doctor_absent(const struct doctor_examination *e, const char *list)
{
    return codec_json_bool(e->kube, false, list, "absent", NULL);
}

const json_t *doctor_find(const struct doctor_examination *e, const char *list, const char *ns,
                          const char *name)
{
    size_t i;
    const json_t *obj;

    if (e->index && name)
        return doctor_index_find(e->index, doctor_items(e, list), list, ns, name);
    json_array_foreach (doctor_items(e, list), i, obj)
        if (gs_streq(kube_name(obj), name) && (!ns || gs_streq(kube_namespace(obj), ns)))
            return obj;
    return NULL;
}

const json_t *doctor_pods_of(const struct doctor_examination *e, const char *ns)
{
    gs_assert(e->index);
    return doctor_index_group(e->index, doctor_items(e, "pods"), "pods", ns);
}

const json_t *doctor_query(const struct doctor_examination *e, const char *name)
{
    return codec_json_get(e->prometheus, "queries", name, "result", NULL);
}

double doctor_sample_value(const json_t *sample)
{
    const char *text = json_string_value(json_array_get(json_object_get(sample, "value"), 1));
    char *end = NULL;
    double v = text ? strtod(text, &end) : NAN;

    return text && end != text ? v : NAN;
}

const char *doctor_sample_label(const json_t *sample, const char *label)
{
    const char *value = codec_json_str(sample, "metric", label, NULL);
    return value && *value ? value : NULL;
}

static struct gs_slice sample_text(const void *sample, const char *label)
{
    return gs_slice_of(codec_json_str(sample, "metric", label, NULL));
}

// Whether the pod of a sample is that of the scraped exporter: the cluster knows its container, and
// Prometheus the labels of its targets.
static bool is_target(const struct doctor_examination *e, const json_t *sample, const char *ns,
                      const char *name)
{
    const json_t *pod = doctor_find(e, "pods", *ns ? ns : NULL, name), *target;
    size_t i;

    if (pod)
        return doctor_container_of(pod, DOCTOR_EXPORTER_ROLE) != NULL;
    json_array_foreach (codec_json_get(e->prometheus, "targets", "activeTargets", NULL), i,
                        target) {
        const json_t *labels = json_object_get(target, "labels");
        if (gs_streq(codec_json_str(labels, "pod", NULL), name) &&
            gs_streq(codec_json_str(labels, "job", NULL), doctor_sample_label(sample, "job")) &&
            gs_streq(codec_json_str(labels, "instance", NULL),
                     doctor_sample_label(sample, "instance")))
            return true;
    }
    return false;
}

struct metrics_gpu_pod doctor_gpu_owner(const struct doctor_examination *e, const json_t *sample)
{
    const struct metrics_gpu_series series = {sample_text, sample};
    const char *pod = doctor_text(doctor_sample_label(sample, "pod"));
    const struct metrics_gpu_target own = {doctor_text(doctor_sample_label(sample, "namespace")),
                                           pod, ""};

    return metrics_gpu_owner(&series, *pod && is_target(e, sample, own.ns, pod) ? &own : NULL);
}

int64_t doctor_age_ms(const struct doctor_examination *e, const char *time)
{
    int64_t ms = 0;
    GS_AUTO_ERROR struct gs_error *err =
        time ? gs_parse_rfc3339(gs_slice_of(time), &ms) : gs_error_new(GS_EINVAL, "no time");

    return err || ms > e->now_ms ? -1 : e->now_ms - ms;
}

char *doctor_subject(const char *kind, const json_t *obj)
{
    GS_AUTO_FREE char *key = kube_key(obj);
    return gs_format("%s %s", kind, key);
}

bool doctor_contains(const char *text, const char *part)
{
    return text && part && strstr(text, part);
}

// --- workloads ---

bool doctor_pod_has_image(const json_t *pod, const char *const *images)
{
    size_t i;
    const json_t *container;

    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, container)
        for (size_t n = 0; images[n]; n++)
            if (doctor_contains(codec_json_str(container, "image", NULL), images[n]))
                return true;
    return false;
}

const json_t *doctor_pod_spec(const json_t *obj)
{
    const json_t *spec = codec_json_get(obj, "spec", "template", "spec", NULL);
    return spec ? spec : json_object_get(obj, "spec");
}

// Whether one of the first words of the command line is the subcommand.
static bool runs_command(const json_t *container, const char *command)
{
    return codec_json_has_string(json_object_get(container, "args"), command) ||
           codec_json_has_string(json_object_get(container, "command"), command);
}

static bool has_role(const json_t *container, enum doctor_role role)
{
    const char *image = codec_json_str(container, "image", NULL);
    const char *name = codec_json_str(container, "name", NULL);
    bool ours = doctor_contains(image, "gpuscale");

    switch (role) {
    case DOCTOR_EXPORTER_ROLE:
        return doctor_contains(image, "dcgm-exporter") || doctor_contains(name, "dcgm-exporter") ||
               (ours && runs_command(container, "exporter"));
    case DOCTOR_ADAPTER_ROLE:
        return doctor_contains(image, "prometheus-adapter") ||
               (ours && runs_command(container, "adapter"));
    case DOCTOR_PLUGIN_ROLE:
        return doctor_contains(image, "k8s-device-plugin") ||
               doctor_contains(image, "nvidia-gpu-device-plugin");
    case DOCTOR_PROMETHEUS_ROLE:
        return doctor_contains(image, "prometheus/prometheus:") ||
               doctor_contains(image, "prom/prometheus") ||
               (ours && runs_command(container, "engine"));
    }
    return false;
}

const json_t *doctor_container_of(const json_t *obj, enum doctor_role role)
{
    size_t i;
    const json_t *container;

    json_array_foreach (json_object_get(doctor_pod_spec(obj), "containers"), i, container)
        if (has_role(container, role))
            return container;
    return NULL;
}

// words: an array of the words of a command line. Returns the value of the flag.
static const char *flag_in(const json_t *words, const char *flag)
{
    size_t n = strlen(flag), i;
    const json_t *word;

    json_array_foreach (words, i, word) {
        const char *text = json_string_value(word);
        if (!text || strncmp(text, flag, n) != 0)
            continue;
        if (text[n] == '=')
            return text + n + 1;
        if (!text[n])
            return json_string_value(json_array_get(words, i + 1));
    }
    return NULL;
}

const char *doctor_flag(const json_t *container, const char *flag)
{
    const char *value = flag_in(json_object_get(container, "args"), flag);
    return value ? value : flag_in(json_object_get(container, "command"), flag);
}

const char *doctor_env(const json_t *container, const char *name)
{
    size_t i;
    const json_t *var;

    json_array_foreach (json_object_get(container, "env"), i, var)
        if (gs_streq(codec_json_str(var, "name", NULL), name))
            return codec_json_str(var, "value", NULL);
    return NULL;
}

const json_t *doctor_container_status(const json_t *pod, const char *container)
{
    size_t i;
    const json_t *status;

    json_array_foreach (codec_json_get(pod, "status", "containerStatuses", NULL), i, status)
        if (gs_streq(codec_json_str(status, "name", NULL), container))
            return status;
    return NULL;
}

// --- nodes ---

static bool is_gpu_resource(const char *name)
{
    return gs_streq(name, NODES_GPU) || gs_starts(name, "nvidia.com/mig-") ||
           gs_streq(name, NODES_GPU_SHARED);
}

int64_t doctor_gpus(const json_t *resources)
{
    const char *name;
    json_t *value;
    int64_t n = 0;

    json_object_foreach ((json_t *)resources, name, value) {
        int64_t v = 0;
        const char *text = json_string_value(value);
        struct gs_error *err =
            is_gpu_resource(name) && text ? kube_quantity_parse_value(gs_slice_of(text), &v) : NULL;
        n += err || v < 0 || v > INT32_MAX ? 0 : v;
        gs_error_free(err);
    }
    return n;
}

int64_t doctor_pod_gpus(const json_t *pod)
{
    CODEC_AUTO_JSON json_t *requests = nodes_pod_requests(pod);
    const char *name;
    json_t *value;
    int64_t n = 0;

    json_object_foreach (requests, name, value)
        if (is_gpu_resource(name))
            n += json_integer_value(value) / 1000;
    return n;
}

static const struct {
    const char *label, *value; // NULL: any value; with * at the end: the beginning
} gpu_labels[] = {
    {"nvidia.com/gpu.present", "true"},
    {"nvidia.com/gpu.count", NULL},
    {"nvidia.com/gpu.product", NULL},
    {"feature.node.kubernetes.io/pci-10de.present", "true"},
    {"cloud.google.com/gke-accelerator", NULL},
    {"k8s.amazonaws.com/accelerator", NULL},
    {"karpenter.k8s.aws/instance-gpu-count", NULL},
    {"aliyun.accelerator/nvidia_name", NULL},
    {"accelerator", "nvidia*"},
    {"node.kubernetes.io/instance-type", "g4dn."},
    {"node.kubernetes.io/instance-type", "g5."},
    {"node.kubernetes.io/instance-type", "g6."},
    {"node.kubernetes.io/instance-type", "p3."},
    {"node.kubernetes.io/instance-type", "p4d."},
    {"node.kubernetes.io/instance-type", "p5."},
};

static bool label_says_gpu(const json_t *node)
{
    for (size_t i = 0; i < sizeof gpu_labels / sizeof *gpu_labels; i++) {
        const char *value = kube_label(node, gpu_labels[i].label), *want = gpu_labels[i].value;
        size_t n = want ? strcspn(want, "*") : 0;
        bool prefix = want && (want[n] || want[n - 1] == '.');
        if (value && *value &&
            (!want || (prefix ? !strncmp(value, want, n) : gs_streq(value, want))))
            return true;
    }
    return false;
}

bool doctor_is_gpu_node(const json_t *node)
{
    return doctor_gpus(codec_json_get(node, "status", "capacity", NULL)) > 0 ||
           label_says_gpu(node);
}

bool doctor_node_ready(const json_t *node)
{
    return kube_condition_true(node, "Ready");
}

// --- selectors ---

bool doctor_selects(const json_t *map, const json_t *obj)
{
    GS_CLEANUP(kube_selector_finish) struct kube_selector s = {0};

    if (!json_object_size(map))
        return false;
    kube_selector_from_map(map, &s);
    return kube_selector_matches(&s, codec_json_get(obj, "metadata", "labels", NULL));
}

bool doctor_label_selects(const json_t *label_selector, const json_t *obj)
{
    GS_CLEANUP(kube_selector_finish) struct kube_selector s = {0};
    GS_AUTO_ERROR struct gs_error *err = kube_selector_from_json(label_selector, &s);

    return !err && kube_selector_matches(&s, codec_json_get(obj, "metadata", "labels", NULL));
}

static bool changes_at_rollout(const char *label)
{
    return gs_streq(label, "pod-template-hash") || gs_streq(label, "controller-revision-hash") ||
           gs_streq(label, "pod-template-generation");
}

static char *join_labels(const json_t *map, const char *separator, bool yaml)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)map, name, value) {
        const char *text = doctor_text(json_string_value(value));
        if (yaml && changes_at_rollout(name))
            continue;
        gs_buf_add_str(&out, out.len ? separator : "");
        gs_buf_addf(&out, yaml ? "%s: \"%s\"" : "%s=%s", name, text);
    }
    return gs_buf_take(&out);
}

char *doctor_labels_text(const json_t *map)
{
    return join_labels(map, ",", false);
}

char *doctor_labels_words(const json_t *map)
{
    return join_labels(map, " ", false);
}

char *doctor_labels_yaml(const json_t *map)
{
    return join_labels(map, ", ", true);
}

// --- names ---

const char *doctor_text(const char *text)
{
    return text ? text : "";
}

// The parts of gpuscale besides the exporter are not about GPUs.
bool doctor_is_gpu_name(const char *name)
{
    if (!name)
        return false;
    for (const char *p = name; (p = strcasestr(p, "gpu")); p += 3)
        if (strncasecmp(p, "gpuscale", 8) != 0 || strncasecmp(p, "gpuscale-exporter", 17) == 0)
            return true;
    return strcasestr(name, "dcgm") || strcasestr(name, "nvidia");
}

const char *doctor_event_with(const struct doctor_examination *e, const json_t *obj,
                              const char *text)
{
    size_t i;
    const json_t *event;

    json_array_foreach (doctor_items(e, "events"), i, event) {
        const char *message = codec_json_str(event, "message", NULL);
        const json_t *about = json_object_get(event, "involvedObject");
        if (gs_streq(codec_json_str(about, "name", NULL), kube_name(obj)) &&
            gs_streq(codec_json_str(about, "namespace", NULL), kube_namespace(obj)) &&
            doctor_contains(message, text))
            return message;
    }
    return NULL;
}

// --- autoscalers ---

const json_t *doctor_hpa_metric(const json_t *metric)
{
    static const char *const types[] = {"pods", "object", "external", NULL};

    for (size_t i = 0; types[i]; i++) {
        const json_t *m = codec_json_get(metric, types[i], "metric", NULL);
        if (m)
            return m;
    }
    return NULL;
}

// A controller of gpuscale has the value of this metric itself, and calculates with it.
bool doctor_hpa_decides(const json_t *hpa, const json_t *metric)
{
    const char *name = codec_json_str(doctor_hpa_metric(metric), "name", NULL);
    return gs_streq(name, SLO_METRIC_DESIRED) && kube_annotation(hpa, SLO_ANNOTATION) &&
           kube_condition_true(hpa, "ScalingActive");
}

bool doctor_hpa_uses(const struct doctor_examination *e, const char *type, const char *metric)
{
    size_t i, k;
    const json_t *hpa, *m;

    json_array_foreach (doctor_items(e, "hpas"), i, hpa)
        json_array_foreach (codec_json_get(hpa, "spec", "metrics", NULL), k, m)
            if (!doctor_hpa_decides(hpa, m) &&
                (!type || gs_streq(codec_json_str(m, "type", NULL), type)) &&
                (!metric || gs_streq(codec_json_str(doctor_hpa_metric(m), "name", NULL), metric)))
                return true;
    return false;
}

const json_t *doctor_hpa_target(const struct doctor_examination *e, const json_t *hpa)
{
    const json_t *ref = codec_json_get(hpa, "spec", "scaleTargetRef", NULL);
    const char *kind = codec_json_str(ref, "kind", NULL);
    const char *list = gs_streq(kind, "Deployment")    ? "deployments"
                       : gs_streq(kind, "StatefulSet") ? "statefulsets"
                                                       : NULL;
    return list ? doctor_find(e, list, kube_namespace(hpa), codec_json_str(ref, "name", NULL))
                : NULL;
}

// --- Prometheus ---

// A Service with an address of its own is preferred.
static const json_t *service_of_pod(const struct doctor_examination *e, const json_t *pod)
{
    const json_t *best = NULL, *service;
    size_t i;

    json_array_foreach (doctor_items(e, "services"), i, service) {
        bool headless = gs_streq(codec_json_str(service, "spec", "clusterIP", NULL), "None");
        if (!gs_streq(kube_namespace(service), kube_namespace(pod)) ||
            !kube_engine_service_port(service) ||
            !doctor_selects(codec_json_get(service, "spec", "selector", NULL), pod))
            continue;
        if (!headless)
            return service;
        best = service;
    }
    return best;
}

const json_t *doctor_prometheus_service(const struct doctor_examination *e, int64_t *ret_port)
{
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        const json_t *service =
            doctor_container_of(pod, DOCTOR_PROMETHEUS_ROLE) ? service_of_pod(e, pod) : NULL;
        if (service) {
            *ret_port = codec_json_int(kube_engine_service_port(service), 9090, "port", NULL);
            return service;
        }
    }
    return NULL;
}
