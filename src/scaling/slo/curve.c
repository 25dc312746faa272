// SPDX-License-Identifier: Apache-2.0
// The latencies that were measured at each load of a replica. Loads are kept in classes, so that
// the latencies of a night are still there at noon. From them follow the load up to which the
// target was held, and a line through 1 / latency, which falls to 0 where a queue never drains.
#include "slo/slo_private.h"

#include <stdlib.h>
#include <string.h>

#define CLASS_STEP  1.15
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
        return c[i - 1].load + f * (c[i].load - c[i - 1].load);
    }
    return NAN;
}

// --- the line ---

struct slo_fit slo_curve_fit(const struct slo_learned *l, enum slo_latency t)
{
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    struct slo_fit f = {.from = INFINITY};
    size_t classes = 0;
    for (size_t i = 0; i < l->n_bins; i++) {
        const struct slo_bin *b = &l->bins[i];
        if (b->quiet[t] < MIN_WEIGHT)
            continue;
        double w = sqrt(b->quiet[t]);
        classes++;
        f.from = fmin(f.from, b->load);
        f.to = fmax(f.to, b->load);
        n += w;
        x += w * b->load;
        y += w * b->inverse[t];
        xx += w * b->load * b->load;
        xy += w * b->load * b->inverse[t];
    }
    double var = n > 0 ? xx / n - x / n * (x / n) : 0;
    if (classes < 3 || f.to < MIN_SPAN * f.from || !(var > 0))
        return f;
    f.b = -(xy / n - x / n * (y / n)) / var;
    f.a = y / n + f.b * x / n;
    f.found = f.b > 0 && f.a > 0;
    return f;
}

double slo_fit_latency(const struct slo_fit *f, double load)
{
    double inverse = f->a - f->b * load;
    return inverse > 0 ? 1 / inverse : INFINITY;
}
