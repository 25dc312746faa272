// SPDX-License-Identifier: Apache-2.0
// Making and using sets of simulated GPUs from a program: the specification file, the library that
// stands for libnvidia-ml, the set that an exporter joins or makes, and what `gpuscale sim` prints.
#pragma once

#include "base/error.h"
#include "nvmlsim/sim.h"

#include <jansson.h>
#include <stdio.h>

// A short list ("2xTesla-K80,1xTesla-T4") or the path of a YAML file (it contains a "/" or ends in
// .yaml, .yml or .json):
//
//     gpus:
//     - model: A100-SXM4-80GB   # any other name needs memory
//       count: 2                # 1 when absent
//       memory: 24Gi            # the model's when absent
//       timeSlicing:
//         replicas: 4           # devices that the scheduler sees of each GPU
//         renameByDefault: true # they are nvidia.com/gpu.shared; false when absent
//         failRequestsGreaterThanOne: true # a container gets at most one; false when absent
//       mig: [1g.10gb, 3g.40gb] # instances of each GPU
//     switches: 4               # NVSwitches; none when absent
//     cpus: {count: 2, cores: 72} # CPUs that DCGM reports; none when absent
//
// Errors of a file name it and the line.
struct gs_error *simulation_load_spec(const char *text_or_path, struct nvmlsim_spec *ret);

// The path of the simulated libnvidia-ml: $GPUSCALE_NVMLSIM_LIBRARY, beside the program, in
// ../nvmlsim (build folder), or in gpuscale/ of the library folder that belongs to an installed
// bin/. The caller frees it.
struct gs_error *simulation_find_library(char **ret);

// The folder in which this library is named libnvidia-ml.so.1, for LD_LIBRARY_PATH. NULL if it does
// not exist, or if its path has a colon. The caller frees it.
char *simulation_library_folder(const char *library);

// The simulated libdcgm beside this library. NULL if it does not exist. The caller frees it.
char *simulation_dcgm_library(const char *library);
// The host engine of simulated GPUs for `gpuscale exporter --dcgm`: a connection through the
// simulated libdcgm does not depend on the address.
#define SIMULATION_DCGM_ADDRESS "127.0.0.1:5555"

// The variables "NAME=VALUE" with which programs see the simulated GPUs of a set: NVMLSIM_ENV, the
// libraries and the host engine for gpuscale's own programs, and a library path for others.
enum { SIMULATION_MAX_VARIABLES = 5 };
struct simulation_env {
    char *items[SIMULATION_MAX_VARIABLES];
    size_t n;
};
void simulation_env_init(struct simulation_env *env, const char *set, const char *library);
void simulation_env_finish(struct simulation_env *env);

struct simulation {
    struct nvmlsim *sim;
    char *name;    // of a set that simulation_start() made; NULL: it existed before
    char *library; // path of the simulated libnvidia-ml; NULL: no simulation
};

// Joins the set with this name, or makes it if it does not exist. set NULL or empty: makes a set
// that no other program has. Sets GPUSCALE_SIM. spec NULL: no simulation. After an error
// simulation_finish() is needed, too.
struct gs_error *simulation_start(const char *spec, const char *set, struct simulation *s);
void simulation_finish(struct simulation *s); // deletes a set that simulation_start() made
// Joins the simulated GPUs of the cluster that KUBECONFIG names; without KUBECONFIG and a driver,
// those of this user's running `gpuscale up`. Sets GPUSCALE_SIM. *ret_library: path of the
// simulated libnvidia-ml; the caller frees it. NULL: there are none, or the program runs in a pod,
// which has its own GPUs.
struct gs_error *simulation_join_cluster(bool (*has_driver)(void), char **ret_library);

// The default set of `gpuscale sim`: "/gpuscale-sim-UID". The caller frees it.
char *simulation_own_name(void);

// A set for people and as JSON.
void simulation_print_status(struct nvmlsim *s, FILE *out);
json_t *simulation_status_json(struct nvmlsim *s);

// A workload for a set.
struct simulation_load {
    int gpu;             // index; -1: the first of CUDA_VISIBLE_DEVICES, else 0
    double util;         // percent of each tenth of a second in which a kernel runs, 0 to 100
    double sm_share;     // part of the SMs that the kernels use, above 0 and at most 1
    uint64_t memory;     // bytes to allocate; 0: none
    int64_t duration_ns; // 0: until the process ends
};

// Blocks. *ret_ran_ns: time that kernels ran; *ret_gpu: index of the GPU. GS_EINVAL names the flag
// of `gpuscale sim` whose value is wrong.
struct gs_error *simulation_run_load(struct nvmlsim *s, const struct simulation_load *l,
                                     int64_t *ret_ran_ns, unsigned *ret_gpu);
