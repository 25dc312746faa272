// SPDX-License-Identifier: Apache-2.0
// The latencies that were measured at each load of a replica. Loads are kept in classes, so that
// the latencies of a night are still there at noon. From them follow the load up to which the
// target was held, and a line through 1 / latency, which falls to 0 where a queue never drains.
#include "slo/slo_private.h"

#include <stdlib.h>
#include <string.h>

#define CLASS_STEP  1.15
#define FAR_STEP    1.25
#define MAX_WEIGHT  2000.0 // requests; older ones decay
#define SLOT_WEIGHT 50.0   // of one slot at most
#define MIN_WEIGHT  60.0   // requests of a class that counts
#define MIN_SPAN    1.5    // loads of a line have to differ by this factor

static struct slo_bin *bin_of(struct slo_learned *l, int index, int64_t now_ms)
{
    size_t oldest = 0;
    for (size_t i = 0; i < l->n_bins; i++) {
        if (l->bins[i].index == index)
            return &l->bins[i];
        if (l->bins[i].last_ms < l->bins[oldest].last_ms)
            oldest = i;
    }
    size_t at = l->n_bins < SLO_BINS ? l->n_bins++ : oldest;
    memset(&l->bins[at], 0, sizeof(l->bins[at]));
    l->bins[at].index = index;
    l->bins[at].last_ms = now_ms;
    return &l->bins[at];
}

static void add_share(struct slo_bin *b, enum slo_latency t, double target, double within,
                      double weight)
{
    // Shares of another target do not count for this one.
    if (b->target[t] != target || b->weight <= 0)
        b->within[t] = within;
    else
        b->within[t] += (within - b->within[t]) * weight / (b->weight + weight);
    b->target[t] = target;
}

static void add_inverse(struct slo_bin *b, enum slo_latency t, double latency, double weight)
{
    b->quiet[t] = fmin(b->quiet[t] + weight, MAX_WEIGHT);
    b->inverse[t] += (1 / latency - b->inverse[t]) * weight / b->quiet[t];
}

static void add_occupancy(struct slo_bin *b, const struct slo_slot *s, double weight)
{
    double f = weight / (b->weight + weight);
    if (s->ready <= 0)
        return;
    b->kv += (s->kv / s->ready - b->kv) * f;
    b->running += (s->running / s->ready - b->running) * f;
}

void slo_curve_add(struct slo_learned *l, const struct slo_policy *p, const struct slo_slot *s,
                   double load, bool queued)
{
    double weight = 0;
    for (int t = 0; t < SLO_LATENCIES; t++)
        if (p->seconds[t] > 0 && isfinite(s->quantile[t]))
            weight = fmax(weight, fmin(s->samples[t], SLOT_WEIGHT));
    if (!(weight > 0) || !(load > 1e-9) || !isfinite(load))
        return;
    struct slo_bin *b = bin_of(l, (int)floor(log(load) / log(CLASS_STEP)), s->end_ms);
    for (int t = 0; t < SLO_LATENCIES; t++) {
        if (!(p->seconds[t] > 0) || !isfinite(s->quantile[t]) || !(s->quantile[t] > 0))
            continue;
        add_share(b, (enum slo_latency)t, p->seconds[t], s->within[t], weight);
        if (!queued)
            add_inverse(b, (enum slo_latency)t, s->quantile[t], weight);
    }
    b->load = b->weight > 0 ? b->load + (load - b->load) * weight / (b->weight + weight) : load;
    add_occupancy(b, s, weight);
    b->weight = fmin(b->weight + weight, MAX_WEIGHT);
    b->last_ms = s->end_ms;
}

void slo_curve_scale(struct slo_learned *l, double factor)
{
    for (size_t i = 0; i < l->n_bins; i++) {
        l->bins[i].load *= factor;
        l->bins[i].index = (int)floor(log(l->bins[i].load) / log(CLASS_STEP));
    }
}

// --- up to which load the target was held ---

struct class
{
    double load, share, weight;
};

static int by_load(const void *a, const void *b)
{
    double x = ((const struct class *)a)->load, y = ((const struct class *)b)->load;
    return (x > y) - (x < y);
}

static size_t classes_of(const struct slo_learned *l, const struct slo_policy *p,
                         enum slo_latency t, struct class out[SLO_BINS])
{
    size_t n = 0;
    for (size_t i = 0; i < l->n_bins; i++) {
        const struct slo_bin *b = &l->bins[i];
        if (b->weight >= MIN_WEIGHT && b->target[t] == p->seconds[t])
            out[n++] = (struct class){b->load, b->within[t], b->weight};
    }
    qsort(out, n, sizeof(*out), by_load);
    return n;
}

// Shares may only fall with the load: neighbours that rise are joined (pool adjacent violators).
static size_t join_rising(struct class *c, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        c[kept++] = c[i];
        while (kept > 1 && c[kept - 1].share > c[kept - 2].share) {
            struct class *a = &c[kept - 2], *b = &c[kept - 1];
            double weight = a->weight + b->weight;
            a->share = (a->share * a->weight + b->share * b->weight) / weight;
            a->load = (a->load * a->weight + b->load * b->weight) / weight;
            a->weight = weight;
            kept--;
        }
    }
    return kept;
}

double slo_curve_limit(const struct slo_learned *l, const struct slo_policy *p, enum slo_latency t,
                       double *ret_seen)
{
    struct class c[SLO_BINS];
    double want = p->percent / 100.0;
    size_t n = classes_of(l, p, t, c);
    *ret_seen = n ? c[n - 1].load : NAN;
    n = join_rising(c, n);
    for (size_t i = 0; i < n; i++) {
        if (c[i].share >= want)
            continue;
        if (i == 0)
            return NAN; // nor was it ever held
        double f = (c[i - 1].share - want) / (c[i - 1].share - c[i].share);
        // Between classes that are far apart the target is taken to hold almost up to the latter:
        // latencies rise late and steeply. A miss there becomes a class of its own.
        return fmax(c[i - 1].load + f * (c[i].load - c[i - 1].load), c[i].load / FAR_STEP);
    }
    return NAN;
}

// --- the line ---

struct sums {
    double n, x, y, xx, xy;
    size_t classes;
};

static void add_point(struct sums *s, struct slo_fit *f, double load, double inverse, double weight)
{
    double w = sqrt(weight);
    s->classes++;
    f->from = fmin(f->from, load);
    f->to = fmax(f->to, load);
    s->n += w;
    s->x += w * load;
    s->y += w * inverse;
    s->xx += w * load * load;
    s->xy += w * load * inverse;
}

static struct slo_fit solve(const struct sums *s, struct slo_fit f)
{
    double var = s->n > 0 ? s->xx / s->n - s->x / s->n * (s->x / s->n) : 0;
    if (s->classes < 3 || f.to < MIN_SPAN * f.from || !(var > 0))
        return f;
    f.b = -(s->xy / s->n - s->x / s->n * (s->y / s->n)) / var;
    f.a = s->y / s->n + f.b * s->x / s->n;
    f.found = f.b > 0 && f.a > 0;
    return f;
}

struct slo_fit slo_curve_fit(const struct slo_learned *l, enum slo_latency t)
{
    struct slo_fit f = {.from = INFINITY};
    struct sums s = {0};
    for (size_t i = 0; i < l->n_bins; i++)
        if (l->bins[i].quiet[t] >= MIN_WEIGHT)
            add_point(&s, &f, l->bins[i].load, l->bins[i].inverse[t], l->bins[i].quiet[t]);
    return solve(&s, f);
}

struct slo_fit slo_curve_occupancy(const struct slo_learned *l, bool kv)
{
    struct slo_fit f = {.from = INFINITY};
    struct sums s = {0};
    for (size_t i = 0; i < l->n_bins; i++) {
        const struct slo_bin *b = &l->bins[i];
        double kept = kv ? b->kv : b->running;
        if (b->weight >= MIN_WEIGHT && kept > 0)
            add_point(&s, &f, b->load, b->load / kept, b->weight);
    }
    return solve(&s, f);
}

double slo_fit_latency(const struct slo_fit *f, double load)
{
    double inverse = f->a - f->b * load;
    return inverse > 0 ? 1 / inverse : INFINITY;
}
