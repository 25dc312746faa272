// SPDX-License-Identifier: Apache-2.0
// The buckets of the histograms of each engine.
#include "inference/dialect_private.h"

#include "base/mem.h"

static const double vllm_ttft[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                   0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                   20,    40,    80,   160,  640,  2560};
static const double vllm_itl[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                  0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
static const double vllm_latency[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                      30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
static const double vllm_n[] = {1, 2, 5, 10, 20};
static const double vllm_step[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
static const double vllm_preemptions[] = {1, 2, 3, 4, 5, 10, 20};

static const double sglang_ttft[] = {0.1, 0.2, 0.4, 0.6, 0.8, 1,  2,   4,   6,
                                     8,   10,  20,  40,  60,  80, 100, 200, 400};
static const double sglang_itl[] = {0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025,
                                    0.03,  0.035, 0.04,  0.06,  0.08, 0.1,   0.2,  0.4,
                                    0.6,   0.8,   1,     2,     4,    6,     8};
static const double sglang_e2e[] = {0.1, 0.2, 0.4, 0.6, 0.8, 1,   2,   4,   6,    8,    10,
                                    20,  40,  60,  80,  100, 200, 400, 600, 1200, 1800, 2400};
static const double sglang_old_e2e[] = {0.1, 0.2, 0.4, 0.6, 0.8, 1,   2,   4,   6,  8,
                                        10,  20,  40,  60,  80,  100, 200, 400, 800};
static const double sglang_old_queue[] = {0,   0.1,  0.2,  0.5,  1,    2,    3,    4,    5,
                                          10,  15,   20,   30,   40,   50,   60,   70,   80,
                                          90,  100,  200,  300,  400,  500,  600,  700,  800,
                                          900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000};
static const double sglang_queue[] = {0,   0.001, 0.005, 0.01, 0.05, 0.1,  0.2,  0.5,  1,    2,
                                      3,   4,     5,     10,   15,   20,   30,   40,   50,   60,
                                      70,  80,    90,    100,  200,  300,  400,  500,  600,  700,
                                      800, 900,   1000,  1200, 1400, 1600, 1800, 2000, 2500, 3000};
static const double sglang_middle_tokens[] = {
    100,   300,   500,   700,   1000,  1500,   2000,   3000,   4000,   5000,
    6000,  7000,  8000,  9000,  10000, 12000,  15000,  20000,  22000,  25000,
    30000, 35000, 40000, 66000, 99000, 132000, 300000, 600000, 900000, 1100000};
static const double sglang_tokens[] = {
    100,   300,   500,   700,    1000,   1500,   2000,   3000,   4000,   5000,   6000,  7000,
    8000,  9000,  10000, 12500,  15000,  17500,  20000,  22500,  25000,  27500,  30000, 35000,
    40000, 60000, 80000, 100000, 200000, 300000, 400000, 600000, 800000, 1000000};

struct bounds {
    const double *items[INFERENCE_N_HISTOGRAMS];
    size_t n[INFERENCE_N_HISTOGRAMS];
};

#define SET(b, h, list)                                                                            \
    do {                                                                                           \
        (b)->items[h] = (list);                                                                    \
        (b)->n[h] = GS_ARRAY_LEN(list);                                                            \
    } while (0)

enum { MAX_TOKEN_BOUNDS = 32 };

// 1, 2, 5, 10 … up to the limit.
static size_t one_two_five(uint32_t limit, double *out)
{
    static const double digits[] = {1, 2, 5};
    size_t n = 0;
    double power = 1;
    for (size_t i = 0; n < MAX_TOKEN_BOUNDS; i++) {
        double value = digits[i % 3] * power;
        if (value > limit)
            break;
        out[n++] = value;
        if (i % 3 == 2)
            power *= 10;
    }
    return n;
}

static void set_vllm(struct bounds *b, const double *tokens, size_t n_tokens)
{
    static const enum inference_histogram of_tokens[] = {INFERENCE_PROMPT, INFERENCE_OUTPUT,
                                                         INFERENCE_MAX_TOKENS, INFERENCE_COMPUTED};
    for (size_t i = 0; i < GS_ARRAY_LEN(of_tokens); i++) {
        b->items[of_tokens[i]] = tokens;
        b->n[of_tokens[i]] = n_tokens;
    }
    for (int h = INFERENCE_E2E; h <= INFERENCE_DECODE; h++)
        SET(b, h, vllm_latency);
    SET(b, INFERENCE_TTFT, vllm_ttft);
    SET(b, INFERENCE_ITL, vllm_itl);
    SET(b, INFERENCE_TPOT, vllm_itl);
    SET(b, INFERENCE_PREEMPTIONS, vllm_preemptions);
    SET(b, INFERENCE_N, vllm_n);
    SET(b, INFERENCE_STEP, vllm_step);
}

static void set_sglang(struct bounds *b, uint32_t release)
{
    SET(b, INFERENCE_TTFT, sglang_ttft);
    SET(b, INFERENCE_ITL, sglang_itl);
    SET(b, INFERENCE_TPOT, sglang_itl);
    SET(b, INFERENCE_E2E, sglang_e2e);
    SET(b, INFERENCE_QUEUE, sglang_queue);
    SET(b, INFERENCE_PROMPT, sglang_tokens);
    SET(b, INFERENCE_OUTPUT, sglang_tokens);
    if (release < INFERENCE_RELEASE(0, 5, 12))
        SET(b, INFERENCE_QUEUE, sglang_old_queue);
    if (release < INFERENCE_RELEASE(0, 5, 23)) {
        SET(b, INFERENCE_PROMPT, sglang_middle_tokens);
        SET(b, INFERENCE_OUTPUT, sglang_middle_tokens);
    }
    if (release < INFERENCE_RELEASE(0, 5, 9))
        SET(b, INFERENCE_E2E, sglang_old_e2e);
}

void inference_dialect_init_stats(const struct inference_dialect *d, uint32_t max_model_len,
                                  struct inference_stats *ret)
{
    double tokens[MAX_TOKEN_BOUNDS];
    struct bounds b = {0};
    if (d->engine == INFERENCE_VLLM)
        set_vllm(&b, tokens, one_two_five(max_model_len, tokens));
    else
        set_sglang(&b, d->release);
    inference_stats_init(ret, b.items, b.n);
}
