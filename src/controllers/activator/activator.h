// SPDX-License-Identifier: Apache-2.0
// The activator: holds the connections of Services whose workload is at zero replicas, and leaves
// the data path when a pod is ready. A Service opts in with the annotation gpuscale.dev/activate.
// Only the thread of the loop may use it.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "kube/client.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

// Of a Service: "Deployment/api", the workload in its namespace that serves it.
#define ACTIVATOR_ANNOTATION "gpuscale.dev/activate"
// More of it: health checks by path and user agent (lists with commas), the time between comments
// for clients that wait for an event stream, and a path that answers with 200 when a model is
// loaded.
#define ACTIVATOR_ANN_PROBE_PATHS  "gpuscale.dev/activate-probe-paths"
#define ACTIVATOR_ANN_PROBE_AGENTS "gpuscale.dev/activate-probe-agents"
#define ACTIVATOR_ANN_COMMENTS     "gpuscale.dev/activate-comments"
#define ACTIVATOR_ANN_READY_PATH   "gpuscale.dev/activate-ready-path"

struct activator;

struct activator_config {
    const char *ns;                 // only Services of this namespace; NULL: all
    const char *identity;           // of this instance: the name of its pod
    const char *pod_ns;             // the namespace of this pod; NULL: the instance is no pod
    const char *listen;             // numeric address of the listeners
    const char *node;               // the node of this instance; NULL: unknown
    const char *advertise;          // numeric address in EndpointSlices
    const char *second;             // the one of the other address family; NULL: none
    uint16_t first_port, last_port; // of the listeners; 0: any free one
    size_t max_services;
    size_t max_held;         // connections of a Service
    size_t max_bytes;        // held for each connection
    int64_t max_total_bytes; // held for all
    int64_t hold_ms, silent_ms, idle_ms;
    size_t max_open;       // connections of a Service that were passed on and have not ended
    unsigned per_endpoint; // held requests in progress at each pod
    // Something began to wait, or ended to: the metrics have changed. May be NULL.
    void (*on_change)(void *arg);
    void *arg;
};

// 1,000 connections of 64 KiB, 8 MiB, 600 s, 10 s, idle 600 s, 10,000 open, 8 requests, 256
// Services, 127.0.0.1.
struct activator_config activator_config_default(void);

// Texts are copied; client is borrowed. Starts immediately.
struct activator *activator_new(uv_loop_t *loop, struct kube_client *client,
                                const struct activator_config *cfg);
// Deletes the EndpointSlices of this instance, then calls `done`. New connections are still held
// and passed on meanwhile.
void activator_stop(struct activator *a, void (*done)(void *arg), void *arg);
// Ends all connections. The EndpointSlices stay if it was not stopped before. Accepts NULL.
void activator_free(struct activator *a);

void activator_write_metrics(const struct activator *a, struct gs_buf *out);
// [{"namespace", "service", "target", "state", "waiting", "silent", "open", …}]. New reference.
json_t *activator_json(const struct activator *a);
size_t activator_connections(const struct activator *a); // that are held, or were passed on
bool activator_synced(const struct activator *a);        // the Services have been read
