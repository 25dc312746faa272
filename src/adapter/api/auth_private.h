// SPDX-License-Identifier: Apache-2.0
// Between the files of authentication and authorisation.
#pragma once

#include "adapter/api/auth.h"
#include "adapter/api/ca_set.h"
#include "adapter/api/reviews.h"
#include "base/hmap.h"

enum { ADAPTER_API_AUTH_MAX_NAMES = 64 };

struct adapter_api_auth_names {
    char *items[ADAPTER_API_AUTH_MAX_NAMES];
    size_t n;
};

// What the front proxy is recognised by.
struct adapter_api_front_proxy {
    struct adapter_api_ca_set *ca;
    struct adapter_api_auth_names user_headers, group_headers, extra_prefixes, allowed;
};

struct adapter_api_auth {
    struct gs_hmap *verdicts; // of chains of certificates
    uint64_t n_verdicts;      // made so far
    struct gs_hmap *known;    // allowed requests, by all that the decision hangs on
    struct gs_buf key;        // scratch
    uv_loop_t *loop;
    struct adapter_api_auth_options o;
    struct adapter_api_front_proxy proxy;
    struct adapter_api_ca_set *client_ca;
    bool own_proxy, own_client_ca; // from flags: the ConfigMap does not change them
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
    // Copies: the path's owner may go first.
    bool is_resource;
    char *verb, *group, *version, *ns, *resource, *name, *subresource, *path;
    struct adapter_api_reviews_op *review;
    adapter_api_auth_fn cb;
    void *arg;
    bool inside, done;
    int64_t until_ns; // the decision holds so long; shortened by each part of it
    char *known_key;
    size_t known_len;
};

// What is known of a chain of certificates.
struct adapter_api_auth_verdict {
    uint64_t number; // never used again
    char *name, **groups;
    bool by_proxy_ca, by_client_ca; // verified by
    int64_t until_ns;               // certificates end
};

// The end of a check; reason: what the cluster said of it, may be NULL.
void adapter_api_auth_finish(struct adapter_api_auth_op *op, bool allowed, const char *reason);

// --- adapter_api_front_proxy.c: the front proxy and the CA of clients, of flags or of the
// ConfigMap ---

struct gs_error *adapter_api_front_proxy_take_flags(struct adapter_api_auth *a);
void adapter_api_front_proxy_follow(
    struct adapter_api_auth *a); // reads and follows the ConfigMap; calls on_ready
void adapter_api_front_proxy_finish(struct adapter_api_front_proxy *p);

// --- identify.c: who asks; ends with adapter_api_auth_permit() or a refusal ---

void adapter_api_auth_identify(struct adapter_api_auth_op *op);
void adapter_api_auth_verdict_free(void *verdict);

const struct adapter_api_auth_verdict *adapter_api_auth_verdict_of(struct adapter_api_auth *a,
                                                                   const struct http_exchange *x);
bool adapter_api_auth_is_identity_header(const struct adapter_api_auth *a, const char *name);

// --- known.c: requests that were allowed a moment ago ---

void adapter_api_auth_known_begin(
    struct adapter_api_auth_op *op); // the key, while the exchange shows its certificates
void adapter_api_auth_known_keep(struct adapter_api_auth_op *op); // it was allowed
void adapter_api_auth_known_forget(struct adapter_api_auth *a);

// --- permit.c: may they; and the refusals ---

void adapter_api_auth_permit(struct adapter_api_auth_op *op);
void adapter_api_auth_refuse_401(struct adapter_api_auth_op *op);
bool adapter_api_auth_in_group(const json_t *groups, const char *name);
