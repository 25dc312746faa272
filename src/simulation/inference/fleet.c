// SPDX-License-Identifier: Apache-2.0
// The time of a fleet: requests arrive and go to engines, and what is to happen next happens.
// fleet_pods.c has the life of a pod, fleet_figures.c what is counted.
#include "inference/fleet_private.h"

#include "base/mem.h"
#include "base/random.h"

// --- the router ---

static struct inference_fleet_pod *random_pod(struct inference_fleet *f)
{
    uint32_t ready = 0, nth;
    for (size_t i = 0; i < f->n_pods; i++)
        ready += f->pods[i]->phase == INFERENCE_POD_READY;
    if (!ready)
        return NULL;
    nth = (uint32_t)(gs_seeded_next(&f->random) % ready);
    for (size_t i = 0;; i++) {
        if (f->pods[i]->phase == INFERENCE_POD_READY && nth-- == 0)
            return f->pods[i];
    }
}

// Of equal ones, they take turns.
static struct inference_fleet_pod *least_requests(struct inference_fleet *f)
{
    struct inference_fleet_pod *best = NULL;
    f->turn++;
    for (size_t k = 0; k < f->n_pods; k++) {
        struct inference_fleet_pod *p = f->pods[(f->turn + k) % f->n_pods];
        if (p->phase == INFERENCE_POD_READY && (!best || p->n_requests < best->n_requests))
            best = p;
    }
    return best;
}

void inference_fleet_route(struct inference_fleet *f, struct inference_fleet_request *r)
{
    struct inference_fleet_pod *p =
        f->setup.router == INFERENCE_RANDOM ? random_pod(f) : least_requests(f);
    if (p) {
        inference_fleet_pod_add(p, r);
        return;
    }
    TAILQ_INSERT_TAIL(&f->held, r, link);
    f->n_held++;
}

void inference_fleet_route_held(struct inference_fleet *f)
{
    struct inference_fleet_requests held = TAILQ_HEAD_INITIALIZER(held);
    struct inference_fleet_request *r;
    TAILQ_CONCAT(&held, &f->held, link);
    f->n_held = 0;
    while ((r = TAILQ_FIRST(&held))) {
        TAILQ_REMOVE(&held, r, link);
        inference_fleet_route(f, r);
    }
}

// --- time ---

static void arrive(struct inference_fleet *f)
{
    struct inference_fleet_request *r = gs_alloc(sizeof(*r));
    r->arrival = &f->arrivals[f->next_arrival++];
    f->now = r->arrival->at_ns > f->now ? r->arrival->at_ns : f->now;
    f->figures.arrived++;
    inference_fleet_route(f, r);
}

static bool start_fails(struct inference_fleet *f)
{
    if (!(f->setup.failed_starts > 0))
        return false;
    return (double)(gs_seeded_next(&f->random) >> 11) / 9007199254740992.0 < f->setup.failed_starts;
}

static void happen(struct inference_fleet *f, struct inference_fleet_pod *p)
{
    f->now = p->next_ns > f->now ? p->next_ns : f->now;
    if (p->phase != INFERENCE_POD_STARTING) {
        inference_model_end_step(p->model, f->now);
        if (p->phase == INFERENCE_POD_DRAINING && !p->n_requests)
            inference_fleet_pod_goes(p);
        else
            inference_fleet_pod_plans(p);
        return;
    }
    if (start_fails(f)) {
        inference_fleet_pod_starts(p);
        return;
    }
    inference_fleet_pod_serves(p);
    inference_fleet_route_held(f);
}

void inference_fleet_advance(struct inference_fleet *f, int64_t until_ns)
{
    for (;;) {
        int64_t event = f->n_heap ? f->heap[0]->next_ns : INT64_MAX;
        int64_t arrival =
            f->next_arrival < f->n_arrivals ? f->arrivals[f->next_arrival].at_ns : INT64_MAX;
        if ((event < arrival ? event : arrival) > until_ns)
            break;
        if (event <= arrival)
            happen(f, f->heap[0]);
        else
            arrive(f);
    }
    f->now = until_ns > f->now ? until_ns : f->now;
}

int64_t inference_fleet_now(const struct inference_fleet *f)
{
    return f->now;
}

// --- replicas and faults ---

void inference_fleet_scale(struct inference_fleet *f, uint32_t replicas)
{
    inference_fleet_figures_scale(f, replicas);
    f->replicas = replicas;
    inference_fleet_pods_grow(f);
    inference_fleet_pods_shrink(f);
}

uint32_t inference_fleet_replicas(const struct inference_fleet *f)
{
    return f->replicas;
}

static struct inference_fleet_pod *nth_ready(const struct inference_fleet *f, uint32_t nth)
{
    for (size_t i = 0; i < f->n_pods; i++) {
        if (f->pods[i]->phase == INFERENCE_POD_READY && nth-- == 0)
            return f->pods[i];
    }
    return NULL;
}

void inference_fleet_crash(struct inference_fleet *f, uint32_t nth)
{
    struct inference_fleet_pod *p = nth_ready(f, nth);
    struct inference_fleet_requests lost = TAILQ_HEAD_INITIALIZER(lost);
    struct inference_fleet_request *r;
    if (!p)
        return;
    inference_fleet_pod_stops(p, &lost);
    inference_fleet_pod_starts(p);
    while ((r = TAILQ_FIRST(&lost))) {
        TAILQ_REMOVE(&lost, r, link);
        r->broken = r->broken || r->first_ns;
        f->figures.retried++;
        inference_fleet_route(f, r);
    }
}

void inference_fleet_slow(struct inference_fleet *f, uint32_t nth, double factor)
{
    struct inference_fleet_pod *p = nth_ready(f, nth);
    if (p)
        p->slow = factor;
}

// --- beginning and end ---

struct inference_fleet *inference_fleet_new(const struct inference_fleet_setup *s,
                                            const struct inference_arrival *arrivals, size_t n)
{
    struct inference_fleet *f = gs_alloc(sizeof(*f));
    f->setup = *s;
    f->setup.engine.output_mean = f->setup.engine.failure_ratio = 0;
    f->arrivals = arrivals;
    f->n_arrivals = n;
    f->random = s->seed;
    TAILQ_INIT(&f->held);
    f->figures.peak = f->replicas = s->replicas;
    inference_fleet_pods_grow(f);
    for (size_t i = 0; i < f->n_pods; i++) {
        if (f->pods[i]->phase == INFERENCE_POD_STARTING)
            inference_fleet_pod_serves(f->pods[i]);
    }
    return f;
}

void inference_fleet_free(struct inference_fleet *f)
{
    struct inference_fleet_request *r;
    if (!f)
        return;
    for (size_t i = 0; i < f->n_pods; i++)
        inference_fleet_pod_free(f->pods[i]);
    while ((r = TAILQ_FIRST(&f->held))) {
        TAILQ_REMOVE(&f->held, r, link);
        free(r);
    }
    free(f->pods);
    free(f->heap);
    free(f->places);
    free(f->ttfts);
    free(f);
}
