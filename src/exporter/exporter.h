// SPDX-License-Identifier: Apache-2.0
// The GPU exporter: sampler, attribution and HTTP pages on one loop. /metrics is rendered once for
// each sample or change of the map, however often it is scraped.
#pragma once

#include "exporter/counters.h"
#include "exporter/render.h"
#include "exporter/sources.h"
#include "gpu/gpu.h"
#include "kube/client.h"
#include "net/http/http.h"

#include <uv.h>

struct exporter_config {
    // "", "127.0.0.1" …; NULL: no server, for who mounts exporter_handle elsewhere.
    const char *address;
    uint16_t port; // 0: any free one
    struct gpu_backend_config backend;
    int64_t interval_ns;                // between passes
    int64_t stuck_after_ns;             // a pass that takes longer counts as stuck; 0: 10 s
    struct exporter_render_names names; // counters may be NULL; borrowed
    const char *podresources_socket;    // NULL: no attribution
    int64_t podresources_interval_ns;
    const char *const *extra_resources;
    size_t n_extra_resources;
    const char *proc; // NULL: "/proc"
    // The API server, asked when the kubelet's answer is not enough, and for pod labels and UIDs.
    // NULL: there is none. The client is borrowed.
    struct gs_error *(*connect)(void *arg, struct kube_client **ret);
    const char *node_name; // whose pods are asked for; NULL: those of all nodes
    bool pod_labels, pod_uid;
    const char *label_allowlist; // see pods.h
    // The first sample is there.
    void (*on_ready)(void *arg, const struct gpu_snapshot *first);
    // Without a driver at the start nothing is sampled and on_open_failed is called; waiting, it is
    // looked for until it is there.
    bool wait_for_driver;
    // Waiting, or after the driver has gone: on_open_failed is called after so long without it, but
    // not on a machine without a GPU. 0: never.
    int64_t driver_wait_limit_ns;
    // Nothing will ever be sampled. err is the callee's.
    void (*on_open_failed)(void *arg, struct gs_error *err);
    void *arg;
};

struct exporter;

// Strings are borrowed. Answers at once; /metrics with 503 until the first pass has ended.
struct gs_error *exporter_start(uv_loop_t *loop, const struct exporter_config *cfg,
                                struct exporter **ret);
// Something that a flag names is missing, or there again (problem NULL).
void exporter_set_source(struct exporter *e, enum exporter_source_kind k, const char *problem);
uint16_t exporter_port(const struct exporter *e);
// Other families, borrowed as the first ones were; those are not needed any more afterwards.
void exporter_set_counters(struct exporter *e, const struct exporter_counters *counters);
// An http_handler: /, /metrics, /health, /healthz.
void exporter_handle(void *exporter, struct http_exchange *x);
// False when a driver call hangs: then the process must end by _exit(), for exit() would wait in
// the driver's destructors. NULL is fine.
bool exporter_stop(struct exporter *e);
