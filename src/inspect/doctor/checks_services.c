// SPDX-License-Identifier: Apache-2.0
// Checks of Services without endpoints: a selector or the name of a port that fits no pod. That the
// pods of a Service do not run, or are scaled to zero, is not a fault of the Service.
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

#define MIN_AGE_MS 60000 // the objects of a chart are created one after the other

static const char *const workloads[][2] = {
    {"deployments", "Deployment"}, {"statefulsets", "StatefulSet"}, {"daemonsets", "DaemonSet"}};

static const json_t *selector_of(const json_t *service)
{
    return codec_json_get(service, "spec", "selector", NULL);
}

static const json_t *template_of(const json_t *workload)
{
    return codec_json_get(workload, "spec", "template", NULL);
}

static bool is_near(const json_t *service, const json_t *obj)
{
    return gs_streq(kube_namespace(service), kube_namespace(obj));
}

static bool has_endpoints(const struct doctor_examination *e, const json_t *service)
{
    size_t i;
    const json_t *slice;

    json_array_foreach (doctor_items(e, "endpointslices"), i, slice)
        if (is_near(service, slice) &&
            gs_streq(kube_label(slice, "kubernetes.io/service-name"), kube_name(service)) &&
            json_array_size(json_object_get(slice, "endpoints")))
            return true;
    return false;
}

// Headless Services without pods are usual: charts have them for the control plane's programs,
// which managed clusters do not show.
static bool is_examined(const struct doctor_examination *e, const json_t *service)
{
    return json_object_size(selector_of(service)) &&
           !gs_streq(codec_json_str(service, "spec", "clusterIP", NULL), "None") &&
           !gs_streq(codec_json_str(service, "spec", "type", NULL), "ExternalName") &&
           doctor_age_ms(e, kube_created(service)) >= MIN_AGE_MS && !has_endpoints(e, service);
}

// --- the selector ---

static bool selects_any(const struct doctor_examination *e, const json_t *service)
{
    size_t i;
    const json_t *obj;

    json_array_foreach (doctor_items(e, "pods"), i, obj)
        if (is_near(service, obj) && doctor_selects(selector_of(service), obj))
            return true;
    for (size_t k = 0; k < GS_ARRAY_LEN(workloads); k++)
        json_array_foreach (doctor_items(e, workloads[k][0]), i, obj)
            if (is_near(service, obj) && doctor_selects(selector_of(service), template_of(obj)))
                return true;
    return false;
}

static bool listens(const json_t *workload, const json_t *service)
{
    size_t i, k, n;
    const json_t *port, *container, *other;

    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, port) {
        const json_t *target = json_object_get(port, "targetPort");
        target = target ? target : json_object_get(port, "port");
        json_array_foreach (codec_json_get(doctor_pod_spec(workload), "containers", NULL), k,
                            container)
            json_array_foreach (json_object_get(container, "ports"), n, other)
                if (json_equal(
                        target,
                        json_object_get(other, json_is_string(target) ? "name" : "containerPort")))
                    return true;
    }
    return false;
}

static bool shares_name(const json_t *workload, const json_t *service)
{
    static const char *const keys[] = {"app", "app.kubernetes.io/name", "name", "k8s-app", NULL};
    const json_t *labels = codec_json_get(template_of(workload), "metadata", "labels", NULL);

    for (size_t i = 0; keys[i]; i++) {
        const char *want = codec_json_str(selector_of(service), keys[i], NULL);
        if (want && gs_streq(want, codec_json_str(labels, keys[i], NULL)))
            return true;
    }
    return gs_streq(kube_name(workload), kube_name(service));
}

// The workload that the Service is probably for; *ret_kind is its kind. NULL: none.
static const json_t *meant_workload(const struct doctor_examination *e, const json_t *service,
                                    const char **ret_kind)
{
    for (int by_port = 0; by_port < 2; by_port++)
        for (size_t k = 0; k < GS_ARRAY_LEN(workloads); k++) {
            size_t i;
            const json_t *obj;
            json_array_foreach (doctor_items(e, workloads[k][0]), i, obj) {
                *ret_kind = workloads[k][1];
                if (is_near(service, obj) &&
                    (by_port ? listens(obj, service) : shares_name(obj, service)))
                    return obj;
            }
        }
    return NULL;
}

static void check_selector(struct doctor_examination *e, const json_t *service)
{
    const char *kind = NULL;
    if (!is_examined(e, service) || selects_any(e, service))
        return;
    const json_t *workload = meant_workload(e, service, &kind);
    if (!workload)
        return;
    GS_AUTO_FREE char *want = doctor_labels_text(selector_of(service));
    const json_t *labels = codec_json_get(template_of(workload), "metadata", "labels", NULL);
    GS_AUTO_FREE char *have = doctor_labels_text(labels);
    GS_AUTO_FREE char *yaml = doctor_labels_yaml(labels);
    doctor_report(e, "Service", service, gs_strdup("The Service selects no pod."),
                  gs_format("its selector is %s; pods of %s %s have %s", want, kind,
                            kube_name(workload), have),
                  gs_format("kubectl -n %s edit service %s   # spec.selector: {%s}",
                            kube_namespace(service), kube_name(service), yaml));
}

void doctor_check_service_selector(struct doctor_examination *e)
{
    size_t i;
    const json_t *service;

    if (!doctor_items(e, "pods") || !doctor_items(e, "endpointslices"))
        return;
    for (size_t k = 0; k < GS_ARRAY_LEN(workloads); k++)
        if (!doctor_items(e, workloads[k][0]))
            return;
    json_array_foreach (doctor_items(e, "services"), i, service)
        check_selector(e, service);
}

// --- names of ports ---

// Whether a pod that the Service selects has a port of this name. *ret_pod: one of them.
static bool has_port(const struct doctor_examination *e, const json_t *service, const char *name,
                     const json_t **ret_pod)
{
    size_t i, k, n;
    const json_t *pod, *container, *port;

    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        if (!is_near(service, pod) || !doctor_selects(selector_of(service), pod))
            continue;
        *ret_pod = pod;
        json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), k, container)
            json_array_foreach (json_object_get(container, "ports"), n, port)
                if (gs_streq(codec_json_str(port, "name", NULL), name))
                    return true;
    }
    return false;
}

// "http 8080, metrics 9090", caller frees.
static char *ports_text(const json_t *pod)
{
    struct gs_buf text = {0};
    size_t i, k;
    const json_t *container, *port;

    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, container)
        json_array_foreach (json_object_get(container, "ports"), k, port)
            gs_buf_addf(&text, "%s%s %lld", text.len ? ", " : "",
                        doctor_text(codec_json_str(port, "name", NULL)),
                        (long long)codec_json_int(port, 0, "containerPort", NULL));
    return text.len ? gs_buf_take(&text) : gs_strdup("none");
}

static void check_ports(struct doctor_examination *e, const json_t *service)
{
    size_t i;
    const json_t *port, *pod = NULL;

    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, port) {
        const char *target = codec_json_str(port, "targetPort", NULL);
        if (!target || has_port(e, service, target, &pod) || !pod)
            continue;
        GS_AUTO_FREE char *ports = ports_text(pod);
        doctor_report(
            e, "Service", service,
            gs_format("The Service sends requests to the port %s, which no container has.", target),
            gs_format("ports of Pod %s: %s", kube_name(pod), ports),
            gs_format("kubectl -n %s patch service %s --type=json -p '[{\"op\":\"replace\","
                      "\"path\":\"/spec/ports/%zu/targetPort\",\"value\":PORT}]'   # a number or "
                      "name of these",
                      kube_namespace(service), kube_name(service), i));
    }
}

void doctor_check_service_port(struct doctor_examination *e)
{
    size_t i;
    const json_t *service;

    json_array_foreach (doctor_items(e, "services"), i, service)
        if (doctor_items(e, "endpointslices") && is_examined(e, service))
            check_ports(e, service);
}
