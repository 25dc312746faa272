// SPDX-License-Identifier: Apache-2.0
// Samples and the device map as Prometheus text: dcgm-exporter's families, label names and label
// order, then the per-process families of ACK's exporter, then our own about ourselves.
#pragma once

#include "base/buf.h"
#include "exporter/attribution.h"
#include "exporter/counters.h"
#include "exporter/health.h"
#include "exporter/missing.h"
#include "exporter/sampler.h"
#include "exporter/sources.h"

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
bool exporter_render_devices_any(const char *devices, const struct gpu_snapshot *g);
// Whether it means a GPU, or one of its MIG devices (instance not NULL). devices NULL: the default.
bool exporter_render_means(const char *devices, const struct gpu_device *d,
                           const struct gpu_instance *instance);
// The first index or GPU instance id of its list that none of them has, in *ret. False: they have
// all of them.
bool exporter_render_devices_missing(const char *devices, const struct gpu_snapshot *g,
                                     unsigned *ret);

struct exporter_render_input {
    const struct exporter_sample *sample;
    const struct exporter_device_map *map; // NULL: none
    uint64_t map_version;                  // another number for each other map
    int64_t map_asked_ns;                  // gs_mono_ns; processes seen later it need not know
    const struct exporter_device_replicas *replicas; // NULL: not known
    const struct exporter_health *health;            // NULL: nobody asks for it
};

// Writes pages. What does not change from page to page, the labels of all lines, is kept: a page is
// copied together and only its numbers are printed.
struct exporter_renderer;
struct exporter_renderer *
exporter_renderer_new(const struct exporter_render_names *names); // borrowed while it lives
void exporter_renderer_free(struct exporter_renderer *r);
GS_DEFINE_CLEANUP(struct exporter_renderer *, exporter_renderer_free)
// All that depends on the sample and the map alone. A field that the driver did not give has no
// line, a family without a line no header.
void exporter_renderer_page(struct exporter_renderer *r, const struct exporter_render_input *in,
                            struct gs_buf *out);
// One page, for who needs no second.
void exporter_render_gpus(const struct exporter_render_names *names,
                          const struct exporter_sample *sample,
                          const struct exporter_device_map *map,
                          const struct exporter_device_replicas *replicas, struct gs_buf *out);

struct exporter_render_self {
    const struct exporter_sample *sample; // NULL: none yet
    bool simulated, has_opened;           // simulated is known once the library is open
    bool fresh;                           // the sample is recent enough to be served
    bool stuck;                           // the sampler hangs in a driver call
    enum gpu_driver driver;
    const char *problem; // why there is no sample, in words; NULL: none
    uint64_t samples, failures;
    int64_t now_ns;                                        // gs_mono_ns
    const struct exporter_attribution_status *attribution; // NULL: not asked for
    unsigned missing;                                      // bits of enum exporter_missing_reason
    const struct exporter_sources *sources;                // NULL: none
    size_t rows_left_out;                                  // of the counters file
};
void exporter_render_self(const struct exporter_render_self *self, struct gs_buf *out);

// The page at "/": links, and for each GPU which fields are absent and why.
void exporter_render_index(const struct exporter_render_self *self, struct gs_buf *out);

// XID numbers in words, after NVIDIA's public list; "Unknown Error" for the others.
const char *exporter_render_xid_text(int64_t xid);
