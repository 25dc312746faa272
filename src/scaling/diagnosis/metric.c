// SPDX-License-Identifier: Apache-2.0
// The causes of a metric of pods without a value, in the order in which a sample travels: the
// target, its scrape, the name of its series, the adapter.
#include "diagnosis/metric.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/option.h"
#include "kube/object.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 2000, MAX_SHOWN = 8 };

#define ANNOTATION "prometheus.io/"

const char *diagnosis_metric_state_name(enum diagnosis_metric_state s)
{
    static const char *const names[DIAGNOSIS_METRIC_STATES] = {
        [DIAGNOSIS_METRIC_UNKNOWN] = "unknown",
        [DIAGNOSIS_METRIC_NO_PODS] = "no pods",
        [DIAGNOSIS_METRIC_NOT_SCRAPED] = "not scraped",
        [DIAGNOSIS_METRIC_SCRAPE_FAILS] = "scrape fails",
        [DIAGNOSIS_METRIC_NO_SUCH_NAME] = "no such name",
        [DIAGNOSIS_METRIC_ABSENT] = "scraped, but absent",
        [DIAGNOSIS_METRIC_NOT_SERVED] = "not served",
        [DIAGNOSIS_METRIC_SERVED] = "served",
    };
    return names[s];
}

void diagnosis_metric_finish(struct diagnosis_metric *d)
{
    free(d->text);
    free(d->evidence);
    free(d->fix);
    *d = (struct diagnosis_metric){0};
}

// --- what is scraped ---

json_t *diagnosis_metric_series(const json_t *pod_series)
{
    size_t i;
    const json_t *item;
    if (!pod_series)
        return NULL;
    json_t *up = json_object(), *names = json_array();
    json_array_foreach (json_object_get(pod_series, "samples"), i, item) {
        const char *name = codec_json_str(item, "name", NULL);
        const char *pod = codec_json_str(item, "pod", NULL);
        bool good = json_number_value(json_object_get(item, "value")) > 0;
        if (pod && gs_streq(name, "up")) // one target of a pod that works is enough
            json_object_set_new(up, pod,
                                json_boolean(good || json_is_true(json_object_get(up, pod))));
        else if (name)
            json_array_append_new(names, json_string(name));
    }
    return json_pack("{s:I, s:o, s:o}", "pods",
                     (json_int_t)codec_json_int(pod_series, 0, "pods", NULL), "up", up, "names",
                     names);
}

static bool has_name(const json_t *names, const char *name)
{
    size_t i;
    const json_t *item;
    json_array_foreach (names, i, item)
        if (gs_streq(json_string_value(item), name))
            return true;
    return false;
}

// The series that default rules serve under the name: itself, or a counter as a rate. Caller frees.
static char *series_of(const json_t *names, const char *metric)
{
    static const char *const suffixes[] = {"", "_total", "_seconds_total"};
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
        char *name = gs_format("%s%s", metric, suffixes[i]);
        if (has_name(names, name))
            return name;
        free(name);
    }
    return NULL;
}

// The name without the suffix of a counter; NULL: it has none. Caller frees.
static char *rate_name(const char *metric)
{
    static const char *const suffixes[] = {"_seconds_total", "_total"};
    struct gs_slice s = gs_slice_of(metric);
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++)
        if (s.len > strlen(suffixes[i]) && gs_slice_ends(s, suffixes[i]))
            return gs_strndup(metric, s.len - strlen(suffixes[i]));
    return NULL;
}

// Series of other targets about the pod, and those about the scrape: no program of it exports them.
static bool is_own(const char *name)
{
    static const char *const others[] = {"scrape_", "kube_", "container_", "DCGM_", "ALERTS"};
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
        if (gs_starts(name, others[i]))
            return false;
    return !gs_streq(name, "up");
}

static size_t own_names(const json_t *names, const char **out, size_t max)
{
    size_t n = 0, i;
    const json_t *item;
    json_array_foreach (names, i, item)
        if (n < max && is_own(json_string_value(item)))
            out[n++] = json_string_value(item);
    return n;
}

static size_t count_up(const json_t *up, bool wanted)
{
    size_t n = 0;
    const char *pod;
    const json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)up, pod, value)
        n += json_is_true(value) == wanted;
    return n;
}

// --- YAML ---

// The first port of the pod's containers, else that of the annotation; 0: none.
static int64_t port_of(const json_t *pod)
{
    size_t i;
    const json_t *container;
    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, container) {
        int64_t port = codec_json_int(json_array_get(json_object_get(container, "ports"), 0), 0,
                                      "containerPort", NULL);
        if (port)
            return port;
    }
    return pod ? kube_scrape_port(pod) : 0;
}

// "no pod of Deployment api", "none of the 3 pods of Deployment api". Caller frees.
static char *none_of(const struct diagnosis_metric_input *in, size_t n)
{
    return n == 1 ? gs_format("the pod of %s %s is not", in->kind, in->name)
                  : gs_format("none of the %zu pods of %s %s is", n, in->kind, in->name);
}

// For all workloads of a namespace, or for one.
static char *header_of(const struct diagnosis_metric_input *in)
{
    return gs_streq(in->kind, "Namespace") ? gs_strdup("the workload whose pods have the metric")
                                           : gs_format("%s %s", in->kind, in->name);
}

static char *annotations_yaml(const struct diagnosis_metric_input *in)
{
    int64_t port = port_of(in->pod);
    GS_AUTO_FREE char *header = header_of(in);
    return gs_format("# %s\nspec:\n  template:\n    metadata:\n      annotations:\n"
                     "        " ANNOTATION "scrape: \"true\"\n"
                     "        " ANNOTATION "port: \"%lld\"   # where the pod serves /metrics\n"
                     "#       " ANNOTATION "path: /metrics   # if it is another one",
                     header, (long long)(port ? port : 8000));
}

// The pods have the annotation, but no server reads it.
static char *monitor_yaml(const struct diagnosis_metric_input *in)
{
    int64_t port = port_of(in->pod);
    struct gs_buf labels = {0};
    const char *key;
    const json_t *value;
    json_object_foreach (codec_json_get(in->pod, "metadata", "labels", NULL), key, value)
        if (!strstr(key, "hash") && !strstr(key, "revision"))
            gs_buf_addf(&labels, "%s%s: \"%s\"", labels.len ? ", " : "", key,
                        json_string_value(value));
    char *text = gs_format("# gpuscale engine --kube-annotations, or for a Prometheus operator:\n"
                           "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\n"
                           "metadata: {name: %s, namespace: %s}\nspec:\n"
                           "  selector: {matchLabels: {%s}}\n"
                           "  podMetricsEndpoints: [{targetPort: %lld}]",
                           in->name, in->ns, labels.len ? labels.data : "", (long long)port);
    gs_buf_finish(&labels);
    return text;
}

static char *metric_yaml(const char *name)
{
    return gs_format("metrics:   # of the HorizontalPodAutoscaler\n- type: Pods\n  pods:\n"
                     "    metric: {name: %s}",
                     name);
}

static char *rule_yaml(const char *series)
{
    GS_AUTO_FREE char *name = rate_name(series);
    const char *value = "<<.Series>>{<<.LabelMatchers>>}";
    GS_AUTO_FREE char *query = name ? gs_format("rate(%s[2m])", value) : gs_strdup(value);
    return gs_format("rules:   # of the adapter; gpuscale's serves it with --pod-series\n"
                     "- seriesQuery: '%s{namespace!=\"\",pod!=\"\"}'\n"
                     "  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: "
                     "pod}}}\n"
                     "  name: {matches: '.*', as: %s}\n"
                     "  metricsQuery: sum by (<<.GroupBy>>) (%s)",
                     series, name ? name : series, query);
}

// --- causes ---

static void not_scraped(const struct diagnosis_metric_input *in, struct diagnosis_metric *ret)
{
    size_t n = (size_t)codec_json_int(in->series, 0, "pods", NULL);
    const char *set = in->pod ? kube_annotation(in->pod, ANNOTATION "scrape") : NULL;
    bool annotated = gs_streq(set, "true");
    ret->state = DIAGNOSIS_METRIC_NOT_SCRAPED;
    GS_AUTO_FREE char *none = none_of(in, n);
    ret->text = gs_format("not scraped: %s a target", none);
    ret->evidence = gs_format("no series up{namespace=\"%s\"} has one of these pods; %s", in->ns,
                              annotated ? "they have the annotation " ANNOTATION "scrape, which "
                                          "nothing that scrapes here reads"
                              : in->pod ? "they have no annotation " ANNOTATION "scrape"
                                        : "their annotations are not known");
    ret->fix = annotated ? monitor_yaml(in) : annotations_yaml(in);
}

static void scrape_fails(const struct diagnosis_metric_input *in, size_t down,
                         struct diagnosis_metric *ret)
{
    const char *set = in->pod ? kube_annotation(in->pod, ANNOTATION "port") : NULL;
    GS_AUTO_FREE char *yaml = annotations_yaml(in);
    ret->state = DIAGNOSIS_METRIC_SCRAPE_FAILS;
    ret->text = gs_format("the scrape fails: up is 0 for %zu pod%s of %s %s", down,
                          down == 1 ? "" : "s", in->kind, in->name);
    ret->evidence =
        set ? gs_format("the annotation " ANNOTATION "port is %s; the first declared port of the "
                        "pod is %lld",
                        set, (long long)port_of(in->pod))
            : gs_strdup("the targets of the engine or Prometheus (/api/v1/targets) have the error");
    ret->fix = in->pod ? gs_format("# does it answer? kubectl get --raw "
                                   "/api/v1/namespaces/%s/pods/%s:%lld/proxy/metrics\n%s",
                                   in->ns, kube_name(in->pod), (long long)port_of(in->pod), yaml)
                       : GS_TAKE(yaml);
}

static void no_such_name(const struct diagnosis_metric_input *in, const char *similar,
                         const char *why, struct diagnosis_metric *ret)
{
    ret->state = DIAGNOSIS_METRIC_NO_SUCH_NAME;
    ret->text = gs_format("no metric has the name %s; similar: %s", in->metric, similar);
    ret->evidence = gs_strdup(why);
    ret->fix = metric_yaml(similar);
}

static void absent(const struct diagnosis_metric_input *in, const char *const *names, size_t n,
                   struct diagnosis_metric *ret)
{
    struct gs_buf list = {0};
    for (size_t i = 0; i < n && i < MAX_SHOWN; i++)
        gs_buf_addf(&list, "%s%s", i ? ", " : "", names[i]);
    if (n > MAX_SHOWN)
        gs_buf_addf(&list, " and %zu more", n - MAX_SHOWN);
    ret->state = DIAGNOSIS_METRIC_ABSENT;
    ret->text = gs_format("scraped, but absent: the pods of %s %s have no series %s", in->kind,
                          in->name, in->metric);
    ret->evidence = gs_format("their pages have %s", n ? list.data : "no series");
    ret->fix =
        n ? metric_yaml(names[0])
          : gs_format("# TYPE %s gauge   # a line of the page that the pods must serve\n%s 0",
                      in->metric, in->metric);
    gs_buf_finish(&list);
}

static void not_served(const struct diagnosis_metric_input *in, const char *series,
                       struct diagnosis_metric *ret)
{
    ret->state = DIAGNOSIS_METRIC_NOT_SERVED;
    ret->text = gs_format("the pods have the series %s, but the metrics API does not serve %s",
                          series, in->metric);
    ret->evidence = gs_strdup("no rule of the adapter has it as a metric of pods");
    ret->fix = rule_yaml(series);
}

static void of_scraped(const struct diagnosis_metric_input *in, struct diagnosis_metric *ret)
{
    const json_t *names = json_object_get(in->series, "names");
    const char *own[MAX_NAMES];
    size_t n = own_names(names, own, MAX_NAMES);
    GS_AUTO_FREE char *series = series_of(names, in->metric);
    GS_AUTO_FREE char *rate = rate_name(in->metric);
    if (series && rate) {
        no_such_name(in, rate, "counters are served as rates, without the suffix _total", ret);
        return;
    }
    if (series) {
        not_served(in, series, ret);
        return;
    }
    const char *similar = gs_suggest(in->metric, own, n);
    GS_AUTO_FREE char *served = similar ? rate_name(similar) : NULL;
    if (similar)
        no_such_name(in, served ? served : similar,
                     "the pods are scraped, and have no series of this name", ret);
    else
        absent(in, own, n, ret);
}

void diagnosis_metric_of(const struct diagnosis_metric_input *in, struct diagnosis_metric *ret)
{
    const json_t *up = json_object_get(in->series, "up");
    size_t good = count_up(up, true), bad = count_up(up, false);
    const char *any = NULL;
    *ret = (struct diagnosis_metric){.state = DIAGNOSIS_METRIC_UNKNOWN};
    if (in->served) {
        ret->state = DIAGNOSIS_METRIC_SERVED;
        ret->text = gs_format("served: %s has a value for the pods of %s %s", in->metric, in->kind,
                              in->name);
    } else if (!json_is_object(up)) {
        ret->text = gs_strdup("it is not known what is scraped");
    } else if (!codec_json_int(in->series, 0, "pods", NULL)) {
        ret->state = DIAGNOSIS_METRIC_NO_PODS;
        ret->text = gs_format("%s %s has no pods", in->kind, in->name);
    } else if (gs_starts(in->metric, "DCGM_")) {
        ret->text = gs_strdup("an exporter of GPUs has this metric, not the pods");
    } else if (!good && !bad && own_names(json_object_get(in->series, "names"), &any, 1)) {
        ret->text = gs_format("other targets have series of the pods, such as %s", any);
    } else if (!good && !bad) {
        not_scraped(in, ret);
    } else if (!good) {
        scrape_fails(in, bad, ret);
    } else {
        of_scraped(in, ret);
    }
}
