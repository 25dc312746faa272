// SPDX-License-Identifier: Apache-2.0
// The GPU exporter: the sampler, attribution and HTTP pages on one loop. /metrics is rendered once
// per sample or change of the map, not per scrape. All functions are for the loop's thread.
#pragma once

#include "exporter/counters.h"
#include "gpu/gpu.h"
#include "kube/client.h"
#include "net/http/http.h"

#include <uv.h>

// Data of a pod from the API server. Strings are borrowed until the next call. False: not found.
struct exporter_render_pod {
    const char *uid;
    const char *labels; // 'name="value"', each preceded by a comma, sorted; "": no labels
};
typedef bool (*exporter_render_pod_fn)(void *arg, const char *ns, const char *pod,
                                       struct exporter_render_pod *ret);
typedef uint64_t (*exporter_render_version_fn)(void *arg); // changes when a result may change

struct exporter_render_names {
    const char *hostname_label; // "hostname" or "Hostname"; NULL: no such label
    const char *hostname;
    const char *node_name;                    // label NodeName of the per-process families
    const struct exporter_counters *counters; // NULL: the default ones
    bool old_namespace;         // labels uuid, pod_name, pod_namespace, container_name
    bool replace_blanks;        // in modelName: each run of blanks becomes "-"
    bool dra;                   // labels of the claim through which a pod holds its GPU
    bool virtual_gpus;          // the series of a shared GPU are written once per pod
    const char *devices;        // --devices: "f", "g:0,2-4", "i"; NULL: f. Already validated
    exporter_render_pod_fn pod; // NULL: no API server
    exporter_render_version_fn pod_version; // required if pod is set
    void *pod_arg;
    // directory with files "GPU" and "GPU.GI" that contain one job per line; or NULL
    const char *hpc_dir;
    uint64_t xid_window_ms, clock_window_ms;
    bool timestamps;
};
// Whether the value of --devices is valid.
bool exporter_render_devices_valid(const char *devices);
// Whether it selects one of these GPUs or their MIG devices.
bool exporter_render_devices_match(const char *devices, const struct gpu_snapshot *g);
// Whether it selects a GPU, or one of its MIG devices (instance not NULL). devices NULL: the
// default.
bool exporter_render_selects(const char *devices, const struct gpu_device *d,
                             const struct gpu_instance *instance);
// Returns in *ret the first listed index or GPU instance ID that does not exist. False: all exist.
bool exporter_render_devices_missing(const char *devices, const struct gpu_snapshot *g,
                                     unsigned *ret);

// Objects that flags name and that may be absent. The exporter works without them, logs that, sets
// gpuscale_exporter_source_up, and uses them when they appear.
enum exporter_source_kind {
    EXPORTER_SOURCE_CONFIGMAP,
    EXPORTER_SOURCE_HPC_JOBS,
    EXPORTER_SOURCE_PROC,
    EXPORTER_SOURCE_COUNT
};

struct exporter_config {
    struct gpu_backend_config backend;
    int64_t interval_ns;                // between samples
    int64_t stuck_after_ns;             // a sample that takes longer counts as stuck; 0: 10 s
    struct exporter_render_names names; // counters may be NULL; borrowed
    const char *podresources_socket;    // NULL: no attribution
    int64_t podresources_interval_ns;
    const char *const *extra_resources;
    size_t n_extra_resources;
    const char *proc; // NULL: "/proc"
    // The API server, used for pod labels and UIDs, and if the kubelet's reply is not sufficient.
    // NULL: none. The client is borrowed.
    struct gs_error *(*connect)(void *arg, struct kube_client **ret);
    const char *node_name; // only pods of this node; NULL: of all nodes
    bool pod_labels, pod_uid;
    const char *label_allowlist; // see exporter_pods_config
    bool process_metrics;        // also write process_* and promhttp_* about the exporter itself
    bool require_gpus;           // /health is 503 on a machine without a GPU
    // The first sample was taken.
    void (*on_ready)(void *arg, const struct gpu_snapshot *first);
    // If the driver is not available at the start: true: retry until it is; false: call
    // on_open_failed.
    bool wait_for_driver;
    // While waiting, and after the driver has disappeared: on_open_failed is called after this time
    // without a driver, except on a machine without a GPU. 0: never.
    int64_t driver_wait_limit_ns;
    // No sample will ever be taken. The callee owns err.
    void (*on_open_failed)(void *arg, struct gs_error *err);
    void *arg;
};

struct exporter;

// Strings are borrowed. The caller serves exporter_handle(); /metrics responds with 503 until the
// first sample.
struct gs_error *exporter_start(uv_loop_t *loop, const struct exporter_config *cfg,
                                struct exporter **ret);
// Reports that an object which a flag names is absent, or available again (problem NULL).
void exporter_set_source(struct exporter *e, enum exporter_source_kind k, const char *problem);
// Replaces the families. They are borrowed; the previous ones are not used after this call.
void exporter_set_counters(struct exporter *e, const struct exporter_counters *counters);
// An http_handler: /, /metrics, /health, /healthz.
void exporter_handle(void *exporter, struct http_exchange *x);
// False if a driver call hangs: the process must then end by _exit(), because exit() would wait in
// the driver's destructors. NULL is allowed.
bool exporter_stop(struct exporter *e);
