// SPDX-License-Identifier: Apache-2.0
// Between the files of `gpuscale adapter`: all that a running one has.
#pragma once

#include "adapter/api/api.h"
#include "cmd/adapter/options.h"
#include "cmd/adapter/others.h"
#include "cmd/adapter/rotation.h"
#include "cmd/adapter/serving.h"
#include "engine/engine.h"
#include "net/http/server.h"

enum { RUN_MAX_RETIRED = 32 };

// A configuration with what was made from it.
struct world {
    struct adapter_config *config;
    struct source **others;
    struct provider_registry *registry;
    struct provider *provider;
    int64_t retired_ns; // no new request comes to it
};

struct cluster {
    struct http_client *http;
    struct kube_client *kube;
};

struct run {
    const struct adapter_flags *f;
    bool trimmed; // what only the start needed was given back
    uv_loop_t loop;
    uv_signal_t signals[3];
    uv_timer_t poll, discovery;
    struct cluster lister, authn, authz;
    struct engine *engine;
    struct source *source;
    struct source_probe *probe;
    struct provider_mapper *mapper;
    struct adapter_config *gpu_config;
    struct provider_registry *gpu;
    struct world now, next; // next: loaded, its first round is under way
    struct adapter_api_auth *auth;
    struct adapter_api_audit *audit; // NULL: none
    struct adapter_api_previous **owners;
    size_t n_owners;
    struct adapter_api_previous *previous_custom, *previous_external, *previous_resource; // of them
    struct adapter_api *api;
    struct serving *serving;
    struct rotation *rotation; // NULL: the certificate is somebody else's to renew
    struct http_server *server;
    const char **lists[5];
    char *memory[5];
    struct timespec config_time, sources_time;
    struct world retired[RUN_MAX_RETIRED];
    size_t n_retired;
    int64_t started_ns, stop_ns;
    uint64_t reloads, reload_failures;
    int64_t loaded_ms;
    size_t wrong_overrides; // that name no resource of the cluster
    bool auth_ready, mapper_ready, stopping;
    struct gs_error *fatal;
};

// --- worlds.c: configurations and what is made of them ---

struct gs_error *run_load_config(struct run *r, struct adapter_config **ret);
struct gs_error *run_make_world(struct run *r, struct adapter_config *c, struct world *ret);
void run_show_world(struct run *r);
void run_reload(struct run *r);
void run_reload_changed(struct run *r); // when the file is another than the one in force
void run_free_retired(struct run *r, int64_t age_ns);
void run_free_worlds(struct run *r);

// --- cluster.c: the Kubernetes API, its resources, who may ask ---

struct gs_error *run_connect_clusters(struct run *r);
void run_watch_resources(struct run *r);
void run_check_overrides(struct run *r, const struct adapter_config *c, bool again);
struct gs_error *run_make_auth(struct run *r);
void run_free_clusters(struct run *r);

// --- owners.c: previous owners of the API groups ---

struct gs_error *run_make_owners(struct run *r);
void run_free_owners(struct run *r);

// --- sources.c: where numbers come from ---

enum { ENGINE_RELIST_MS = 10000, ENGINE_MAX_AGE_MS = 300000 };

struct gs_error *run_need_engine(struct run *r); // there is one from now on
struct gs_error *run_make_source(struct run *r, const struct adapter_config *c);
struct gs_error *run_make_gpu(struct run *r);
void run_free_sources(struct run *r);
