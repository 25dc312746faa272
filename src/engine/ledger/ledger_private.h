// SPDX-License-Identifier: Apache-2.0
// Internals of this module.
#pragma once

#include "base/arena.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "ledger/ledger.h"
#include "metrics/gpu_owner.h"

#define LEDGER_MAX_TEXT         253
#define LEDGER_MAX_DEVICES      20000   // GPUs and MIG devices of an observation
#define LEDGER_MAX_HOLDERS      64      // pods on one of them
#define LEDGER_MAX_SAMPLES      1000000 // of an observation
#define LEDGER_MAX_PLACES       10000   // workloads whose last GPU is remembered
#define LEDGER_MAX_REPLICA_GPUS 1000

// The separator of the parts of keys; texts from outside do not contain it.
#define LEDGER_SEP "\x1f"

// Copies a text without control characters, cut at LEDGER_MAX_TEXT bytes between characters.
const char *ledger_clean(struct gs_arena *mem, struct gs_slice text);
void ledger_put_clean(char out[LEDGER_MAX_TEXT + 1], struct gs_slice text);

// "label_app_kubernetes_io_name" of "app.kubernetes.io/name". Caller frees.
char *ledger_owner_label(const char *owner);

// --- observations ---

// A pod on a device.
struct ledger_holder {
    const char *ns, *pod;
    const char *origin; // of its values, as the exporter reports it; NULL: unknown
    double util;        // of the series of the device with this pod, 0 to 1; NaN: none
    double processes;   // of its processes, 0 to 1; NaN: none
};

struct ledger_device {
    const char *id, *uuid, *gpu, *instance, *compute, *node, *model, *profile;
    double util;                   // 0 to 1; NaN: unknown
    double active;                 // as util, from the profiling metric
    struct ledger_holder *holders; // NULL until there is one
    size_t n_holders;
    double share;     // of a GPU; less than 1 for MIG devices
    bool partitioned; // its MIG devices are counted instead
};

// A workload at zero replicas.
struct ledger_zero {
    const char *ns, *workload;
    double gpus; // of one replica
};

struct ledger_observation {
    struct gs_arena mem;
    const char *owner_label;                   // as in series: "label_team"
    struct gs_hmap *devices;                   // id -> struct ledger_device
    struct gs_hmap *join;                      // target and GPU -> the same
    struct metrics_gpu_targets *targets;       // that are pods
    struct gs_hmap *pods, *replicasets, *jobs; // namespace and name -> "kind/name" of the owner
    struct gs_hmap *pod_labels, *ns_labels;    // value of the owner label
    struct gs_hmap *node_pools, *node_machines, *nodes;
    struct gs_hmap *stranded; // node -> double
    struct gs_hmap *zeros;    // namespace and workload -> struct ledger_zero
    size_t n_samples;
    bool finished;
};

// Called before the observation is read; settles what depends on several devices.
void ledger_observation_finish(struct ledger_observation *o);
// "deployment/web" or "pod/web-0".
const char *ledger_workload(struct ledger_observation *o, const char *ns, const char *pod);
const char *ledger_owner(const struct ledger_observation *o, const char *ns, const char *pod);
// The share of a GPU of a MIG profile such as "3g.40gb".
double ledger_mig_share(const char *profile, const char *model);
