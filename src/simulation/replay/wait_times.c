// SPDX-License-Identifier: Apache-2.0
// How long work waits, first come, first served: batches in the queue, and a histogram in seconds.
// The queue is bounded by joining neighbours, which makes times coarser, not wrong by more than
// the batch.
#include "replay/wait_times.h"

#include "base/mem.h"

#include <string.h>

#define MAX_BATCHES ((size_t)100000) // above this number, neighbours are merged
#define LONGEST_S   ((size_t)7 * 86400)

static void add_wait(struct replay_waits *w, int64_t waited_s, double work)
{
    size_t s = waited_s < 0 ? 0 : (size_t)waited_s < LONGEST_S ? (size_t)waited_s : LONGEST_S;
    while (w->n_served <= s) {
        gs_grow(&w->served, &w->served_cap, w->n_served, sizeof(*w->served));
        w->served[w->n_served++] = 0;
    }
    w->served[s] += work;
}

static void make_coarser(struct replay_waits *w)
{
    size_t n = 0;
    for (size_t i = w->first; i < w->n; i += 2) {
        struct replay_waits_batch b = w->batches[i];
        if (i + 1 < w->n)
            b.work += w->batches[i + 1].work;
        w->batches[n++] = b;
    }
    w->first = 0;
    w->n = n;
}

void replay_waits_add(struct replay_waits *w, int64_t now_s, double work)
{
    if (!(work > 0))
        return;
    if (w->n - w->first >= MAX_BATCHES)
        make_coarser(w);
    if (w->first > w->n / 2) {
        memmove(w->batches, w->batches + w->first, (w->n - w->first) * sizeof(*w->batches));
        w->n -= w->first;
        w->first = 0;
    }
    gs_grow(&w->batches, &w->cap, w->n, sizeof(*w->batches));
    w->batches[w->n++] = (struct replay_waits_batch){now_s, work};
}

void replay_waits_serve(struct replay_waits *w, int64_t now_s, double work)
{
    while (work > 0 && w->first < w->n) {
        struct replay_waits_batch *b = &w->batches[w->first];
        double part = b->work < work ? b->work : work;
        add_wait(w, now_s - b->since_s, part);
        b->work -= part;
        work -= part;
        if (!(b->work > 0))
            w->first++;
    }
}

void replay_waits_serve_at_once(struct replay_waits *w, double work)
{
    // The rounding error of the last queue.
    w->first = w->n = 0;
    add_wait(w, 0, work);
}

double replay_waits_quantile(const struct replay_waits *w, double share)
{
    double all = 0, sum = 0;
    for (size_t i = 0; i < w->n_served; i++)
        all += w->served[i];
    for (size_t i = 0; i < w->n_served; i++) {
        sum += w->served[i];
        if (sum >= share * all && sum > 0)
            return (double)i;
    }
    return w->n_served && all > 0 ? (double)(w->n_served - 1) : 0;
}

void replay_waits_finish(struct replay_waits *w)
{
    free(w->batches);
    free(w->served);
    *w = (struct replay_waits){0};
}
