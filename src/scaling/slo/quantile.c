// SPDX-License-Identifier: Apache-2.0
// Percentiles and shares of histograms. Buckets of latencies are about logarithmic, so values
// within a bucket are too. The first bucket is taken to begin at half of its end.
#include "slo/slo_private.h"

void slo_counts_clear(struct slo_counts *c, int64_t now_ms)
{
    for (size_t i = 0; i < c->n; i++)
        c->counts[i] = 0;
    c->total = 0;
    c->start_ms = now_ms;
}

static double bucket_start(const struct slo_counts *c, size_t i)
{
    return i ? c->bounds[i - 1] : c->bounds[0] / 2;
}

// At the share f of the bucket. The last one has no end: its start is all that is certain.
static double inside(const struct slo_counts *c, size_t i, double f)
{
    double from = bucket_start(c, i), to = c->bounds[i];
    if (isinf(to) || !(from > 0))
        return isinf(to) ? from : to * f;
    return from * pow(to / from, f);
}

double slo_quantile(const struct slo_counts *c, double q)
{
    double rank = q * c->total, below = 0;
    if (!(c->total > 0))
        return NAN;
    for (size_t i = 0; i < c->n; i++) {
        if (below + c->counts[i] >= rank && c->counts[i] > 0)
            return inside(c, i, (rank - below) / c->counts[i]);
        below += c->counts[i];
    }
    return bucket_start(c, c->n - 1);
}

void slo_share_range(const struct slo_counts *c, double seconds, double *ret_low, double *ret_high)
{
    double low = 0, high = 0, below = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->bounds[i] <= seconds)
            low = below + c->counts[i];
        if (bucket_start(c, i) < seconds || i == 0)
            high = below + c->counts[i];
        below += c->counts[i];
    }
    *ret_low = c->total > 0 ? low / c->total : NAN;
    *ret_high = c->total > 0 ? high / c->total : NAN;
}

double slo_share_within(const struct slo_counts *c, double seconds)
{
    double below = 0;
    if (!(c->total > 0))
        return NAN;
    for (size_t i = 0; i < c->n; i++) {
        double from = bucket_start(c, i), to = c->bounds[i];
        if (to > seconds) {
            double f = isinf(to) || seconds <= from || !(from > 0)
                           ? 0
                           : log(seconds / from) / log(to / from);
            return (below + f * c->counts[i]) / c->total;
        }
        below += c->counts[i];
    }
    return 1;
}
