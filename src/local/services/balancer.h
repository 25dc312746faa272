// SPDX-License-Identifier: Apache-2.0
// A TCP load balancer on the loop: pools of endpoints, any number of listeners each. A connection
// goes to the endpoint with the fewest open ones (round robin on ties), to another when connecting
// fails, and is closed at once when there is none. An endpoint that leaves its pool keeps its
// connections until they end. Private to the room.
#pragma once

#include "base/error.h"

#include <stdint.h>
#include <uv.h>

struct balancer;
struct balancer_pool;
struct balancer_listener;

struct balancer_config {
    // 0: 4096, and as many as an eighth of the files that the process may open. At the limit the
    // one that has been silent longest is cut for a new one, if that is for evict_ms (0: 10 s) or
    // more.
    size_t max_connections;
    unsigned evict_ms;
    unsigned idle_ms;    // a connection without a byte for so long is cut; 0: 10 minutes
    unsigned connect_ms; // 0: 5 s
};

struct balancer *balancer_new(uv_loop_t *loop, const struct balancer_config *cfg);
void balancer_free(struct balancer *b); // cuts all connections; pools must be gone
size_t balancer_connections(const struct balancer *b);

struct balancer_address {
    char ip[64]; // numeric
    uint16_t port;
};

struct balancer_pool *balancer_pool_new(struct balancer *b);
void balancer_pool_free(struct balancer_pool *p); // listeners must be closed; connections go on
void balancer_pool_set(struct balancer_pool *p, const struct balancer_address *items, size_t n);

// A busy port gives GS_EEXIST.
struct gs_error *balancer_listen(struct balancer_pool *p, const char *ip, uint16_t port,
                                 struct balancer_listener **ret);
uint16_t balancer_listener_port(const struct balancer_listener *l);
void balancer_listener_close(struct balancer_listener *l);
