// SPDX-License-Identifier: Apache-2.0
// Shared by the files of this module.
#pragma once

#include "codec/json.h"
#include "kube/client.h"
#include "kube/proto.h"
#include "net/http/client.h"

#include <stdbool.h>
#include <stdint.h>

// Appends a kubeconfig with one cluster, user and context of this name (kubeconfig.c). Wipe the
// text.
struct kube_config;
void kube_config_text(const char *name, const struct kube_config *c, struct gs_buf *out);
// The extension of this name of a cluster or context. NULL: none. Borrowed.
json_t *kube_config_extension(const json_t *object, const char *name);

// --- errors of API servers ---

// The error of a response with a status of 400 or more. The text is the message of a Status body,
// or the message of Kubernetes' client for other bodies: "the server could not find the requested
// resource (get pods.metrics.k8s.io)".
struct gs_error *kube_response_error(const char *method, const char *path,
                                     const struct http_response *response, const json_t *body);

// --- texts of lists and events ---

// Reads a list, object by object, and leaves out those that cannot be parsed, which are logged.
// take NULL: nothing is called. NULL: the text is no list. New reference.
json_t *kube_read_list(struct gs_slice text, const char *path, kube_take take, void *arg);
// Splits a watch event of which the object cannot be parsed. False: the text is no event.
bool kube_salvage_event(struct gs_slice text, char **ret_type, struct gs_slice *ret_object);
// "ns/name" of the text of an object, or NULL. Caller frees.
char *kube_raw_key(struct gs_slice object);
void kube_log_left_out(const char *path, struct gs_slice object, const struct gs_error *why);

// Appends the text of an object, a list or an event without metadata.managedFields, before values
// are built of it. False: nothing was appended, because it has none.
bool kube_cut_managed_fields(struct gs_slice text, struct gs_buf *out);

// --- objects of a cache by namespace and label ---

struct kube_index;
struct kube_selector;
struct gs_hmap;

struct kube_index *kube_index_new(void);
void kube_index_free(struct kube_index *x); // accepts NULL
// The cache's objects are borrowed: call it for each that is added, replaced or removed, before the
// old one is freed. NULL: none.
void kube_index_replace(struct kube_index *x, const json_t *old_obj, const json_t *new_obj);
// A superset of the objects of the namespace that the selector selects; valid until the next
// change. objects: all of the cache.
const json_t *const *kube_index_find(struct kube_index *x, const struct gs_hmap *objects,
                                     const char *ns, const struct kube_selector *s, size_t *ret_n);

// --- limits of events ---

// Limits the events about one object as Kubernetes' components do. From the tenth event in ten
// minutes, different messages with one reason are combined. After a burst of 25 events of one type,
// one event per five minutes is written.

struct kube_event_limit;

struct kube_event_limit *kube_event_limit_new(void);
void kube_event_limit_free(struct kube_event_limit *l); // accepts NULL
// similar: key of events that can be combined (object, type, reason). True: write it as combined.
bool kube_event_limit_combine(struct kube_event_limit *l, const char *similar, const char *message,
                              int64_t now_ms);
// about: key of object and type. Times are those of a monotonic clock.
bool kube_event_limit_allow(struct kube_event_limit *l, const char *about, int64_t now_ms);

// --- field numbers of the protobuf encoding ---

// Numbers as text (proto_fields.c). The table is sorted by name.
struct kube_proto_type {
    const char *name, *fields;
};
extern const struct kube_proto_type kube_proto_types[];
extern const size_t kube_n_proto_types;

struct kube_proto_field {
    uint64_t number;
    struct gs_slice name; // of the field, or of the type of an embedded message
    bool embedded, pointer;
};

// The numbers of a type. NULL: unknown.
const char *kube_proto_numbers(struct gs_slice type_name);
// Reads the next field of the numbers and moves *rest behind it. False: there are no more.
bool kube_proto_next_field(struct gs_slice *rest, struct kube_proto_field *ret);
