// SPDX-License-Identifier: Apache-2.0
// A percentile of the last 30 seconds from a histogram that grows: a ring of slots of two
// seconds, and their sums.
#include "engine/signals/signals_private.h"

#include "base/mem.h"

#include <math.h>

void signals_window_finish(struct signals_window *w)
{
    free(w->slots);
    free(w->sums);
    *w = (struct signals_window){0};
}

void signals_window_reset(struct signals_window *w, size_t n)
{
    signals_window_finish(w);
    w->n = n;
    w->slots = gs_alloc_array(n * SIGNALS_WINDOW_SLOTS, sizeof(*w->slots));
    w->sums = gs_alloc_array(n, sizeof(*w->sums));
}

static uint32_t *slot_of(const struct signals_window *w, int64_t number)
{
    return w->slots + (size_t)(number % SIGNALS_WINDOW_SLOTS) * w->n;
}

void signals_window_advance(struct signals_window *w, int64_t t_ms)
{
    int64_t now = t_ms / SIGNALS_WINDOW_SLOT_MS;
    if (now < 0 || now <= w->last)
        return;
    if (now - w->last > SIGNALS_WINDOW_SLOTS)
        w->last = now - SIGNALS_WINDOW_SLOTS;
    while (w->last < now) {
        uint32_t *slot = slot_of(w, ++w->last);
        for (size_t i = 0; i < w->n; i++) {
            w->sums[i] -= slot[i];
            slot[i] = 0;
        }
    }
}

void signals_window_add(struct signals_window *w, const double *increments)
{
    uint32_t *slot = slot_of(w, w->last);
    double before = 0;
    for (size_t i = 0; i < w->n; i++) {
        double own = increments[i] - before;
        before = increments[i];
        if (!(own > 0)) // also NaN; a page can be read between two updates of its buckets
            continue;
        uint32_t most = UINT32_MAX - slot[i];
        uint32_t n = own < most ? (uint32_t)llround(own) : most;
        slot[i] += n;
        w->sums[i] += n;
    }
}

uint64_t signals_window_count(const struct signals_window *w)
{
    uint64_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        n += w->sums[i];
    return n;
}

bool signals_window_quantile(const struct signals_window *w, const double *bounds, double q,
                             double *ret)
{
    uint64_t n = signals_window_count(w);
    double rank = q * (double)n, below = 0;
    if (n < SIGNALS_MIN_SAMPLES)
        return false;
    size_t i = 0;
    for (; i + 1 < w->n && below + (double)w->sums[i] < rank; i++)
        below += (double)w->sums[i];
    if (i + 1 == w->n) { // above all bounds: the largest one is all that is known
        *ret = i ? bounds[i - 1] : NAN;
        return i > 0;
    }
    double from = i ? bounds[i - 1] : bounds[0] > 0 ? 0 : bounds[0];
    *ret = from + (bounds[i] - from) * (rank - below) / (double)w->sums[i];
    return true;
}
