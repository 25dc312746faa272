// SPDX-License-Identifier: Apache-2.0
// A delegate: the API server that served an API group before gpuscale. Requests that no rule serves
// are forwarded to it. An API group has one APIService in a cluster, so two metrics adapters can
// only be chained.
#pragma once

#include "adapter/api/auth.h"
#include "net/endpoint/endpoint.h"

struct adapter_api_delegate;

#define ADAPTER_API_FORWARDED_HEADER                                                               \
    "X-Gpuscale-Passed-On" // set on forwarded requests, which are not forwarded again

struct adapter_api_delegate_options {
    const char *url; // https://…
    struct endpoint_settings endpoint;
    // True: the client certificate is a front proxy's, and X-Remote-… headers name the caller.
    // False: the delegate sees the adapter's credentials; the adapter has authorized the caller.
    bool front_proxy;
    int64_t relist_ms, timeout_ms; // 0: 30 s
};
struct gs_error *adapter_api_delegate_new(uv_loop_t *loop,
                                          const struct adapter_api_delegate_options *o,
                                          struct adapter_api_delegate **ret);
void adapter_api_delegate_free(struct adapter_api_delegate *p);
const char *adapter_api_delegate_name(const struct adapter_api_delegate *p);
bool adapter_api_delegate_wants_user(const struct adapter_api_delegate *p);

// Lists the delegate's resources of a group version ("external.metrics.k8s.io/v1beta1") now and
// every relist_ms.
void adapter_api_delegate_follow(struct adapter_api_delegate *p, const char *group_version);
// Returns an array of APIResource objects. Borrowed. NULL: not listed yet.
const json_t *adapter_api_delegate_resources(const struct adapter_api_delegate *p,
                                             const char *group_version);

struct adapter_api_delegate_op;
// Forwards the request without its credentials. user: needed if adapter_api_delegate_wants_user().
// cb has the semantics of on_done in http_callbacks. GS_ELIMIT: too many requests are in progress;
// *ret is NULL.
struct gs_error *adapter_api_delegate_send(struct adapter_api_delegate *p,
                                           const struct http_exchange *x,
                                           const struct adapter_api_auth_user *user,
                                           void (*cb)(void *arg, const struct http_response *a,
                                                      struct gs_error *err),
                                           void *arg, struct adapter_api_delegate_op **ret);
void adapter_api_delegate_cancel(struct adapter_api_delegate_op *op); // NULL is fine

struct adapter_api_delegate_stats {
    uint64_t requests, failures; // failures: no response
    bool up;                     // the last call received a response
};
void adapter_api_delegate_stats(const struct adapter_api_delegate *p,
                                struct adapter_api_delegate_stats *ret);
