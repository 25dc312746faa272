// SPDX-License-Identifier: Apache-2.0
// The startup, liveness and readiness probes of a running container.
// Source: the Kubernetes API's Probe type and the kubelet's documented behaviour.
#pragma once

#include "codec/json.h"

struct kubelet_container;
struct kubelet_probe;

enum kubelet_probe_kind {
    KUBELET_PROBE_STARTUP,
    KUBELET_PROBE_LIVENESS,
    KUBELET_PROBE_READINESS,
    KUBELET_N_PROBES
};

extern const char *const kubelet_probe_members[KUBELET_N_PROBES]; // "startupProbe", …

// Runs until freed. Liveness and readiness wait for the container's `started`. Each change of the
// result beyond its threshold goes to kubelet_container_probed(); each failure is an Unhealthy
// event.
struct kubelet_probe *kubelet_probe_new(struct kubelet_container *c, enum kubelet_probe_kind kind,
                                        const json_t *spec);
void kubelet_probe_free(struct kubelet_probe *p); // NULL is fine
