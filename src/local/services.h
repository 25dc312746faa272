// SPDX-License-Identifier: Apache-2.0
// The service controller. Allocates ClusterIP, NodePort and LoadBalancer addresses (address plan:
// cluster.h), writes Endpoints from ready pods, and balances TCP connections over them (fewest
// connections first).
#pragma once

#include "local/api.h"
#include "local/cluster.h"

struct local_services;
struct local_services *services_new(struct local_cluster *c);
void services_free(struct local_services *s); // ends the requests that it forwards
// Forwards the requests of the API's proxy: for local_api_set_forwarder().
void services_forward(void *services, struct http_exchange *x, const struct local_api_forward *to);

// Sends a request to an HTTP server at this address, and its response to the client.
void services_pass_on(struct local_services *s, const char *ip, uint16_t port, bool tls,
                      struct http_exchange *x);

// A listener whose connections go to a port of 127.0.0.1, as they are.
struct services_tunnel;
// GS_EEXIST, or another error of the system: the port is in use.
struct gs_error *services_tunnel_open(struct local_services *s, const char *ip, uint16_t port,
                                      uint16_t to_port, struct services_tunnel **ret);
// Open connections continue. Accepts NULL. Close tunnels before services_free().
void services_tunnel_close(struct services_tunnel *t);

// Routes a request by the Ingress objects of the class, as the class' router does. tls: the client
// used HTTPS.
void services_ingress_request(struct local_services *s, const char *class, bool tls,
                              struct http_exchange *x);
