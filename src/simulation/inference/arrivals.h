// SPDX-License-Identifier: Apache-2.0
// Synthetic requests of a service of a language model: when they arrive, and the lengths of their
// prompts and outputs. Rates and lengths follow published statistics of traces, not their files.
// Equal settings and seeds give equal requests on every machine.
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum inference_shape {
    INFERENCE_CONSTANT,    // Poisson, one rate
    INFERENCE_BURSTGPT,    // gaps with a heavy tail: Gamma, coefficient of variation 2 and above
    INFERENCE_AZURE_CHAT,  // Azure 2023, conversation: slow waves, prompts of 1,155 tokens
    INFERENCE_AZURE_CODE,  // Azure 2023, code: prompts of 2,048 tokens, short outputs, busy minutes
    INFERENCE_DAY,         // a day's curve in the given duration
    INFERENCE_BURST,       // three times the rate, twice, for a tenth of the duration each
    INFERENCE_MIXED,       // two lengths of prompts, whose shares change in the middle
    INFERENCE_STAIRS,      // held out: steps up and down
    INFERENCE_FLASH_CROWD, // held out: six times the rate at once, which then decays
    INFERENCE_N_SHAPES,
};
const char *inference_shape_name(enum inference_shape shape); // "azure-chat"
// GS_EINVAL names the shapes that exist.
struct gs_error *inference_shape_parse(const char *name, enum inference_shape *ret);

struct inference_arrival {
    int64_t at_ns;           // from 0 on, ascending
    uint32_t prompt, output; // tokens; at least 1
};

struct inference_arrivals {
    enum inference_shape shape;
    double duration_s;
    double rate;         // requests a second, mean over the duration
    uint32_t max_prompt; // longer ones are cut; 0: 4,096
    uint32_t max_output; // 0: 1,024
    uint64_t seed;
};

// The caller frees *ret. GS_ELIMIT: more than INFERENCE_MAX_ARRIVALS.
enum { INFERENCE_MAX_ARRIVALS = 20000000 };
struct gs_error *inference_arrivals_make(const struct inference_arrivals *a,
                                         struct inference_arrival **ret, size_t *ret_n);
