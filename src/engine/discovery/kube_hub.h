// SPDX-License-Identifier: Apache-2.0
// The watch caches behind kubernetes_sd_configs: one for each cluster, resource, namespace and
// selector, shared by all providers. Private to the room.
#pragma once

#include "engine/discovery/discovery.h"
#include "kube/cache.h"

struct discovery_hub_cluster;
struct discovery_hub_cache;

// The cluster that a configuration names, counted; its own when it names none.
struct gs_error *discovery_hub_cluster_open(struct discovery_kubernetes_hub *h,
                                            const struct engine_config_kubernetes_sd *cfg,
                                            struct discovery_hub_cluster **ret);
void discovery_hub_cluster_close(struct discovery_hub_cluster *c);

// ns NULL: all namespaces. query: encoded selectors or NULL. Counted; started.
struct discovery_hub_cache *discovery_hub_cache_open(struct discovery_hub_cluster *c,
                                                     struct kube_gvr r, const char *ns,
                                                     const char *query);
void discovery_hub_cache_close(struct discovery_hub_cache *c);
struct kube_cache *discovery_hub_cache_get(struct discovery_hub_cache *c);

uv_loop_t *discovery_hub_loop(struct discovery_kubernetes_hub *h);
