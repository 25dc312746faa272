// SPDX-License-Identifier: Apache-2.0
// Reads all that the controller would read of one HPA, without writing: object, scale, pods,
// metrics, and the history from the controller, if it can be reached. Errors of single parts are
// facts for the explanation, not errors of the inspection.
#include "hpa_controller/inspect.h"

#include "base/clock.h"
#include "base/mem.h"
#include "hpa/observe.h"
#include "hpa/zero.h"
#include "hpa_controller/controller.h"
#include "hpa_controller/controller_private.h"
#include "kube/object.h"
#include "kube/selector.h"

#define REFRESH_MS 60000 // of the custom metrics API's version; an inspection is shorter

struct hpa_inspection {
    uv_loop_t *loop;
    struct kube_client *client;
    int release;
    hpa_inspect_done cb;
    void *arg;

    char *ns, *name;
    struct kube_request *request;
    struct hpa_resources *resources;
    struct hpa_metrics_source *metrics;
    struct hpa_scale *scale;
    struct hpa_fetch *fetch;
    bool has_spec;
    struct hpa_spec spec;
    json_t *pods;
    struct gs_arena arena;
    const json_t **pod_objects;
    char *scale_error, *selector_error;
    struct hpa_observation obs;
    struct kube_request *history_request;
    struct hpa_history *history;
    char *history_error;
    json_t *startup; // of the controller's history; NULL: it learns no starts
    struct startup_coming coming;
    json_t *latency; // of the controller; NULL: none
    json_t *zero;    // the same
    struct hpa_zero_check zero_check;
    json_t *budget; // of the controller; NULL: none
    struct hpa_extra extra;
    bool complete; // except for the history
};

static void end_inspection(struct hpa_inspection *l, struct gs_error *err)
{
    l->cb(l->arg, NULL, err);
}

static void report_inspection(struct hpa_inspection *l)
{
    l->complete = true;
    if (l->history_request)
        return;
    if (l->fetch) {
        l->obs.metrics = hpa_fetch_observations(l->fetch);
        l->obs.loads = l->obs.metrics + l->spec.n_metrics;
    }
    if (startup_coming_from_json(json_object_get(l->startup, "coming"), gs_unix_ms(), &l->coming))
        l->obs.coming = &l->coming;
    if (hpa_extra_from_json(l->latency, &l->extra))
        l->obs.extra = &l->extra;
    if (hpa_zero_check_from_json(l->zero, &l->zero_check))
        l->obs.zero = &l->zero_check;
    const struct hpa_inspection_result seen = {.spec = &l->spec,
                                               .obs = &l->obs,
                                               .pods = l->pod_objects,
                                               .now_ms = gs_unix_ms(),
                                               .history = l->history,
                                               .history_error = l->history_error,
                                               .startup = l->startup,
                                               .latency = l->latency,
                                               .zero = l->zero,
                                               .budget = l->budget};
    l->cb(l->arg, &seen, NULL);
}

static void on_metrics_fetched(void *arg)
{
    report_inspection(arg);
}

// --- pods ---
static void read_pods(struct hpa_inspection *l, json_t *body)
{
    l->pods = json_incref(body);
    const json_t *items = json_object_get(l->pods, "items");
    hpa_observe_list(&l->spec, items, l->release, &l->arena, &l->obs.pods, &l->pod_objects,
                     &l->obs.n_pods);
}

static void on_pods(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_inspection *l = arg;
    (void)status;
    l->request = NULL;
    if (err) {
        end_inspection(l, gs_error_wrap(err, "pods of %s", l->obs.selector));
        return;
    }
    read_pods(l, body);
    l->fetch = hpa_fetch_start(l->metrics, &l->spec, l->obs.selector, false, on_metrics_fetched, l);
    if (hpa_fetch_finished(l->fetch))
        report_inspection(l);
}

static void list_pods(struct hpa_inspection *l)
{
    GS_AUTO_BUF struct gs_buf query = {0};
    gs_buf_add_str(&query, "labelSelector=");
    http_encode(gs_slice_of(l->obs.selector), &query);
    l->request = kube_list(l->client, KUBE_PODS, l->ns, query.data, on_pods, l);
}

// --- scale ---
static void on_scale_read(void *arg, struct gs_error *err)
{
    struct hpa_inspection *l = arg;
    if (err) {
        l->scale_error = gs_strdup(gs_error_message(err));
        l->obs.scale_error = l->scale_error;
        gs_error_free(err);
        report_inspection(l);
        return;
    }
    l->obs.scale_found = true;
    l->obs.spec_replicas = hpa_scale_spec_replicas(l->scale);
    l->obs.status_replicas = hpa_scale_status_replicas(l->scale);
    l->obs.selector = hpa_scale_selector(l->scale);
    struct kube_selector selector = {0};
    GS_AUTO_ERROR struct gs_error *bad = kube_selector_parse(l->obs.selector, &selector);
    kube_selector_finish(&selector);
    if (bad) {
        l->selector_error = gs_strdup(gs_error_message(bad));
        l->obs.selector_error = l->selector_error;
    }
    if (bad || !*l->obs.selector)
        report_inspection(l);
    else
        list_pods(l);
}

// --- the object ---
static void on_object(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_inspection *l = arg;
    (void)status;
    l->request = NULL;
    if (!err)
        err = hpa_spec_parse(body, &l->spec);
    if (err) {
        end_inspection(l, err);
        return;
    }
    l->has_spec = true;
    l->obs.has_scaled_to_zero = kube_condition(body, "ScaledToZero") != NULL;
    l->obs.scaled_to_zero = kube_condition_true(body, "ScaledToZero");
    l->scale = hpa_scale_new(l->loop, l->client, l->resources, &l->spec);
    hpa_scale_read(l->scale, on_scale_read, l);
}

struct hpa_inspection *hpa_inspect_start(uv_loop_t *loop, struct kube_client *client,
                                         const char *ns, const char *name, int release,
                                         hpa_inspect_done cb, void *arg)
{
    struct hpa_inspection *l = gs_alloc(sizeof(*l));
    l->loop = loop;
    l->client = client;
    l->release = release;
    l->cb = cb;
    l->arg = arg;
    l->ns = gs_strdup(ns);
    l->name = gs_strdup(name);
    l->resources = hpa_resources_new(client);
    l->metrics = hpa_metrics_source_new(client, l->resources, REFRESH_MS, release);
    l->request = kube_get(client, KUBE_HPAS, l->ns, l->name, NULL, on_object, l);
    return l;
}

static void on_history(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_inspection *l = arg;
    l->history_request = NULL;
    if (!err && status == 404)
        err = gs_error_new(GS_ENOTFOUND, "it has no autoscaler %s/%s", l->ns, l->name);
    else if (!err && status != 200)
        err = gs_error_new(GS_EPROTO, "HTTP status %d", status);
    else if (!err)
        err = hpa_history_from_json(body, gs_unix_ms(), &l->history);
    if (!err) {
        l->startup = json_incref(json_object_get(body, "startup"));
        l->latency = json_incref(json_object_get(body, "slo"));
        l->zero = json_incref(json_object_get(body, "zero"));
        l->budget = json_incref(json_object_get(body, "budget"));
    }
    if (err)
        l->history_error = gs_strdup(gs_error_message(err));
    gs_error_free(err);
    if (l->complete)
        report_inspection(l);
}

void hpa_inspect_fetch_history(struct hpa_inspection *l, struct kube_client *controller)
{
    GS_AUTO_FREE char *path = hpa_history_path(l->ns, l->name);
    l->history_request = kube_raw_get(controller, path, on_history, l);
}

void hpa_inspection_free(struct hpa_inspection *l)
{
    if (!l)
        return;
    kube_request_cancel(l->history_request);
    hpa_history_free(l->history);
    json_decref(l->latency);
    json_decref(l->zero);
    json_decref(l->budget);
    free(l->history_error);
    json_decref(l->startup);
    kube_request_cancel(l->request);
    hpa_fetch_free(l->fetch);
    hpa_scale_free(l->scale);
    hpa_metrics_source_free(l->metrics);
    hpa_resources_free(l->resources);
    if (l->has_spec)
        hpa_spec_finish(&l->spec);
    json_decref(l->pods);
    gs_arena_finish(&l->arena);
    free(l->scale_error);
    free(l->selector_error);
    free(l->ns);
    free(l->name);
    free(l);
}
