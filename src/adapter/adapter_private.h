// SPDX-License-Identifier: Apache-2.0
// Shared by the files of src/adapter only.
#pragma once

#include "adapter/adapter.h"
#include "adapter/api/api.h"
#include "adapter/config/config.h"
#include "adapter/sources.h"
#include "engine/engine.h"
#include "kube/cache.h"
#include "kube/connection.h"

enum { ADAPTER_MAX_RETIRED = 32, ADAPTER_LISTS = 5 };

// A configuration with all objects built from it. A reload builds the next generation; requests in
// progress finish with the generation that they started with.
struct adapter_generation {
    struct adapter_config *config;
    struct source **extra_sources;
    struct provider_registry *registry;
    struct provider *provider;
    int64_t retired_ns; // gs_mono_ns() at which new requests stopped
};

struct adapter {
    uv_loop_t *loop;
    struct adapter_options o;
    struct gs_timer *poll, *discovery;
    struct kube_connection lister, authn, authz;
    struct kube_client *kube; // of the options or of lister
    struct engine *engine;    // the options' engine or own_engine; NULL: none
    struct engine *own_engine;
    bool source_is_engine; // the default source
    struct source *source;
    struct source_probe *probe;
    struct provider_rest_mapper *mapper;
    struct adapter_config *gpu_config, *pod_series_config, *resource_config;
    struct provider_registry *gpu, *pod_series; // NULL: disabled
    struct adapter_generation now, next; // next: loaded, but some of its series are not listed yet
    struct adapter_api_auth *auth;
    struct adapter_api_audit *audit;         // NULL: none
    struct adapter_api_delegate **delegates; // previous servers of the API groups
    size_t n_delegates;
    struct adapter_api_delegate *delegate_custom, *delegate_external,
        *delegate_resource; // in delegates
    struct adapter_api *api;
    const char **lists[ADAPTER_LISTS]; // values of options that take several
    char *list_texts[ADAPTER_LISTS];
    struct gs_file_watch *config_watch;
    struct kube_cache *config_maps; // NULL: ConfigMaps are not read
    char *map_name, *map_text;      // the ConfigMap in use; NULL: none
    struct adapter_generation retired[ADAPTER_MAX_RETIRED];
    size_t n_retired;
    int64_t started_ns;
    int64_t first_round; // of the metrics, with all targets of the own engine; 0: not begun
    uint64_t reloads, reload_failures;
    char *reload_error; // of the last reload; NULL: it succeeded
    int64_t loaded_ms;
    size_t pod_series_left_out; // names over the limit, as logged
    bool shadows_logged;        // of the current generation
    size_t wrong_overrides;     // overrides that name a resource that the cluster does not have
    bool auth_ready, rest_mapper_ready;
    char *discovery_problem; // as logged; NULL: none
    struct gs_error *fatal;
};

// --- pod_series.c: each series with the labels namespace and pod, without a rule ---

struct gs_error *adapter_make_pod_series(struct adapter *a);
// Logs names that rules hide, once for each configuration, and names over the limit.
void adapter_check_pod_series(struct adapter *a);
void adapter_write_pod_series_metrics(const struct adapter *a, struct gs_buf *out);

// --- generation.c: loads configurations and builds generations ---

struct gs_error *adapter_load_config(struct adapter *a, struct adapter_config **ret);
struct gs_error *adapter_make_generation(struct adapter *a, struct adapter_config *c,
                                         struct adapter_generation *ret);
void adapter_show_generation(struct adapter *a);
void adapter_reload_changed(struct adapter *a); // if a file has changed
// Uses the next generation, if it has listed its series and fewer than ADAPTER_MAX_RETIRED old ones
// remain.
void adapter_adopt_next(struct adapter *a);
void adapter_free_retired(struct adapter *a, int64_t age_ns);
void adapter_free_generations(struct adapter *a);

// --- config_map.c: rules in a ConfigMap ---

void adapter_watch_config_maps(struct adapter *a);
void adapter_free_config_maps(struct adapter *a);

// --- connections.c: the Kubernetes API, its resources, authentication ---

struct gs_error *adapter_connect_clusters(struct adapter *a);
void adapter_watch_resources(struct adapter *a);
void adapter_check_overrides(struct adapter *a, const struct adapter_config *c, bool again);
struct gs_error *adapter_make_auth(struct adapter *a);
void adapter_free_clusters(struct adapter *a);

// --- delegates.c: previous servers of the API groups ---

struct gs_error *adapter_make_delegates(struct adapter *a);
void adapter_free_delegates(struct adapter *a);

// --- sources.c: the default source, the engine, and the metrics that need no rules ---

enum { ADAPTER_ENGINE_RELIST_MS = 10000, ADAPTER_ENGINE_MAX_AGE_MS = 300000 };

struct gs_error *adapter_need_engine(struct adapter *a); // starts one if there is none
struct gs_error *adapter_make_source(struct adapter *a, const struct adapter_config *c);
struct gs_error *adapter_make_builtin_rules(struct adapter *a);
int64_t adapter_builtin_relist_ms(const struct adapter *a); // of rules that are not the user's
void adapter_free_sources(struct adapter *a);
