// SPDX-License-Identifier: Apache-2.0
// Parts of the activator: one Service, its EndpointSlice, and its workload.
#pragma once

#include "activator/activator.h"
#include "activator/gate.h"

#include "base/timer.h"
#include "kube/cache.h"
#include "kube/event.h"

#define ACTIVATOR_SLICES           KUBE_GVR(KUBE_RESOURCE_ENDPOINTSLICES)
#define ACTIVATOR_LABEL_SERVICE    "kubernetes.io/service-name"
#define ACTIVATOR_LABEL_MANAGED_BY "endpointslice.kubernetes.io/managed-by"
#define ACTIVATOR_MANAGER          "activator.gpuscale.dev"
#define ACTIVATOR_ANN_IDENTITY     "gpuscale.dev/activator" // of an EndpointSlice: its instance
#define ACTIVATOR_MAX_PORTS        16

// Shared by all Services of one activator.
struct activator_env {
    uv_loop_t *loop;
    struct kube_client *client;
    struct kube_recorder *recorder;
    struct activator_config cfg;
    struct activator_budget budget;
};

struct activator_leaving;

struct activator {
    struct activator_env env;
    char *ns, *identity, *pod_ns, *listen, *advertise;
    struct kube_cache *services;
    struct kube_watch_errors *errors;
    struct kube_request *orphans;      // their list
    struct gs_hmap *items;             // "ns/name" -> struct activator_service
    struct activator_leaving *leaving; // Services that lost the annotation
    size_t n_withdrawing;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

// --- settings.c ---

// The workload of the annotation's value.
struct activator_target {
    char *kind, *name;
};

// "KIND/NAME". GS_EINVAL: it is not, or the Service cannot be activated.
struct gs_error *activator_target_read(const json_t *service, struct activator_target *ret);
void activator_target_finish(struct activator_target *t);

// --- slice.c: the EndpointSlice of this instance for one Service ---

struct activator_port {
    char *name; // "" for a port without a name
    int number;
    uint16_t listening; // where the gate listens; 0: nowhere
};

// The name of the object. Caller frees.
char *activator_slice_name(const char *service, const char *identity);
// standby: the endpoint is not ready, but serving and terminating. kube-proxy uses such endpoints
// only while no other is ready, so that no moment is without an endpoint when the last pod ends.
json_t *activator_slice_make(const json_t *service, const struct activator_config *cfg,
                             const struct activator_port *ports, size_t n, bool standby);
// Whether the existing slice needs no write.
bool activator_slice_is(const json_t *have, const json_t *want);
bool activator_slice_is_own(const json_t *slice); // of any instance of the activator
// The port on which an earlier process of this instance listened; 0: unknown.
uint16_t activator_slice_port(const json_t *slice, const char *port_name);
// Adds the ready endpoints of a slice for the port; *items has *cap elements, *n of them are used.
void activator_slice_endpoints(const json_t *slice, const char *port_name,
                               struct activator_address **items, size_t *n, size_t *cap);

// --- peers.c: EndpointSlices of instances that are gone ---

struct activator_peers;

// slices: of one Service; all arguments but its name are borrowed.
struct activator_peers *activator_peers_new(struct activator_env *env,
                                            const struct kube_cache *slices, const char *service);
void activator_peers_check(struct activator_peers *p); // call it for each change of the slices
void activator_peers_free(struct activator_peers *p);  // accepts NULL

// --- progress.c: what the connections of a Service wait for ---

struct activator_progress;

// All arguments are borrowed.
struct activator_progress *activator_progress_new(struct activator_env *env,
                                                  struct activator_gate *gate,
                                                  const struct activator_target *target);
// Something may have begun to wait. service: borrowed until the next call.
void activator_progress_check(struct activator_progress *p, const json_t *service);
void activator_progress_ready(struct activator_progress *p); // a pod is ready
// NULL: none. Borrowed until the next turn of the loop.
const char *activator_progress_problem(const struct activator_progress *p);
const char *activator_progress_starting(const struct activator_progress *p);
void activator_progress_free(struct activator_progress *p); // accepts NULL

// --- service.c: one Service ---

struct activator_service;

// service: with the annotation. target: taken.
struct activator_service *activator_service_new(struct activator_env *env, const json_t *service,
                                                struct activator_target *target);
void activator_service_update(struct activator_service *s, const json_t *service);
// Deletes its EndpointSlice, then calls `done`; nothing is published again.
void activator_service_withdraw(struct activator_service *s, void (*done)(void *arg), void *arg);
void activator_service_free(struct activator_service *s);
const json_t *activator_service_object(const struct activator_service *s);
bool activator_service_has_target(const struct activator_service *s,
                                  const struct activator_target *t);
void activator_service_stats(const struct activator_service *s, struct activator_gate_stats *ret);
json_t *activator_service_json(const struct activator_service *s);
size_t activator_service_ready(const struct activator_service *s); // endpoints
