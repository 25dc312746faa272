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

// --- the rate ---

// A part of the load's curve: a straight line.
struct part {
    int64_t from_ms, until_ms;
    double from, until; // requests per second at its ends
};

// The part that begins at this time. False: the scenario ends there.
static bool find_part(const struct replay_scenario *s, int64_t from_ms, struct part *ret)
{
    struct replay_curve_piece piece;
    if (from_ms >= s->duration_ms)
        return false;
    replay_curve_find_piece(&s->load, from_ms, &piece);
    *ret = (struct part){from_ms, piece.until_ms < s->duration_ms ? piece.until_ms : s->duration_ms,
                         replay_curve_at(&s->load, from_ms, &piece), 0};
    ret->until = piece.v + piece.rise * (double)(ret->until_ms - piece.base_ms) / piece.over_ms;
    return true;
}

double replay_service_expected(const struct replay_scenario *s)
{
    struct part p;
    double sum = 0;
    if (s->service->has_shape)
        return s->service->rate * (double)s->duration_ms / 1000;
    for (int64_t t_ms = 0; find_part(s, t_ms, &p); t_ms = p.until_ms)
        sum += (p.from + p.until) / 2 * (double)(p.until_ms - p.from_ms) / 1000;
    return sum;
}

static double tokens_at(const struct replay_curve *c, double constant, int64_t t_ms,
                        struct replay_curve_piece *piece)
{
    return c->n ? fmax(replay_curve_at(c, t_ms, piece), 1) : constant;
}

struct maker {
    const struct replay_scenario *s;
    struct replay_curve_piece prompt, output;
    uint64_t next; // random number
    double tokens;
    struct requests *out;
};

static void add_request(struct maker *m, double t_s)
{
    const struct replay_service *v = m->s->service;
    struct requests *out = m->out;
    uint32_t most = v->engine.max_model_len / 2;
    int64_t t_ms = (int64_t)(t_s * 1000);
    double prompt = tokens_at(&v->prompt_curve, v->prompt_tokens, t_ms, &m->prompt);
    double output = tokens_at(&v->output_curve, v->output_tokens, t_ms, &m->output);
    gs_grow(&out->items, &out->cap, out->n, sizeof(*out->items));
    struct inference_arrival *a = &out->items[out->n++];
    *a = (struct inference_arrival){
        .at_ns = (int64_t)(t_s * 1e9),
        .prompt = length(prompt, most, v->seed, STREAM_PROMPTS, m->next),
        .output = length(output, most, v->seed, STREAM_OUTPUTS, m->next)};
    m->tokens += a->output;
}

// By thinning: candidates at the largest rate of the part, each kept with the share of the rate at
// its time.
static void make_part(struct maker *m, const struct part *p)
{
    const struct replay_service *v = m->s->service;
    double top = fmax(p->from, p->until), from_s = (double)p->from_ms / 1000;
    double over_s = (double)(p->until_ms - p->from_ms) / 1000;
    for (double at_s = 0; top > 0 && m->tokens < v->max_tokens; m->next++) {
        at_s -= log(replay_random(v->seed, STREAM_TIMES, m->next)) / top;
        if (at_s >= over_s)
            break;
        double rate = p->from + (p->until - p->from) * at_s / over_s;
        if (replay_random(v->seed, STREAM_KEPT, m->next) * top < rate)
            add_request(m, from_s + at_s);
    }
    m->next++; // the one that was too late
}

static void make_from_load(const struct replay_scenario *s, struct requests *ret)
{
    struct maker m = {.s = s, .out = ret};
    struct part p;
    for (int64_t t_ms = 0; find_part(s, t_ms, &p); t_ms = p.until_ms)
        make_part(&m, &p);
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
