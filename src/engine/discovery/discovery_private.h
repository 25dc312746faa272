// SPDX-License-Identifier: Apache-2.0
// Internals of this module.
#pragma once

#include "base/arena.h"
#include "codec/json.h"
#include "engine/discovery/discovery.h"
#include "kube/cache.h"
#include "metrics/labels.h"

// --- lists of target groups ---
// Lists of target groups from files and HTTP servers: [{"targets": [...], "labels": {...}}].

struct discovery_group_list {
    struct gs_arena arena;
    struct discovery_group *items;
    size_t len, cap;
};
void discovery_group_list_add(struct discovery_group_list *l, struct discovery_group g);
void discovery_group_list_finish(struct discovery_group_list *l);

// Checks a list by Prometheus' rules. NULL is an empty list.
struct gs_error *discovery_groups_check(const json_t *list);
// Adds the groups of a checked list with the sources "FROM:0", "FROM:1" … and the label
// from_label="FROM". If the previous list had more groups (n_before), empty groups are added for
// the rest.
void discovery_groups_add(struct discovery_group_list *l, const json_t *list, const char *from,
                          const char *from_label, size_t n_before);

// --- label lists ---
//
// Label lists under construction, in an arena.

struct discovery_labels {
    struct gs_arena *arena;
    struct metrics_label *items;
    size_t len, cap;
};

// name and value are borrowed. NULL and "" values are left out: an empty label is an absent label.
void discovery_labels_add(struct discovery_labels *l, const char *name, const char *value);
void discovery_labels_addf(struct discovery_labels *l, const char *name, const char *fmt, ...)
    GS_PRINTF(3, 4);
// __meta_kubernetes_<prefix>_* for each key of a map. value NULL: the values of the map.
void discovery_labels_add_map(struct discovery_labels *l, const char *prefix, const char *value,
                              const json_t *map);
// __meta_kubernetes_<prefix>_<key>, name and value in lower case.
void discovery_labels_add_lower(struct discovery_labels *l, const char *prefix, const char *key,
                                const char *value);
// __meta_kubernetes_<role>_label_*, _labelpresent_*, _annotation_*, _annotationpresent_*
void discovery_labels_add_maps(struct discovery_labels *l, const char *role, const json_t *obj);
// The same, and __meta_kubernetes_<role>_name
void discovery_labels_add_meta(struct discovery_labels *l, const char *role, const json_t *obj);

char *discovery_format(struct gs_arena *a, const char *fmt, ...) GS_PRINTF(2, 3);
// "10.0.0.1:80", "[fd00::1]:80"
const char *discovery_join_host_port(struct gs_arena *a, const char *host, int64_t port);

// --- Kubernetes objects as targets --- Creates scrape targets from Kubernetes objects, with the
// __meta_kubernetes_* labels of
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/#kubernetes_sd_config
// The result depends only on the objects.

enum discovery_kube_related {
    DISCOVERY_KUBE_POD,
    DISCOVERY_KUBE_SERVICE,
    DISCOVERY_KUBE_NODE,
    DISCOVERY_KUBE_NAMESPACE,
    DISCOVERY_KUBE_REPLICASET,
    DISCOVERY_KUBE_JOB,
};

// Finds the other objects that the labels of a target describe. ns NULL: in no namespace. NULL: not
// found.
struct discovery_kube_lookup {
    const json_t *(*find)(void *arg, enum discovery_kube_related kind, const char *ns,
                          const char *name);
    void *arg;
    struct engine_config_attach attach;
};

// Returns the resource that the role watches.
struct kube_gvr discovery_kube_resource(enum engine_config_sd_role role);

// *ret is allocated in the arena or borrowed from the objects. If a list has a label name twice,
// the last one is used. n_targets is 0 if the object has no targets.
void discovery_kube_build(enum engine_config_sd_role role, const json_t *obj,
                          const struct discovery_kube_lookup *lookup, struct gs_arena *arena,
                          struct discovery_group *ret);

// --- shared informers ---

// The watch caches of kubernetes_sd_configs: one for each cluster, resource, namespace and
// selector, shared by all providers.
struct discovery_informer_cluster;
struct discovery_informer;

// Opens the cluster of a configuration, or the engine's own cluster if it names none.
// Reference-counted.
struct gs_error *discovery_informer_cluster_open(struct discovery_informers *h,
                                                 const struct engine_config_kubernetes_sd *cfg,
                                                 struct discovery_informer_cluster **ret);
void discovery_informer_cluster_close(struct discovery_informer_cluster *c);

// Opens and starts an informer. ns NULL: all namespaces. query: encoded selectors or NULL.
// Reference-counted.
struct discovery_informer *discovery_informer_open(struct discovery_informer_cluster *c,
                                                   struct kube_gvr r, const char *ns,
                                                   const char *query);
void discovery_informer_close(struct discovery_informer *c);
struct kube_cache *discovery_informer_cache(struct discovery_informer *c);

uv_loop_t *discovery_informers_loop(struct discovery_informers *h);
