// SPDX-License-Identifier: Apache-2.0
// The HTTP API of the adapter, as an aggregated API server: custom.metrics.k8s.io,
// external.metrics.k8s.io and metrics.k8s.io, discovery, OpenAPI, health, /metrics, /version. All
// functions run on the thread of the loop.
// https://github.com/kubernetes/metrics,
// https://github.com/kubernetes-sigs/custom-metrics-apiserver
#pragma once

#include "adapter/api/audit.h"
#include "adapter/api/delegate.h"
#include "adapter/provider/provider.h"
#include "adapter/source/source.h"
#include "base/buf.h"

struct adapter_api;
struct metric_changes;

#define ADAPTER_API_STATUS_PATH "/api/v1/gpuscale/adapter" // the data of the page

#define ADAPTER_API_EXPLANATION "MetricExplanation" // kind of the response to explain=true

#define ADAPTER_API_LONGEST_MS 90000 // maximum duration of a request: a list and a query

// The rules and sources that are served. A reload builds a new generation; requests in progress
// keep the one that they started with. All members are borrowed.
struct adapter_api_generation {
    const struct adapter_config *config;
    struct provider_registry *registry, *gpu, *pod_series; // the last two may be NULL
    struct provider *provider;
    struct source *source;
    struct source *const *extra_sources; // config->n_sources of them
    const struct provider_rest_mapper *mapper;
    const struct adapter_config_resource_rules *resource; // NULL: metrics.k8s.io is not served
};

struct adapter_api_options {
    uv_loop_t *loop; // for request timeouts; NULL: requests have no timeout
    struct adapter_api_auth *auth;
    struct adapter_api_audit *audit; // may be NULL
    // Previous servers of the groups, for requests that no rule serves; NULL: none.
    struct adapter_api_delegate *delegate_custom, *delegate_external, *delegate_resource;
    struct kube_client *kube;   // for metrics.k8s.io: lists of pods and nodes; may be NULL
    struct source_probe *probe; // checks the default source for /readyz; may be NULL
    // Returns why the program is not ready; NULL: it is ready.
    const char *(*not_ready)(void *arg);
    // Appends to /metrics.
    void (*more_metrics)(void *arg, struct gs_buf *out);
    // Adds to the JSON of the page.
    void (*more_status)(void *arg, json_t *out);
    bool follows; // the default source is in this process: serve the stream of changes
    bool mounted; // the API server of this process serves the groups: there are no APIServices
    void *arg;
};

struct adapter_api *adapter_api_new(const struct adapter_api_options *o);
void adapter_api_free(struct adapter_api *a);
// Sets the generation of later requests. It is borrowed until ADAPTER_API_LONGEST_MS after the next
// call, because requests in progress finish with their generation.
void adapter_api_set_generation(struct adapter_api *a, const struct adapter_api_generation *g);
void adapter_api_handle(void *api, struct http_exchange *x); // an http_handler
void adapter_api_stopping(struct adapter_api *a);            // /readyz fails from now on
// The default source has new samples. Only with options.follows.
void adapter_api_new_samples(struct adapter_api *a);
// Which metrics have changed. Borrowed. NULL: without options.follows.
struct metric_changes *adapter_api_changes(const struct adapter_api *a);
// Frees expired cached responses. Call it every few seconds.
void adapter_api_forget_old(struct adapter_api *a);
// Returns the APIGroup document. New reference. NULL: the group is not served now.
json_t *adapter_api_describe_group(const struct adapter_api *a, const char *group);
