// SPDX-License-Identifier: Apache-2.0
// Holds the connections of one Service while it has no endpoint, and passes them on when it has
// one. It knows nothing of Kubernetes. Bytes are sent to an endpoint only after a connection to it
// exists, and only once: no request is doubled. Only the thread of the loop may use a gate.
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct activator_gate;

// Why a connection ended without an endpoint.
enum activator_reason {
    ACTIVATOR_LIMIT,   // too many connections are held
    ACTIVATOR_TIMEOUT, // it was held for hold_ms
    ACTIVATOR_SILENT,  // it sent nothing for silent_ms
    ACTIVATOR_GONE,    // the client ended it
    ACTIVATOR_FAILED,  // the workload cannot start: activator_gate_fail()
    ACTIVATOR_PROBE,   // a health check, which was answered here
    ACTIVATOR_CLOSED,  // the Service or the activator ended
    ACTIVATOR_N_REASONS,
};

const char *activator_reason_name(enum activator_reason r); // of the label "reason"

// Memory for held bytes, shared by all gates of a process. Without any left, connections are still
// held, but not read: their bytes wait in the kernel and at the client.
struct activator_budget {
    int64_t left; // one read may overdraw it
};

struct activator_gate_config {
    size_t max_held;       // connections
    size_t max_bytes;      // held for each; further ones wait in the kernel
    int64_t hold_ms;       // until a connection is refused; again from the first endpoint on
    int64_t silent_ms;     // a connection that sent nothing yet does not wait, and ends after this
    int64_t idle_ms;       // of a connection that was passed on, without traffic and without a
                           // request that waits for its answer
    int64_t connect_ms;    // for a connection to an endpoint
    size_t max_open;       // connections that were passed on; further ones wait
    unsigned per_endpoint; // requests in progress of connections that were held; those without
                           // bytes count for a second only
    struct activator_budget *budget; // borrowed
    void (*on_waiting)(void *arg);   // the number of those that wait has changed
    void *arg;
};

struct activator_gate_stats {
    size_t waiting; // connections that have sent something and have no endpoint
    size_t silent;  // connections that have sent nothing yet
    size_t open;    // connections that were passed on and have not ended
    int64_t oldest_ms;
    uint64_t arrivals, released, rejected[ACTIVATOR_N_REASONS];
    uint64_t connect_failures; // connections to endpoints that failed and were tried again
    double waited_seconds;     // sum, of those that were released
};

// How the requests of a Service are treated. Lists end with NULL; a list may be NULL.
struct activator_rules {
    char **probe_paths, **probe_agents; // further health checks: their paths, and what their user
                                        // agents begin with
    int64_t comment_ms; // between comments to clients that wait for an event stream; 0: none
    char *ready_path;   // an endpoint is used after this path has answered with 200; NULL: at once
};

struct activator_address {
    char ip[64]; // numeric
    uint16_t port;
};

// cfg is copied.
struct activator_gate *activator_gate_new(uv_loop_t *loop, const struct activator_gate_config *cfg);
// Ends all connections. Accepts NULL.
void activator_gate_free(struct activator_gate *g);

// Opens a listener for port number `index` (from 0). *port 0: any; it is set to the actual one.
// GS_EEXIST: the port is in use.
struct gs_error *activator_gate_listen(struct activator_gate *g, size_t index, const char *ip,
                                       uint16_t *port);
// Closes the listener, and ends the connections that are held for the port.
void activator_gate_remove(struct activator_gate *g, size_t index);
// Of new requests. Borrowed until the next call; NULL: none.
void activator_gate_set_rules(struct activator_gate *g, const struct activator_rules *rules);
// The ready endpoints for the port. Connections that wait are passed on to them.
void activator_gate_set(struct activator_gate *g, size_t index,
                        const struct activator_address *items, size_t n);
// Refuses those that wait, and new ones while `why` is not NULL. A later call with endpoints or
// NULL ends this.
void activator_gate_fail(struct activator_gate *g, const char *why);
// For the next `ms`, those that wait are not refused after hold_ms: what they wait for is on its
// way. 0 ends this.
void activator_gate_extend(struct activator_gate *g, int64_t ms);
// Whether a port has endpoints, which may all be busy.
bool activator_gate_has_endpoints(const struct activator_gate *g);
void activator_gate_stats(const struct activator_gate *g, struct activator_gate_stats *ret);
