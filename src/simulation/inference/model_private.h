// SPDX-License-Identifier: Apache-2.0
// The state of the model, which model.c and schedule.c share.
#pragma once

#include "inference/model.h"

#include <sys/queue.h>

// Prompt and output are one sequence of tokens. A step computes tokens; when all are computed, it
// also gives the next one. After a preemption all tokens are computed again.
struct inference_sequence {
    TAILQ_ENTRY(inference_sequence) link; // while it waits
    void *user;
    uint32_t prompt, cached, max_tokens;
    uint32_t tokens;   // prompt and output so far
    uint32_t computed; // of them, in the KV cache
    uint32_t planned;  // that the step computes
    uint32_t blocks;   // of the KV cache
    uint32_t output;   // tokens that it will have
    uint32_t limit;    // tokens that it may have
    uint32_t preemptions;
    int64_t arrived, scheduled, first_token, last_token;
    bool runs, fails;
};

struct inference_model {
    struct inference_parameters p;
    struct inference_model_events events;
    uint64_t random;
    TAILQ_HEAD(, inference_sequence) waiting;
    struct inference_sequence **running; // in the order in which they began
    uint32_t n_waiting, n_running, used_blocks;
    struct inference_step step;
    bool has_step, sleeping;
};

// Forms the next step, which begins now. Without work, it forms no step.
void inference_schedule(struct inference_model *m, int64_t now);
