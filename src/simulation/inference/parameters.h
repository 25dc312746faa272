// SPDX-License-Identifier: Apache-2.0
// Parameters of the model (model.h) for a language model on a GPU, from data sheets and published
// measurements. docs/inference-simulator.md has the formulas and the sources.
#pragma once

#include "base/error.h"
#include "inference/model.h"

// What the parameters depend on.
struct inference_setup {
    const char *model;               // "meta-llama/Llama-3.1-8B-Instruct": its size is in the name
    double billions;                 // of weights; 0: as the name says, otherwise 8
    const char *gpu;                 // a model of `gpuscale sim`; unknown ones are as an A10
    uint64_t gpu_memory;             // bytes of one GPU
    unsigned gpus;                   // tensor parallelism; at least 1
    double memory_utilization;       // part of the GPU memory that the engine takes, 0 to 1
    double speed;                    // 2: steps take half the time; 0: 1
    uint32_t block_size;             // tokens; 0: 16
    uint32_t max_num_seqs;           // 0: 256
    uint32_t max_num_batched_tokens; // 0: 8192
    uint32_t max_model_len;          // 0: 8192, or less if the KV cache is smaller
};

struct inference_sizes {
    double billions;
    uint64_t weights; // bytes on one GPU
    uint64_t kv;      // bytes of the KV cache on one GPU
    bool shrunk;      // the weights do not fit into the memory: they are counted with a part of it
    bool shortened;   // max_model_len does not fit into the KV cache
};

// Sets limits, cache and cost; the rest of *ret is for the caller. GS_EINVAL: a value that cannot
// be.
struct gs_error *inference_parameters_init(const struct inference_setup *setup,
                                           struct inference_parameters *ret,
                                           struct inference_sizes *ret_sizes);
// The phases of a start: until the process reads the weights, until they are on the GPU, and until
// the KV cache exists and the first kernels have run. Requests are served afterwards.
struct inference_startup {
    int64_t process_ns, weights_ns, cache_ns;
};
// Divides the duration of a start by estimates for weights on a local disk.
struct inference_startup inference_startup_of(int64_t total_ns);

// The number of billions in a name: "Qwen3-0.6B", "opt-125m", "Mixtral-8x7B". 0: none.
double inference_parameters_billions(const char *model);
