// SPDX-License-Identifier: Apache-2.0
// Jobs of a scenario with pools: those that it lists, and those that arrive at random.
#include "replay/fleet_private.h"

#include "base/mem.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>

#define Z90 1.2815515655446004 // the 90 % quantile of the standard normal distribution

// --- random numbers ---

double replay_random(uint64_t seed, uint64_t stream, uint64_t n)
{
    uint64_t bits = gs_mix64(gs_mix64(gs_mix64(seed) ^ stream) ^ n) >> 11;
    return ((double)bits + 0.5) / 9007199254740992.0;
}

int64_t replay_random_time(const struct replay_spread *d, uint64_t seed, uint64_t stream,
                           uint64_t n)
{
    double ms = (double)d->p50_ms;
    if (d->p90_ms > d->p50_ms && d->p50_ms > 0) {
        double u = replay_random(seed, stream, 2 * n), v = replay_random(seed, stream, 2 * n + 1);
        double normal = sqrt(-2 * log(u)) * cos(2 * M_PI * v);
        ms *= exp(normal * log((double)d->p90_ms / (double)d->p50_ms) / Z90);
    }
    double s = round(ms / 1000);
    return s < 1 ? 1000 : s > 1e9 ? INT64_C(1000000000000) : (int64_t)s * 1000;
}

// --- jobs ---

static size_t random_gpus(const struct replay_arrivals *a, double u)
{
    double all = 0, sum = 0;
    for (size_t i = 0; i < a->n_sizes; i++)
        all += a->weights[i];
    for (size_t i = 0; i < a->n_sizes; i++) {
        sum += a->weights[i];
        if (u * all < sum)
            return a->gpus[i];
    }
    return a->gpus[a->n_sizes - 1];
}

struct job_list {
    struct replay_job *items;
    size_t len, cap;
};

static struct gs_error *add_arrivals(const struct replay_fleet *f, size_t workload,
                                     struct job_list *l)
{
    const struct replay_arrivals *a = &f->workloads[workload].arrivals;
    double t = (double)a->from_ms;
    int64_t end_ms = a->until_ms < f->duration_ms ? a->until_ms : f->duration_ms;
    for (uint64_t n = 0; a->every_ms; n++) {
        t -= log(replay_random(f->seed, 3 * workload, n)) * (double)a->every_ms;
        if (t >= (double)end_ms)
            return NULL;
        if (l->len >= REPLAY_MAX_JOBS)
            return gs_error_new(GS_EINVAL, "workload %s: more than %zu jobs",
                                f->workloads[workload].s->name, REPLAY_MAX_JOBS);
        gs_grow(&l->items, &l->cap, l->len, sizeof(*l->items));
        l->items[l->len++] = (struct replay_job){
            .at_ms = (int64_t)ceil(t / 1000) * 1000,
            .run_ms = replay_random_time(&a->run, f->seed, 3 * workload + 1, n),
            .gpus = random_gpus(a, replay_random(f->seed, 3 * workload + 2, n))};
    }
    return NULL;
}

static int by_time(const void *a, const void *b)
{
    const struct replay_job *x = a, *y = b;
    return (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
}

struct gs_error *replay_fleet_jobs(const struct replay_fleet *f, size_t workload,
                                   struct replay_job **ret, size_t *ret_n)
{
    const struct replay_fleet_workload *w = &f->workloads[workload];
    struct job_list l = {0};
    for (size_t i = 0; i < w->n_jobs; i++) {
        gs_grow(&l.items, &l.cap, l.len, sizeof(*l.items));
        l.items[l.len++] = w->jobs[i];
    }
    struct gs_error *err = add_arrivals(f, workload, &l);
    if (err) {
        free(l.items);
        return err;
    }
    // Either of the two is empty, so the order of equal times is that of the list.
    if (l.len)
        qsort(l.items, l.len, sizeof(*l.items), by_time);
    *ret = l.items;
    *ret_n = l.len;
    return NULL;
}

static size_t size_of_workload(const struct replay_fleet *f, const struct replay_fleet_workload *w)
{
    const struct replay_arrivals *a = &w->arrivals;
    size_t n = w->n_jobs + (size_t)(w->s->object ? w->s->spec.max_replicas : w->s->replicas);
    for (size_t i = 0; i < w->s->n_events; i++)
        n += w->s->events[i].scale > 0 ? (size_t)w->s->events[i].scale : 0;
    return n + (a->every_ms ? (size_t)(f->duration_ms / a->every_ms) : 0);
}

size_t replay_fleet_size(const struct replay_fleet *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->pools.len; i++)
        n += f->pools.items[i].max;
    for (size_t i = 0; i < f->n_workloads; i++)
        n += size_of_workload(f, &f->workloads[i]);
    return n;
}
