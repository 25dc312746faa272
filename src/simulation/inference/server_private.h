// SPDX-License-Identifier: Apache-2.0
// The server and the requests that it answers. All functions belong to the thread of the loop.
#pragma once

#include "base/timer.h"
#include "codec/json.h"
#include "inference/dialect.h"
#include "inference/gpu.h"
#include "inference/parameters.h"
#include "inference/prefix_cache.h"
#include "inference/server.h"
#include "net/http/http.h"
#include "net/program/program.h"

#include <sys/queue.h>

struct inference_server {
    const struct inference_options *o;
    struct inference_dialect dialect;
    const char *model_name; // that clients name
    struct inference_parameters parameters;
    struct inference_sizes sizes;
    double memory_utilization;
    struct program *program;
    struct inference_gpu *gpu;
    struct inference_model *model;
    struct inference_prefix_cache *prefixes; // NULL: not used
    struct inference_stats stats[INFERENCE_N_STATS];
    struct gs_timer *startup, *crash, *report;
    unsigned phase; // of the start; ready after the last one
    bool ready, failed;
    unsigned sleep_level;
    double rejected;
    uint64_t n_requests;
    int64_t began_ns; // the start
    double created_s, load_s, allocation_s, startup_s;
    // For rates.
    int64_t rate_at, reported_at;
    double rate_tokens, rate, reported_prompt, reported_output;
};

// --- steps.c ---
extern const struct inference_model_events inference_server_events; // arg: to be set
// Gives the step of the model to the GPU, if it does not have it yet.
void inference_server_pump(struct inference_server *s);
void inference_server_step_done(void *arg); // of inference_gpu_open()

// --- answers.c: one request, from its body to its end ---
struct inference_answer;
void inference_answer_begin(struct inference_server *s, struct http_exchange *x, bool chat);
// Events of the model for the request. Both are called inside functions of the model.
void inference_answer_token(struct inference_answer *a, uint32_t nth);
void inference_answer_finish(struct inference_answer *a, const struct inference_finished *f);
bool inference_answer_is_streamed(const struct inference_answer *a);

// --- request.c: the body of a request ---
struct inference_call {
    struct inference_request request;
    bool stream, include_usage;
    uint64_t *blocks; // of the prompt, for the prefix cache; the caller frees them
    size_t n_blocks;
};
// GS_EINVAL: what the engine answers with the status 400. GS_ENOTFOUND: another model.
struct gs_error *inference_call_parse(const struct inference_server *s, struct gs_slice body,
                                      bool chat, struct inference_call *ret);
// An error in the form of OpenAI's API.
void inference_reply_error(struct http_exchange *x, int status, const char *type, const char *fmt,
                           ...) GS_PRINTF(4, 5);

// --- paths.c ---
extern const struct http_route inference_server_rows[];
void inference_server_add_header(const struct inference_server *s, struct http_exchange *x);
