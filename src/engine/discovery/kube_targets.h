// SPDX-License-Identifier: Apache-2.0
// Kubernetes objects as scrape targets: the __meta_kubernetes_* labels of
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/#kubernetes_sd_config
// A pure function of the objects. Private to the room.
#pragma once

#include "engine/discovery/discovery.h"

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
