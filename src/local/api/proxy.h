// SPDX-License-Identifier: Apache-2.0
// Requests for the subresource proxy. Private to the API server.
#pragma once

#include "local/api.h"

// --- proxy.c ---

struct local_api_proxy_path {
    const char *kind; // "nodes", "pods", "services"
    char *ns, *id;    // ns: "" for nodes; id: "[SCHEME:]NAME[:PORT]"
    char *prefix;     // the raw path up to and including "proxy"
    const char *path; // what follows: "" or "/…"; part of the parsed text
};
// False: the path is not that of a proxy. *ret: finish it after use.
bool local_api_proxy_parse(const char *path, struct local_api_proxy_path *ret);
void local_api_proxy_path_finish(struct local_api_proxy_path *p);
void local_api_serve_proxy(struct local_api *api, struct http_exchange *x,
                           const struct local_api_proxy_path *p);

// --- proxy_tls.c: servers that speak TLS ---
// Their certificates are not verified, as in Kubernetes. A reply is sent when it is complete,
// except of a request with the parameter watch or follow.

struct local_api_tls_servers;
struct local_api_tls_servers *local_api_tls_servers_new(uv_loop_t *loop);
void local_api_tls_servers_free(struct local_api_tls_servers *s); // answers open requests with 503
void local_api_tls_servers_forward(struct local_api_tls_servers *s, struct http_exchange *x,
                                   const struct local_api_forward *to);
