// SPDX-License-Identifier: Apache-2.0
// Authentication and authorization, as in Kubernetes' aggregated API servers. Callers are
// authenticated by the front proxy's certificate and headers, a client certificate, or a bearer
// token (TokenReview); all others are anonymous. A SubjectAccessReview authorizes them.
// https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/
#pragma once

#include "adapter/api/path.h"
#include "kube/client.h"
#include "net/http/http.h"

struct adapter_api_auth;

struct adapter_api_auth_options {
    struct kube_client *authn, *authz; // borrowed; NULL: no API server is configured
    const char *client_ca_file;        // NULL: from the ConfigMap
    const char *requestheader_ca_file; // NULL: from the ConfigMap, with the four lists below
    const char *const *username_headers, *const *group_headers, *const *extra_prefixes,
                                                                    *const *allowed_names;
    size_t n_username_headers, n_group_headers, n_extra_prefixes, n_allowed_names;
    const char *const *always_allow_paths; // "/healthz", "/metrics*"
    size_t n_always_allow_paths;
    int64_t token_ttl_ms, allowed_ttl_ms, denied_ttl_ms;
    bool skip_lookup; // the ConfigMap is not read
    bool tolerate_lookup_failure;
    bool off; // allow every request: the caller has authorized it
};

// Reads and watches the ConfigMap extension-apiserver-authentication. on_ready is called once: when
// the ConfigMap was read or is not needed, or with an error (owned by the callee) if it cannot be
// read and tolerate_lookup_failure is not set.
struct gs_error *adapter_api_auth_new(uv_loop_t *loop, const struct adapter_api_auth_options *o,
                                      void (*on_ready)(void *arg, struct gs_error *err), void *arg,
                                      struct adapter_api_auth **ret);
void adapter_api_auth_free(struct adapter_api_auth *a);

struct adapter_api_auth_user {
    char *name, *uid;       // NULL: not authenticated yet
    json_t *groups, *extra; // an array; an object of arrays
};

// The attributes of a request that authorization rules match. Absent ones are NULL.
struct adapter_api_auth_attributes {
    bool is_resource;
    const char *verb, *group, *version, *ns, *resource, *name, *subresource;
    const char *path;
};

// Borrowed for the call.
struct adapter_api_auth_decision {
    bool allowed;
    const struct adapter_api_auth_user *user;
    const struct adapter_api_auth_attributes *attributes;
    const char *reason; // from the authorizer; may be NULL
};

// Receives the decision. If it is negative, the exchange has been answered (401, 403, 500).
// adapter_api_auth_check() may call it before it returns, and returns NULL in this case.
typedef void (*adapter_api_auth_fn)(void *arg, const struct adapter_api_auth_decision *d);
struct adapter_api_auth_op;
struct adapter_api_auth_op *adapter_api_auth_check(struct adapter_api_auth *a,
                                                   struct http_exchange *x,
                                                   const struct adapter_api_path *path,
                                                   adapter_api_auth_fn cb, void *arg);
// Returns true if a cached decision allows this request. False: call adapter_api_auth_check().
bool adapter_api_auth_cached(struct adapter_api_auth *a, const struct http_exchange *x);
void adapter_api_auth_cancel(struct adapter_api_auth_op *op); // NULL is fine

struct adapter_api_auth_stats {
    uint64_t token_reviews, token_review_failures, access_reviews, access_review_failures;
    uint64_t unauthenticated, forbidden;
};
void adapter_api_auth_stats(const struct adapter_api_auth *a, struct adapter_api_auth_stats *ret);
