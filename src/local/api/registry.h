// SPDX-License-Identifier: Apache-2.0
// The kinds that the API serves: one constant row a resource drives routing, discovery, storage,
// defaulting, validation and tables. Private to the API server.
#pragma once

#include "kube/status.h"

struct local_api_table;

enum local_api_resource_flags {
    LOCAL_API_R_NAMESPACED = 1 << 0,
    LOCAL_API_R_STATUS = 1 << 1,     // has a status subresource
    LOCAL_API_R_SCALE = 1 << 2,      // has a scale subresource
    LOCAL_API_R_GENERATION = 1 << 3, // metadata.generation counts changes of spec
    LOCAL_API_R_INERT = 1 << 4,      // stored, but nothing here acts on it: creation says so
    LOCAL_API_R_AGENT = 1 << 5,      // its agent may give a status at creation
};

enum local_api_name_rule {
    LOCAL_API_NAME_SUBDOMAIN, // RFC 1123 subdomain
    LOCAL_API_NAME_LABEL,     // RFC 1123 label
    LOCAL_API_NAME_LABEL_1035,
    LOCAL_API_NAME_PATH, // anything that fits one path segment (RBAC)
};

struct local_api_resource {
    const char *group;           // "" for core
    const char *const *versions; // NULL-terminated, preferred first
    const char *plural, *singular, *kind;
    const char *const *short_names; // NULL-terminated, or NULL
    const char *category;           // "all" or NULL
    unsigned flags;
    enum local_api_name_rule name_rule;
    const char *const *fields; // for field selectors, beside metadata.name and .namespace
    size_t view_of;            // 1 + index of the row whose objects this one shows; 0: its own
    // Other served versions than the stored form (the first version's) need both.
    struct gs_error *(*to_stored)(const json_t *obj, json_t **ret);
    struct gs_error *(*from_stored)(const json_t *stored, const char *version, json_t **ret);
    // Fills in what was left out. old NULL: creation. Beyond a kind's own defaults this is where a
    // creation's initial status is made.
    void (*set_defaults)(json_t *obj, const json_t *old);
    void (*validate)(const json_t *obj, const json_t *old, struct kube_field_errors *errors);
    const struct local_api_table *table; // NULL: NAME and AGE
};

extern const struct local_api_resource local_api_resources[];
extern const size_t local_api_n_resources;

// NULL when not served.
const struct local_api_resource *local_api_resource_find(const char *group, const char *version,
                                                         const char *plural);
// The row's own constant for a version that it serves.
const char *local_api_resource_version(const struct local_api_resource *r, const char *version);
const struct local_api_resource *local_api_resource_by_kind(const char *group, const char *kind);
// The store's bucket of a resource (its own, or that of what it is a view of).
size_t local_api_resource_bucket(const struct local_api_resource *r);
bool local_api_resource_has(const struct local_api_resource *r, unsigned flag);
// "pods", "deployments.apps"; "Pod", "Deployment.apps".
void local_api_resource_name(const struct local_api_resource *r, struct gs_buf *out);
void local_api_resource_kind_name(const struct local_api_resource *r, struct gs_buf *out);
// "v1", "apps/v1".
void local_api_version(const char *group, const char *version, struct gs_buf *out);
