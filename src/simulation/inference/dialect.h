// SPDX-License-Identifier: Apache-2.0
// The page /metrics of an engine in a release: names, types, labels and buckets as the package of
// that release defines them (docs/inference-simulator.md lists the packages). What the model does
// not have, such as LoRA, is absent, as it is in an engine without it.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "inference/stats.h"

enum inference_engine { INFERENCE_VLLM, INFERENCE_SGLANG };

struct inference_dialect {
    enum inference_engine engine;
    uint32_t release; // 1000000 major + 1000 minor + patch
};

// "vllm" and "0.12" or "0.12.0". release NULL or "": the latest one. A release between two that
// are covered has the page of the earlier one. GS_EINVAL: an unknown engine, or a release before
// the first one.
struct gs_error *inference_dialect_parse(const char *engine, const char *release,
                                         struct inference_dialect *ret);
const char *inference_dialect_engine(const struct inference_dialect *d); // "vllm"
#define INFERENCE_RELEASE_SIZE 40
char *inference_dialect_release(const struct inference_dialect *d,
                                char buf[INFERENCE_RELEASE_SIZE]);
// Whether the release has the option --max-num-queued-reqs of vLLM.
bool inference_dialect_limits_queue(const struct inference_dialect *d);

// With the buckets of the dialect.
void inference_dialect_init_stats(const struct inference_dialect *d, uint32_t max_model_len,
                                  struct inference_stats *ret);

enum { INFERENCE_WHOLE, INFERENCE_STREAMED, INFERENCE_N_STATS }; // answers

struct inference_page {
    const char *model_name;
    const struct inference_stats *stats; // INFERENCE_N_STATS of them; steps are in the first one
    struct inference_state state;
    const struct inference_parameters *parameters;
    double gpu_memory_utilization;
    double rejected;                        // requests, by --max-num-queued-reqs
    double created_s;                       // Unix time of the start
    double generation_s;                    // tokens a second
    double load_s, allocation_s, startup_s; // of the start
    unsigned sleep_level;                   // 0: awake
};
void inference_dialect_write(const struct inference_dialect *d, const struct inference_page *page,
                             struct gs_buf *out);
