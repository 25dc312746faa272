// SPDX-License-Identifier: Apache-2.0
// Between the files of this module.
#pragma once

#include "base/arena.h"
#include "codec/json.h"
#include "engine/discovery/discovery.h"
#include "kube/cache.h"
#include "metrics/labels.h"

// --- lists of target groups ---
//
// Lists of target groups as files and HTTP servers give them: [{"targets": [...], "labels":
// {...}}].

struct discovery_group_list {
    struct gs_arena arena;
    struct discovery_group *items;
    size_t len, cap;
};
void discovery_group_list_add(struct discovery_group_list *l, struct discovery_group g);
void discovery_group_list_finish(struct discovery_group_list *l);

// What Prometheus refuses of such a list. NULL is an empty one.
struct gs_error *discovery_groups_check(const json_t *list);
// The groups of a list that was checked, their sources "FROM:0", "FROM:1" …, with the label that
// tells from where; and empty ones for those that the earlier list had more.
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

// name and value are borrowed; NULL or "" values are left out, which is the same as absent.
void discovery_labels_add(struct discovery_labels *l, const char *name, const char *value);
void discovery_labels_addf(struct discovery_labels *l, const char *name, const char *fmt, ...)
    GS_PRINTF(3, 4);
// __meta_kubernetes_<role>_name, _label_*, _labelpresent_*, _annotation_*, _annotationpresent_*
void discovery_labels_add_meta(struct discovery_labels *l, const char *role, const json_t *obj);

char *discovery_format(struct gs_arena *a, const char *fmt, ...) GS_PRINTF(2, 3);
// "10.0.0.1:80", "[fd00::1]:80"
const char *discovery_join_host_port(struct gs_arena *a, const char *host, int64_t port);

// --- Kubernetes objects as targets ---
//
// Kubernetes objects as scrape targets: the __meta_kubernetes_* labels of
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/#kubernetes_sd_config
// A pure function of the objects.

// Finds the other objects that a target's labels speak of. NULL: not known.
struct discovery_kube_lookup {
    const json_t *(*pod)(void *arg, const char *ns, const char *name);
    const json_t *(*service)(void *arg, const char *ns, const char *name);
    const json_t *(*node)(void *arg, const char *name);
    void *arg;
    bool attach_node;
};

// What the role watches.
struct kube_gvr discovery_kube_resource(enum engine_config_sd_role role);

// Everything in *ret lives in the arena or is borrowed from the objects. Of labels with the same
// name in one list the last one counts. Without targets: n_targets 0.
void discovery_kube_build(enum engine_config_sd_role role, const json_t *obj,
                          const struct discovery_kube_lookup *lookup, struct gs_arena *arena,
                          struct discovery_group *ret);

// --- shared informers ---

// The watch caches of kubernetes_sd_configs: one for each cluster, resource, namespace and
// selector, shared by all providers.
struct discovery_informer_cluster;
struct discovery_informer;

// The cluster that a configuration names, counted; the engine's own if it names none.
struct gs_error *discovery_informer_cluster_open(struct discovery_informers *h,
                                                 const struct engine_config_kubernetes_sd *cfg,
                                                 struct discovery_informer_cluster **ret);
void discovery_informer_cluster_close(struct discovery_informer_cluster *c);

// ns NULL: all namespaces. query: encoded selectors or NULL. Counted; started.
struct discovery_informer *discovery_informer_open(struct discovery_informer_cluster *c,
                                                   struct kube_gvr r, const char *ns,
                                                   const char *query);
void discovery_informer_close(struct discovery_informer *c);
struct kube_cache *discovery_informer_cache(struct discovery_informer *c);

uv_loop_t *discovery_informers_loop(struct discovery_informers *h);
