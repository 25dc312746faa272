// SPDX-License-Identifier: Apache-2.0
// Server-side apply: who owns which fields of an object (metadata.managedFields), and what an apply
// changes. Private to the API server. Specification: Kubernetes' structured-merge-diff, and the
// page "Server-Side Apply".
#pragma once

#include "kube/schema.h"
#include "local/api/registry.h"

// --- apply_set.c: sets of fields ---
// Sets are trees, see apply_set.c. Results are new references unless stated otherwise.

json_t *local_api_fields_read(const json_t *stored); // from FieldsV1
json_t *local_api_fields_write(const json_t *set);   // to FieldsV1
void local_api_fields_add(json_t *set, const json_t *other);
void local_api_fields_remove(json_t *set, const json_t *other);
json_t *local_api_fields_common(const json_t *a, const json_t *b);
// The fields as texts: [".spec.replicas", ".spec.containers[name=\"c\"].image"].
json_t *local_api_fields_paths(const json_t *set);
// The child node, created if absent. Borrowed.
json_t *local_api_fields_child(json_t *set, const char *element);
void local_api_fields_mark(json_t *set);         // the node itself is in the set
bool local_api_fields_marked(const json_t *set); // NULL: no
void local_api_fields_tidy(json_t *set);         // removes children without members

// --- apply_fields.c: fields of objects ---

// How the fields of an object merge: by the table of types, by the schema of a custom resource, or
// without either, by their values (maps merge, lists are replaced).
struct local_api_applied_type {
    const struct kube_type *type;
    const json_t *schema;
    bool custom; // a custom resource: its metadata has the type of all objects
};

// The fields that an applied object sets.
json_t *local_api_fields_of(const struct local_api_applied_type *t, const json_t *obj);
// before may be NULL. ret_changed: added and modified fields.
void local_api_fields_differ(const struct local_api_applied_type *t, const json_t *before,
                             const json_t *after, json_t **ret_changed, json_t **ret_removed);
json_t *local_api_fields_merge(const struct local_api_applied_type *t, const json_t *live,
                               const json_t *applied);
// Removes the fields of `old` that are not in `owned`.
void local_api_fields_prune(const struct local_api_applied_type *t, json_t *obj, const json_t *old,
                            const json_t *owned);

// --- apply.c ---

// PATCH with application/apply-patch+yaml, and its reply.
json_t *local_api_apply(const struct local_api_request *r);
// Updates metadata.managedFields of obj after a write that is not an apply. old NULL: creation.
void local_api_track_fields(const struct local_api_request *r, const json_t *old, json_t *obj);
