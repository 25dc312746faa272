// SPDX-License-Identifier: Apache-2.0
// Simulated machines of node pools, and the simulated GPUs of a node.
//
// A machine is a kubelet of this program with a node of its own, an address of LOCAL_NODE_IPS, a
// set of simulated GPUs and a folder nodes/ID of the data directory. It passes through the phases
// below in the pool's start-up time. The machines are a source for a node autoscaler
// (nodes/provider.h). They end with the program; those that a killed program left are removed at
// the next start. Only the thread of the loop may use this.
#pragma once

#include "local/kubelet.h"
#include "local/scheduler.h"
#include "nodes/pool.h"
#include "nodes/provider.h"
#include "nvmlsim/sim.h"

// --- GPUs of a node ---

struct machines_gpus {
    char **ids; // as the scheduler and PodResources name them: "GPU-…", "GPU-…::1", "MIG-…"
    size_t n, cap;
    size_t n_gpus;
    // Properties of the first GPU and of the driver, for the labels of the node.
    char *product;           // as the node label nvidia.com/gpu.product writes it
    uint64_t memory_mib;     // 0: unknown
    size_t n_whole;          // GPUs and MIG devices, without their time slices
    unsigned slices;         // time slices of the first GPU; 1: not shared
    bool slices_renamed;     // time slices are another resource (local/pod.h), of all GPUs
    bool slices_single;      // a container gets at most one time slice
    char driver_version[80]; // "" if unknown
    int cuda_version;        // 1000 major + 10 minor; 0: unknown
    bool simulated;
    char *sim_name;    // shared memory; NULL for real GPUs
    char *sim_library; // path of the simulated libnvidia-ml
    struct nvmlsim *sim;
};

// Creates the simulated GPUs of a specification (nvmlsim/simulation/simulation.h) in the set with
// this name.
struct gs_error *machines_gpus_simulate(const char *spec, const char *set,
                                        struct machines_gpus *ret);
// Adds one device: slice of `slices` time slices of the GPU or MIG device.
void machines_gpus_add(struct machines_gpus *g, const char *uuid, unsigned slice, unsigned slices);
void machines_gpus_finish(struct machines_gpus *g); // removes the simulated ones
// The specification of the GPUs of a machine of the pool, for machines_gpus_simulate(). Caller
// frees.
char *machines_gpu_spec(const struct nodes_pool *pool);
// The name of the set of simulated GPUs for a data directory. It is unique for each directory and
// user, so that instances do not share GPUs. Caller frees.
char *machines_set_name(const char *data_dir);
// The driver's name of a GPU as a label value. Caller frees.
char *machines_gpu_product(const char *name);
// The labels of GPU feature discovery, and those by which guides for managed clusters select GPU
// nodes. Labels whose value is unknown are absent. New reference.
json_t *machines_gpu_labels(const struct machines_gpus *g);

// --- machines ---

#define MACHINES_MAX           256  // of all pools together
#define MACHINES_EXPORTER_PORT 9400 // no other program listens there at a machine's address

enum machines_phase {
    MACHINES_PROVISIONING, // no Node exists
    MACHINES_REGISTERED,   // the Node is not ready
    MACHINES_DRIVER,       // the GPU driver is installed
    MACHINES_ALLOCATABLE,  // the device plug-in has registered the GPUs
    MACHINES_READY,
    MACHINES_DELETING,
    MACHINES_FAILED, // the creation failed: no capacity
};

struct machines_info {
    const char *pool, *node, *provider_id;
    const char *address;              // of the node
    const char *dir;                  // its folder, NULL: not created
    const char *podresources;         // path of its socket
    const struct machines_gpus *gpus; // NULL: the driver is not installed, or it has no GPUs
    enum machines_phase phase;
};

struct machines_config {
    struct local_cluster *cluster;
    struct local_api *api;
    struct local_scheduler *scheduler;
    // first, self_exe, work_dir and extra_env are used for the kubelets of the machines.
    const struct local_kubelet_config *kubelet;
    const struct nodes_pool *pools; // borrowed
    size_t n_pools;
    // Called with each change of a machine's phase. During MACHINES_DELETING its GPUs still exist.
    void (*on_phase)(void *arg, const struct machines_info *m);
    void *arg;
};

struct machines;

// Removes machines of the last run, then creates the minimum of each pool without a start-up time.
// Nothing is created before the caches are synced. Texts of cfg->kubelet are copied.
struct machines *machines_new(const struct machines_config *cfg);
const struct nodes_provider *machines_provider(const struct machines *m);
// Calls fn for each machine, in the order of the pools.
void machines_each(const struct machines *m, void (*fn)(void *arg, const struct machines_info *i),
                   void *arg);
// True after the creation of the minimum of all pools, when these machines are ready.
bool machines_started(const struct machines *m);
// Ends the containers of all machines, then calls done. The Node objects stay for the next start.
void machines_stop(struct machines *m, unsigned timeout_ms, void (*done)(void *arg), void *arg);
void machines_free(struct machines *m); // NULL is fine
