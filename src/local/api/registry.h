// SPDX-License-Identifier: Apache-2.0
// The resources that the API serves. One row per resource defines routing, discovery, storage,
// defaults, validation and tables: a constant one for the built-in resources, one per served
// version for those of CustomResourceDefinitions (crd.h). Private to the API server.
#pragma once

#include "codec/json.h"
#include "kube/status.h"

struct local_api;
struct local_api_custom;
struct local_api_request;
struct local_api_table;

enum local_api_resource_flags {
    LOCAL_API_R_STATUS = 1 << 0,     // has a status subresource
    LOCAL_API_R_SCALE = 1 << 1,      // has a scale subresource
    LOCAL_API_R_GENERATION = 1 << 2, // metadata.generation counts changes of spec
    LOCAL_API_R_INERT = 1 << 3,      // stored without a controller: creation returns a warning
    LOCAL_API_R_AGENT = 1 << 4,      // its agent may give a status at creation
};

enum local_api_name_rule {
    LOCAL_API_NAME_SUBDOMAIN, // RFC 1123 subdomain
    LOCAL_API_NAME_LABEL,     // RFC 1123 label
    LOCAL_API_NAME_LABEL_1035,
    LOCAL_API_NAME_PATH, // anything that fits one path segment (RBAC)
};

// A field for field selectors, beside metadata.name and metadata.namespace.
struct local_api_field {
    const char *name;
    const char *path;   // in objects; NULL: the name
    const char *absent; // the value if the object lacks it; NULL: ""
};

struct local_api_resource {
    const char *group;           // "" for core
    const char *const *versions; // NULL-terminated, preferred first
    const char *plural, *singular, *kind;
    const char *const *short_names; // NULL-terminated, or NULL
    const char *category;           // "all", or NULL
    const char *const *categories;  // of custom resources: NULL-terminated, or NULL
    bool namespaced;
    unsigned flags;
    enum local_api_name_rule name_rule;
    const struct local_api_field *fields; // ends with a NULL name; NULL: none
    size_t max_objects;                   // 0: only the limit of all objects together
    size_t view_of; // 1 + index of the row with the stored objects; 0: this row
    // Required if versions other than the first, which is stored, have another form.
    struct gs_error *(*to_stored)(const json_t *obj, json_t **ret);
    struct gs_error *(*from_stored)(const json_t *stored, const char *version, json_t **ret);
    // Sets the defaults of absent fields and, at creation (old NULL), the initial status.
    void (*set_defaults)(json_t *obj, const json_t *old);
    void (*validate)(const json_t *obj, const json_t *old, struct kube_field_errors *errors);
    // Adds what depends on other objects, after the defaults. NULL: nothing.
    void (*complete)(const struct local_api_request *r, json_t *obj, const json_t *old);
    const struct local_api_table *table; // NULL: NAME and AGE
    // Of a CustomResourceDefinition; NULL for built-in resources.
    const struct local_api_custom *custom;
};

extern const struct local_api_resource local_api_resources[];
extern const size_t local_api_n_resources;

// A built-in resource. NULL if it is not served. Requests use local_api_find_resource().
const struct local_api_resource *local_api_resource_find(const char *group, const char *version,
                                                         const char *plural);
// Whether a built-in resource of the group has the plural or the kind.
bool local_api_resource_is_built_in(const char *group, const char *plural, const char *kind);
// The row's constant for a version that it serves.
const char *local_api_resource_version(const struct local_api_resource *r, const char *version);
// The store's bucket of a resource (its own, or that of view_of).
size_t local_api_resource_bucket(const struct local_api_resource *r);
bool local_api_resource_has(const struct local_api_resource *r, unsigned flag);
// Whether its objects take part in garbage collection: all but events, of which there are many.
bool local_api_resource_is_collected(const struct local_api_resource *r);
// The version and kind in which its objects are stored: "apps/v1", "Deployment".
void local_api_resource_stored_as(const struct local_api_resource *r, struct gs_buf *version,
                                  const char **ret_kind);
// "pods", "deployments.apps"; "Pod", "Deployment.apps".
void local_api_resource_name(const struct local_api_resource *r, struct gs_buf *out);
void local_api_resource_kind_name(const struct local_api_resource *r, struct gs_buf *out);
// "v1", "apps/v1".
void local_api_version(const char *group, const char *version, struct gs_buf *out);

// The stored object in another version, which has the same fields. New reference.
struct gs_error *local_api_change_version(const json_t *stored, const char *version, json_t **ret);

// --- crd.c: built-in resources and those of CustomResourceDefinitions ---

const struct local_api_resource *local_api_find_resource(const struct local_api *api,
                                                         const char *group, const char *version,
                                                         const char *plural);
// All resources in turn, the built-in ones first; NULL after the last one.
const struct local_api_resource *local_api_nth_resource(const struct local_api *api, size_t i);

// --- names.c: checks of names, labels and ports ---
// Applies kube/names.h to fields, with Kubernetes' messages. Adds the checks that only an API
// server needs.

// Like kube_check_…: appends the problem to `why`.
bool local_api_check_name(enum local_api_name_rule rule, const char *name, struct gs_buf *why);
// Return NULL if valid, else the problem as a static text.
const char *local_api_port_name_problem(const char *name); // IANA service name
const char *local_api_config_key_problem(const char *key); // of ConfigMaps and Secrets
// Adds errors for a map of labels.
void local_api_validate_labels(const json_t *labels, const char *field,
                               struct kube_field_errors *errors);
// kube_field_error with a string value, shown quoted.
void local_api_invalid(struct kube_field_errors *errors, const char *field, const char *value,
                       const char *fmt, ...) GS_PRINTF(4, 5);
void local_api_duplicate(struct kube_field_errors *errors, const char *field, const char *value);
void local_api_required(struct kube_field_errors *errors, const char *field, const char *detail);
// choices: text of the message, as in `supported values: "A", "B"`.
void local_api_unsupported(struct kube_field_errors *errors, const char *field, const char *value,
                           const char *choices);

// --- defaults*.c: Kubernetes' defaults and the initial status at creation ---
// old NULL: creation.

void local_api_default_pod_spec(json_t *spec); // of pods and of templates

void local_api_default_namespace(json_t *obj, const json_t *old);
void local_api_default_node(json_t *obj, const json_t *old);
void local_api_default_pod(json_t *obj, const json_t *old);
void local_api_default_service(json_t *obj, const json_t *old);
void local_api_default_endpoints(json_t *obj, const json_t *old);
void local_api_default_secret(json_t *obj, const json_t *old);
void local_api_default_pvc(json_t *obj, const json_t *old);
void local_api_default_deployment(json_t *obj, const json_t *old);
void local_api_default_replicaset(json_t *obj, const json_t *old);
void local_api_default_replication_controller(json_t *obj, const json_t *old);
void local_api_default_statefulset(json_t *obj, const json_t *old);
void local_api_default_daemonset(json_t *obj, const json_t *old);
void local_api_default_job(json_t *obj, const json_t *old);
void local_api_default_cronjob(json_t *obj, const json_t *old);
void local_api_default_hpa(json_t *obj, const json_t *old);
void local_api_default_priority_class(json_t *obj, const json_t *old);
void local_api_default_budget(json_t *obj, const json_t *old);
void local_api_default_limit_range(json_t *obj, const json_t *old);
void local_api_set_qos(json_t *pod); // status.qosClass

// Set a member if it is absent.
void local_api_default_str(json_t *obj, const char *key, const char *value);
void local_api_default_int(json_t *obj, const char *key, int64_t value);
// The member object, created if absent. NULL if the member has another type.
json_t *local_api_default_object(json_t *obj, const char *key);

// --- validate*.c: validation with Kubernetes' field errors for common mistakes ---
// old NULL: creation. Field types were checked and defaults were set before.

void local_api_validate_pod(const json_t *obj, const json_t *old, struct kube_field_errors *errors);
// A write of the subresource ephemeralcontainers: they can be added, not changed or removed.
void local_api_validate_ephemeral_update(const json_t *obj, const json_t *old,
                                         struct kube_field_errors *errors);
void local_api_validate_service(const json_t *obj, const json_t *old,
                                struct kube_field_errors *errors);
// Adds the error of a ClusterIP that is invalid or in use.
void local_api_bad_cluster_ip(const char *ip, const char *why, struct kube_field_errors *errors);
// Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets.
void local_api_validate_workload(const json_t *obj, const json_t *old,
                                 struct kube_field_errors *errors);
// Adds an error if the selector does not match the labels of spec.template.
struct kube_selector;
void local_api_validate_selector_labels(const json_t *obj, const struct kube_selector *selector,
                                        struct kube_field_errors *errors);
// path: "spec.template".
void local_api_validate_template(const json_t *template, const char *path,
                                 struct kube_field_errors *errors);
// path: "spec", or "spec.jobTemplate.spec".
void local_api_validate_job_spec(const json_t *spec, const char *path,
                                 struct kube_field_errors *errors);
void local_api_validate_job(const json_t *obj, const json_t *old, struct kube_field_errors *errors);
void local_api_validate_cronjob(const json_t *obj, const json_t *old,
                                struct kube_field_errors *errors);
void local_api_validate_hpa(const json_t *obj, const json_t *old, struct kube_field_errors *errors);
void local_api_validate_configmap(const json_t *obj, const json_t *old,
                                  struct kube_field_errors *errors);
void local_api_validate_secret(const json_t *obj, const json_t *old,
                               struct kube_field_errors *errors);
void local_api_validate_event(const json_t *obj, const json_t *old,
                              struct kube_field_errors *errors);

// path: "spec" or "spec.template.spec".
void local_api_validate_pod_spec(const json_t *spec, const char *path,
                                 struct kube_field_errors *errors);
void local_api_validate_resources(const json_t *resources, const char *path,
                                  struct kube_field_errors *errors);
// Adds an error if an integer member is present and outside min..max.
void local_api_validate_range(const json_t *obj, const char *key, int64_t min, int64_t max,
                              const char *path, const char *text, struct kube_field_errors *errors);
#define LOCAL_API_NOT_NEGATIVE "must be greater than or equal to 0"
#define LOCAL_API_PORT_RANGE   "must be between 1 and 65535, inclusive"
// Checks a port number or a port name.
void local_api_validate_port_ref(const json_t *port, const char *path,
                                 struct kube_field_errors *errors);

// Checks an integer or a percentage of 0 or more.
void local_api_validate_share(const json_t *obj, const char *path, const char *key,
                              struct kube_field_errors *errors);
// Adds an error for a percentage above 100 %.
void local_api_validate_share_limit(const json_t *obj, const char *path, const char *key,
                                    struct kube_field_errors *errors);
// PodDisruptionBudgets.
void local_api_validate_budget(const json_t *obj, const json_t *old,
                               struct kube_field_errors *errors);

void local_api_validate_monitor(const json_t *obj, const json_t *old,
                                struct kube_field_errors *errors);
void local_api_validate_ingress(const json_t *obj, const json_t *old,
                                struct kube_field_errors *errors);
void local_api_validate_priority_class(const json_t *obj, const json_t *old,
                                       struct kube_field_errors *errors);

// --- event_view.c: Events in two API groups ---
// core/v1 is stored. events.k8s.io/v1 has other field names.

struct gs_error *local_api_event_to_core(const json_t *event, json_t **ret);
// version: of events.k8s.io.
struct gs_error *local_api_event_from_core(const json_t *core, const char *version, json_t **ret);
