// SPDX-License-Identifier: Apache-2.0
// Probes of containers, and the handlers that probes and lifecycle hooks share.
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct kubelet_container;

// --- handler.c: one execution of the handler of a probe or a lifecycle hook ---
// Handlers are exec, httpGet, tcpSocket, grpc and sleep. Failure messages are the kubelet's.

struct kubelet_handler;
// Called once, in a later loop turn. message is the cause of a failure (output of a command, an
// HTTP status code), "" if empty. The handler is freed afterwards.
typedef void (*kubelet_handler_done)(void *arg, bool ok, const char *message);
struct kubelet_handler *kubelet_handler_start(struct kubelet_container *c, const json_t *spec,
                                              unsigned timeout_ms, kubelet_handler_done done,
                                              void *arg);
// No callback follows. Accepts NULL. Not allowed inside `done`.
void kubelet_handler_cancel(struct kubelet_handler *h);

// --- probe.c: startup, liveness and readiness probes of a running container ---
// Source: the Kubernetes API's Probe type and the kubelet's documented behavior.

struct kubelet_probe;

enum kubelet_probe_kind {
    KUBELET_PROBE_STARTUP,
    KUBELET_PROBE_LIVENESS,
    KUBELET_PROBE_READINESS,
    KUBELET_N_PROBES
};

extern const char *const kubelet_probe_members[KUBELET_N_PROBES]; // "startupProbe", …

// Runs until freed. Liveness and readiness probes wait for the container's `started`. Each change
// of the result beyond its threshold calls kubelet_container_probed(). Each failure is an Unhealthy
// event.
struct kubelet_probe *kubelet_probe_new(struct kubelet_container *c, enum kubelet_probe_kind kind,
                                        const json_t *spec);
void kubelet_probe_free(struct kubelet_probe *p); // accepts NULL
