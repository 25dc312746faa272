// SPDX-License-Identifier: Apache-2.0
// Accessors of Kubernetes objects, which are JSON values. Strings are borrowed from the object,
// NULL if absent.
#pragma once

#include "codec/json.h"

const char *kube_name(const json_t *obj);
const char *kube_namespace(const json_t *obj); // NULL for cluster-scoped objects
const char *kube_uid(const json_t *obj);
const char *kube_kind(const json_t *obj);
const char *kube_api_version(const json_t *obj);
const char *kube_resource_version(const json_t *obj);
const char *kube_label(const json_t *obj, const char *name);
const char *kube_annotation(const json_t *obj, const char *name);
bool kube_is_deleting(const json_t *obj);    // metadata.deletionTimestamp is set
const char *kube_created(const json_t *obj); // metadata.creationTimestamp, RFC 3339
int64_t kube_created_ms(const json_t *obj, int64_t fallback);
const char *kube_phase(const json_t *obj); // status.phase
// "ns/name", or "name" without namespace. Caller frees.
char *kube_key(const json_t *obj);
// Returns the owner reference with controller: true, or NULL.
const json_t *kube_controller_ref(const json_t *obj);
bool kube_is_controlled_by(const json_t *obj, const char *kind);
json_t *kube_make_controller_ref(const json_t *owner); // new reference
// Conditions (type, status, reason, message, lastTransitionTime): in place at obj.status.conditions
// or any array. The transition time changes only with the status.
const json_t *kube_condition(const json_t *obj, const char *type);
bool kube_condition_true(const json_t *obj, const char *type);
void kube_set_condition(json_t *conditions, const char *type, const char *status,
                        const char *reason, const char *message, int64_t now_ms);

// Unix milliseconds of a JSON string in RFC 3339; fallback: it is absent, invalid or before 1970.
int64_t kube_time_ms(const json_t *rfc3339, int64_t fallback);
// Sets a time in RFC 3339. 0: unknown, and left out.
void kube_set_time(json_t *obj, const char *key, int64_t unix_ms);

// When an event occurred last, Unix milliseconds; 0: unknown.
int64_t kube_event_ms(const json_t *event);

// --- pods ---

const char *kube_pod_node(const json_t *pod); // spec.nodeName; NULL: bound to none yet
bool kube_pod_has_ended(const json_t *pod);   // Succeeded or Failed
// The workload that the pod belongs to: "deployment/web"; "pod/NAME" without controller. Caller
// frees.
char *kube_workload(const json_t *pod);
// The API's copy of a pod that the kubelet reads from a file; kubectl drain ignores it. Its value
// is a hash.
#define KUBE_ANN_MIRROR "kubernetes.io/config.mirror"
bool kube_pod_is_mirror(const json_t *pod);

// --- moved ports ---

// Annotation of a Pod or Service whose declared ports listen on other numbers: "80=8080,443=8443".
// `gpuscale up` sets it if it may not bind low ports. Clients and scrapes of a port read it.

#define KUBE_ANN_PORTS "gpuscale.dev/ports"

// The port number on which a declared port listens: from the annotation, else the port itself.
int kube_port(const json_t *obj, int port);
// Takes the text of the annotation (may be NULL). 0: the port is not listed.
int kube_port_in(const char *text, int port);

// The port of the annotation prometheus.io/port, which common scrape jobs read; 0: none.
#define KUBE_ANN_SCRAPE_PORT "prometheus.io/port"
int kube_scrape_port(const json_t *pod);

// --- version ---

// The release of Kubernetes that `gpuscale up` reports in /version, the node's versions and probes,
// and whose autoscaler it follows.

#define KUBE_VERSION_MAJOR "1"
#define KUBE_VERSION_MINOR "36"
#define KUBE_VERSION       KUBE_VERSION_MAJOR "." KUBE_VERSION_MINOR
