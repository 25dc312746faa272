// SPDX-License-Identifier: Apache-2.0
// A previous owner of API groups: who served them before this program, and goes on to serve what no
// rule here serves. An API group has one owner in a cluster, so two providers of metrics can only
// stand one behind the other.
#pragma once

#include "adapter/api/auth.h"
#include "net/endpoint/endpoint.h"

struct adapter_api_delegate;

#define ADAPTER_API_FORWARDED_HEADER                                                               \
    "X-Gpuscale-Passed-On" // on what is passed on: it is not passed on again

struct adapter_api_delegate_options {
    const char *url; // https://…
    struct endpoint_settings endpoint;
    // The client certificate is that of a front proxy: who asks is told by X-Remote-… headers.
    // Otherwise the owner sees our own credentials; who asks was asked about here.
    bool front_proxy;
    int64_t relist_ms, timeout_ms; // 0: 30 s both
};
struct gs_error *adapter_api_delegate_new(uv_loop_t *loop,
                                          const struct adapter_api_delegate_options *o,
                                          struct adapter_api_delegate **ret);
void adapter_api_delegate_free(struct adapter_api_delegate *p);
const char *adapter_api_delegate_name(const struct adapter_api_delegate *p);
bool adapter_api_delegate_wants_user(const struct adapter_api_delegate *p);

// Its resources in a group's version ("external.metrics.k8s.io/v1beta1") are asked for from now on.
void adapter_api_delegate_follow(struct adapter_api_delegate *p, const char *group_version);
// An array of APIResource objects; NULL: none known. Borrowed.
const json_t *adapter_api_delegate_resources(const struct adapter_api_delegate *p,
                                             const char *group_version);

struct adapter_api_delegate_op;
// The request as it came, without its credentials. user: with wants_user. cb is told the answer as
// http_callbacks' on_done is. GS_ELIMIT: too many are under way; then NULL in *ret.
struct gs_error *
adapter_api_delegate_send(struct adapter_api_delegate *p, const struct http_exchange *x,
                          const struct adapter_api_auth_user *user,
                          void (*cb)(void *arg, const struct http_answer *a, struct gs_error *err),
                          void *arg, struct adapter_api_delegate_op **ret);
void adapter_api_delegate_cancel(struct adapter_api_delegate_op *op); // NULL is fine

struct adapter_api_delegate_stats {
    uint64_t requests, failures; // failures: without an answer
    bool up;                     // the last question of any kind was answered
};
void adapter_api_delegate_stats(const struct adapter_api_delegate *p,
                                struct adapter_api_delegate_stats *ret);
