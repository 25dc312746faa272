// SPDX-License-Identifier: Apache-2.0
// Private to the adapter's files.
#pragma once

#include "adapter/adapter.h"
#include "adapter/api/api.h"
#include "adapter/config/config.h"
#include "adapter/sources.h"
#include "engine/engine.h"
#include "kube/cache.h"

enum { ADAPTER_MAX_RETIRED = 32, ADAPTER_LISTS = 5 };

// A configuration with what was made from it. A reload makes the next generation; requests that are
// under way end in theirs.
struct adapter_generation {
    struct adapter_config *config;
    struct source **extra_sources;
    struct provider_registry *registry;
    struct provider *provider;
    int64_t retired_ns; // no new request comes to it
};

struct adapter_cluster {
    struct http_client *http; // NULL: the client is borrowed
    struct kube_client *kube;
};

struct adapter {
    uv_loop_t *loop;
    struct adapter_options o;
    uv_timer_t *poll, *discovery;
    struct adapter_cluster lister, authn, authz;
    struct engine *engine; // of the options, or own_engine; NULL: none
    struct engine *own_engine;
    struct source *source;
    struct source_probe *probe;
    struct provider_rest_mapper *mapper;
    struct adapter_config *gpu_config, *resource_config;
    struct provider_registry *gpu;
    struct adapter_generation now, next; // next: loaded, its first lists of series are under way
    struct adapter_api_auth *auth;
    struct adapter_api_audit *audit;         // NULL: none
    struct adapter_api_delegate **delegates; // who served the API groups before
    size_t n_delegates;
    struct adapter_api_delegate *delegate_custom, *delegate_external, *delegate_resource; // of them
    struct adapter_api *api;
    const char **lists[ADAPTER_LISTS]; // of options that have several values
    char *list_texts[ADAPTER_LISTS];
    struct gs_file_watch *config_watch;
    struct kube_cache *config_maps; // NULL: not read
    char *map_name, *map_text;      // of the ConfigMap in force; NULL: none
    struct adapter_generation retired[ADAPTER_MAX_RETIRED];
    size_t n_retired;
    int64_t started_ns;
    uint64_t reloads, reload_failures;
    int64_t loaded_ms;
    size_t wrong_overrides; // that name no resource of the cluster
    bool auth_ready, rest_mapper_ready;
    struct gs_error *fatal;
};

uv_timer_t *adapter_timer_new(struct adapter *a);
void adapter_timer_free(uv_timer_t *t); // NULL is fine

// --- generation.c: configurations and what is made of them ---

struct gs_error *adapter_load_config(struct adapter *a, struct adapter_config **ret);
struct gs_error *adapter_make_generation(struct adapter *a, struct adapter_config *c,
                                         struct adapter_generation *ret);
void adapter_show_generation(struct adapter *a);
void adapter_reload_changed(struct adapter *a); // when a file is not the one in force
void adapter_free_retired(struct adapter *a, int64_t age_ns);
void adapter_free_generations(struct adapter *a);

// --- config_map.c: rules of a ConfigMap ---

void adapter_watch_config_maps(struct adapter *a);
void adapter_free_config_maps(struct adapter *a);

// --- cluster.c: the Kubernetes API, its resources, authentication ---

struct gs_error *adapter_connect_clusters(struct adapter *a);
void adapter_watch_resources(struct adapter *a);
void adapter_check_overrides(struct adapter *a, const struct adapter_config *c, bool again);
struct gs_error *adapter_make_auth(struct adapter *a);
void adapter_free_clusters(struct adapter *a);

// --- delegates.c: who served the API groups before ---

struct gs_error *adapter_make_delegates(struct adapter *a);
void adapter_free_delegates(struct adapter *a);

// --- sources.c: where series come from ---

enum { ENGINE_RELIST_MS = 10000, ENGINE_MAX_AGE_MS = 300000 };

struct gs_error *adapter_need_engine(struct adapter *a); // there is one from now on
struct gs_error *adapter_make_source(struct adapter *a, const struct adapter_config *c);
struct gs_error *adapter_make_gpu(struct adapter *a);
void adapter_free_sources(struct adapter *a);
