// SPDX-License-Identifier: Apache-2.0
// Bodies of requests to a simulated inference engine: what is accepted has a prompt, and the model
// answers it within the length that it allows.
#include "inference/server_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_finish(void *arg, void *user, const struct inference_finished *f)
{
    const struct inference_parameters *p = arg;
    (void)user;
    if (!f->output_tokens || f->prompt_tokens + f->output_tokens > p->max_model_len)
        __builtin_trap();
}

static void answer(const struct inference_request *r)
{
    const struct inference_parameters p = {.max_num_seqs = 1,
                                           .max_num_batched_tokens = 64,
                                           .max_model_len = 256,
                                           .block_size = 16,
                                           .num_blocks = 16,
                                           .max_queued = 1,
                                           .output_mean = 10,
                                           .output_sigma = 1};
    const struct inference_model_events events = {.finish = check_finish,
                                                  .arg = (void *)(uintptr_t)&p};
    struct inference_model *m = inference_model_new(&p, &events);
    struct inference_sequence *s;
    if (inference_model_add(m, 0, r, &s) == INFERENCE_ADMITTED)
        inference_model_advance(m, INT64_MAX);
    inference_model_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct inference_server s = {.model_name = "m"};
    for (int chat = 0; chat < 2; chat++) {
        struct inference_call call;
        struct gs_error *err =
            inference_call_parse(&s, gs_slice_make(data, size), chat != 0, &call);
        if (!err && !call.request.prompt_tokens)
            __builtin_trap();
        if (!err)
            answer(&call.request);
        gs_error_free(err);
    }
    return 0;
}
