// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/slice.h"
#include "gpu/gpu.h"

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

// --- owner ---

// Whose is a process? From its cgroup (pod UID and container id, as kubelets of all runtimes name
// them), or, outside of a container, from the environment that the one-node kubelet gave it. Reads
// /proc and may block: for the sampler's thread.

enum exporter_owner_kind {
    EXPORTER_OWNER_GONE,       // no such process here: it ended, or lives in another pid namespace
    EXPORTER_OWNER_HOST,       // a process of no pod
    EXPORTER_OWNER_UNREADABLE, // /proc/<pid> does not tell us (another user's process)
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
    int64_t seen_ns; // gs_mono_ns of the first look at it; 0: it could not be seen
    enum exporter_owner_kind kind;
    char process_name[32]; // "" when unknown
    // Only with EXPORTER_OWNER_POD; each "" when unknown.
    char pod_uid[EXPORTER_OWNER_UID_SIZE];
    char container_id[EXPORTER_OWNER_CONTAINER_ID_SIZE];
    char namespace_name[EXPORTER_OWNER_LABEL_SIZE];
    char pod[EXPORTER_OWNER_NAME_SIZE];
    char container[EXPORTER_OWNER_LABEL_SIZE];
};

struct exporter_owner_config {
    const char *proc;           // "/proc", or the host's /proc mounted elsewhere
    const char *container_logs; // "/var/log/containers": names of containers by id
    const char *pod_logs;       // "/var/log/pods": names of pods by UID
};

// Kept by (pid, start time), so that a reused pid is not mistaken.
struct exporter_owner_cache;
struct exporter_owner_cache *
exporter_owner_cache_new(const struct exporter_owner_config *cfg); // NULL members: the defaults
void exporter_owner_cache_free(struct exporter_owner_cache *c);
void exporter_owner_cache_begin(struct exporter_owner_cache *c);
// Of the process that the driver has named at named_ns (gs_mono_ns): one that has started later got
// the pid of one that is gone. Valid until exporter_owner_cache_end, which forgets who was not
// asked for since _begin.
const struct exporter_owner *exporter_owner_lookup(struct exporter_owner_cache *c, uint32_t pid,
                                                   int64_t named_ns);
void exporter_owner_cache_end(struct exporter_owner_cache *c);
// How many look-ups had to go to /proc so far, by what was found.
const uint64_t *
exporter_owner_cache_resolved(const struct exporter_owner_cache *c); // EXPORTER_OWNER_KINDS entries
const char *
exporter_owner_kind_name(enum exporter_owner_kind k); // "gone", "host", "unreadable", "pod"

// The parts, for tests: contents of /proc/<pid>/cgroup and /proc/<pid>/environ into *ret.
bool exporter_owner_parse_cgroup(struct gs_slice text, struct exporter_owner *ret);
bool exporter_owner_parse_environ(struct gs_slice text, struct exporter_owner *ret);

// --- sampler ---

// Samples the GPUs on a thread of its own, so that a driver call that hangs stops nothing else.
// What the thread hands over is immutable and then belongs to the loop. One lock, held for a few
// loads and stores on either side, never over a driver call.

struct exporter_sample {
    struct gpu_snapshot *gpus;
    struct exporter_owner **owners;          // [device][process], as in gpus->devices[].processes
    int64_t mono_ns;                         // when the pass ended
    uint64_t resolved[EXPORTER_OWNER_KINDS]; // processes looked up in /proc so far
};
void exporter_sample_free(struct exporter_sample *s);
GS_DEFINE_CLEANUP(struct exporter_sample *, exporter_sample_free)

// A pass that fails is tried again after a second (or the interval, where that is less) and then
// with growing pauses up to EXPORTER_SAMPLER_MAX_PAUSE_NS: each attempt may start helpers of the
// driver.
#define EXPORTER_SAMPLER_MAX_PAUSE_NS INT64_C(10000000000)

struct exporter_sampler_config {
    struct gpu_backend_config backend; // strings are copied
    int64_t interval_ns;
    struct exporter_owner_config owners;
    // On the loop. Exactly one of the two is NULL; both are the callee's then.
    void (*on_sample)(void *arg, struct exporter_sample *s, struct gs_error *err,
                      enum gpu_driver driver);
    void *arg;
};

struct exporter_sampler;

struct gs_error *exporter_sampler_start(uv_loop_t *loop, const struct exporter_sampler_config *cfg,
                                        struct exporter_sampler **ret);
// Other fields (wanted and every_ns of gpu_backend_config) from the next pass on.
void exporter_sampler_want(struct exporter_sampler *s, const bool *wanted, const int64_t *every_ns);
// Since when the thread is inside a pass (or the opening); 0 when it is not.
int64_t exporter_sampler_busy_since_ns(struct exporter_sampler *s);
// Ends the thread. When it does not come back from the driver in half a second it is left behind
// with its memory and false is returned: then the process must end by _exit(). No callback
// afterwards.
bool exporter_sampler_stop(struct exporter_sampler *s);

// --- shares ---

// Makes the figures of processes add up to no more than the device's own: the driver reads both at
// different moments and over different windows, and counts overlapping kernels of MPS clients
// twice. What is no longer the driver's own reading is marked as an estimate.

// The name of the MPS server as /proc/PID/stat has it, cut at 15 bytes.
#define EXPORTER_MPS_SERVER "nvidia-cuda-mps"

void exporter_clamp_process_usage(struct exporter_sample *s);
