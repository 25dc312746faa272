// SPDX-License-Identifier: Apache-2.0
// A TCP load balancer on the loop: pools of endpoints, any number of listeners each. A connection
// goes to the endpoint with the fewest open ones (round robin on ties), to another when connecting
// fails, and is closed at once when there is none. An endpoint that leaves its pool keeps its
// connections until they end. Private to the room.
#pragma once

#include "base/error.h"

#include <stdint.h>
#include <uv.h>

struct services_balancer;
struct services_balancer_pool;
struct services_balancer_listener;

struct services_balancer_config {
    // 0: 4096, and as many as an eighth of the files that the process may open. At the limit the
    // one that has been silent longest is cut for a new one, if that is for evict_ms (0: 10 s) or
    // more.
    size_t max_connections;
    unsigned evict_ms;
    unsigned idle_ms;    // a connection without a byte for so long is cut; 0: 10 minutes
    unsigned connect_ms; // 0: 5 s
};

struct services_balancer *services_balancer_new(uv_loop_t *loop,
                                                const struct services_balancer_config *cfg);
void services_balancer_free(
    struct services_balancer *b); // cuts all connections; pools must be gone
size_t services_balancer_connections(const struct services_balancer *b);

struct services_balancer_address {
    char ip[64]; // numeric
    uint16_t port;
};

struct services_balancer_pool *services_balancer_pool_new(struct services_balancer *b);
void services_balancer_pool_free(
    struct services_balancer_pool *p); // listeners must be closed; connections go on
void services_balancer_pool_set(struct services_balancer_pool *p,
                                const struct services_balancer_address *items, size_t n);

// A busy port gives GS_EEXIST.
struct gs_error *services_balancer_listen(struct services_balancer_pool *p, const char *ip,
                                          uint16_t port, struct services_balancer_listener **ret);
uint16_t services_balancer_listener_port(const struct services_balancer_listener *l);
void services_balancer_listener_close(struct services_balancer_listener *l);
