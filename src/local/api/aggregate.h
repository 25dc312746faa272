// SPDX-License-Identifier: Apache-2.0
// Aggregated APIs: APIService objects with a Service. Their requests are forwarded to it. Private
// to the API server.
#pragma once

#include "local/api.h"
#include "local/api/registry.h"
#include "local/api/store.h"
#include "net/http/client.h"

// --- aggregate.c: the APIServices, and whether their servers are available ---

struct local_api_aggregation;
struct local_api_aggregation *local_api_aggregation_new(struct local_api *api);
// Makes the certificate of the proxy, and the objects in which servers find its authority: the
// ConfigMap extension-apiserver-authentication and the Role of its readers. Call it once.
struct gs_error *local_api_aggregation_publish(struct local_api_aggregation *a);
// Ends all forwarded requests.
void local_api_aggregation_free(struct local_api_aggregation *a);
// To be called after each change of the store.
void local_api_aggregation_changed(struct local_api_aggregation *a,
                                   const struct local_api_store_change *change);
// To be called after a group was mounted: it gets its APIServices.
void local_api_aggregation_mounted(struct local_api_aggregation *a);
// Answers the request, now or later, if the group-version has an APIService with a Service.
bool local_api_aggregate(struct local_api_aggregation *a, struct http_exchange *x,
                         const char *group, const char *version);
// All of them in turn, for discovery. False after the last one.
bool local_api_nth_aggregated(const struct local_api_aggregation *a, size_t i,
                              const char **ret_group, const char **ret_version);

void local_api_default_apiservice(json_t *obj, const json_t *old);
void local_api_validate_apiservice(const json_t *obj, const json_t *old,
                                   struct kube_field_errors *errors);
// Sets the condition of an APIService without a Service.
void local_api_complete_apiservice(const struct local_api_request *r, json_t *obj,
                                   const json_t *old);

// --- front_proxy.c: how servers know that a request comes from here ---

struct tls_pair;
struct local_api_front_proxy;
struct local_api_front_proxy *local_api_front_proxy_new(struct local_api *api);
void local_api_front_proxy_free(struct local_api_front_proxy *f); // accepts NULL
// Makes the certificate, and the Role of those who read its authority. Call it once.
struct gs_error *local_api_front_proxy_make(struct local_api_front_proxy *f);
// Writes the ConfigMap with the authority if it differs.
void local_api_front_proxy_publish(struct local_api_front_proxy *f);
// Somebody else has changed or deleted the ConfigMap.
bool local_api_front_proxy_is_changed(const struct local_api_front_proxy *f);
const struct tls_pair *local_api_front_proxy_identity(const struct local_api_front_proxy *f);
const char *local_api_front_proxy_ca(const struct local_api_front_proxy *f); // NULL: not made

// --- aggregate_proxy.c: forwarded requests ---

// The requests that one server is answering. They end with it.
struct local_api_proxied;
struct local_api_proxy {
    struct http_client *client;
    struct local_api_proxied *first;
    size_t n;
};
// to: of the subresource proxy; NULL: the path and the identity of the caller are passed on.
void local_api_proxy_forward(struct local_api_proxy *p, struct http_exchange *x,
                             const struct local_api_forward *to);
// Answers the open requests with 503 and frees the client. Not inside a callback of the client.
void local_api_proxy_finish(struct local_api_proxy *p);
