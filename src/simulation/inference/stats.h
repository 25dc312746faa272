// SPDX-License-Identifier: Apache-2.0
// What an engine counts: counters and histograms that follow from the events of the model. The
// bounds of the histograms are those of the dialect in which they are published.
#pragma once

#include "inference/model.h"

#include <stddef.h>

enum inference_histogram {
    INFERENCE_TTFT, // seconds, as all up to INFERENCE_DECODE
    INFERENCE_ITL,  // between tokens
    INFERENCE_TPOT, // mean of a request, without its first token
    INFERENCE_E2E,
    INFERENCE_QUEUE,
    INFERENCE_INFERENCE, // from the first step of the request to its end
    INFERENCE_PREFILL,
    INFERENCE_DECODE,
    INFERENCE_PROMPT, // tokens, as those below
    INFERENCE_OUTPUT,
    INFERENCE_MAX_TOKENS,
    INFERENCE_COMPUTED, // of the prompt, without those of the prefix cache
    INFERENCE_PREEMPTIONS,
    INFERENCE_N,    // the parameter n
    INFERENCE_STEP, // tokens of a step
    INFERENCE_N_HISTOGRAMS,
};

struct inference_distribution {
    double *bounds;   // ascending, without infinity
    uint64_t *counts; // n + 1: the last one is above all bounds
    size_t n;
    double sum;
};

struct inference_stats {
    struct inference_distribution histograms[INFERENCE_N_HISTOGRAMS];
    double prompt_tokens, cached_tokens, output_tokens;    // up to now
    double finished_prompt_tokens, finished_output_tokens; // of requests that have ended
    double finished[INFERENCE_N_REASONS];
    double preemptions, queries, hits;
    double busy_s; // of the GPU
};

// bounds[h] is copied: the bounds of this histogram, n[h] of them.
void inference_stats_init(struct inference_stats *s, const double *const *bounds, const size_t *n);
void inference_stats_finish(struct inference_stats *s);
void inference_stats_token(struct inference_stats *s, const struct inference_token *t);
void inference_stats_finished(struct inference_stats *s, const struct inference_finished *f);
void inference_stats_step(struct inference_stats *s, const struct inference_step *step);
