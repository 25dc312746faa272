// SPDX-License-Identifier: Apache-2.0
// What pods have shown of their capacity: the work that one processes while requests wait, the
// requests that it then runs at the same time, and how much a prompt token costs beside a generated
// one. Kept for each identity (image and GPU), because a new image or GPU has to show it again.
#include "slo/slo_private.h"

#include <stdio.h>
#include <string.h>

#define RATE_STEP    1.1
#define RATE_DECAY   0.998 // per interval
#define MOMENT_DECAY 0.999
#define INTERVAL_S   5.0 // of a pod, from which is learned
#define MIN_RATES    3.0
#define MIN_MOMENTS  60.0
#define SLOTS_WEIGHT 200.0
#define SLOTS_DECAY  0.9995 // per interval
#define MIN_WEIGHT   0.02
#define MAX_WEIGHT   4.0

// --- identities ---

static struct slo_learned *oldest(struct slo_state *st)
{
    size_t at = 0;
    for (size_t i = 1; i < st->n_learned; i++)
        if (st->learned[i].used_ms < st->learned[at].used_ms)
            at = i;
    return &st->learned[at];
}

struct slo_learned *slo_learned_of(struct slo_state *st, const char *identity, int64_t now_ms)
{
    char name[SLO_IDENTITY_SIZE];
    struct slo_learned *l = NULL;
    snprintf(name, sizeof(name), "%s", identity ? identity : "");
    for (size_t i = 0; i < st->n_learned && !l; i++)
        if (gs_streq(st->learned[i].identity, name))
            l = &st->learned[i];
    if (!l) {
        l = st->n_learned < SLO_IDENTITIES ? &st->learned[st->n_learned++] : oldest(st);
        memset(l, 0, sizeof(*l));
        memcpy(l->identity, name, sizeof(name));
    }
    l->used_ms = now_ms;
    return l;
}

static double samples_of(const struct slo_learned *l)
{
    double sum = l->n_rates + l->n_slots;
    for (size_t i = 0; i < l->n_bins; i++)
        sum += l->bins[i].weight;
    return sum;
}

void slo_learned_merge(struct slo_state *st, const struct slo_state *other)
{
    for (size_t i = 0; i < other->n_learned; i++) {
        const struct slo_learned *theirs = &other->learned[i];
        size_t at = 0;
        while (at < st->n_learned && !gs_streq(st->learned[at].identity, theirs->identity))
            at++;
        bool known = at < st->n_learned;
        if (!known && at == SLO_IDENTITIES)
            continue;
        st->n_learned += !known;
        if (!known || samples_of(theirs) > samples_of(&st->learned[at]))
            st->learned[at] = *theirs;
    }
}

// --- weights ---

struct slo_weights slo_weights_of(const struct slo_learned *l, enum slo_role role)
{
    double prompt = l->prompt_weight > 0 ? l->prompt_weight : SLO_PROMPT_WEIGHT;
    if (role == SLO_PREFILL)
        return (struct slo_weights){1, 0};
    if (role == SLO_DECODE)
        return (struct slo_weights){0, 1};
    return (struct slo_weights){prompt, 1};
}

static void add_moment(struct slo_moments *m, double y, double x0, double x1)
{
    double *all = &m->n;
    for (size_t i = 0; i < sizeof(*m) / sizeof(double); i++)
        all[i] *= MOMENT_DECAY;
    m->n += 1;
    m->y += y;
    m->x[0] += x0;
    m->x[1] += x1;
    m->yx[0] += y * x0;
    m->yx[1] += y * x1;
    m->xx[0] += x0 * x0;
    m->xx[1] += x0 * x1;
    m->xx[2] += x1 * x1;
}

// c / b of ITL = a + b * running + c * prompt tokens of a step. 0: the samples do not differ
// enough.
static double solve_weight(const struct slo_moments *m)
{
    double mx0 = m->x[0] / m->n, mx1 = m->x[1] / m->n, my = m->y / m->n;
    double v0 = m->xx[0] / m->n - mx0 * mx0, v1 = m->xx[2] / m->n - mx1 * mx1;
    double v01 = m->xx[1] / m->n - mx0 * mx1;
    double c0 = m->yx[0] / m->n - my * mx0, c1 = m->yx[1] / m->n - my * mx1;
    double det = v0 * v1 - v01 * v01;
    if (m->n < MIN_MOMENTS || !(v0 > 0.04 * mx0 * mx0) || !(v1 > 0.04 * mx1 * mx1) ||
        !(det > 0.05 * v0 * v1))
        return 0;
    double b = (c0 * v1 - c1 * v01) / det, c = (c1 * v0 - c0 * v01) / det;
    if (!(b > 0) || !(c > 0))
        return 0;
    return fmin(fmax(c / b, MIN_WEIGHT), MAX_WEIGHT);
}

// Loads that were learned with the former weight are converted with the mix of all intervals.
static void update_weight(struct slo_learned *l)
{
    double prompt = l->mix_prompt, generated = l->mix_generated;
    double before = l->prompt_weight > 0 ? l->prompt_weight : SLO_PROMPT_WEIGHT;
    double weight = solve_weight(&l->moments);
    if (!(weight > 0) || (l->prompt_weight > 0 && fabs(weight / before - 1) < 0.25))
        return;
    double factor = (generated + weight * prompt) / (generated + before * prompt);
    l->prompt_weight = weight;
    if (!(factor > 0) || !isfinite(factor))
        return;
    l->anchor *= factor;
    slo_curve_scale(l, factor);
}

// --- the load of busy pods ---

// The first interval gave the classes their place, but an engine that is still warming up is far
// from what follows. If most intervals are beyond the classes, they begin again there.
static void move_anchor(struct slo_learned *l, size_t beyond, double load)
{
    double n = l->rates[beyond];
    memset(l->rates, 0, sizeof(l->rates));
    l->anchor = load;
    l->rates[SLO_RATES / 2] = l->n_rates = n;
}

static void add_rate(struct slo_learned *l, double load)
{
    if (!(load > 0) || !isfinite(load))
        return;
    if (!(l->anchor > 0))
        l->anchor = load;
    double at = round(log(load / l->anchor) / log(RATE_STEP)) + SLO_RATES / 2.0;
    size_t class = (size_t)fmin(fmax(at, 0), SLO_RATES - 1);
    l->rates[class] += 1;
    l->n_rates += 1;
    if ((at < 0 || at >= SLO_RATES) && l->rates[class] >= 0.5 * l->n_rates)
        move_anchor(l, class, load);
}

// A queue can also wait for the tokens of a step, so only the largest number is a limit.
static void add_slots(struct slo_learned *l, double running)
{
    l->n_slots = fmin(l->n_slots + 1, SLOTS_WEIGHT);
    l->slots = fmax(running, l->slots * SLOTS_DECAY);
}

void slo_learn_decay(struct slo_learned *l)
{
    if (l->n_rates <= 1 / (1 - RATE_DECAY))
        return;
    double factor = 1 / (1 - RATE_DECAY) / l->n_rates;
    for (size_t i = 0; i < SLO_RATES; i++)
        l->rates[i] *= factor;
    l->n_rates *= factor;
}

double slo_learned_rate(const struct slo_learned *l)
{
    double sum = 0;
    if (l->n_rates < MIN_RATES)
        return NAN;
    for (size_t i = 0; i < SLO_RATES; i++) {
        sum += l->rates[i];
        if (sum >= 0.9 * l->n_rates)
            return l->anchor * pow(RATE_STEP, (double)i - SLO_RATES / 2.0);
    }
    return NAN;
}

double slo_learned_slots(const struct slo_learned *l)
{
    return l->n_slots >= MIN_RATES ? l->slots : NAN;
}

// --- one pod ---

static void reset_interval(struct slo_track *t)
{
    t->seconds = t->prompt = t->generated = t->requests = 0;
    t->itl_sum = t->itl_n = t->running_s = t->waiting_s = 0;
    t->waiting_min = INFINITY;
    t->running_max = 0;
}

void slo_learn_pod(struct slo_learned *l, struct slo_track *t, enum slo_role role,
                   enum slo_unit unit)
{
    if (t->seconds < INTERVAL_S)
        return;
    struct slo_weights w = slo_weights_of(l, role);
    double work =
        unit == SLO_BY_TOKENS ? w.prompt * t->prompt + w.generated * t->generated : t->requests;
    double running = t->running_s / t->seconds, waiting = t->waiting_s / t->seconds;
    if (isfinite(t->waiting_min) && t->waiting_min >= 1 && waiting >= 1 + 0.1 * running) {
        add_rate(l, work / t->seconds);
        add_slots(l, t->running_max);
    }
    if (role == SLO_UNIFIED && t->itl_n >= SLO_FEW_SAMPLES && running > 0) {
        double itl = t->itl_sum / t->itl_n;
        add_moment(&l->moments, itl, running, t->prompt / t->seconds * itl);
        l->mix_prompt = l->mix_prompt * MOMENT_DECAY + t->prompt;
        l->mix_generated = l->mix_generated * MOMENT_DECAY + t->generated;
        update_weight(l);
    }
    reset_interval(t);
}
