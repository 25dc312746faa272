// SPDX-License-Identifier: Apache-2.0
// `gpuscale sim inference`: the model behind the HTTP API of OpenAI, with the page /metrics of a
// chosen engine, on the simulated GPUs of the environment. Everything that it answers says that it
// is SIMULATED.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct inference_options {
    const char *engine, *release;    // as inference_dialect_parse()
    const char *model, *served_name; // served_name NULL: the model
    const char *host;
    const char *gpu; // without simulated GPUs: the model of `gpuscale sim` that is assumed
    int64_t port;    // 0: that of the engine
    int64_t tensor_parallel;
    double memory_utilization; // 0: that of the engine
    int64_t block_size, max_num_seqs, max_num_batched_tokens, max_model_len; // 0: defaults
    int64_t max_queued;                                                      // -1: no limit
    bool enable_metrics;                                                     // of SGLang
    bool prefix_caching;                                                     // of vLLM
    bool no_radix_cache; // of SGLang: no prefix caching
    // Of the simulation.
    double billions, speed, output_mean, output_sigma, failure_ratio;
    int64_t startup_ns, crash_after_ns; // crash_after 0: never
    bool fail_startup;
    int64_t seed;
};

// Serves until a signal. GS_EINVAL names the flag of a wrong value.
struct gs_error *inference_server_run(const struct inference_options *o);
