// SPDX-License-Identifier: Apache-2.0
// Shared by the files of src/adapter/api only.
#pragma once

#include "adapter/api/api.h"
#include "adapter/api/auth.h"
#include "adapter/metric_changes/metric_changes.h"
#include "base/error.h"
#include "base/hmap.h"
#include "base/slice.h"
#include "kube/client.h"
#include "net/http/http.h"

#include <stdbool.h>
#include <sys/queue.h>

// --- response cache ---
//
// Cached response bodies. Values are cached for about one scrape interval, and so are the bodies
// that contain them.

struct adapter_api_response_cache;
struct adapter_api_response_cache *adapter_api_response_cache_new(void);
void adapter_api_response_cache_free(struct adapter_api_response_cache *r);
// Returns the body for an equal request. Borrowed. NULL: none, or it has expired.
struct http_bytes *adapter_api_response_cache_find(struct adapter_api_response_cache *r,
                                                   const struct http_exchange *x);
void adapter_api_response_cache_put(struct adapter_api_response_cache *r,
                                    const struct http_exchange *x, struct http_bytes *body,
                                    int64_t until_ns);
void adapter_api_response_cache_expire(
    struct adapter_api_response_cache *r); // frees expired bodies
void adapter_api_response_cache_clear(struct adapter_api_response_cache *r);

// --- ca set ---
//
// Certificate authorities that verify client certificates.

struct adapter_api_ca_set;
struct gs_error *adapter_api_ca_set_new(const char *pem, struct adapter_api_ca_set **ret);
void adapter_api_ca_set_free(struct adapter_api_ca_set *s);
// Returns true if the chain (DER, the peer's certificate first) ends in one of the authorities and
// is valid for client authentication.
bool adapter_api_ca_set_verify(const struct adapter_api_ca_set *s, const struct gs_slice *chain,
                               size_t n);

// Reads the CN and the O values of a certificate. The caller frees both; groups ends with NULL.
// False: no CN.
bool adapter_api_ca_read_subject(struct gs_slice der, char **ret_name, char ***ret_groups);
void adapter_api_ca_groups_free(char **groups);

// --- reviews ---
//
// Sends TokenReviews and SubjectAccessReviews to the cluster. Equal reviews share one request, and
// responses are cached.

struct adapter_api_reviews;

struct adapter_api_reviews_options {
    struct kube_client *kube; // borrowed
    struct kube_gvr gvr;
    const char *kind;                // "TokenReview"
    int64_t good_ttl_ms, bad_ttl_ms; // cache time; is_good selects one by the status
    bool (*is_good)(const json_t *status);
};
struct adapter_api_reviews *adapter_api_reviews_new(uv_loop_t *loop,
                                                    const struct adapter_api_reviews_options *o);
void adapter_api_reviews_free(struct adapter_api_reviews *r);

// status: the status of the review, borrowed; NULL with an error (owned by the callee). until_ns:
// end of its cache time (gs_mono_ns()); 0: it is not cached.
typedef void (*adapter_api_reviews_fn)(void *arg, const json_t *status, int64_t until_ns,
                                       struct gs_error *err);
struct adapter_api_reviews_op;
// Steals spec. May call cb before it returns, and returns NULL in this case.
struct adapter_api_reviews_op *adapter_api_reviews_send(struct adapter_api_reviews *r, json_t *spec,
                                                        adapter_api_reviews_fn cb, void *arg);
void adapter_api_reviews_cancel(struct adapter_api_reviews_op *op); // NULL is fine

struct adapter_api_reviews_stats {
    uint64_t sent, failed, cached;
};
void adapter_api_reviews_stats(const struct adapter_api_reviews *r,
                               struct adapter_api_reviews_stats *ret);

// --- auth private ---
//
// Authentication and authorization.

enum { ADAPTER_API_AUTH_MAX_NAMES = 64 };

struct adapter_api_auth_names {
    char *items[ADAPTER_API_AUTH_MAX_NAMES];
    size_t n;
};

// The attributes that identify the front proxy.
struct adapter_api_front_proxy {
    struct adapter_api_ca_set *ca;
    struct adapter_api_auth_names user_headers, group_headers, extra_prefixes, allowed;
};

struct adapter_api_auth {
    struct gs_hmap *verdicts; // by certificate chain
    uint64_t n_verdicts;      // created so far
    struct gs_hmap *cache;    // allowed requests, by all inputs of the decision
    struct gs_buf key;        // scratch
    uv_loop_t *loop;
    struct adapter_api_auth_options o;
    struct adapter_api_front_proxy proxy;
    struct adapter_api_ca_set *client_ca;
    bool own_proxy, own_client_ca; // set by flags: the ConfigMap does not change them
    struct adapter_api_reviews *tokens, *access;
    struct kube_cache *map;
    struct kube_request *first;
    void (*on_ready)(void *arg, struct gs_error *err);
    void *ready_arg;
    struct adapter_api_auth_stats stats;
};

struct adapter_api_auth_op {
    struct adapter_api_auth *a;
    struct http_exchange *x;
    struct adapter_api_auth_user user;
    // Copies: the path may be freed before the check ends.
    bool is_resource;
    char *verb, *group, *version, *ns, *resource, *name, *subresource, *path;
    struct adapter_api_reviews_op *review;
    adapter_api_auth_fn cb;
    void *arg;
    bool inside, done;
    int64_t until_ns; // end of the decision's validity: the minimum of its parts
    char *cache_key;
    size_t cache_len;
};

// The cached verification of a certificate chain.
struct adapter_api_auth_verdict {
    uint64_t number; // unique
    char *name, **groups;
    bool by_proxy_ca, by_client_ca; // which CA verified it
    int64_t until_ns;               // certificates expire
};

// Ends a check. reason: the cluster's explanation, may be NULL.
void adapter_api_auth_finish(struct adapter_api_auth_op *op, bool allowed, const char *reason);

// --- front_proxy.c: settings of the front proxy and the client CA, from flags or the ConfigMap ---

struct gs_error *adapter_api_front_proxy_take_flags(struct adapter_api_auth *a);
// Reads and watches the ConfigMap; calls on_ready.
void adapter_api_front_proxy_follow(struct adapter_api_auth *a);
void adapter_api_front_proxy_finish(struct adapter_api_front_proxy *p);

// --- authenticate.c: ends with adapter_api_auth_authorize() or a refusal ---

void adapter_api_auth_authenticate(struct adapter_api_auth_op *op);
void adapter_api_auth_verdict_free(void *verdict);

const struct adapter_api_auth_verdict *adapter_api_auth_verdict_of(struct adapter_api_auth *a,
                                                                   const struct http_exchange *x);
bool adapter_api_auth_is_identity_header(const struct adapter_api_auth *a, const char *name);

// --- auth_cache.c: decisions that allowed a request ---

// Builds the cache key. Call it while the exchange still has its certificates.
void adapter_api_auth_cache_begin(struct adapter_api_auth_op *op);
void adapter_api_auth_cache_put(struct adapter_api_auth_op *op); // the request was allowed
void adapter_api_auth_cache_clear(struct adapter_api_auth *a);

// --- authorize.c: access reviews, and refusals ---

void adapter_api_auth_authorize(struct adapter_api_auth_op *op);
void adapter_api_auth_refuse_401(struct adapter_api_auth_op *op);

// --- api ---

struct adapter_api_call;
TAILQ_HEAD(api_calls, adapter_api_call);

struct adapter_api_counts {
    uint64_t requests[3][6]; // by group (custom, external, resource) and class of HTTP status
    uint64_t answered;
};

struct adapter_api {
    struct adapter_api_options o;
    struct adapter_api_generation generation;
    struct api_calls calls;
    struct adapter_api_counts counts;
    struct adapter_api_response_cache *responses;
    struct metric_changes *changes;    // NULL: changes are not followed
    struct adapter_api_status *status; // NULL: no page
    char *id_seed;                     // random
    uint64_t id_count;
    bool stopping;
};

// One request, until it is answered or the client disconnects.
struct adapter_api_call {
    struct adapter_api *a;
    TAILQ_ENTRY(adapter_api_call) all;
    struct http_exchange *x;
    struct adapter_api_path path;
    struct adapter_api_auth_op *auth;
    struct provider_call *value_call;
    json_t *explanation; // waits for the facts of the pods; NULL: it does not
    struct provider_pod_facts_op *pod_facts;
    struct kube_selector metric_selector;
    const char *metric_selector_text;
    struct adapter_api_usage_call *usage;
    bool waits_for_status; // of the page
    struct adapter_api_audit_event *audit;
    struct adapter_api_delegate_op *forwarded;
    char *forward_cause;
    struct gs_timer *timeout;          // by the parameter `timeout`; NULL: none
    struct adapter_api_auth_user user; // for a delegate that wants the user
};

void adapter_api_call_end(struct adapter_api_call *c); // after the response; frees it

// --- by kind of request ---

void adapter_api_metric(struct adapter_api_call *c); // custom.c
void adapter_api_usage(struct adapter_api_call *c);  // usage.c
void adapter_api_usage_cancel(struct adapter_api_usage_call *u);
// Discovery, OpenAPI, health and other paths, which are answered immediately (discovery.c,
// openapi.c, health.c). False: no such path.
bool adapter_api_discovery(struct adapter_api_call *c);
bool adapter_api_reply_openapi(struct adapter_api_call *c);
bool adapter_api_health(struct adapter_api_call *c);

// --- explanation.c ---

bool adapter_api_wants_explanation(const struct adapter_api_call *c);
// a: of a request with a trace. Ends the call.
void adapter_api_reply_explanation(struct adapter_api_call *c, const struct provider_answer *a);

// --- the page (page_state.c, status_json.c) ---

enum { ADAPTER_API_N_SERVICES = 4 };
// The APIServices of a cluster that may point to the adapter.
struct adapter_api_service {
    const char *name, *group;
};
extern const struct adapter_api_service adapter_api_services[ADAPTER_API_N_SERVICES];

struct adapter_api_status *adapter_api_status_new(struct adapter_api *a);
void adapter_api_status_free(struct adapter_api_status *s); // accepts NULL
// The page, its files, and its data. False: another path.
bool adapter_api_page(struct adapter_api_call *c);
// New reference.
json_t *adapter_api_status_json(const struct adapter_api *a);
// Unix time in ms of the newest sample of a series name. 0: unknown.
int64_t adapter_api_status_newest(const struct adapter_api_status *s, size_t source,
                                  struct gs_slice series);
// The registration of adapter_api_services[i]: {state, namespace, service, message}. Borrowed.
// NULL: it was not read.
const json_t *adapter_api_status_service(const struct adapter_api_status *s, size_t i);

// --- methods and parameters (params.c) ---

// Returns true if the request is invalid and was answered.
bool adapter_api_refuse_request(struct adapter_api_call *c);
bool adapter_api_refuse_list(struct adapter_api_call *c); // for lists that this API serves
void adapter_api_end_timeout(struct adapter_api_call *c);

// --- representations of responses (accept.c, table.c) ---

enum adapter_api_form {
    ADAPTER_API_NOT_ACCEPTABLE,
    ADAPTER_API_PLAIN,
    ADAPTER_API_TABLE,
    ADAPTER_API_PARTIAL,      // PartialObjectMetadata
    ADAPTER_API_PARTIAL_LIST, // PartialObjectMetadataList
};
bool adapter_api_accepts(const struct http_exchange *x, const struct adapter_api_path *p);
// Returns the first supported representation in Accept. ret_version: "meta.k8s.io/v1" or v1beta1.
enum adapter_api_form adapter_api_form_of(const struct http_exchange *x,
                                          const struct adapter_api_path *p,
                                          const char **ret_version);
// body: a PodMetricsList or NodeMetricsList, or one item. include: the parameter includeObject.
json_t *adapter_api_usage_table(const json_t *body, const char *version, const char *include);
json_t *adapter_api_usage_partial(const json_t *body, const char *version);

// --- the delegate (forward.c) ---

struct adapter_api_delegate *adapter_api_delegate(const struct adapter_api *a,
                                                  const char *group); // NULL: none
// Returns false if the request has no delegate. cause: why no rule serves the request.
bool adapter_api_forward(struct adapter_api_call *c, const char *cause);
void adapter_api_keep_user(struct adapter_api_call *c, const struct adapter_api_auth_user *u);
void adapter_api_drop_user(struct adapter_api_call *c);

// --- writing ---

// Sends 404 for a metric. theirs: the delegate's error, may be NULL.
void adapter_api_reply_not_found(struct adapter_api_call *c, const char *cause, const char *theirs);

// Adds a quoted string, HTML-escaped as Go's encoding/json does.
void adapter_api_add_json_string(struct gs_buf *out, struct gs_slice s);
bool adapter_api_has_group(const struct adapter_api *a, const char *group);
