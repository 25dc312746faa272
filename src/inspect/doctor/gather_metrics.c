// SPDX-License-Identifier: Apache-2.0
// Reads the metrics of the autoscalers from the metrics APIs, as the autoscaler requests them.
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "kube/session.h"

#include <string.h>
#include <strings.h>

#define MAX_HPAS 100

static void add_segment(struct gs_buf *path, const char *text)
{
    gs_buf_add_char(path, '/');
    http_encode(gs_slice_of(text ? text : ""), path);
}

static void add_selector(struct gs_buf *path, const char *name, const json_t *selector)
{
    GS_CLEANUP(kube_selector_finish) struct kube_selector s = {0};
    GS_AUTO_ERROR struct gs_error *err = selector ? kube_selector_from_json(selector, &s) : NULL;
    GS_AUTO_BUF struct gs_buf text = {0};

    if (!err && selector)
        kube_selector_format(&s, &text);
    if (!text.len)
        return;
    gs_buf_addf(path, "%c%s=", strchr(path->data, '?') ? '&' : '?', name);
    http_encode(gs_buf_slice(&text), path);
}

// "services", "deployments.apps": the resource of a described object, by Kubernetes' usual plurals.
static void add_resource(struct gs_buf *path, const json_t *described)
{
    const char *kind = codec_json_str(described, "kind", NULL);
    const char *version = codec_json_str(described, "apiVersion", NULL);
    const char *slash = version ? strchr(version, '/') : NULL;
    size_t n = kind ? strlen(kind) : 0;
    char last = 's';
    if (n)
        last = kind[n - 1];

    for (size_t i = 0; i < n; i++)
        gs_buf_add_char(path, (char)(kind[i] >= 'A' && kind[i] <= 'Z' ? kind[i] + 32 : kind[i]));
    if (last == 'y') {
        path->len--;
        gs_buf_add_str(path, "ies");
    } else {
        gs_buf_add_str(path, last == 's' ? "es" : "s");
    }
    if (slash)
        gs_buf_addf(path, ".%.*s", (int)(slash - version), version);
}

// name NULL: all objects.
static void object_path(const char *ns, const json_t *object, const char *name, struct gs_buf *path)
{
    const json_t *described = json_object_get(object, "describedObject");
    bool namespaces = gs_streq(codec_json_str(described, "kind", NULL), "Namespace");

    gs_buf_add_str(path, "/apis/custom.metrics.k8s.io/v1beta1/namespaces");
    add_segment(path, namespaces && name ? name : ns);
    if (namespaces) {
        gs_buf_add_str(path, "/metrics");
    } else {
        gs_buf_add_char(path, '/');
        add_resource(path, described);
        add_segment(path, name ? name : "*");
    }
    add_segment(path, codec_json_str(object, "metric", "name", NULL));
    if (!name && !namespaces)
        gs_buf_add_str(path, "?labelSelector="); // the wildcard needs a selector; this is all
    add_selector(path, "metricLabelSelector", codec_json_get(object, "metric", "selector", NULL));
}

static json_t *fetch(struct kube_session *s, const char *path, int *ret_status)
{
    GS_AUTO_BUF struct gs_buf body = {0};
    json_t *answer = NULL;
    int status = doctor_get(s, path, &body);
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(gs_buf_slice(&body), false, &answer);
    (void)err;
    *ret_status = status;
    return answer ? answer : doctor_excerpt(0, &body);
}

// What gpuscale's adapter has of the pods of a metric without a value; new reference. NULL: another
// adapter serves the API.
static json_t *read_pod_series(struct kube_session *s, const char *path)
{
    GS_AUTO_FREE char *full = gs_format("%s%cexplain=true", path, strchr(path, '?') ? '&' : '?');
    int status = 0;
    CODEC_AUTO_JSON json_t *answer = fetch(s, full, &status);
    return json_incref(json_object_get(answer, "podSeries"));
}

static json_t *read_metric(struct kube_session *s, const struct doctor_examination *e,
                           const json_t *hpa, const json_t *metric)
{
    const char *type = codec_json_str(metric, "type", NULL), *ns = kube_namespace(hpa);
    const json_t *pods = json_object_get(metric, "pods"),
                 *object = json_object_get(metric, "object");
    const json_t *external = json_object_get(metric, "external");
    GS_AUTO_BUF struct gs_buf path = {0};
    int status = 0;

    if (gs_streq(type, "Pods") && pods) {
        gs_buf_add_str(&path, "/apis/custom.metrics.k8s.io/v1beta1/namespaces");
        add_segment(&path, ns);
        gs_buf_add_str(&path, "/pods/*");
        add_segment(&path, codec_json_str(pods, "metric", "name", NULL));
        add_selector(&path, "labelSelector",
                     codec_json_get(doctor_hpa_target(e, hpa), "spec", "selector", NULL));
        add_selector(&path, "metricLabelSelector",
                     codec_json_get(pods, "metric", "selector", NULL));
    } else if (gs_streq(type, "Object") && object) {
        object_path(ns, object, codec_json_str(object, "describedObject", "name", NULL), &path);
    } else if (gs_streq(type, "External") && external) {
        gs_buf_add_str(&path, "/apis/external.metrics.k8s.io/v1beta1/namespaces");
        add_segment(&path, ns);
        add_segment(&path, codec_json_str(external, "metric", "name", NULL));
        add_selector(&path, "labelSelector", codec_json_get(external, "metric", "selector", NULL));
    } else {
        return json_object();
    }
    json_t *o = json_object(), *body = fetch(s, path.data, &status);
    codec_json_set_str(o, "path", path.data);
    codec_json_set_int(o, "status", status);
    json_object_set_new(o, "body", body);
    json_t *pod_series = pods && doctor_lacks_value(o) ? read_pod_series(s, path.data) : NULL;
    if (pod_series)
        json_object_set_new(o, "podSeries", pod_series);
    if (status == 404 && gs_streq(type, "Object") &&
        !gs_streq(codec_json_str(object, "describedObject", "kind", NULL), "Namespace")) {
        gs_buf_clear(&path);
        object_path(ns, object, NULL, &path);
        body = fetch(s, path.data, &status);
        json_object_set_new(o, "others", body);
    }
    return o;
}

void doctor_gather_metrics(struct kube_session *s, json_t *facts)
{
    struct doctor_examination e = doctor_examination_of(facts);
    json_t *out = json_object();
    size_t i, k;
    const json_t *hpa, *metric;

    json_array_foreach (doctor_items(&e, "hpas"), i, hpa) {
        GS_AUTO_FREE char *key = kube_key(hpa);
        json_t *values = json_array();
        if (i >= MAX_HPAS) {
            json_decref(values);
            break;
        }
        json_array_foreach (codec_json_get(hpa, "spec", "metrics", NULL), k, metric)
            json_array_append_new(values, read_metric(s, &e, hpa, metric));
        json_object_set_new(out, key, values);
    }
    json_object_set_new(facts, "metrics", out);
}
