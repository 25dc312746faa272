// SPDX-License-Identifier: Apache-2.0
// What a fleet gave: requests within the target, GPU hours, changes of the replicas, and moments of
// a run for pictures.
#include "inference/fleet_private.h"

#include "base/mem.h"
#include "base/num.h"

#include <math.h>

enum { MAX_TTFTS = 100000 }; // of a moment

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

void inference_fleet_figures_token(struct inference_fleet_pod *p, struct inference_fleet_request *r,
                                   int64_t at_ns)
{
    struct inference_fleet *f = p->fleet;
    if (!r->first_ns)
        r->first_ns = at_ns;
    if (f->n_ttfts >= MAX_TTFTS)
        return;
    gs_grow(&f->ttfts, &f->cap_ttfts, f->n_ttfts, sizeof(*f->ttfts));
    f->ttfts[f->n_ttfts++] = seconds(at_ns - r->arrival->at_ns);
}

void inference_fleet_figures_finish(struct inference_fleet_pod *p,
                                    const struct inference_fleet_request *r,
                                    const struct inference_finished *end)
{
    struct inference_fleet *f = p->fleet;
    const struct inference_fleet_setup *s = &f->setup;
    double ttft = seconds(r->first_ns - r->arrival->at_ns);
    double tpot = end->output_tokens > 1
                      ? seconds(end->ended - end->first_token) / (end->output_tokens - 1)
                      : 0;
    f->figures.finished++;
    f->figures.within +=
        !r->broken && !(s->ttft_s > 0 && ttft > s->ttft_s) && !(s->tpot_s > 0 && tpot > s->tpot_s);
}

void inference_fleet_figures_scale(struct inference_fleet *f, uint32_t replicas)
{
    int direction = (replicas > f->replicas) - (replicas < f->replicas);
    if (!direction)
        return;
    f->figures.ups += direction > 0;
    f->figures.downs += direction < 0;
    f->figures.reversals += f->direction && direction != f->direction;
    f->direction = direction;
    if (replicas > f->figures.peak)
        f->figures.peak = replicas;
}

struct inference_fleet_figures inference_fleet_figures(const struct inference_fleet *f)
{
    struct inference_fleet_figures r = f->figures;
    r.pod_hours = f->ended_hours;
    for (size_t i = 0; i < f->n_pods; i++) {
        if (f->pods[i]->phase != INFERENCE_POD_UNSCHEDULABLE)
            r.pod_hours += seconds(f->now - f->pods[i]->placed_ns) / 3600;
    }
    for (size_t i = 0; i < f->n_places; i++)
        r.pod_hours += seconds(f->now - f->places[i]) / 3600;
    return r;
}

// The last ones that came wait; those that were preempted are few.
static uint64_t queued_tokens(const struct inference_fleet_pod *p, uint32_t waiting)
{
    uint64_t sum = 0;
    uint32_t before = p->n_requests - waiting;
    const struct inference_fleet_request *r;
    TAILQ_FOREACH (r, &p->requests, link) {
        if (before)
            before--;
        else
            sum += r->arrival->prompt;
    }
    return sum;
}

size_t inference_fleet_pods(const struct inference_fleet *f, struct inference_pod *ret, size_t max)
{
    size_t n = f->n_pods < max ? f->n_pods : max;
    for (size_t i = 0; i < n; i++) {
        const struct inference_fleet_pod *p = f->pods[i];
        ret[i] = (struct inference_pod){.id = p->id,
                                        .name = p->name,
                                        .phase = p->phase,
                                        .created_ns = p->created_ns,
                                        .since_ns = p->since_ns,
                                        .starts = p->starts,
                                        .stats = p->model ? &p->stats : NULL};
        if (!p->model)
            continue;
        ret[i].state = inference_model_state(p->model);
        ret[i].last_step = p->last_step;
        ret[i].queued_tokens = queued_tokens(p, ret[i].state.waiting);
    }
    return n;
}

// --- moments ---

static double quantile(const struct inference_fleet *f, double q)
{
    return f->n_ttfts ? f->ttfts[(size_t)(q * (double)(f->n_ttfts - 1))] : NAN;
}

static void count_pod(const struct inference_fleet_pod *p, struct inference_fleet_moment *ret)
{
    uint32_t *const phases[] = {&ret->unschedulable, &ret->starting, &ret->ready, &ret->draining};
    (*phases[p->phase])++;
    if (!p->model)
        return;
    struct inference_state state = inference_model_state(p->model);
    ret->waiting += state.waiting;
    ret->running += state.running;
}

void inference_fleet_take_moment(struct inference_fleet *f, struct inference_fleet_moment *ret)
{
    *ret = (struct inference_fleet_moment){
        .replicas = f->replicas,
        .waiting = f->n_held,
        .arrived = f->figures.arrived - f->before.arrived,
        .finished = f->figures.finished - f->before.finished,
        .within = f->figures.within - f->before.within,
    };
    for (size_t i = 0; i < f->n_pods; i++)
        count_pod(f->pods[i], ret);
    if (f->n_ttfts)
        qsort(f->ttfts, f->n_ttfts, sizeof(*f->ttfts), gs_compare_doubles);
    ret->ttft_p50_s = quantile(f, 0.5);
    ret->ttft_p90_s = quantile(f, 0.9);
    ret->ttft_p99_s = quantile(f, 0.99);
    f->before = f->figures;
    f->n_ttfts = 0;
}
