// SPDX-License-Identifier: Apache-2.0
// Checks of ServiceMonitors, PodMonitors and PrometheusRules: whether a Prometheus selects them,
// and what they contain.
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

#include <string.h>

#define MAX_IGNORED 5 // findings of each kind

// --- selection ---

bool doctor_prometheus_selects(const struct doctor_examination *e, const json_t *prometheus,
                               const json_t *obj, const char *selector, const char *namespaces,
                               bool *ret_labels)
{
    const json_t *names = codec_json_get(prometheus, "spec", namespaces, NULL);
    const json_t *ns = doctor_find(e, "namespaces", NULL, kube_namespace(obj));

    *ret_labels = doctor_label_selects(codec_json_get(prometheus, "spec", selector, NULL), obj);
    bool near = json_is_object(names)
                    ? !json_object_size(names) || !ns || doctor_label_selects(names, ns)
                    : gs_streq(kube_namespace(prometheus), kube_namespace(obj));
    return *ret_labels && near;
}

// A kind of objects that a Prometheus reads, and the lists of those that may select it.
struct selected_kind {
    const char *kind, *list;
    const char *selector, *namespaces; // members of spec
    const char *readers[3];            // ends with NULL
};

static const struct selected_kind kinds[] = {
    {"ServiceMonitor",
     "servicemonitors",
     "serviceMonitorSelector",
     "serviceMonitorNamespaceSelector",
     {"prometheuses", "prometheusagents"}},
    {"PodMonitor",
     "podmonitors",
     "podMonitorSelector",
     "podMonitorNamespaceSelector",
     {"prometheuses", "prometheusagents"}},
    {"PrometheusRule",
     "prometheusrules",
     "ruleSelector",
     "ruleNamespaceSelector",
     {"prometheuses", "thanosrulers"}},
};

struct reader {
    const char *list; // the plural name of its resource
    const json_t *obj;
    bool labels; // its selector fits, only the namespace does not
};

// Whether a reader of the kind selects the object. Otherwise *ret is the last one; without any, its
// obj is NULL.
static bool is_selected(const struct doctor_examination *e, const struct selected_kind *k,
                        const json_t *obj, struct reader *ret)
{
    size_t i;
    const json_t *reader;

    for (size_t list = 0; k->readers[list]; list++)
        json_array_foreach (doctor_items(e, k->readers[list]), i, reader) {
            *ret = (struct reader){k->readers[list], reader, false};
            if (doctor_prometheus_selects(e, reader, obj, k->selector, k->namespaces, &ret->labels))
                return true;
        }
    return false;
}

// Whether the Prometheus that was asked has the object's targets or groups: it reads its objects by
// settings that are not in the API.
static bool is_in_use(const struct doctor_examination *e, const struct selected_kind *k,
                      const json_t *obj)
{
    GS_AUTO_FREE char *monitor = gs_format("onitor/%s/%s/", kube_namespace(obj), kube_name(obj));
    GS_AUTO_FREE char *file = gs_format("%s-%s-", kube_namespace(obj), kube_name(obj));
    bool rule = gs_streq(k->kind, "PrometheusRule");
    const json_t *list = rule ? codec_json_get(e->prometheus, "rules", "groups", NULL)
                              : codec_json_get(e->prometheus, "targets", "activeTargets", NULL);
    size_t i;
    const json_t *item;

    json_array_foreach (list, i, item)
        if (doctor_contains(codec_json_str(item, rule ? "file" : "scrapePool", NULL),
                            rule ? file : monitor))
            return true;
    return false;
}

// Other programs read the objects as well, by settings of their own.
static bool other_programs_read(const struct doctor_examination *e)
{
    static const char *const images[] = {"victoria", "vmagent", "alloy", "target-allocator", NULL};
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(e, "pods"), i, pod)
        if (doctor_pod_has_image(pod, images))
            return true;
    return false;
}

static bool selects_exporter(const struct doctor_examination *e, const json_t *monitor)
{
    size_t i;
    const json_t *service;

    if (doctor_is_gpu_name(kube_name(monitor)))
        return true;
    json_array_foreach (doctor_items(e, "services"), i, service)
        if (doctor_is_gpu_name(kube_name(service)) &&
            doctor_label_selects(codec_json_get(monitor, "spec", "selector", NULL), service))
            return true;
    return false;
}

// Objects about GPUs have checks of their own, which explain more.
static bool is_about_gpus(const struct doctor_examination *e, const struct selected_kind *k,
                          const json_t *obj)
{
    if (!gs_streq(k->kind, "PrometheusRule"))
        return selects_exporter(e, obj);
    GS_AUTO_FREE char *text = codec_json_text(json_object_get(obj, "spec"));
    return doctor_is_gpu_name(text);
}

// A command that lets the reader select the object.
static char *fix_of(const struct selected_kind *k, const json_t *obj, const struct reader *r)
{
    const json_t *selector = codec_json_get(r->obj, "spec", k->selector, NULL);
    GS_AUTO_FREE char *labels = doctor_labels_words(json_object_get(selector, "matchLabels"));

    if (r->labels)
        return gs_format("kubectl -n %s patch %s %s --type=merge -p '{\"spec\":{\"%s\":{}}}'",
                         kube_namespace(r->obj), r->list, kube_name(r->obj), k->namespaces);
    return gs_format("kubectl -n %s label %s %s %s", kube_namespace(obj), k->list, kube_name(obj),
                     *labels ? labels : "LABEL=VALUE   # that the selector requires");
}

static void report_ignored(struct doctor_examination *e, const struct selected_kind *k,
                           const json_t *obj, const struct reader *r)
{
    const char *member = r->labels ? k->namespaces : k->selector;
    const json_t *selector = codec_json_get(r->obj, "spec", member, NULL);
    GS_AUTO_FREE char *text = codec_json_text(selector ? selector : json_null());
    doctor_report(e, k->kind, obj,
                  r->labels ? gs_format("No Prometheus reads a %s of the namespace %s.", k->kind,
                                        kube_namespace(obj))
                            : gs_format("No Prometheus selects this %s by its labels.", k->kind),
                  gs_format("%s of %s %s/%s: %.300s", member, r->list, kube_namespace(r->obj),
                            kube_name(r->obj), text),
                  fix_of(k, obj, r));
}

static void check_kind(struct doctor_examination *e, const struct selected_kind *k)
{
    size_t i, n = 0;
    const json_t *obj;

    json_array_foreach (doctor_items(e, k->list), i, obj) {
        struct reader r = {0};
        if (n == MAX_IGNORED)
            return;
        if (is_selected(e, k, obj, &r) || !r.obj || is_about_gpus(e, k, obj) ||
            is_in_use(e, k, obj))
            continue;
        report_ignored(e, k, obj, &r);
        n++;
    }
}

void doctor_check_monitor_ignored(struct doctor_examination *e)
{
    if (other_programs_read(e))
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++)
        check_kind(e, &kinds[i]);
}

// --- endpoints of ServiceMonitors ---

static bool same_endpoint(const json_t *a, const json_t *b)
{
    const char *path_a = codec_json_str(a, "path", NULL), *path_b = codec_json_str(b, "path", NULL);
    const json_t *params_a = json_object_get(a, "params"), *params_b = json_object_get(b, "params");

    return gs_streq(doctor_text(codec_json_str(a, "port", NULL)),
                    doctor_text(codec_json_str(b, "port", NULL))) &&
           gs_streq(path_a ? path_a : "/metrics", path_b ? path_b : "/metrics") &&
           codec_json_same(params_a, params_b) && !json_object_get(a, "targetPort") &&
           !json_object_get(b, "targetPort");
}

void doctor_check_monitor_endpoints(struct doctor_examination *e)
{
    size_t i;
    const json_t *monitor;

    json_array_foreach (doctor_items(e, "servicemonitors"), i, monitor) {
        const json_t *all = codec_json_get(monitor, "spec", "endpoints", NULL);
        size_t n = json_array_size(all) < 50 ? json_array_size(all) : 50;
        const char *what = NULL;
        for (size_t a = 0; a < n && !what; a++) {
            const json_t *x = json_array_get(all, a);
            if (n > 1 && !json_object_get(x, "port") && !json_object_get(x, "targetPort"))
                what =
                    "An endpoint of the ServiceMonitor has no port: it is a second list item, and "
                    "scrapes all ports of the Service.";
            for (size_t b = a + 1; b < n && !what; b++)
                if (same_endpoint(x, json_array_get(all, b)))
                    what = "The ServiceMonitor has the same endpoint twice, so each exporter is "
                           "scraped "
                           "twice.";
        }
        if (!what || !selects_exporter(e, monitor))
            continue;
        GS_AUTO_FREE char *text = codec_json_text(all);
        doctor_report(
            e, "ServiceMonitor", monitor, gs_strdup(what), gs_format("endpoints: %.300s", text),
            gs_strdup(
                "endpoints:\n- port: metrics\n  interval: 15s   # in the same item: no dash"));
    }
}
