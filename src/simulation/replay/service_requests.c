// SPDX-License-Identifier: Apache-2.0
// The requests of an inference service: those of a published shape, or a Poisson process whose rate
// is the load of the scenario, with log-normal lengths. Equal scenarios have equal requests.
#include "replay/service.h"

#include "base/mem.h"
#include "replay/fleet_private.h"

#include <math.h>

#define SIGMA          0.7 // of the logarithm of a length, as that of the engine's outputs
#define STREAM_TIMES   UINT64_C(4000037)
#define STREAM_KEPT    UINT64_C(4000081)
#define STREAM_PROMPTS UINT64_C(5000011)
#define STREAM_OUTPUTS UINT64_C(6000047)

struct requests {
    struct inference_arrival *items;
    size_t n, cap;
};

// With this mean. Two numbers of the stream.
static uint32_t length(double mean, uint32_t most, uint64_t seed, uint64_t stream, uint64_t n)
{
    double a = replay_random(seed, stream, 2 * n), b = replay_random(seed, stream, 2 * n + 1);
    double normal = sqrt(-2 * log(a)) * cos(2 * M_PI * b);
    double v = mean * exp(SIGMA * normal - SIGMA * SIGMA / 2);
    return (uint32_t)fmin(fmax(round(v), 1), most);
}

static double largest(const struct replay_curve *c)
{
    double top = 0;
    for (size_t i = 0; i < c->n; i++)
        top = fmax(top, c->points[i].v);
    return top;
}

static double tokens_at(const struct replay_curve *c, double constant, int64_t t_ms,
                        struct replay_curve_piece *piece)
{
    return c->n ? fmax(replay_curve_at(c, t_ms, piece), 1) : constant;
}

// By thinning: candidates at the largest rate, each kept with the share of the rate at its time.
static void make_from_load(const struct replay_scenario *s, struct requests *ret)
{
    const struct replay_service *v = s->service;
    struct replay_curve_piece load = {0}, prompt = {0}, output = {0};
    double top = largest(&s->load), t_s = 0, end_s = (double)s->duration_ms / 1000;
    uint32_t most = v->engine.max_model_len / 2;
    for (uint64_t k = 0; top > 0; k++) {
        t_s -= log(replay_random(v->seed, STREAM_TIMES, k)) / top;
        if (t_s >= end_s)
            break;
        int64_t t_ms = (int64_t)(t_s * 1000);
        if (replay_random(v->seed, STREAM_KEPT, k) * top >= replay_curve_at(&s->load, t_ms, &load))
            continue;
        double in = tokens_at(&v->prompt_curve, v->prompt_tokens, t_ms, &prompt);
        double out = tokens_at(&v->output_curve, v->output_tokens, t_ms, &output);
        gs_grow(&ret->items, &ret->cap, ret->n, sizeof(*ret->items));
        ret->items[ret->n++] =
            (struct inference_arrival){.at_ns = (int64_t)(t_s * 1e9),
                                       .prompt = length(in, most, v->seed, STREAM_PROMPTS, k),
                                       .output = length(out, most, v->seed, STREAM_OUTPUTS, k)};
    }
}

struct gs_error *replay_service_arrivals(const struct replay_scenario *s,
                                         struct inference_arrival **ret, size_t *ret_n)
{
    const struct replay_service *v = s->service;
    struct requests made = {0};
    if (v->has_shape) {
        const struct inference_arrivals a = {.shape = v->shape,
                                             .duration_s = (double)s->duration_ms / 1000,
                                             .rate = v->rate,
                                             .max_prompt = v->engine.max_model_len / 2,
                                             .max_output = v->engine.max_model_len / 2,
                                             .seed = v->seed};
        return inference_arrivals_make(&a, ret, ret_n);
    }
    make_from_load(s, &made);
    *ret = made.items;
    *ret_n = made.n;
    return NULL;
}
