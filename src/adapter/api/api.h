// SPDX-License-Identifier: Apache-2.0
// The metrics APIs as an aggregated API server answers them: custom.metrics.k8s.io,
// external.metrics.k8s.io and metrics.k8s.io, discovery, OpenAPI, health, /metrics, /version.
// https://github.com/kubernetes/metrics,
// https://github.com/kubernetes-sigs/custom-metrics-apiserver
#pragma once

#include "adapter/api/audit.h"
#include "adapter/api/delegate.h"
#include "adapter/provider/provider.h"
#include "adapter/source/source.h"
#include "base/buf.h"

struct adapter_api;

#define ADAPTER_API_LONGEST_MS 90000 // a list and a query, each with its timeout

// What is served now. A reload makes another one; requests that are under way keep theirs.
struct adapter_api_generation {
    const struct adapter_config *config;
    struct provider_registry *registry, *gpu; // gpu may be NULL
    struct provider *provider;
    struct source *source;
    struct source *const *others; // as many as the configuration has
    const struct provider_rest_mapper *mapper;
    const struct adapter_config_resource_rules *resource; // NULL: metrics.k8s.io is not served
};

struct adapter_api_options {
    uv_loop_t *loop; // of the timeouts that requests have; NULL: they have none
    struct adapter_api_auth *auth;
    struct adapter_api_audit *audit; // may be NULL
    // Who served the groups before; NULL: nobody.
    struct adapter_api_delegate *delegate_custom, *delegate_external, *delegate_resource;
    struct kube_client *kube;   // for metrics.k8s.io: lists of pods and nodes; may be NULL
    struct source_probe *probe; // of the default source, for /readyz; may be NULL
    // Whether the program is ready beyond what is checked here; NULL in *ret: yes.
    const char *(*not_ready)(void *arg);
    // Appends to /metrics.
    void (*more_metrics)(void *arg, struct gs_buf *out);
    void *arg;
};

struct gs_error *adapter_api_new(const struct adapter_api_options *o, struct adapter_api **ret);
void adapter_api_free(struct adapter_api *a);
// For requests that come from now on. Borrowed until ADAPTER_API_LONGEST_MS after the next call:
// requests that are under way go on with the world that they began in.
void adapter_api_set_generation(struct adapter_api *a, const struct adapter_api_generation *w);
void adapter_api_handle(void *api, struct http_exchange *x); // an http_handler
void adapter_api_stopping(struct adapter_api *a);            // /readyz fails from now on
void adapter_api_forget_old(
    struct adapter_api *a); // what is kept of answers and too old; now and then
// The APIGroup document; new reference. NULL: the group is not served now.
json_t *adapter_api_describe_group(const struct adapter_api *a, const char *group);
bool adapter_api_idle(const struct adapter_api *a); // no request is under way
