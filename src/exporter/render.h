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
struct render_pod {
    const char *uid;
    const char *labels; // 'name="value"' each with a comma before it, sorted; "" for none
};
typedef bool (*render_pod_fn)(void *arg, const char *ns, const char *pod, struct render_pod *ret);
typedef uint64_t (*render_version_fn)(void *arg); // another number when an answer may be another

struct render_names {
    const char *hostname_label; // "hostname", "Hostname"; NULL: no such label
    const char *hostname;
    const char *node_name;           // label NodeName of the per-process families
    const struct counters *counters; // NULL: the default ones
    bool old_namespace;              // uuid, pod_name, pod_namespace, container_name
    bool replace_blanks;             // in modelName: runs of blanks become "-"
    bool dra;                        // labels of the claim by which a pod has its GPU
    bool virtual_gpus;               // a shared GPU's lines once for each pod
    const char *devices;             // --devices: "f", "g:0,2-4", "i"; NULL: f. Checked before
    render_pod_fn pod;               // NULL: no API server is asked
    render_version_fn pod_version;   // with pod
    void *pod_arg;
    const char *hpc_dir; // folder of files "GPU" and "GPU.GI" with a job in each line; NULL
    uint64_t xid_window_ms, clock_window_ms;
    bool timestamps;
};
// Whether a --devices text can be understood.
bool render_devices_valid(const char *devices);
// Whether it means one of these GPUs or their MIG devices.
bool render_devices_any(const char *devices, const struct gpu_snapshot *g);
// Whether it means a GPU, or one of its MIG devices (instance not NULL). devices NULL: the default.
bool render_means(const char *devices, const struct gpu_device *d,
                  const struct gpu_instance *instance);
// The first index or GPU instance id of its list that none of them has, in *ret. False: they have
// all of them.
bool render_devices_missing(const char *devices, const struct gpu_snapshot *g, unsigned *ret);

struct render_input {
    const struct sample *sample;
    const struct device_map *map;           // NULL: none
    uint64_t map_version;                   // another number for each other map
    int64_t map_asked_ns;                   // gs_mono_ns; processes seen later it need not know
    const struct device_replicas *replicas; // NULL: not known
    const struct health *health;            // NULL: nobody asks for it
};

// Writes pages. What does not change from page to page, the labels of all lines, is kept: a page is
// copied together and only its numbers are printed.
struct renderer;
struct renderer *renderer_new(const struct render_names *names); // borrowed while it lives
void renderer_free(struct renderer *r);
GS_DEFINE_CLEANUP(struct renderer *, renderer_free)
// All that depends on the sample and the map alone. A field that the driver did not give has no
// line, a family without a line no header.
void renderer_page(struct renderer *r, const struct render_input *in, struct gs_buf *out);
// One page, for who needs no second.
void render_gpus(const struct render_names *names, const struct sample *sample,
                 const struct device_map *map, const struct device_replicas *replicas,
                 struct gs_buf *out);

struct render_self {
    const struct sample *sample; // NULL: none yet
    bool simulated, has_opened;  // simulated is known once the library is open
    bool fresh;                  // the sample is recent enough to be served
    bool stuck;                  // the sampler hangs in a driver call
    enum gpu_driver driver;
    const char *problem; // why there is no sample, in words; NULL: none
    uint64_t samples, failures;
    int64_t now_ns;                               // gs_mono_ns
    const struct attribution_status *attribution; // NULL: not asked for
    unsigned missing;                             // bits of enum missing_reason
    const struct sources *sources;                // NULL: none
    size_t rows_left_out;                         // of the counters file
};
void render_self(const struct render_self *self, struct gs_buf *out);

// The page at "/": links, and for each GPU which fields are absent and why.
void render_index(const struct render_self *self, struct gs_buf *out);

// XID numbers in words, after NVIDIA's public list; "Unknown Error" for the others.
const char *render_xid_text(int64_t xid);
