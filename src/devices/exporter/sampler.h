// SPDX-License-Identifier: Apache-2.0
// The thread that reads the GPUs, the owners of the processes that it finds, and the correction of
// their usage.
#pragma once

#include "base/slice.h"
#include "dcgm_source/dcgm_source.h"
#include "gpu/gpu.h"

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

// --- owner ---

// Finds the pod of a process from its cgroup (pod UID and container ID, in the formats of all
// container runtimes) or, outside of containers, from the environment that gpuscale's kubelet sets.
// Reads /proc and may block: for the sampler's thread.

enum exporter_owner_kind {
    EXPORTER_OWNER_GONE,       // no such process here: it has ended, or is in another PID namespace
    EXPORTER_OWNER_HOST,       // not a process of a pod
    EXPORTER_OWNER_UNREADABLE, // no permission to read /proc/<pid> (a process of another user)
    EXPORTER_OWNER_POD,
    EXPORTER_OWNER_KINDS
};

enum {
    EXPORTER_OWNER_UID_SIZE = 64,
    EXPORTER_OWNER_CONTAINER_ID_SIZE = 65,
    EXPORTER_OWNER_LABEL_SIZE = 64, // RFC 1123 label
    EXPORTER_OWNER_NAME_SIZE = 254, // RFC 1123 subdomain
};

struct exporter_owner {
    int64_t seen_ns; // gs_mono_ns of the first lookup; 0: it could not be read
    enum exporter_owner_kind kind;
    char process_name[32]; // "" if unknown
    // Only with EXPORTER_OWNER_POD; each is "" if unknown.
    char pod_uid[EXPORTER_OWNER_UID_SIZE];
    char container_id[EXPORTER_OWNER_CONTAINER_ID_SIZE];
    char namespace_name[EXPORTER_OWNER_LABEL_SIZE];
    char pod[EXPORTER_OWNER_NAME_SIZE];
    char container[EXPORTER_OWNER_LABEL_SIZE];
};

struct exporter_owner_config {
    const char *proc;           // "/proc", or the mount point of the host's /proc
    const char *container_logs; // "/var/log/containers": container names by ID
    const char *pod_logs;       // "/var/log/pods": pod names by UID
};

// Keyed by (PID, start time), so that a reused PID is a new process. One thread at a time.
struct exporter_owner_cache;
struct exporter_owner_cache *
exporter_owner_cache_new(const struct exporter_owner_config *cfg); // NULL members: the defaults
void exporter_owner_cache_free(struct exporter_owner_cache *c);
void exporter_owner_cache_begin(struct exporter_owner_cache *c);
// Returns the owner of a process that the driver listed at named_ns (gs_mono_ns). A process that
// started later has reused the PID of one that ended. The result is valid until
// exporter_owner_cache_end, which removes processes that were not looked up since _begin.
const struct exporter_owner *exporter_owner_lookup(struct exporter_owner_cache *c, uint32_t pid,
                                                   int64_t named_ns);
void exporter_owner_cache_end(struct exporter_owner_cache *c);
// Returns how many lookups had to read /proc so far, by result.
const uint64_t *
exporter_owner_cache_resolved(const struct exporter_owner_cache *c); // EXPORTER_OWNER_KINDS entries
const char *
exporter_owner_kind_name(enum exporter_owner_kind k); // "gone", "host", "unreadable", "pod"

// Parsers of /proc/<pid>/cgroup and /proc/<pid>/environ.
bool exporter_owner_parse_cgroup(struct gs_slice text, struct exporter_owner *ret);
bool exporter_owner_parse_environ(struct gs_slice text, struct exporter_owner *ret);

// --- sampler ---

// Samples the GPUs on a separate thread, so that a hanging driver call blocks nothing else. A
// sample is immutable and belongs to the loop once it is delivered. A single lock protects the
// state that both threads use; it is never held during a driver call.

struct exporter_sample {
    struct gpu_snapshot *gpus;
    struct exporter_owner **owners; // [device][process], as in gpus->devices[].processes
    struct dcgm_latest *dcgm;       // what DCGM added, already merged into gpus; NULL: nothing
    int64_t mono_ns;                // when sampling ended
    uint64_t resolved[EXPORTER_OWNER_KINDS]; // processes looked up in /proc so far
};
void exporter_sample_free(struct exporter_sample *s);
GS_DEFINE_CLEANUP(struct exporter_sample *, exporter_sample_free)

// After a failed sample, sampling is retried after a second (or the interval, if shorter), then
// with exponential backoff up to EXPORTER_SAMPLER_MAX_PAUSE_NS, because each attempt may start
// helper processes of the driver.
#define EXPORTER_SAMPLER_MAX_PAUSE_NS INT64_C(10000000000)

struct exporter_sampler_config {
    struct gpu_backend_config backend; // strings are copied
    int64_t interval_ns;
    struct dcgm_source *dcgm; // NULL: none; borrowed
    struct exporter_owner_config owners;
    // Called on the loop. Exactly one of s and err is NULL; the callee owns the other.
    void (*on_sample)(void *arg, struct exporter_sample *s, struct gs_error *err,
                      enum gpu_driver driver);
    void *arg;
};

struct exporter_sampler;

struct gs_error *exporter_sampler_start(uv_loop_t *loop, const struct exporter_sampler_config *cfg,
                                        struct exporter_sampler **ret);
// Sets the fields to read (wanted and every_ns of gpu_backend_config) from the next sample on.
void exporter_sampler_want(struct exporter_sampler *s, const bool *wanted, const int64_t *every_ns);
// Sets the fields that only DCGM has, by ID, from the next sample on. At most
// DCGM_SOURCE_MAX_FIELDS.
void exporter_sampler_want_dcgm(struct exporter_sampler *s, const uint16_t *ids, size_t n);
// The page will be requested at this time (gs_mono_ns): from now on, samples end shortly before it
// and before the times that differ from it by multiples of the interval.
void exporter_sampler_expect(struct exporter_sampler *s, int64_t at_ns);
// When the current sample, or the opening of the driver, started (gs_mono_ns). 0: the thread is
// idle.
int64_t exporter_sampler_busy_since_ns(struct exporter_sampler *s);
// Stops the thread; no callback follows. If a driver call does not return within half a second, the
// thread and its memory are abandoned and false is returned: the process must then end by _exit().
bool exporter_sampler_stop(struct exporter_sampler *s);

// --- rhythm ---

// The times at which the page is requested.
struct exporter_rhythm {
    int64_t last_ns, gap_ns; // of the last request; 0: none yet
};
// The page is requested now. Returns the time of the next request, if the last ones were regular;
// 0: they were not.
int64_t exporter_rhythm_next(struct exporter_rhythm *r, int64_t now_ns);
// Moves a time by at most half an interval, so that it differs from `wanted_ns` by whole intervals.
int64_t exporter_rhythm_shift(int64_t next_ns, int64_t wanted_ns, int64_t interval_ns);

// --- process usage ---

// Limits the values of the processes so that their sum is at most the device's value. The driver
// reads the two at different times and over different windows, and counts overlapping kernels of
// MPS clients twice. Changed values are marked as estimates.

// The name of the MPS server in /proc/PID/stat, truncated to 15 bytes.
#define EXPORTER_MPS_SERVER "nvidia-cuda-mps"

void exporter_clamp_process_usage(struct exporter_sample *s);
