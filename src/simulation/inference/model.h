// SPDX-License-Identifier: Apache-2.0
// The model of an inference engine with continuous batching as vLLM's: a scheduler that fills each
// step with decodes and chunks of prompts, a KV cache of blocks, preemption by recomputation, and
// the duration of a step. It is a pure function of its parameters and of the calls: it reads no
// clock, and equal calls give equal results. Times are nanoseconds of any clock that does not go
// back. docs/inference-simulator.md describes the parameters and their sources.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// --- parameters ---

// How long a step takes:
//
//     host + max(weights, tokens * compute) + cached * kv + sequences * sequence
//
// `tokens` are those that the step computes: one of each decode and the chunks of prompts. `cached`
// are the tokens of the cache that it reads. The host part leaves the GPU idle.
struct inference_cost {
    double host_ns, weights_ns;
    double compute_ns; // each token
    double kv_ns;      // each token of the cache
    double sequence_ns;
};

struct inference_parameters {
    uint32_t max_num_seqs;           // that run at the same time; at least 1
    uint32_t max_num_batched_tokens; // of a step; at least 1
    uint32_t max_model_len;          // of a prompt with its output, in tokens
    uint32_t block_size;             // tokens of a block of the KV cache
    uint32_t num_blocks;             // has to hold max_model_len
    uint32_t max_queued;             // requests that wait; UINT32_MAX: no limit
    struct inference_cost cost;
    // Outputs have a lognormal length with this mean and this deviation of the logarithm, up to the
    // limit of the request. 0: each has the limit of its request.
    double output_mean, output_sigma;
    double failure_ratio; // of the requests that fail at their end, 0 to 1
    uint64_t seed;
};

// --- requests ---

struct inference_request {
    uint32_t prompt_tokens; // at least 1
    uint32_t cached_tokens; // of the prompt, in the prefix cache: they are not computed
    uint32_t max_tokens;    // of the output; 0: up to max_model_len
    bool ignore_eos;        // the output has max_tokens
    void *user;             // for the callbacks
};

enum inference_admission {
    INFERENCE_ADMITTED,
    INFERENCE_TOO_LONG,   // prompt and at least one token of output exceed max_model_len
    INFERENCE_QUEUE_FULL, // max_queued
};

enum inference_reason {
    INFERENCE_STOP,   // the output ended by itself
    INFERENCE_LENGTH, // it has reached the limit of the request or of the model
    INFERENCE_ABORT,  // inference_model_cancel()
    INFERENCE_ERROR,  // by failure_ratio
    INFERENCE_N_REASONS,
};

struct inference_finished {
    enum inference_reason reason;
    uint32_t prompt_tokens, cached_tokens, output_tokens, max_tokens;
    uint32_t preemptions;
    // Times of the clock of the caller. scheduled and first_token are 0 if it never came so far.
    int64_t arrived, scheduled, first_token, ended;
};

struct inference_step {
    int64_t start, end;     // ns
    int64_t busy_ns;        // of the GPU, from the start on
    double sm_share;        // estimate of the part of the SMs that the kernels use
    uint32_t sequences;     // in the step
    uint32_t prefill;       // tokens of prompts that it computes
    uint32_t decode;        // sequences that it continues
    uint32_t preemptions;   // when it was formed
    uint32_t queries, hits; // tokens of prompts that were looked up in the prefix cache
};

struct inference_token {
    uint32_t nth; // of the output, from 1 on
    int64_t at,
        previous; // previous: the time of the token before it; of the first one, the arrival
    uint32_t prompt_tokens, cached_tokens; // of the request
};

struct inference_model_events {
    void (*token)(void *arg, void *user, const struct inference_token *t);
    void (*finish)(void *arg, void *user, const struct inference_finished *f);
    void (*step)(void *arg, const struct inference_step *s); // has ended
    void *arg;
};

// --- the model ---

struct inference_model;
struct inference_sequence; // a request in the model; valid until its `finish`

// The functions of the events may be NULL. They must not call functions of the model that change
// it. The parameters are copied.
struct inference_model *inference_model_new(const struct inference_parameters *p,
                                            const struct inference_model_events *events);
void inference_model_free(struct inference_model *m); // without `finish`; accepts NULL

// A request that arrives now. If nothing runs, a step begins.
enum inference_admission inference_model_add(struct inference_model *m, int64_t now,
                                             const struct inference_request *r,
                                             struct inference_sequence **ret);
// Calls `finish` with INFERENCE_ABORT.
void inference_model_cancel(struct inference_model *m, struct inference_sequence *s, int64_t now);

// The step that runs. NULL: none.
const struct inference_step *inference_model_step(const struct inference_model *m);
// Ends the step that runs and begins the next one, at this time: that of the step's end, or later
// if the GPU was slower than the model.
void inference_model_end_step(struct inference_model *m, int64_t at);
// Ends all steps that end up to now, each at its time. For callers without a GPU.
void inference_model_advance(struct inference_model *m, int64_t now);

// A sleeping engine begins no step. Waking it begins one if requests wait.
void inference_model_sleep(struct inference_model *m, bool sleep, int64_t now);

struct inference_state {
    uint32_t waiting, running;
    uint32_t used_blocks;
    bool sleeping;
};
struct inference_state inference_model_state(const struct inference_model *m);
