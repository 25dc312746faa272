// SPDX-License-Identifier: Apache-2.0
// GPU nodes in advance for one autoscaler (annotation gpuscale.dev/capacity): follows the decision
// about placeholders with objects of the API, and removes them with the annotation. The autoscaler
// owns them, so the API removes them with it. Nothing is read or written for other autoscalers. All
// functions are called on the thread of the loop.
#pragma once

#include "hpa/hpa.h"
#include "hpa_controller/latency.h"
#include "kube/client.h"
#include "slo/capacity.h"

#include <uv.h>

struct hpa_capacity;
struct hpa_resources;

// shadow: nothing is written. client and resources are borrowed.
struct hpa_capacity *hpa_capacity_new(struct kube_client *client, struct hpa_resources *resources,
                                      bool shadow);
void hpa_capacity_free(struct hpa_capacity *c); // cancels what is under way; NULL is fine

// Reads the annotations of the newest object. GS_EINVAL: they are wrong, and count as absent.
struct gs_error *hpa_capacity_update(struct hpa_capacity *c, const json_t *object);
// After each evaluation. outlook NULL: nothing was decided about the latency target. replicas: that
// are ordered now; 0: no placeholders; -1: unknown. limited: budgets keep the replicas below what
// is needed.
void hpa_capacity_follow(struct hpa_capacity *c, const struct hpa_spec *spec,
                         const struct hpa_latency_outlook *outlook, int32_t replicas, bool limited,
                         int64_t now_ms);
// An object that another process has made for the autoscaler.
void hpa_capacity_found(struct hpa_capacity *c, const json_t *object, struct kube_gvr resource);
// The autoscaler still exists, but is not evaluated any more: its objects are removed.
void hpa_capacity_release(struct hpa_capacity *c);

// {"kind", "max", "placeholders", "forecast", "present", "applied", "text", "error"}; new
// reference. NULL: no annotation, or no decision yet.
json_t *hpa_capacity_json(const struct hpa_capacity *c);

// --- objects of another process ---

struct hpa_capacity_search;

// Lists the objects of all autoscalers once, in all namespaces or in ns, and calls fn for each.
// Without the permission, nothing is found. Other failures are repeated with growing pauses.
struct hpa_capacity_search *
hpa_capacity_search_start(uv_loop_t *loop, struct kube_client *client, const char *ns,
                          void (*fn)(void *arg, const json_t *object, struct kube_gvr resource),
                          void *arg);
void hpa_capacity_search_free(struct hpa_capacity_search *s); // NULL is fine
