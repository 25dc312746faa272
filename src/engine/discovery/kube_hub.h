// SPDX-License-Identifier: Apache-2.0
// The watch caches behind kubernetes_sd_configs: one for each cluster, resource, namespace and
// selector, shared by all providers. Private to the room.
#pragma once

#include "engine/discovery/discovery.h"
#include "kube/cache.h"

struct hub_cluster;
struct hub_cache;

// The cluster that a configuration names, counted; its own when it names none.
struct gs_error *hub_cluster_open(struct sd_kubernetes_hub *h,
                                  const struct engine_kubernetes_sd *cfg, struct hub_cluster **ret);
void hub_cluster_close(struct hub_cluster *c);

// ns NULL: all namespaces. query: encoded selectors or NULL. Counted; started.
struct hub_cache *hub_cache_open(struct hub_cluster *c, struct kube_gvr r, const char *ns,
                                 const char *query);
void hub_cache_close(struct hub_cache *c);
struct kube_cache *hub_cache_get(struct hub_cache *c);

uv_loop_t *hub_loop(struct sd_kubernetes_hub *h);
