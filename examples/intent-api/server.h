// SPDX-License-Identifier: Apache-2.0
// The service over HTTP: /predict?query=TEXT returns the intent, /ping, /gputest, /metrics.
#pragma once

#include "base/error.h"

#include <stdint.h>

struct server;

struct server_config {
    const char *address;
    uint16_t port; // a port that may not be bound moves up by 8000 (80 -> 8080)
    unsigned threads;
    unsigned
        keepalive; // requests a connection, then it is closed so that balancers can spread load
    uint64_t model_memory;
    uint64_t kernel_us;
    double sm_share;
};

struct gs_error *server_start(const struct server_config *cfg, struct server **ret);
uint16_t server_port(const struct server *s);
const char *server_gpu(const struct server *s);
// Stops accepting, lets the running requests finish (up to drain_ms).
void server_stop(struct server *s, unsigned drain_ms);
