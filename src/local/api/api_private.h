// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the API server. Functions that can reject a request return a
// metav1.Status, which the caller sends or frees, and NULL on success.
#pragma once

#include "base/hmap.h"
#include "kube/object.h"
#include "kube/schema.h"
#include "kube/selector.h"
#include "local/api.h"
#include "local/api/registry.h"
#include "local/api/store.h"

#include <limits.h>

struct local_api_watch;
struct tls_signing_key;

struct local_api_mount {
    char *group;
    json_t *(*describe)(const void *ctx, const char *group);
    http_handler handler;
    void *ctx;
};

struct local_api {
    uv_loop_t *loop;
    char *node_name;
    struct local_api_store *store;
    size_t max_objects, max_pods;
    struct local_api_watch *watches; // list
    size_t n_watches;
    bool dispatching; // watches that end during it are freed afterwards
    struct local_api_mount *mounts;
    size_t n_mounts, mounts_cap;
    struct local_api_node {
        char *name;
        struct local_api_kubelet kubelet;
    } * nodes;
    size_t n_nodes, nodes_cap;
    struct gs_timer *sweep;
    uint64_t event_seq;
    struct gs_hmap *openapi; // documents by name, generated on first request
    struct local_api_crds *crds;
    struct local_api_aggregation *aggregation;
    struct local_api_forwarder forwarder;
    struct local_api_tls_servers *tls_servers;
    size_t proxy_turn;        // of the addresses of a Service
    struct gs_hmap *requests; // of api_metrics.c
    int64_t started_ms;       // Unix
    uint16_t port;            // 0: unknown
    json_t *noticed; // what local_api_notice has said -> milliseconds of the monotonic clock
    struct tls_signing_key *token_key;
    struct gs_timer *quota_timer;
    char *ca_pem;
    json_t *token_user; // of the last local_api_check_token
    const char **token_groups;
};

enum local_api_form { LOCAL_API_FORM_OBJECT, LOCAL_API_FORM_TABLE, LOCAL_API_FORM_PARTIAL };
enum local_api_field_validation {
    LOCAL_API_FIELDS_WARN,
    LOCAL_API_FIELDS_STRICT,
    LOCAL_API_FIELDS_IGNORE
};

struct local_api_request {
    struct local_api *api;
    struct http_exchange *x; // NULL for a watch, which outlives its request's handler
    const struct local_api_resource *res;
    const char *version;        // as in the path
    const char *ns;             // "" for all namespaces and for cluster-scoped kinds
    const char *name;           // NULL for the collection
    const char *sub;            // subresource or NULL
    enum local_api_form form;   // of replies
    char form_version[8];       // "v1", "v1beta1" of meta.k8s.io
    const char *include_object; // what table rows carry, NULL: metadata
    bool dry_run;
    enum local_api_field_validation field_validation;
    const json_t *managed_fields; // what an apply decided; NULL: the write is tracked
};

// --- api_reply.c: from stored objects to replies ---
// Reads the Accept header. 406 if no listed type is supported.
json_t *local_api_negotiate(struct local_api_request *r);
void local_api_reply_object(const struct local_api_request *r, int code, const json_t *stored);
// The stored object in the request's version: new reference.
json_t *local_api_to_served(const struct local_api_request *r, const json_t *stored);
// The representation of a stored object in the request's form: new reference. header: a Table has
// its column definitions.
json_t *local_api_render(const struct local_api_request *r, const json_t *stored, bool header);
// The same of an object that is in the request's version already, which is stolen.
json_t *local_api_render_served(const struct local_api_request *r, const json_t *stored,
                                json_t *served, bool header);
json_t *local_api_not_found(const struct local_api_request *r);
json_t *local_api_error_status(struct gs_error *err); // steals; 500, or 400 for GS_EINVAL
json_t *local_api_method_not_allowed(void);
void local_api_warning(const struct local_api_request *r, const char *fmt, ...) GS_PRINTF(2, 3);

// --- api_body.c: from request bodies to objects ---
json_t *local_api_read_body(const struct local_api_request *r, json_t **ret);
// Checks kind and version against the path and fields against the schema. Makes quantities
// canonical.
json_t *local_api_check_object(const struct local_api_request *r, json_t *obj);
// Into the stored version. Steals obj.
json_t *local_api_to_stored(const struct local_api_request *r, json_t *obj, json_t **ret);
// An object of another kind than the path's (Scale, Binding, DeleteOptions …): kind only.
json_t *local_api_check_kind(const json_t *obj, const char *kind);

// --- api_write.c ---
json_t *local_api_create(const struct local_api_request *r);
// Stores a checked object in the served version, which is stolen, and replies.
json_t *local_api_create_object(const struct local_api_request *r, json_t *obj);
json_t *local_api_update(const struct local_api_request *r);
json_t *local_api_patch(const struct local_api_request *r);
// Replaces a stored object by `next` (stored form, stolen): metadata rules, defaults, validation,
// store, removal after the last finalizer. ret: new reference of the stored object.
json_t *local_api_replace(const struct local_api_request *r, const json_t *old, json_t *next,
                          json_t **ret);
// Stores without further checks. Steals. ret (new reference) may be NULL.
json_t *local_api_store(const struct local_api_request *r, json_t *obj, json_t **ret);
json_t *local_api_apply_patch(const struct local_api_request *r, const struct kube_type *type,
                              const json_t *target, json_t **ret);
bool local_api_is_apply(const struct local_api_request *r);

// --- api_delete.c ---
json_t *local_api_delete(const struct local_api_request *r);
json_t *local_api_delete_collection(const struct local_api_request *r);
// The rules of deletion with given options (may be NULL). ret_gone: true: removed, false: has a
// deletion timestamp.
json_t *local_api_delete_object(const struct local_api_request *r, const json_t *obj,
                                const json_t *options, json_t **ret_obj, bool *ret_gone);
// True if nothing prevents the removal of a deleted object.
bool local_api_can_vanish(const struct local_api *api, const struct local_api_resource *res,
                          const json_t *obj);

// --- api_read.c ---
json_t *local_api_get(const struct local_api_request *r);
json_t *local_api_list(const struct local_api_request *r);
struct local_api_filter {
    struct kube_selector labels, fields;
    const char *ns;   // "" all
    const char *name; // NULL all
};
json_t *local_api_filter_init(const struct local_api_request *r, struct local_api_filter *ret);
void local_api_filter_finish(struct local_api_filter *f);
bool local_api_filter_matches(const struct local_api_filter *f, const struct local_api_request *r,
                              const json_t *stored);

// --- list_options.c: the parameters of lists and watches ---
json_t *local_api_check_list_options(const struct local_api_request *r);
struct local_api_watch_options {
    bool initial;      // all existing objects first
    uint64_t rv;       // else the version from which on changes are sent
    int64_t timeout_s; // 0: default
    bool bookmarks;
};
json_t *local_api_read_watch_options(const struct local_api_request *r,
                                     struct local_api_watch_options *ret);

// --- watch.c ---
json_t *local_api_open_watch(const struct local_api_request *r);
void local_api_watch_dispatch(void *api, const struct local_api_store_change *change);
void local_api_watch_end_all(struct local_api *api);
// Ends the watches of a resource that is no longer served in this form.
void local_api_watch_end_resource(struct local_api *api, const struct local_api_resource *res);

// --- subresources.c ---
#define LOCAL_API_EPHEMERAL "ephemeralcontainers" // of pods
json_t *local_api_subresource(const struct local_api_request *r);

// --- eviction.c ---
// Deletes the pod unless a PodDisruptionBudget refuses it. NULL: the reply is still to be sent.
json_t *local_api_evict(const struct local_api_request *r);

// --- discovery.c, reviews.c ---
void local_api_discovery_core(struct local_api *api, struct http_exchange *x);
void local_api_discovery_groups(struct local_api *api, struct http_exchange *x);
bool local_api_discovery_group(struct local_api *api, struct http_exchange *x, const char *group);
bool local_api_discovery_version(struct local_api *api, struct http_exchange *x, const char *group,
                                 const char *version);
void local_api_openapi(struct local_api *api, struct http_exchange *x, const char *path);
void local_api_version_info(struct http_exchange *x);
// The review kinds of authentication.k8s.io and authorization.k8s.io: NULL if plural is another.
const char *local_api_review_kind(const char *group, const char *plural);
json_t *local_api_review(struct local_api *api, struct http_exchange *x, const char *group,
                         const char *plural);
void local_api_review_resources(const char *group, json_t *resources);

// --- api_meta.c: object metadata ---
json_t *local_api_meta_for_create(const struct local_api_request *r, json_t *obj);
json_t *local_api_meta_for_update(const struct local_api_request *r, const json_t *old,
                                  json_t *next);
void local_api_meta_validate(const struct local_api_request *r, const json_t *obj,
                             struct kube_field_errors *errors);
json_t *local_api_check_namespace(const struct local_api_request *r, const char *ns);
char *local_api_new_uid(void) GS_MUST_USE;
void local_api_now(json_t *obj, const char *key); // sets a metav1.Time of now

// --- api_services.c: addresses and ports that only one Service can have ---
void local_api_check_service(const struct local_api_request *r, const json_t *obj,
                             const json_t *old, struct kube_field_errors *errors);

// --- service_account.c: service accounts and the subresource token ---
json_t *local_api_serve_token(const struct local_api_request *r);
// Creates the ServiceAccount "default" and the ConfigMap kube-root-ca.crt if they are missing and
// the namespace exists and is not being deleted.
void local_api_make_account(struct local_api *api, const char *ns);
// True for resources of which local_api_make_account creates objects.
bool local_api_has_account_objects(const struct local_api_resource *res);
// Adds the volume with the token and the imagePullSecrets of its service account to a new pod. 403
// if the account does not exist.
json_t *local_api_admit_account(const struct local_api_request *r, json_t *pod);

// --- token.c: signed tokens of service accounts ---
#define LOCAL_API_ISSUER "https://kubernetes.default.svc.cluster.local"
struct gs_error *local_api_token_sign(const struct local_api *api, const json_t *claims,
                                      char **ret);
// Checks the signature, the times, and that the account and the object to which the token is bound
// exist. audiences: an array, of which the token must have one; NULL: the API's. *ret_claims: new
// reference. GS_EPERM: the token is invalid, with the reason.
struct gs_error *local_api_token_verify(const struct local_api *api, struct gs_slice token,
                                        const json_t *audiences, json_t **ret_claims);
// The user of verified claims, as UserInfo of authentication.k8s.io. New reference.
json_t *local_api_token_user(const json_t *claims);

// --- api_metrics.c ---
#define LOCAL_API_GIT_VERSION "v" KUBE_VERSION ".0+gpuscale." GPUSCALE_VERSION
// Counts the request when it is answered.
void local_api_count(const struct local_api_request *r);
void local_api_serve_metrics(const struct local_api *api, struct http_exchange *x);

// --- own_service.c: the Service "kubernetes", which has the API itself ---
// Writes it and its Endpoints if they are missing or have another port.
void local_api_make_own_service(struct local_api *api);
bool local_api_is_own_service(const struct local_api_resource *res, const json_t *obj);

// --- stand_in.c: objects that describe what is built in ---
// Writes the definitions that are missing.
void local_api_make_stand_ins(struct local_api *api);
// Writes the APIServices of mounted groups that are missing, and removes those of other groups.
void local_api_sync_apiservices(struct local_api *api);
// The object is one of them: creation and apply replace it.
bool local_api_is_stand_in(const struct local_api_resource *r, const json_t *obj);
// The request may not see it: Helm reads an object before it creates it, and refuses to replace one
// of another owner.
bool local_api_is_hidden(const struct local_api_request *r, const json_t *obj);

// --- api_notices.c: objects that the server itself writes ---
void local_api_make_base_objects(struct local_api *api);
void local_api_make_priority_classes(struct local_api *api); // priority_class.c
void local_api_make_ingress_classes(struct local_api *api);  // ingress.c
// An object with metadata as at its creation (ns NULL: cluster-scoped), and its store (steals obj;
// a failure is logged).
json_t *local_api_base_object(const char *kind, const char *api_version, const char *ns,
                              const char *name);
void local_api_put_base_object(struct local_api *api, const char *group, const char *plural,
                               json_t *obj);
// A warning about what is not done here. topic: the same topic is not said again for a minute, so
// that an installation of many objects says it once.
void local_api_notice(const struct local_api_request *r, const char *topic, const char *text);
// The request is from Helm, which shows its user each warning.
bool local_api_is_from_helm(const struct local_api_request *r);
void local_api_notice_inert(const struct local_api_request *r, const json_t *obj);
// Removes old events, and the oldest if there are too many.
void local_api_sweep_events(struct local_api *api);
// Called after each creation, so that a burst of events cannot fill the store.
void local_api_bound_events(const struct local_api_request *r);
