// SPDX-License-Identifier: Apache-2.0
// The objects of a release of kube-prometheus-stack by which clients find its programs.
#include "engine/chart/chart.h"

#include "base/mem.h"

#define STACK "kube-prometheus-stack"

enum { PROMETHEUS_PORT = 9090, ALERTMANAGER_PORT = 9093, GRAFANA_PORT = 80 };

static const char *name_of(const struct chart_values *v)
{
    return v->release.name ? v->release.name : STACK;
}

const char *chart_release_namespace(const struct chart_values *v, const char *ns)
{
    return v->release.ns ? v->release.ns : ns;
}

static json_t *labels_of(const struct chart_values *v, const char *app)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "app", app, "release", STACK,
                     "app.kubernetes.io/instance", STACK, "app.kubernetes.io/part-of", name_of(v));
}

// selector NULL: nothing serves it here. Takes the reference.
static json_t *service(const struct chart_values *v, const char *ns, const char *name, int64_t port,
                       json_t *selector)
{
    json_t *spec = json_pack("{s:[{s:s, s:s, s:I}]}", "ports", "name", "http-web", "protocol",
                             "TCP", "port", (json_int_t)port);
    if (selector)
        json_object_set_new(spec, "selector", selector);
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:o}, s:o}", "apiVersion", "v1", "kind", "Service",
                     "metadata", "name", name, "namespace", chart_release_namespace(v, ns),
                     "labels", labels_of(v, name), "spec", spec);
}

static json_t *selector_of(const struct chart_values *v)
{
    GS_AUTO_FREE char *prometheus = gs_format("%s-prometheus", name_of(v));
    return json_pack("{s:s, s:s}", "app.kubernetes.io/name", "prometheus",
                     "operator.prometheus.io/name", prometheus);
}

static json_t *prometheus_service(const struct chart_values *v, const char *ns, uint16_t port)
{
    const struct chart_release *r = &v->release;
    GS_AUTO_FREE char *name = gs_format("%s-prometheus", name_of(v));
    json_t *s = service(v, ns, name, r->port > 0 ? r->port : PROMETHEUS_PORT, selector_of(v));
    json_t *spec = json_object_get(s, "spec");
    json_t *first = json_array_get(json_object_get(spec, "ports"), 0);
    codec_json_set_int(first, "targetPort", port);
    if (r->service_type)
        codec_json_set_str(spec, "type", r->service_type);
    if (r->node_port > 0 && !gs_streq(r->service_type, "ClusterIP") && r->service_type)
        codec_json_set_int(first, "nodePort", r->node_port);
    return s;
}

static void add_absent(const struct chart_values *v, const char *ns, const char *name, int64_t port,
                       const char *notice, const char *why, json_t *out)
{
    json_t *s = service(v, ns, name, port, NULL);
    codec_json_set(s, json_string(why), "metadata", "annotations", notice, NULL);
    json_array_append_new(out, s);
}

json_t *chart_release_objects(const struct chart_values *v, const char *ns, uint16_t port,
                              const char *notice)
{
    json_t *out = json_array();
    GS_AUTO_FREE char *alertmanager = gs_format("%s-alertmanager", name_of(v));
    json_array_append_new(out,
                          json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Namespace",
                                    "metadata", "name", chart_release_namespace(v, ns)));
    json_array_append_new(out, prometheus_service(v, ns, port));
    add_absent(v, ns, alertmanager, ALERTMANAGER_PORT, notice,
               "gpuscale up runs no Alertmanager: start one, and name it with --alertmanager "
               "HOST:PORT",
               out);
    GS_AUTO_FREE char *why = gs_format(
        "gpuscale up runs no Grafana: add http://127.0.0.1:%u as a Prometheus data source to a "
        "Grafana of your own",
        port);
    // The name of a subchart does not follow fullnameOverride.
    if (!v->release.no_grafana)
        add_absent(v, ns, STACK "-grafana", GRAFANA_PORT, notice, why, out);
    return out;
}

json_t *chart_release_pod(const struct chart_values *v, const char *ns, const char *name,
                          uint16_t port)
{
    json_t *labels = selector_of(v);
    codec_json_set_str(labels, "app.kubernetes.io/managed-by", "gpuscale");
    return json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:o}, s:{s:b, s:[{s:s}], s:[{s:s, s:s, s:[{s:s, s:i}]}]}}",
        "apiVersion", "v1", "kind", "Pod", "metadata", "name", name, "namespace",
        chart_release_namespace(v, ns), "labels", labels, "spec", "hostNetwork", 1, "tolerations",
        "operator", "Exists", "containers", "name", "engine", "image", "gpuscale", "ports", "name",
        "http-web", "containerPort", (int)port);
}
