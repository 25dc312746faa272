// SPDX-License-Identifier: Apache-2.0
// Between the files of authentication and authorisation.
#pragma once

#include "adapter/api/auth.h"
#include "adapter/api/ca_set.h"
#include "adapter/api/reviews.h"
#include "base/hmap.h"

enum { AUTH_MAX_NAMES = 64 };

struct auth_names {
    char *items[AUTH_MAX_NAMES];
    size_t n;
};

// What the front proxy is recognised by.
struct front_proxy {
    struct ca_set *ca;
    struct auth_names user_headers, group_headers, extra_prefixes, allowed;
};

struct auth {
    struct gs_hmap *verdicts; // of chains of certificates
    uint64_t n_verdicts;      // made so far
    struct gs_hmap *known;    // allowed requests, by all that the decision hangs on
    struct gs_buf key;        // scratch
    uv_loop_t *loop;
    struct auth_options o;
    struct front_proxy proxy;
    struct ca_set *client_ca;
    bool own_proxy, own_client_ca; // from flags: the ConfigMap does not change them
    struct reviews *tokens, *access;
    struct kube_cache *map;
    struct kube_request *first;
    void (*on_ready)(void *arg, struct gs_error *err);
    void *ready_arg;
    struct auth_stats stats;
};

struct auth_op {
    struct auth *a;
    struct http_exchange *x;
    struct auth_user user;
    // Copies: the path's owner may go first.
    bool is_resource;
    char *verb, *group, *version, *ns, *resource, *name, *subresource, *path;
    struct reviews_op *review;
    auth_fn cb;
    void *arg;
    bool inside, done;
    int64_t until_ns; // the decision holds so long; shortened by each part of it
    char *known_key;
    size_t known_len;
};

// What is known of a chain of certificates.
struct auth_verdict {
    uint64_t number; // never used again
    char *name, **groups;
    bool by_proxy_ca, by_client_ca; // verified by
    int64_t until_ns;               // certificates end
};

// The end of a check; reason: what the cluster said of it, may be NULL.
void auth_finish(struct auth_op *op, bool allowed, const char *reason);

// --- front_proxy.c: the front proxy and the CA of clients, of flags or of the ConfigMap ---

struct gs_error *front_proxy_take_flags(struct auth *a);
void front_proxy_follow(struct auth *a); // reads and follows the ConfigMap; calls on_ready
void front_proxy_finish(struct front_proxy *p);

// --- identify.c: who asks; ends with auth_permit() or a refusal ---

void auth_identify(struct auth_op *op);
void auth_verdict_free(void *verdict);

const struct auth_verdict *auth_verdict_of(struct auth *a, const struct http_exchange *x);
bool auth_is_identity_header(const struct auth *a, const char *name);

// --- known.c: requests that were allowed a moment ago ---

void auth_known_begin(struct auth_op *op); // the key, while the exchange shows its certificates
void auth_known_keep(struct auth_op *op);  // it was allowed
void auth_known_forget(struct auth *a);

// --- permit.c: may they; and the refusals ---

void auth_permit(struct auth_op *op);
void auth_refuse_401(struct auth_op *op);
bool auth_in_group(const json_t *groups, const char *name);
