// SPDX-License-Identifier: Apache-2.0
// Parts of the activator: one Service, its EndpointSlice, and its workload.
#pragma once

#include "activator/activator.h"
#include "activator/gate.h"

#include "base/timer.h"
#include "kube/cache.h"
#include "kube/event.h"
#include "startup/startup.h"

#define ACTIVATOR_SLICES           KUBE_GVR(KUBE_RESOURCE_ENDPOINTSLICES)
#define ACTIVATOR_LABEL_SERVICE    "kubernetes.io/service-name"
#define ACTIVATOR_LABEL_MANAGED_BY "endpointslice.kubernetes.io/managed-by"
#define ACTIVATOR_MANAGER          "activator.gpuscale.dev"
#define ACTIVATOR_ANN_IDENTITY     "gpuscale.dev/activator" // of an EndpointSlice: its instance
#define ACTIVATOR_MAX_PORTS        16
#define ACTIVATOR_FAMILIES         2 // IPv4 and IPv6, each with an EndpointSlice of its own

// Shared by all Services of one activator.
struct activator_env {
    uv_loop_t *loop;
    struct kube_client *client;
    struct kube_recorder *recorder;
    struct activator_config cfg;
    struct activator_budget budget;
    struct activator_peers *peers;
    struct startup_learner *starts; // of the pods that were waited for
    json_t *nodes;                  // the last list, for all Services; NULL: none was read
    int64_t nodes_ns;               // monotonic time of its request; 0: none
};

struct activator_leaving;

struct activator {
    struct activator_env env;
    char *ns, *identity, *pod_ns, *node, *listen, *advertise, *second;
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

// GS_EINVAL: the name of an annotation is misspelled.
struct gs_error *activator_check_annotations(const json_t *service);
// "KIND/NAME". GS_EINVAL: it is not, or the Service cannot be activated.
struct gs_error *activator_target_read(const json_t *service, struct activator_target *ret);
void activator_target_finish(struct activator_target *t);

// The annotations of the Service for its requests. GS_EINVAL: one of them is wrong; the others are
// read.
struct gs_error *activator_rules_read(const json_t *service, struct activator_rules *ret);
void activator_rules_finish(struct activator_rules *r);

// --- slice.c: the EndpointSlices of this instance for one Service ---

struct activator_port {
    char *name; // "" for a port without a name; NULL: the place is free
    int number;
    uint16_t listening; // where the gate listens; 0: nowhere
};

const char *activator_address_type(const char *ip); // "IPv6"
// The name of the object with this address. Caller frees.
char *activator_slice_name(const char *service, const char *identity, const char *address);
// standby: the endpoint is not ready, but serving and terminating. kube-proxy uses such endpoints
// only while no other is ready, so that no moment is without an endpoint when the last pod ends.
json_t *activator_slice_make(const json_t *service, const struct activator_config *cfg,
                             const char *address, const struct activator_port *ports, size_t n,
                             bool standby);
// Whether the existing slice needs no write.
bool activator_slice_is(const json_t *have, const json_t *want);
bool activator_slice_is_own(const json_t *slice); // of any instance of the activator
// The port on which an earlier process of this instance listened; 0: unknown.
uint16_t activator_slice_port(const json_t *slice, const char *port_name);
// Adds the ready endpoints of a slice for the port; *items has *cap elements, *n of them are used.
// type: only a slice of this address type; NULL: any.
void activator_slice_endpoints(const json_t *slice, const char *port_name, const char *type,
                               struct activator_address **items, size_t *n, size_t *cap);

// --- ready.c: endpoints that have loaded their model ---

struct activator_ready;

// on_change: another endpoint has. It may call activator_ready_set().
struct activator_ready *activator_ready_new(uv_loop_t *loop, void (*on_change)(void *arg),
                                            void *arg);
// The endpoints of the first port, and the path that they answer; NULL: none is checked.
void activator_ready_set(struct activator_ready *r, const char *path,
                         const struct activator_address *items, size_t n);
// Keeps those at the front that have loaded their model, or that are not checked; returns their
// number.
size_t activator_ready_keep(const struct activator_ready *r, struct activator_address *items,
                            size_t n);
void activator_ready_free(struct activator_ready *r); // accepts NULL

// --- publish.c: one EndpointSlice of this instance ---

struct activator_publisher;

// env and slices are borrowed.
struct activator_publisher *activator_publisher_new(struct activator_env *env,
                                                    const struct kube_cache *slices, const char *ns,
                                                    const char *name);
// want: taken; NULL: the slice must not exist. Call it for each change of the slices, too.
void activator_publisher_set(struct activator_publisher *p, json_t *want);
// Deletes it, then calls `done`; nothing is published again.
void activator_publisher_withdraw(struct activator_publisher *p, void (*done)(void *arg),
                                  void *arg);
void activator_publisher_free(struct activator_publisher *p); // accepts NULL

// --- peers.c: EndpointSlices of instances that are gone ---

struct activator_peers;
struct activator_watch;

struct activator_peers *activator_peers_new(struct activator_env *env); // borrowed
// slices: of one Service, borrowed until the watch ends.
struct activator_watch *activator_peers_watch(struct activator_peers *p,
                                              const struct kube_cache *slices);
void activator_peers_unwatch(struct activator_watch *w); // accepts NULL
void activator_peers_check(struct activator_peers *p);   // call it for each change of the slices
void activator_peers_free(struct activator_peers *p);    // accepts NULL

// --- progress.c: what the connections of a Service wait for ---

struct activator_progress;

// All arguments are borrowed.
struct activator_progress *activator_progress_new(struct activator_env *env,
                                                  struct activator_gate *gate,
                                                  const struct activator_target *target);
// Something may have begun to wait. service: borrowed until the next call.
void activator_progress_check(struct activator_progress *p, const json_t *service);
void activator_progress_ready(struct activator_progress *p); // a pod is ready
// How old a starting pod may be while requests wait for it beyond their limit.
int64_t activator_progress_patience_ms(const struct startup_learner *starts, const json_t *pod);
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
// Deletes its EndpointSlices, then calls `done`; nothing is published again.
void activator_service_withdraw(struct activator_service *s, void (*done)(void *arg), void *arg);
void activator_service_free(struct activator_service *s);
const json_t *activator_service_object(const struct activator_service *s);
bool activator_service_has_target(const struct activator_service *s,
                                  const struct activator_target *t);
void activator_service_stats(const struct activator_service *s, struct activator_gate_stats *ret);
json_t *activator_service_json(const struct activator_service *s);
size_t activator_service_ready(const struct activator_service *s); // endpoints
