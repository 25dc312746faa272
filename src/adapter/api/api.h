// SPDX-License-Identifier: Apache-2.0
// The metrics APIs as an aggregated API server answers them: custom.metrics.k8s.io,
// external.metrics.k8s.io and metrics.k8s.io, discovery, OpenAPI, health, /metrics, /version.
// https://github.com/kubernetes/metrics,
// https://github.com/kubernetes-sigs/custom-metrics-apiserver
#pragma once

#include "adapter/api/audit.h"
#include "adapter/api/previous.h"
#include "adapter/provider/provider.h"
#include "adapter/source/probe.h"
#include "base/buf.h"

struct api;

#define API_LONGEST_MS 90000 // a list and a query, each with its timeout

// What is served now. A reload makes another one; requests that are under way keep theirs.
struct api_world {
    const struct adapter_config *config;
    struct registry *registry, *gpu; // gpu may be NULL
    struct provider *provider;
    struct source *source;
    struct source *const *others; // as many as the configuration has
    const struct mapper *mapper;
};

struct api_options {
    uv_loop_t *loop; // of the timeouts that requests have; NULL: they have none
    struct auth *auth;
    struct audit *audit; // may be NULL
    // Who served the groups before; NULL: nobody.
    struct previous *previous_custom, *previous_external, *previous_resource;
    struct kube_client *kube; // for metrics.k8s.io: lists of pods and nodes; may be NULL
    struct probe *probe;      // of the default source, for /readyz; may be NULL
    // Whether the program is ready beyond what is checked here; NULL in *ret: yes.
    const char *(*not_ready)(void *arg);
    // Appends to /metrics.
    void (*more_metrics)(void *arg, struct gs_buf *out);
    void *arg;
};

struct gs_error *api_new(const struct api_options *o, struct api **ret);
void api_free(struct api *a);
// For requests that come from now on. Borrowed until API_LONGEST_MS after the next call: requests
// that are under way go on with the world that they began in.
void api_set_world(struct api *a, const struct api_world *w);
void api_handle(void *api, struct http_exchange *x); // an http_handler
void api_stopping(struct api *a);                    // /readyz fails from now on
void api_forget_old(struct api *a); // what is kept of answers and too old; now and then
bool api_idle(const struct api *a); // no request is under way
