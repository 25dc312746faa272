// SPDX-License-Identifier: Apache-2.0
// The one-node Kubernetes API: objects in SQLite, list/watch/create/update/patch/delete with
// Kubernetes' semantics and error bodies, discovery, OpenAPI, tables. An http_handler of the TLS
// server and of the in-process loopback. Only the thread of the loop may use it.
#pragma once

#include "codec/json.h"
#include "kube/client.h"
#include "net/http/http.h"

#include <uv.h>

struct local_api;

struct local_api_config {
    const char *data_dir;  // objects in data_dir/state.db; NULL: memory only (tests)
    const char *node_name; // for the sources of events
    // More objects are rejected like by a ResourceQuota. Events are not counted: the oldest are
    // deleted.
    size_t max_objects; // of all kinds together; 0: 10000
    // The key that signs tokens of service accounts, as PEM text (net/tls/signature.h). NULL: a new
    // one, so that tokens are invalid after a restart.
    const char *service_account_key;
    // Of the API's certificate, for the ConfigMaps kube-root-ca.crt. NULL: none, and pods get no
    // volume with a token.
    const char *ca_pem;
    size_t max_pods; // Pod objects in any phase; 0: 1000
};

struct gs_error *local_api_new(uv_loop_t *loop, const struct local_api_config *cfg,
                               struct local_api **ret);
void local_api_free(struct local_api *api); // ends watches, closes the store
void local_api_handle(void *api, struct http_exchange *x);

// A boolean parameter of the query, as kube-apiserver reads them: false if it is absent, "0" or
// "false" in any case ("False" of Python clients).
bool local_api_query_bool(const struct http_exchange *x, const char *name);

// Authenticates a token of a service account: for http_server_config.check_token. The strings of
// *ret stay valid until the next call.
bool local_api_check_token(void *api, const char *token, struct http_identity *ret);

// The authority of the client with which requests reach aggregated API servers, in PEM. Borrowed.
// NULL: a failure at the start.
const char *local_api_front_proxy_authority(const struct local_api *api);

// The port at which the API listens on LOCAL_NODE_IP: writes the Service "kubernetes" with it.
void local_api_set_port(struct local_api *api, uint16_t port);

// Serves another API group (aggregation): the handler answers /apis/<group>/…, and /apis lists the
// group's APIGroup document (from `describe`, new reference). While `describe` returns NULL the
// group does not exist.
void local_api_mount(struct local_api *api, const char *group,
                     json_t *(*describe)(const void *ctx, const char *group), http_handler handler,
                     void *ctx);
// What the API server requests from the kubelet of a pod's node. pod is borrowed.
struct local_api_kubelet {
    // GET …/pods/NAME/log
    void (*logs)(void *ctx, const json_t *pod, struct http_exchange *x);
    // Connect requests on …/pods/NAME/exec, attach and portforward (`subresource`). NULL: refused.
    void (*connect)(void *ctx, const char *subresource, const json_t *pod, struct http_exchange *x);
    // The kubelet's own HTTP API: nodes/NAME/proxy/PATH. NULL: refused.
    void (*serve)(void *ctx, const char *path, struct http_exchange *x);
    void *ctx;
};
// Requests for pods of `node` are served by k (copied); NULL: no longer. Requests for pods without
// a node are served by the first kubelet.
void local_api_set_kubelet(struct local_api *api, const char *node,
                           const struct local_api_kubelet *k);

// A request of the subresource proxy of a pod, a Service or a node, as its server gets it.
struct local_api_forward {
    const char *ip; // numeric
    uint16_t port;
    const char *target; // path and query of the request line, already encoded
    const char *prefix; // what the path of the proxy has before the server's path
};
// Who forwards such requests over plain HTTP. NULL: they fail with 503. Requests with https: are
// sent by the API server itself.
struct local_api_forwarder {
    // Answers the exchange, now or later. `to` is borrowed.
    void (*forward)(void *ctx, struct http_exchange *x, const struct local_api_forward *to);
    void *ctx;
};
void local_api_set_forwarder(struct local_api *api, const struct local_api_forwarder *f); // copied
// A redirect of such a server, as the client must follow it. host: of the client's request. Caller
// frees.
char *local_api_forward_location(const struct local_api_forward *to, const char *location,
                                 const char *host);
// A header with which a caller proves its identity to the API, which no other server may get.
bool local_api_is_credential(const char *header);

// The built-in kinds whose objects take part in garbage collection, as owners and as dependents:
// all but events. Objects of custom resources do, too.
struct local_api_collected {
    const char *kind; // the strings are constants
    struct kube_gvr gvr;
    bool namespaced;
};
// The i-th of them. False: after the last one.
bool local_api_collected(size_t i, struct local_api_collected *ret);
