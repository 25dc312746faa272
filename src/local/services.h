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
