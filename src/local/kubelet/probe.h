// SPDX-License-Identifier: Apache-2.0
// The startup, liveness and readiness probes of a running container.
// Source: the Kubernetes API's Probe type and the kubelet's documented behaviour.
#pragma once

#include "codec/json.h"

struct local_container;
struct local_probe;

enum local_probe_kind {
    LOCAL_PROBE_STARTUP,
    LOCAL_PROBE_LIVENESS,
    LOCAL_PROBE_READINESS,
    LOCAL_N_PROBES
};

extern const char *const local_probe_members[LOCAL_N_PROBES]; // "startupProbe", …

// Runs until freed. Liveness and readiness wait for the container's `started`. Each change of the
// result beyond its threshold goes to local_container_probed(); each failure is an Unhealthy event.
struct local_probe *local_probe_new(struct local_container *c, enum local_probe_kind kind,
                                    const json_t *spec);
void local_probe_free(struct local_probe *p); // NULL is fine
