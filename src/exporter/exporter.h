// SPDX-License-Identifier: Apache-2.0
// The GPU exporter: sampler, attribution and HTTP pages on one loop. /metrics is rendered once for
// each sample or change of the map, however often it is scraped.
#pragma once

#include "exporter/counters.h"
#include "gpu/gpu.h"
#include "kube/client.h"
#include "net/http/http.h"

#include <uv.h>

// Pod facts of the API server. Strings are borrowed until the next call; false: not known.
struct exporter_render_pod {
    const char *uid;
    const char *labels; // 'name="value"' each with a comma before it, sorted; "" for none
};
typedef bool (*exporter_render_pod_fn)(void *arg, const char *ns, const char *pod,
                                       struct exporter_render_pod *ret);
typedef uint64_t (*exporter_render_version_fn)(
    void *arg); // another number when an answer may be another

struct exporter_render_names {
    const char *hostname_label; // "hostname", "Hostname"; NULL: no such label
    const char *hostname;
    const char *node_name;                    // label NodeName of the per-process families
    const struct exporter_counters *counters; // NULL: the default ones
    bool old_namespace;                       // uuid, pod_name, pod_namespace, container_name
    bool replace_blanks;                      // in modelName: runs of blanks become "-"
    bool dra;                                 // labels of the claim by which a pod has its GPU
    bool virtual_gpus;                        // a shared GPU's lines once for each pod
    const char *devices;        // --devices: "f", "g:0,2-4", "i"; NULL: f. Checked before
    exporter_render_pod_fn pod; // NULL: no API server is asked
    exporter_render_version_fn pod_version; // with pod
    void *pod_arg;
    const char *hpc_dir; // folder of files "GPU" and "GPU.GI" with a job in each line; NULL
    uint64_t xid_window_ms, clock_window_ms;
    bool timestamps;
};
// Whether a --devices text can be understood.
bool exporter_render_devices_valid(const char *devices);
// Whether it means one of these GPUs or their MIG devices.
bool exporter_render_devices_match(const char *devices, const struct gpu_snapshot *g);
// Whether it means a GPU, or one of its MIG devices (instance not NULL). devices NULL: the default.
bool exporter_render_selects(const char *devices, const struct gpu_device *d,
                             const struct gpu_instance *instance);
// The first index or GPU instance id of its list that none of them has, in *ret. False: they have
// all of them.
bool exporter_render_devices_missing(const char *devices, const struct gpu_snapshot *g,
                                     unsigned *ret);

// Things that flags name and that may be absent: the exporter works without them, logs that and
// sets gpuscale_exporter_source_up, and uses them when they appear.
enum exporter_source_kind {
    EXPORTER_SOURCE_CONFIGMAP,
    EXPORTER_SOURCE_HPC_JOBS,
    EXPORTER_SOURCE_PROC,
    EXPORTER_SOURCE_COUNT
};

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
