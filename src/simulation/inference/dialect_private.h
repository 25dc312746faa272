// SPDX-License-Identifier: Apache-2.0
// The tables of the engines' pages, which dialect.c writes.
#pragma once

#include "inference/dialect.h"

#define INFERENCE_RELEASE(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))

enum inference_quantity {
    INFERENCE_Q_ZERO, // of what the model does not do
    INFERENCE_Q_ONE,
    INFERENCE_Q_RUNNING,
    INFERENCE_Q_WAITING, // and those of "capacity" and "deferred"
    INFERENCE_Q_DEFERRED,
    INFERENCE_Q_KV_USED, // 0 to 1
    INFERENCE_Q_KV_USED_TOKENS,
    INFERENCE_Q_KV_FREE_TOKENS,
    INFERENCE_Q_KV_TOKENS,
    INFERENCE_Q_BLOCK_SIZE,
    INFERENCE_Q_BLOCKS,
    INFERENCE_Q_MAX_MODEL_LEN,
    INFERENCE_Q_AWAKE,
    INFERENCE_Q_WEIGHTS_OFFLOADED,
    INFERENCE_Q_DISCARD_ALL,
    INFERENCE_Q_PROMPT_TOKENS,
    INFERENCE_Q_COMPUTED_TOKENS, // of prompts
    INFERENCE_Q_CACHED_TOKENS,
    INFERENCE_Q_TRANSFERRED_TOKENS,
    INFERENCE_Q_OUTPUT_TOKENS,
    INFERENCE_Q_FINISHED_PROMPT_TOKENS, // of requests that have ended
    INFERENCE_Q_FINISHED_OUTPUT_TOKENS,
    INFERENCE_Q_QUERIES,
    INFERENCE_Q_HITS,
    INFERENCE_Q_HIT_RATE,
    INFERENCE_Q_PREEMPTIONS,
    INFERENCE_Q_STOPPED, // finished requests, in the order of vLLM's reasons
    INFERENCE_Q_LENGTH,
    INFERENCE_Q_ABORTED,
    INFERENCE_Q_FAILED,
    INFERENCE_Q_REPEATED,
    INFERENCE_Q_FINISHED,
    INFERENCE_Q_REJECTED,
    INFERENCE_Q_REJECTED_TOKENS,
    INFERENCE_Q_GENERATION_RATE,
    INFERENCE_Q_LOAD_S,
    INFERENCE_Q_ALLOCATION_S,
    INFERENCE_Q_SCHEDULER_S,
    INFERENCE_Q_STARTUP_S,
};

enum inference_kind { INFERENCE_END, INFERENCE_GAUGE, INFERENCE_COUNTER, INFERENCE_BUCKETS };

// Labels of a family beside its own.
enum inference_labels {
    INFERENCE_BY_ENGINE,    // vLLM: engine and model_name
    INFERENCE_BY_MODEL,     // model_name only
    INFERENCE_BY_RANK,      // SGLang's scheduler: engine_type, ranks, model_name
    INFERENCE_BY_TOKENIZER, // SGLang's tokenizer: model_name, later engine_type
    INFERENCE_BY_STREAMING, // the same and is_streaming, from the release of `split` on
    INFERENCE_BY_CACHE,     // vLLM: the settings of the cache
    INFERENCE_BY_PAGES,     // SGLang: page_size and num_pages
};

struct inference_family {
    const char *name; // a counter's without _total
    const char *help; // NULL: further series of the family before it
    enum inference_kind kind;
    int what; // a quantity or a histogram
    enum inference_labels labels;
    uint32_t since, until; // releases; `until` is the first one without it; 0: no limit
    // A label whose values, separated by commas, have the quantities from `what` on.
    const char *label, *values;
    uint32_t split; // INFERENCE_BY_STREAMING
};

extern const struct inference_family inference_vllm_families[];
extern const struct inference_family inference_sglang_families[];
