// SPDX-License-Identifier: Apache-2.0
// Reads the facts of a Prometheus, by its URL or by its Service through the API server.
#include "aliases/aliases.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "doctor/doctor_private.h"
#include "kube/engine_url.h"
#include "kube/object.h"
#include "kube/session.h"
#include "metrics/pod_series.h"
#include "query/query.h"

#include <stdlib.h>

#define TIMEOUT_MS  10000
#define MAX_RECORDS 100
#define MAX_METRICS 30 // of autoscalers
#define MAX_PODS    20 // of an autoscaler

// One series per GPU, whatever the release of the exporter calls it.
#define GPUS                                                                                       \
    "(DCGM_FI_DEV_FB_USED or DCGM_FI_DEV_GPU_UTIL or dcgm_gpu_utilization or "                     \
    "DCGM_FI_DEV_FB_USED_BYTES or DCGM_FI_DEV_GPU_UTIL_RATIO)"
#define UTIL "(DCGM_FI_DEV_GPU_UTIL or DCGM_FI_DEV_GPU_UTIL_RATIO * 100)"

const struct doctor_query_row doctor_queries[] = {
    {"gpus", GPUS},
    {"utilization", UTIL " or dcgm_gpu_utilization"},
    {"age", "max by (job, instance) (time() - timestamp(DCGM_FI_DEV_FB_USED)) or "
            "max by (job, instance) (time() - timestamp(DCGM_FI_DEV_GPU_UTIL)) or "
            "max by (job, instance) (time() - timestamp(DCGM_FI_DEV_FB_USED_BYTES))"},
    {"gpu_names", "count by (__name__) ({__name__=~\"DCGM_FI_.+\"})"},
    {"xid", "DCGM_FI_DEV_XID_ERRORS > 0 or DCGM_FI_DEV_XID_ERROR > 0"},
    {"pod_labels", "count(kube_pod_labels)"},
    {"state_metrics", "count(kube_pod_info)"},
    {"full", "min_over_time(DCGM_FI_DEV_GPU_UTIL[30m]) >= 99 or "
             "min_over_time(DCGM_FI_DEV_GPU_UTIL_RATIO[30m]) * 100 >= 99"},
    // The most requests that ran in a pod while others waited for five minutes.
    {"engine_ceiling", "max_over_time(gpuscale_inference_running[5m]) and "
                       "min_over_time(gpuscale_inference_waiting[5m]) > 0"},
    {"engine_rejections", "increase(gpuscale_inference_rejections_total[10m]) > 0"},
    {"engine_deferred", "vllm:num_requests_waiting_by_reason{reason=\"deferred\"} > 0"},
    {NULL, NULL},
};

struct prometheus {
    struct kube_session *s; // NULL: by URL
    char *base;             // URL, or path of the proxy
};

static struct gs_error *get_by_proxy(const struct prometheus *p, const char *path,
                                     struct gs_slice parameters, json_t **ret)
{
    GS_AUTO_BUF struct gs_buf body = {0};
    GS_AUTO_FREE char *full = gs_format("%s%s%s" GS_SLICE_FMT, p->base, path,
                                        parameters.len ? "?" : "", GS_SLICE_ARG(parameters));
    CODEC_AUTO_JSON json_t *answer = NULL;
    int status = doctor_get(p->s, full, &body);
    struct gs_error *err = codec_json_parse(gs_buf_slice(&body), false, &answer);

    if (!err && gs_streq(codec_json_str(answer, "status", NULL), "success")) {
        *ret = GS_TAKE(answer);
        return NULL;
    }
    gs_error_free(err);
    CODEC_AUTO_JSON json_t *excerpt = doctor_excerpt(status, &body);
    return gs_error_new(GS_EUNAVAIL, "%s: %s", p->base, json_string_value(excerpt));
}

static struct gs_error *get(const struct prometheus *p, const char *path,
                            struct gs_slice parameters, json_t **ret)
{
    const struct query_peer peer = {.url = p->base, .timeout_ms = TIMEOUT_MS};
    return p->s ? get_by_proxy(p, path, parameters, ret)
                : query_fetch(&peer, path, parameters, ret);
}

// The member "data" of a response; NULL: unavailable.
static json_t *data_of(const struct prometheus *p, const char *path, struct gs_slice parameters)
{
    CODEC_AUTO_JSON json_t *answer = NULL;
    GS_AUTO_ERROR struct gs_error *err = get(p, path, parameters, &answer);
    return err ? NULL : json_incref(json_object_get(answer, "data"));
}

// more: further parameters, such as "&nocache=1".
static json_t *query_with(const struct prometheus *p, const char *expr, const char *more)
{
    GS_AUTO_BUF struct gs_buf parameters = {0};
    gs_buf_add_str(&parameters, "query=");
    http_encode(gs_slice_of(expr), &parameters);
    gs_buf_add_str(&parameters, more);
    return data_of(p, "/api/v1/query", gs_buf_slice(&parameters));
}

static json_t *query(const struct prometheus *p, const char *expr)
{
    return query_with(p, expr, "");
}

static void set(json_t *o, const char *key, json_t *value)
{
    if (value)
        json_object_set_new(o, key, value);
}

// --- discovery ---

static char *proxy_of(const struct doctor_examination *e)
{
    int64_t port = 0;
    const json_t *service = doctor_prometheus_service(e, &port);

    return service ? kube_engine_service_path(service) : NULL;
}

// --- facts ---

// The scrape configurations; nothing else of the configuration is kept.
static json_t *scrape_configs(const json_t *status)
{
    const char *text = codec_json_str(status, "yaml", NULL);
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    GS_AUTO_ERROR struct gs_error *err =
        text ? codec_yaml_parse(gs_slice_of(text), "config", &docs) : NULL;

    return text && !err && docs.len
               ? json_incref(json_object_get(docs.items[0].value, "scrape_configs"))
               : NULL;
}

// The number of series of each recording rule, so that rules without a result are visible.
static json_t *records(const struct prometheus *p, const json_t *rules)
{
    json_t *out = json_object();
    size_t i, k;
    const json_t *group, *rule;

    json_array_foreach (json_object_get(rules, "groups"), i, group) {
        json_array_foreach (json_object_get(group, "rules"), k, rule) {
            const char *name = codec_json_str(rule, "name", NULL);
            if (!gs_streq(codec_json_str(rule, "type", NULL), "recording") || !name ||
                json_object_get(out, name) || json_object_size(out) >= MAX_RECORDS)
                continue;
            GS_AUTO_FREE char *expr = gs_format("count(%s)", name);
            set(out, name, query(p, expr));
        }
    }
    return out;
}

// --- metrics of autoscalers ---

// What shows whether a metric is a counter: its type, its values, and whether all its series grew
// without a fall for 30 minutes.
static json_t *metric_facts(const struct prometheus *p, const char *name)
{
    GS_AUTO_BUF struct gs_buf parameters = {0};
    json_t *out = json_object();
    gs_buf_add_str(&parameters, "metric=");
    http_encode(gs_slice_of(name), &parameters);
    CODEC_AUTO_JSON json_t *all = data_of(p, "/api/v1/metadata", gs_buf_slice(&parameters));
    const json_t *first = json_array_get(json_object_get(all, name), 0);
    codec_json_set_str(out, "type", codec_json_str(first, "type", NULL));
    GS_AUTO_FREE char *values =
        gs_format("{__name__=\"%s\"} or sum({__name__=\"%s\"})", name, name);
    GS_AUTO_FREE char *grows = gs_format(
        "count((resets({__name__=\"%s\"}[30m]) == 0) and (changes({__name__=\"%s\"}[30m]) > "
        "3) and (delta({__name__=\"%s\"}[30m]) > 0)) == count({__name__=\"%s\"})",
        name, name, name, name);
    set(out, "values", query(p, values));
    set(out, "grows", query(p, grows));
    struct aliases_name others[ALIASES_MAX];
    if (aliases_of(gs_slice_of(name), others)) {
        GS_AUTO_FREE char *lowest = gs_format("min(min_over_time(%s[1h]))", name);
        GS_AUTO_FREE char *highest = gs_format("max(max_over_time(%s[1h]))", name);
        set(out, "lowest", query(p, lowest));
        set(out, "highest", query(p, highest));
    }
    return out;
}

static json_t *hpa_metrics(const struct prometheus *p, const struct doctor_examination *e)
{
    json_t *out = json_object();
    size_t i, k;
    const json_t *hpa, *metric;
    json_array_foreach (doctor_items(e, "hpas"), i, hpa) {
        json_array_foreach (doctor_hpa_metrics(hpa), k, metric) {
            const char *name = doctor_hpa_metric_name(metric);
            if (name && !strpbrk(name, "\"\\\n") && !json_object_get(out, name) &&
                json_object_size(out) < MAX_METRICS)
                json_object_set_new(out, name, metric_facts(p, name));
        }
    }
    return out;
}

// --- the pods of autoscalers whose metric has no value ---

static json_t *pod_samples(const struct prometheus *p, const char *expr)
{
    CODEC_AUTO_JSON json_t *answer = query(p, expr);
    const json_t *list = json_object_get(answer, "result"), *sample;
    json_t *out = json_array();
    size_t i;
    json_array_foreach (list, i, sample) {
        json_t *item = json_object();
        codec_json_set_str(item, "name", doctor_sample_label(sample, "__name__"));
        codec_json_set_str(item, "pod", doctor_sample_label(sample, "pod"));
        json_object_set_new(item, "value", json_real(doctor_sample_value(sample)));
        json_array_append_new(out, item);
    }
    if (list)
        return out;
    json_decref(out);
    return NULL;
}

static json_t *series_of_pods(const struct prometheus *p, const struct doctor_examination *e,
                              const json_t *hpa)
{
    const char *names[MAX_PODS];
    size_t n = 0, pos = 0;
    const json_t *pod;
    GS_AUTO_BUF struct gs_buf expr = {0};
    while (n < MAX_PODS && (pod = doctor_hpa_pod(e, hpa, &pos)))
        names[n++] = kube_name(pod);
    if (!metrics_pod_series_query(doctor_text(kube_namespace(hpa)), names, n, &expr))
        return NULL;
    json_t *samples = pod_samples(p, expr.data);
    return samples ? json_pack("{s:I, s:o}", "pods", (json_int_t)n, "samples", samples) : NULL;
}

// Of another adapter; gpuscale's reports it with the metric.
static json_t *pod_series(const struct prometheus *p, const struct doctor_examination *e)
{
    json_t *out = json_object();
    size_t i, k;
    const json_t *hpa, *metric;
    json_array_foreach (doctor_items(e, "hpas"), i, hpa) {
        GS_AUTO_FREE char *key = kube_key(hpa);
        json_array_foreach (doctor_hpa_metrics(hpa), k, metric) {
            const json_t *answer =
                json_array_get(codec_json_get(e->facts, "metrics", key, NULL), k);
            if (gs_streq(codec_json_str(metric, "type", NULL), "Pods") &&
                doctor_lacks_value(answer) && !json_object_get(answer, "podSeries") &&
                !json_object_get(out, key) && json_object_size(out) < MAX_METRICS)
                set(out, key, series_of_pods(p, e, hpa));
        }
    }
    return out;
}

// --- the delay of the source ---

// The time of the newest GPU sample as queries see it, and as they see it without a cache: some
// servers evaluate queries at an earlier time. How many samples a series has in two minutes.
static json_t *delay_facts(const struct prometheus *p, const json_t *build)
{
    // VictoriaMetrics has no result for timestamp() of an expression.
    static const char newest[] =
        "max(timestamp(DCGM_FI_DEV_FB_USED) or timestamp(DCGM_FI_DEV_GPU_UTIL) or "
        "timestamp(dcgm_gpu_utilization) or timestamp(DCGM_FI_DEV_FB_USED_BYTES) or "
        "timestamp(DCGM_FI_DEV_GPU_UTIL_RATIO))";
    json_t *out = json_object();
    codec_json_set_str(out, "version", codec_json_str(build, "data", "version", NULL));
    codec_json_set_str(out, "revision", codec_json_str(build, "data", "revision", NULL));
    set(out, "newest", query(p, newest));
    set(out, "newestUncached", query_with(p, newest, "&nocache=1"));
    set(out, "perTwoMinutes",
        query(p, "max(count_over_time(DCGM_FI_DEV_FB_USED[2m]) or "
                 "count_over_time(DCGM_FI_DEV_GPU_UTIL[2m]) or "
                 "count_over_time(DCGM_FI_DEV_FB_USED_BYTES[2m]))"));
    return out;
}

// What a response says about series that it lacks; NULL: nothing. Other warnings are about the
// query.
static json_t *partial_facts(const struct prometheus *p)
{
    GS_AUTO_BUF struct gs_buf parameters = {0};
    CODEC_AUTO_JSON json_t *answer = NULL;
    gs_buf_add_str(&parameters, "query=");
    http_encode(gs_slice_of("count(" GPUS ")"), &parameters);
    GS_AUTO_ERROR struct gs_error *err =
        get(p, "/api/v1/query", gs_buf_slice(&parameters), &answer);
    const json_t *warnings = json_object_get(answer, "warnings"), *item;
    json_t *kept = json_array();
    size_t i;
    json_array_foreach (warnings, i, item)
        if (!gs_starts(doctor_text(json_string_value(item)), "PromQL"))
            json_array_append(kept, (json_t *)item);
    bool some = json_array_size(kept) || json_is_true(json_object_get(answer, "isPartial"));
    json_t *out = some ? json_pack("{s:O, s:b}", "warnings", kept, "isPartial",
                                   json_is_true(json_object_get(answer, "isPartial")))
                       : NULL;
    json_decref(kept);
    return out;
}

static bool is_among(const json_t *samples, const char *name)
{
    size_t i;
    const json_t *sample;
    json_array_foreach (samples, i, sample)
        if (gs_streq(doctor_sample_label(sample, "__name__"), name))
            return true;
    return false;
}

// Whether the server reads a name of a GPU metric that no series has from the series of its other
// name. NULL: there is no such name.
static json_t *alias_facts(const struct prometheus *p, const json_t *names)
{
    const json_t *samples = json_object_get(names, "result"), *sample;
    size_t i;
    json_array_foreach (samples, i, sample) {
        struct aliases_name others[ALIASES_MAX];
        const char *name = doctor_text(doctor_sample_label(sample, "__name__"));
        if (!aliases_of(gs_slice_of(name), others) || is_among(samples, others[0].name))
            continue;
        GS_AUTO_FREE char *expr = gs_format("count(%s)", others[0].name);
        CODEC_AUTO_JSON json_t *found = query(p, expr);
        return json_boolean(json_array_size(json_object_get(found, "result")) > 0);
    }
    return NULL;
}

// Prometheus can have too many, or respond too late.
static json_t *read_targets(const struct prometheus *p)
{
    CODEC_AUTO_JSON json_t *answer = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        get(p, "/api/v1/targets", GS_SLICE("state=active"), &answer);

    if (!err)
        return json_incref(json_object_get(answer, "data"));
    json_t *out = json_object();
    codec_json_set_str(out, "unknown", gs_error_message(err));
    return out;
}

static void read_facts(const struct prometheus *p, const struct doctor_examination *e, json_t *out)
{
    CODEC_AUTO_JSON json_t *build = NULL;
    GS_AUTO_ERROR struct gs_error *err = get(p, "/api/v1/status/buildinfo", GS_SLICE(""), &build);

    codec_json_set_str(out, "address", p->base);
    if (err && gs_error_code(err) != GS_EINVAL) {
        codec_json_set_str(out, "unknown", gs_error_message(err));
        return;
    }
    set(out, "targets", read_targets(p));
    set(out, "rules", data_of(p, "/api/v1/rules", GS_SLICE("")));
    CODEC_AUTO_JSON json_t *config = data_of(p, "/api/v1/status/config", GS_SLICE(""));
    set(out, "scrapeConfigs", scrape_configs(config));
    json_t *queries = json_object();
    for (const struct doctor_query_row *q = doctor_queries; q->name; q++)
        set(queries, q->name, query(p, q->expr));
    json_object_set_new(out, "queries", queries);
    set(out, "aliases", alias_facts(p, json_object_get(queries, "gpu_names")));
    json_object_set_new(out, "records", records(p, json_object_get(out, "rules")));
    json_object_set_new(out, "metrics", hpa_metrics(p, e));
    json_object_set_new(out, "podSeries", pod_series(p, e));
    json_object_set_new(out, "delay", delay_facts(p, build));
    set(out, "partial", partial_facts(p));
    set(out, "inference", data_of(p, "/api/v1/gpuscale/inference", GS_SLICE("")));
}

void doctor_gather_prometheus(const struct doctor_options *o, struct kube_session *s, json_t *facts)
{
    struct doctor_examination e = doctor_examination_of(facts);
    struct prometheus p = {0};
    json_t *out = json_object();

    e.index = doctor_index_new();
    // PROMETHEUS_URL is not read: it need not be of the cluster that is examined.
    p.base = o->prometheus ? gs_strdup(o->prometheus)
                           : kube_engine_url_of_kubeconfig(o->kubeconfig, o->context);
    if (!p.base && s) {
        p.s = s;
        p.base = proxy_of(&e);
    }
    if (p.base)
        read_facts(&p, &e, out);
    else
        codec_json_set_str(out, "unknown",
                           s ? "no Service of a Prometheus was found; --prometheus or GPUSCALE_URL "
                               "sets its URL"
                             : "--prometheus is not set");
    json_object_set_new(facts, "prometheus", out);
    doctor_index_free(e.index);
    free(p.base);
}
