// SPDX-License-Identifier: Apache-2.0
// Arrivals as a renewal process in the time of the rate: gaps of a Gamma distribution with a mean
// of one request, along a rate for each second. docs/inference-simulator.md names the sources of
// the figures.
#include "inference/arrivals.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

// Lognormal, by mean and deviation of the logarithm.
struct length {
    double mean, sigma;
};

struct shape {
    const char *name;
    double gap_variation;              // standard deviation / mean of the gaps; 1: Poisson
    double wander, wander_s;           // of the logarithm of the rate: deviation, correlation time
    double (*rate)(double part);       // relative, at this part of the duration; NULL: 1
    double (*long_share)(double part); // NULL: one length
    struct length prompt, output;
    struct length long_prompt, long_output;
};

// --- rates ---

static double rate_waves(double part)
{
    return 1 + 0.4 * sin(2 * M_PI * (1.5 * part - 0.1));
}

// The ratio of the busiest to the quietest hour is about six.
static double rate_day(double part)
{
    return 0.3 + 1.5 * pow((1 - cos(2 * M_PI * part)) / 2, 1.5);
}

static double rate_burst(double part)
{
    bool burst = (part >= 0.25 && part < 0.35) || (part >= 0.65 && part < 0.75);
    return burst ? 3 : 1;
}

static double rate_stairs(double part)
{
    static const double steps[] = {1, 1.6, 2.4, 1.6, 0.7, 2, 1, 0.5};
    return steps[(size_t)(part * 8) % GS_ARRAY_LEN(steps)];
}

static double rate_flash_crowd(double part)
{
    return part < 0.3 ? 1 : 1 + 5 * exp(-(part - 0.3) / 0.08);
}

static double share_changes(double part)
{
    return part < 0.45 ? 0.1 : part > 0.55 ? 0.5 : 0.1 + 4 * (part - 0.45);
}

#define CHAT_LENGTHS .prompt = {1155, 0.5}, .output = {211, 0.99}

static const struct shape shapes[INFERENCE_N_SHAPES] = {
    [INFERENCE_CONSTANT] = {"constant", 1, .prompt = {1155, 0.5}, .output = {211, 0.99}},
    [INFERENCE_BURSTGPT] = {"burstgpt", 2, 0.5, 90, .prompt = {620, 0.9}, .output = {260, 0.7}},
    [INFERENCE_AZURE_CHAT] = {"azure-chat", 1, 0.15, 120, rate_waves, CHAT_LENGTHS},
    [INFERENCE_AZURE_CODE] = {"azure-code", 1.5, 0.6, 120, .prompt = {2048, 0.79},
                              .output = {28, 1.24}},
    [INFERENCE_DAY] = {"day", 1, 0.1, 120, rate_day, CHAT_LENGTHS},
    [INFERENCE_BURST] = {"burst", 1, .rate = rate_burst, CHAT_LENGTHS},
    [INFERENCE_MIXED] = {"mixed", 1, .long_share = share_changes, .prompt = {256, 0.3},
                         .output = {200, 0.5}, .long_prompt = {2600, 0.2},
                         .long_output = {100, 0.5}},
    [INFERENCE_STAIRS] = {"stairs", 1, .rate = rate_stairs, CHAT_LENGTHS},
    [INFERENCE_FLASH_CROWD] = {"flash-crowd", 1, .rate = rate_flash_crowd, CHAT_LENGTHS},
};

const char *inference_shape_name(enum inference_shape shape)
{
    return shapes[shape].name;
}

struct gs_error *inference_shape_parse(const char *name, enum inference_shape *ret)
{
    GS_AUTO_BUF struct gs_buf names = {0};
    for (size_t i = 0; i < INFERENCE_N_SHAPES; i++) {
        if (strcmp(name, shapes[i].name) == 0) {
            *ret = (enum inference_shape)i;
            return NULL;
        }
        gs_buf_addf(&names, "%s%s", i ? ", " : "", shapes[i].name);
    }
    GS_AUTO_FREE char *all = gs_buf_take(&names);
    return gs_error_new(GS_EINVAL, "no arrivals \"%s\": want one of %s", name, all);
}

// --- random numbers ---

// In (0, 1].
static double uniform(uint64_t *seed)
{
    return ((double)(gs_seeded_next(seed) >> 11) + 1) / 9007199254740992.0;
}

static double normal(uint64_t *seed)
{
    double a = uniform(seed), b = uniform(seed);
    return sqrt(-2 * log(a)) * cos(2 * M_PI * b);
}

// Marsaglia and Tsang, for the shape k; the mean is 1.
static double gamma_of_mean_one(double k, uint64_t *seed)
{
    double boost = k < 1 ? pow(uniform(seed), 1 / k) : 1;
    double d = (k < 1 ? k + 1 : k) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(seed), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        if (log(uniform(seed)) < x * x / 2 + d - d * v + d * log(v))
            return d * v * boost / k;
    }
}

static double gap(double variation, uint64_t *seed)
{
    return variation == 1 ? -log(uniform(seed))
                          : gamma_of_mean_one(1 / (variation * variation), seed);
}

static uint32_t draw_length(const struct length *l, uint32_t max, uint64_t *seed)
{
    double v = exp(log(l->mean) - l->sigma * l->sigma / 2 + l->sigma * normal(seed));
    return v < 1 ? 1 : v > max ? max : (uint32_t)v;
}

// --- the requests ---

// For each second, as parts of all requests.
static double *make_rates(const struct shape *s, size_t n, uint64_t *seed)
{
    double *rates = gs_alloc_array(n, sizeof(*rates));
    double keep = s->wander > 0 ? exp(-1 / s->wander_s) : 0, sum = 0;
    double wander = s->wander * normal(seed);
    for (size_t i = 0; i < n; i++) {
        double part = ((double)i + 0.5) / (double)n;
        wander = keep * wander + s->wander * sqrt(1 - keep * keep) * normal(seed);
        rates[i] = (s->rate ? s->rate(part) : 1) * exp(wander);
        sum += rates[i];
    }
    for (size_t i = 0; i < n; i++)
        rates[i] /= sum;
    return rates;
}

static void draw_lengths(const struct shape *s, const struct inference_arrivals *a, double part,
                         uint64_t *seed, struct inference_arrival *ret)
{
    bool is_long = s->long_share && uniform(seed) <= s->long_share(part);
    ret->prompt = draw_length(is_long ? &s->long_prompt : &s->prompt,
                              a->max_prompt ? a->max_prompt : 4096, seed);
    ret->output = draw_length(is_long ? &s->long_output : &s->output,
                              a->max_output ? a->max_output : 1024, seed);
}

struct gs_error *inference_arrivals_make(const struct inference_arrivals *a,
                                         struct inference_arrival **ret, size_t *ret_n)
{
    double total = a->rate * a->duration_s;
    const int most = INFERENCE_MAX_ARRIVALS / 2; // the number varies around the mean
    if (!(a->duration_s >= 1 && a->rate > 0 && total <= most))
        return gs_error_new(
            GS_ELIMIT, "%g requests/s for %g s: want at least a second and at most %d requests",
            a->rate, a->duration_s, most);
    const struct shape *s = &shapes[a->shape];
    uint64_t seed = gs_mix64(a->seed * INFERENCE_N_SHAPES + (uint64_t)a->shape);
    size_t seconds = (size_t)a->duration_s, n = 0, cap = (size_t)(total * 1.2) + 64;
    GS_AUTO_FREE double *rates = make_rates(s, seconds, &seed);
    struct inference_arrival *all = gs_alloc_array(cap, sizeof(*all));
    double next = gap(s->gap_variation, &seed), passed = 0;
    for (size_t i = 0; i < seconds; i++) {
        double here = rates[i] * total;
        while (next <= passed + here && n < INFERENCE_MAX_ARRIVALS) {
            if (n == cap)
                all = gs_realloc_array(all, cap *= 2, sizeof(*all));
            double at = (double)i + (next - passed) / here;
            all[n].at_ns = (int64_t)(at * 1e9);
            draw_lengths(s, a, at / a->duration_s, &seed, &all[n++]);
            next += gap(s->gap_variation, &seed);
        }
        passed += here;
    }
    *ret = all;
    *ret_n = n;
    return NULL;
}
