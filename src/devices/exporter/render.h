// SPDX-License-Identifier: Apache-2.0
// The pages of the exporter, and what is derived from samples besides: health, events and absent
// sources.
#pragma once

#include "base/buf.h"
#include "exporter/attribution.h"
#include "exporter/exporter.h"
#include "exporter/sampler.h"
#include "gpu/gpu.h"

// --- render ---

// Renders samples and the device map as Prometheus text: dcgm-exporter's families, label names and
// label order, then the per-process families of ACK's exporter, then gpuscale's own.

struct exporter_render_input {
    const struct exporter_sample *sample;
    const struct exporter_device_map *map; // NULL: none
    uint64_t map_version;                  // differs for each map
    int64_t map_requested_ns; // gs_mono_ns; the map need not contain processes that started later
    const struct exporter_device_replicas *replicas; // NULL: unknown
    const struct exporter_health *health;            // NULL: not configured
};

// Renders pages. The labels of all lines rarely change and are cached; for each page they are
// copied and only numbers are formatted. One thread at a time.
struct exporter_renderer;
struct exporter_renderer *
exporter_renderer_new(const struct exporter_render_names *names); // names are borrowed
void exporter_renderer_free(struct exporter_renderer *r);
GS_DEFINE_CLEANUP(struct exporter_renderer *, exporter_renderer_free)
// Appends everything that depends only on the sample and the map. A field without a value has no
// line, a family without a line has no header.
void exporter_renderer_page(struct exporter_renderer *r, const struct exporter_render_input *in,
                            struct gs_buf *out);
// Renders a single page, without a cache.
void exporter_render_gpus(const struct exporter_render_names *names,
                          const struct exporter_sample *sample,
                          const struct exporter_device_map *map,
                          const struct exporter_device_replicas *replicas, struct gs_buf *out);

struct exporter_render_self {
    const struct exporter_sample *sample; // NULL: none yet
    bool simulated, has_opened;           // simulated is known once the library is open
    bool fresh;                           // the sample is recent enough to be served
    bool stuck;                           // a driver call of the sampler does not return
    enum gpu_driver driver;
    const char *problem; // why there is no sample; NULL: none
    uint64_t samples, failures;
    int64_t now_ns;                                        // gs_mono_ns
    const struct exporter_attribution_status *attribution; // NULL: not configured
    unsigned missing;                       // bits of enum exporter_attribution_problem
    const struct exporter_sources *sources; // NULL: none
    size_t rows_left_out;                   // rows of the counters file that were ignored
};
void exporter_render_self(const struct exporter_render_self *self, struct gs_buf *out);

// process_*, and the promhttp_* of Prometheus' library for Go. pages: earlier replies with metrics;
// refused: replies without.
void exporter_render_process(int64_t started_ms, uint64_t pages, uint64_t refused,
                             struct gs_buf *out);

// The page at "/": links, and the absent fields of each GPU with the reason.
void exporter_render_index(const struct exporter_render_self *self, struct gs_buf *out);

// The description of an XID from NVIDIA's public catalog; "Unknown Error" for others.
const char *exporter_render_xid_text(int64_t xid);

// --- health ---

// DCGM_EXP_GPU_HEALTH_STATUS: the results of DCGM's background health checks, from NVML's values
// and with DCGM's limits (modules/health of DCGM 4): counters that have increased within the last
// minute, states, and XIDs since the start. docs/compatibility/ lists the checks that NVML's values
// do not allow.

enum exporter_health_watch {
    EXPORTER_HEALTH_PCIE,
    EXPORTER_HEALTH_NVLINK,
    EXPORTER_HEALTH_PMU, // DCGM does not implement a check for these three
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
// Sets ret[field] for each field that the checks need.
void exporter_health_wanted(bool *ret);
void exporter_health_update(struct exporter_health *h, const struct gpu_snapshot *s,
                            int64_t now_ns);
// Returns EXPORTER_HEALTH_WATCHES results. NULL: this GPU is unknown.
const struct exporter_health_result *exporter_health_of(const struct exporter_health *h,
                                                        const char *uuid);
const char *exporter_health_watch_name(enum exporter_health_watch w); // "PCIE"

// --- gpu events ---

// Events of GPUs, as log lines and as text for /health: XIDs, lost GPUs, and GPUs for which a
// driver call does not return.

struct exporter_gpu_events;
struct exporter_gpu_events *exporter_gpu_events_new(void);
void exporter_gpu_events_free(struct exporter_gpu_events *e);

// Logs the changes since the last snapshot. The first occurrence of an XID is logged immediately,
// further ones at most once a minute. now_ns: gs_mono_ns of the snapshot.
void exporter_gpu_events_update(struct exporter_gpu_events *e, const struct gpu_snapshot *s,
                                int64_t now_ns);

// Appends the GPUs that are lost or hang: "1 of 2 GPUs are lost: GPU 1 (GPU-…, 00000000:18:00.0)".
// False: none.
bool exporter_gpu_events_problems(const struct gpu_snapshot *s, struct gs_buf *out);

// --- sources ---

// Files, directories and objects that flags name and that may be absent. The exporter works without
// them, logs that, sets gpuscale_exporter_source_up, and uses them when they appear.

struct exporter_sources {
    unsigned configured, missing; // bits 1u << exporter_source_kind
    const char *hpc_dir;          // NULL: not configured
    const char *proc;             // NULL: "/proc"
};

// Checks the directories.
void exporter_sources_check(struct exporter_sources *s);
// Logs a change of the state. problem NULL: the object is available.
void exporter_sources_set(struct exporter_sources *s, enum exporter_source_kind k,
                          const char *problem);
void exporter_sources_render(const struct exporter_sources *s, struct gs_buf *out);

// --- unsupported fields ---

// Logs which families of the counters file no GPU of this machine provides, and why.

struct exporter_unsupported_fields {
    const struct exporter_counters *counters; // NULL: the default ones
    const char *devices;                      // as in exporter_render_names
    const struct gpu_snapshot *gpus;
};

// Writes one log line per reason.
void exporter_log_unsupported_fields(const struct exporter_unsupported_fields *cfg);
