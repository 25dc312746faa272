// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/buf.h"
#include "exporter/attribution.h"
#include "exporter/exporter.h"
#include "exporter/sampler.h"
#include "gpu/gpu.h"

// --- render ---

// Samples and the device map as Prometheus text: dcgm-exporter's families, label names and label
// order, then the per-process families of ACK's exporter, then our own about ourselves.

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
    unsigned missing;                       // bits of enum exporter_attribution_problem
    const struct exporter_sources *sources; // NULL: none
    size_t rows_left_out;                   // of the counters file
};
void exporter_render_self(const struct exporter_render_self *self, struct gs_buf *out);

// The page at "/": links, and for each GPU which fields are absent and why.
void exporter_render_index(const struct exporter_render_self *self, struct gs_buf *out);

// XID numbers in words, after NVIDIA's public list; "Unknown Error" for the others.
const char *exporter_render_xid_text(int64_t xid);

// --- health ---

// DCGM_EXP_GPU_HEALTH_STATUS: what DCGM's background health checks say of a GPU, from the values of
// NVML and by DCGM's limits (modules/health of DCGM 4): counters that moved within the last minute,
// states, and XIDs since the start. What DCGM looks at and NVML's values here do not tell is in
// docs/compatibility/.

enum exporter_health_watch {
    EXPORTER_HEALTH_PCIE,
    EXPORTER_HEALTH_NVLINK,
    EXPORTER_HEALTH_PMU, // of these three DCGM has no check either
    EXPORTER_HEALTH_MCU,
    EXPORTER_HEALTH_MEM,
    EXPORTER_HEALTH_SM,
    EXPORTER_HEALTH_INFOROM,
    EXPORTER_HEALTH_THERMAL,
    EXPORTER_HEALTH_POWER,
    EXPORTER_HEALTH_DRIVER,
    EXPORTER_HEALTH_ALL, // XIDs that concern the whole GPU
    EXPORTER_HEALTH_WATCHES
};
enum { EXPORTER_HEALTH_PASS = 0, EXPORTER_HEALTH_WARN = 10, EXPORTER_HEALTH_FAIL = 20 };

struct exporter_health_result {
    int level;        // the worst
    const char *code; // "DCGM_FR_…" of it, static
};

struct exporter_health;
struct exporter_health *exporter_health_new(void);
void exporter_health_free(struct exporter_health *h);
// Fields that it is made of: sets ret[field].
void exporter_health_wanted(bool *ret);
void exporter_health_update(struct exporter_health *h, const struct gpu_snapshot *s,
                            int64_t now_ns);
// EXPORTER_HEALTH_WATCHES of them; NULL: nothing is known of this GPU.
const struct exporter_health_result *exporter_health_of(const struct exporter_health *h,
                                                        const char *uuid);
const char *exporter_health_watch_name(enum exporter_health_watch w); // "PCIE"

// --- gpu events ---

// What happens to GPUs, as log lines and as a text for /health: XIDs, GPUs that are lost, and GPUs
// for which a driver call does not return.

struct exporter_gpu_events;
struct exporter_gpu_events *exporter_gpu_events_new(void);
void exporter_gpu_events_free(struct exporter_gpu_events *e);

// Logs what has changed since the last snapshot. The first XID of a number is logged at once, more
// of them at most once a minute. now_ns: gs_mono_ns of the snapshot.
void exporter_gpu_events_update(struct exporter_gpu_events *e, const struct gpu_snapshot *s,
                                int64_t now_ns);

// Appends the GPUs that are lost or hang: "1 of 2 GPUs are lost: GPU 1 (GPU-…, 00000000:18:00.0)".
// False: all are well.
bool exporter_gpu_events_problems(const struct gpu_snapshot *s, struct gs_buf *out);

// --- sources ---

// Files, folders and objects that flags name and that may be absent: the exporter goes on without
// them, says so in a line and in gpuscale_exporter_source_up, and takes them when they come.

struct exporter_sources {
    unsigned asked, missing; // bits 1u << exporter_source_kind
    const char *hpc_dir;     // NULL: not asked for
    const char *proc;        // NULL: "/proc"
};

// Looks for the folders.
void exporter_sources_check(struct exporter_sources *s);
// Tells when it is another state than before; problem NULL: it is there.
void exporter_sources_set(struct exporter_sources *s, enum exporter_source_kind k,
                          const char *problem);
void exporter_sources_render(const struct exporter_sources *s, struct gs_buf *out);

// --- absent ---

// Families of the counters file that no GPU here gives: nobody should have to search for the
// reason.

struct exporter_unsupported_fields {
    const struct exporter_counters *counters; // NULL: the default ones
    const char *devices;                      // as in exporter_render_names
    const struct gpu_snapshot *gpus;
};

// A line for each reason.
void exporter_log_unsupported_fields(const struct exporter_unsupported_fields *cfg);
