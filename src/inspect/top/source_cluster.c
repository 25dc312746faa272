// SPDX-License-Identifier: Apache-2.0
// Pods with GPUs of a cluster: the pods come from a watch, their values from the custom metrics
// API, whoever serves it. https://kubernetes.io/docs/reference/external-api/custom-metrics.v1beta2/
// The API has no values of single GPUs.
#include "top/top_private.h"

#include "base/clock.h"
#include "base/columns.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timer.h"
#include "kube/cache.h"
#include "kube/kubeconfig.h"
#include "kube/object.h"
#include "kube/quantity.h"

#define GROUP_PATH "/apis/custom.metrics.k8s.io/v1beta1"
#define RUNNING    "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"

enum {
    MAX_NAMESPACES = 200,
    N_METRICS = 3,
    WAIT_MS = 100, // between checks of the cache before its first list
};

// Names of a metric of pods, the best first; of each group the first that exists is read.
static const char *const names[N_METRICS][5] = {
    {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_AVG", "dcgm_gpu_utilization", "gpu_utilization"},
    {"DCGM_CUSTOM_PROCESS_SM_UTIL"}, // of pods on shared GPUs
    {"DCGM_FI_DEV_FB_USED", "DCGM_CUSTOM_PROCESS_MEM_USED"},
};
enum { MEMORY = 2 };

struct cluster_source;

struct cluster_request {
    struct cluster_source *source;
    struct kube_request *request;
    size_t metric;
};

struct cluster_source {
    struct top_source is;
    struct http_client *http;
    struct kube_client *client;
    struct kube_cache *pods;
    struct gs_timer *timer;
    bool one_namespace;
    int64_t timeout_ms, begun_ms;
    const char *metrics[N_METRICS]; // that exist; NULL: none
    struct kube_request *discovery;
    struct cluster_request *requests;
    size_t n_requests, waiting;
    struct top_samples samples;
    top_source_done done;
    void *arg;
};

// --- pods ---

// What nothing here reads.
static void trim_pod(json_t *pod)
{
    codec_json_del(pod, "metadata", "managedFields", NULL);
    codec_json_del(pod, "metadata", "annotations", NULL);
    codec_json_del(pod, "spec", "volumes", NULL);
    codec_json_del(pod, "spec", "initContainers", NULL);
    codec_json_del(pod, "spec", "affinity", NULL);
}

static bool is_gpu(const char *resource)
{
    return gs_streq(resource, "nvidia.com/gpu") || gs_streq(resource, "nvidia.com/gpu.shared") ||
           gs_starts(resource, "nvidia.com/mig-");
}

static double requested_gpus(const json_t *pod)
{
    const json_t *containers = codec_json_get(pod, "spec", "containers", NULL), *c;
    int64_t all = 0, n;
    size_t i;
    json_array_foreach (containers, i, c) {
        const char *resource;
        json_t *quantity;
        json_object_foreach (codec_json_get(c, "resources", "limits", NULL), resource, quantity) {
            struct gs_slice text = gs_slice_of(json_string_value(quantity));
            struct gs_error *err = is_gpu(resource) ? kube_quantity_parse_value(text, &n) : NULL;
            if (is_gpu(resource) && !err)
                all = gs_add_clamped(all, n);
            gs_error_free(err);
        }
    }
    return (double)all;
}

// As the column STATUS of kubectl.
static const char *status_of_pod(const json_t *pod)
{
    const json_t *statuses = codec_json_get(pod, "status", "containerStatuses", NULL), *s;
    size_t i;
    if (codec_json_str(pod, "metadata", "deletionTimestamp", NULL))
        return "Terminating";
    json_array_foreach (statuses, i, s) {
        const char *reason = codec_json_str(s, "state", "waiting", "reason", NULL);
        if (reason)
            return reason;
    }
    const char *phase = kube_phase(pod);
    return phase ? phase : "";
}

static struct gs_error *add_pod(struct cluster_source *s, const char *name, const char *ns,
                                const char *pod, const char *label, const char *text, double value,
                                int64_t t_ms)
{
    struct top_label labels[] = {{GS_SLICE("namespace"), gs_slice_of(ns)},
                                 {GS_SLICE("pod"), gs_slice_of(pod)},
                                 {gs_slice_of(label), gs_slice_of(text)}};
    struct top_sample x = {gs_slice_of(name), labels, label ? 3 : 2, value, t_ms};
    return top_samples_add(&s->samples, &x);
}

static struct gs_error *add_pod_object(struct cluster_source *s, const json_t *pod, double gpus)
{
    const char *ns = codec_json_str(pod, "metadata", "namespace", NULL);
    const char *name = codec_json_str(pod, "metadata", "name", NULL);
    const char *created = kube_created(pod);
    const char *node = kube_pod_node(pod);
    int64_t created_ms = 0;
    struct gs_error *err =
        add_pod(s, "kube_pod_container_resource_requests", ns, name, NULL, NULL, gpus, 0);
    if (!err && node)
        err = add_pod(s, "kube_pod_info", ns, name, "node", node, 1, 0);
    if (!err)
        err = add_pod(s, "kube_pod_status_phase", ns, name, "phase", status_of_pod(pod), 1, 0);
    GS_AUTO_ERROR struct gs_error *no_time =
        created ? gs_parse_rfc3339(gs_slice_of(created), &created_ms) : NULL;
    if (!err && created && !no_time)
        err = add_pod(s, "kube_pod_created", ns, name, NULL, NULL, (double)created_ms / 1000, 0);
    return err;
}

// The namespaces of pods with GPUs are the keys of ret_namespaces.
static struct gs_error *add_pods(struct cluster_source *s, struct gs_hmap *ret_namespaces)
{
    const json_t *pod;
    size_t pos = 0;
    struct gs_error *err = NULL;
    while (!err && (pod = kube_cache_next(s->pods, &pos))) {
        const char *ns = codec_json_str(pod, "metadata", "namespace", NULL);
        double gpus = requested_gpus(pod);
        if (!(gpus > 0) || !ns)
            continue;
        gs_hmap_put_str(ret_namespaces, ns, s);
        err = add_pod_object(s, pod, gpus);
    }
    return err;
}

// --- values ---

static void finish_refresh(struct cluster_source *s, struct gs_error *err)
{
    free(s->requests);
    s->requests = NULL;
    s->n_requests = 0;
    s->done(s->arg, err ? NULL : &s->samples, NULL, err);
}

static void add_values(struct cluster_source *s, size_t metric, const json_t *body)
{
    const json_t *item;
    size_t i;
    json_array_foreach (json_object_get(body, "items"), i, item) {
        const char *ns = codec_json_str(item, "describedObject", "namespace", NULL);
        const char *name = codec_json_str(item, "describedObject", "name", NULL);
        const char *value = codec_json_str(item, "value", NULL);
        const char *timestamp = codec_json_str(item, "timestamp", NULL);
        int64_t milli = 0, t_ms = 0;
        GS_AUTO_ERROR struct gs_error *bad = kube_quantity_parse_milli(gs_slice_of(value), &milli);
        GS_AUTO_ERROR struct gs_error *no_time =
            timestamp ? gs_parse_rfc3339(gs_slice_of(timestamp), &t_ms) : NULL;
        if (!ns || !name || !value || bad)
            continue;
        gs_error_free(add_pod(s, metric == MEMORY ? TOP_POD_USED : TOP_POD_UTIL, ns, name, NULL,
                              NULL, (double)milli / 1000, no_time ? 0 : t_ms));
    }
}

// Pods without a value are absent from the list, and a namespace without any is an error 404.
static void on_metric(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct cluster_request *r = arg;
    struct cluster_source *s = r->source;
    r->request = NULL;
    if (!err)
        add_values(s, r->metric, body);
    else if (status != 404 && !s->samples.note)
        top_samples_note(&s->samples, gs_error_message(err));
    gs_error_free(err);
    if (--s->waiting == 0)
        finish_refresh(s, NULL);
}

static void request_metric(struct cluster_source *s, struct gs_slice ns, size_t metric)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    struct cluster_request *r = &s->requests[s->n_requests++];
    gs_buf_add_str(&path, GROUP_PATH "/namespaces/");
    http_encode(ns, &path);
    gs_buf_add_str(&path, "/pods/*/");
    http_encode(gs_slice_of(s->metrics[metric]), &path);
    *r = (struct cluster_request){.source = s, .metric = metric};
    s->waiting++;
    r->request = kube_raw_get(s->client, path.data, on_metric, r);
}

static void request_values(struct cluster_source *s)
{
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *namespaces = gs_hmap_new(NULL);
    struct gs_error *err = add_pods(s, namespaces);
    struct gs_slice ns;
    void *unused;
    size_t pos = 0, n = 0;
    if (err) {
        finish_refresh(s, err);
        return;
    }
    s->requests = gs_alloc_array(gs_hmap_len(namespaces) * N_METRICS + 1, sizeof(*s->requests));
    s->waiting = 1; // this function
    while (gs_hmap_next(namespaces, &pos, &ns, &unused) && n++ < MAX_NAMESPACES)
        for (size_t i = 0; i < N_METRICS; i++)
            if (s->metrics[i])
                request_metric(s, ns, i);
    if (gs_hmap_len(namespaces) > MAX_NAMESPACES)
        top_samples_note(&s->samples, "Values of the first 200 namespaces only: use --namespace");
    if (--s->waiting == 0)
        finish_refresh(s, NULL);
}

// --- discovery ---

static bool lists_metric(const json_t *body, const char *name)
{
    GS_AUTO_FREE char *wanted = gs_format("pods/%s", name);
    const json_t *resource;
    size_t i;
    json_array_foreach (json_object_get(body, "resources"), i, resource)
        if (gs_streq(codec_json_str(resource, "name", NULL), wanted))
            return true;
    return false;
}

static void on_discovery(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct cluster_source *s = arg;
    bool any = false;
    s->discovery = NULL;
    for (size_t i = 0; i < N_METRICS; i++) {
        s->metrics[i] = NULL;
        for (size_t k = 0; !err && !s->metrics[i] && names[i][k]; k++)
            if (lists_metric(body, names[i][k]))
                s->metrics[i] = names[i][k];
        any |= s->metrics[i] != NULL;
    }
    if (status == 404)
        top_samples_note(&s->samples,
                         "No values: the cluster does not serve custom.metrics.k8s.io");
    else if (err)
        top_samples_note(&s->samples, gs_error_message(err));
    else if (!any)
        top_samples_note(&s->samples, "No values: custom.metrics.k8s.io has no metric of GPUs such "
                                      "as pods/DCGM_FI_DEV_GPU_UTIL");
    gs_error_free(err);
    request_values(s);
}

// Waits for the first list of pods.
static void advance(void *arg)
{
    struct cluster_source *s = arg;
    const char *error = kube_cache_error(s->pods);
    bool late = gs_mono_ns() / GS_NS_PER_MS - s->begun_ms > s->timeout_ms;
    if (error)
        finish_refresh(s, gs_error_new(GS_EUNAVAIL, "%s%s", error,
                                       kube_cache_denied(s->pods) && !s->one_namespace
                                           ? "; --namespace needs permission for one namespace only"
                                           : ""));
    else if (kube_cache_synced(s->pods))
        s->discovery = kube_raw_get(s->client, GROUP_PATH, on_discovery, s);
    else if (late)
        finish_refresh(s, gs_error_new(GS_ETIMEOUT, "the API server does not respond"));
    else
        gs_timer_start(s->timer, advance, WAIT_MS);
}

static void cluster_refresh(struct top_source *source, top_source_done done, void *arg)
{
    struct cluster_source *s = (struct cluster_source *)source;
    top_samples_finish(&s->samples);
    s->done = done;
    s->arg = arg;
    s->begun_ms = gs_mono_ns() / GS_NS_PER_MS;
    advance(s);
}

// --- creation ---

static void cluster_free(struct top_source *source)
{
    struct cluster_source *s = (struct cluster_source *)source;
    for (size_t i = 0; i < s->n_requests; i++)
        kube_request_cancel(s->requests[i].request);
    kube_request_cancel(s->discovery);
    gs_timer_free(s->timer);
    if (s->pods)
        kube_cache_free(s->pods);
    if (s->client)
        kube_client_free(s->client);
    http_client_free(s->http);
    top_samples_finish(&s->samples);
    free(s->requests);
    free(s->is.name);
    free(s);
}

struct gs_error *top_source_cluster_new(uv_loop_t *loop, const struct top_options *o,
                                        struct top_source **ret)
{
    static const struct top_source_ops ops = {cluster_refresh, cluster_free};
    GS_CLEANUP(kube_config_finish) struct kube_config config = {0};
    struct http_client *http = NULL;
    struct gs_error *err = kube_config_load(o->kubeconfig, o->context, &config);
    if (!err)
        err = kube_config_connect(&config, loop, "gpuscale-top/" GPUSCALE_VERSION, &http);
    if (err)
        return gs_error_wrap(err, "kubeconfig");
    GS_AUTO_BUF struct gs_buf name = {0};
    struct cluster_source *s = gs_alloc(sizeof(*s));
    gs_columns_clean(&name, gs_slice_of(config.server));
    s->is.ops = &ops;
    s->is.name = gs_format("%s (metrics API)", name.data);
    s->http = http;
    s->client = kube_client_new(http);
    s->timer = gs_timer_new(loop, s);
    s->one_namespace = o->ns != NULL;
    s->timeout_ms = o->timeout_ns / GS_NS_PER_MS;
    s->pods = kube_cache_new(loop, s->client, KUBE_PODS, o->ns, RUNNING);
    kube_cache_set_trim(s->pods, trim_pod);
    kube_cache_start(s->pods);
    *ret = &s->is;
    return NULL;
}
