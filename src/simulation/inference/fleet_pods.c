// SPDX-License-Identifier: Apache-2.0
// The life of a pod of a fleet: it waits for a GPU, starts, serves, drains and goes. What it does
// next is in a heap, so that a step costs the logarithm of the number of pods.
#include "inference/fleet_private.h"

#include "base/mem.h"
#include "base/random.h"
#include "inference/dialect.h"

#include <math.h>
#include <stdio.h>

// --- what happens next: a heap by time ---

static void heap_put(struct inference_fleet *f, size_t at, struct inference_fleet_pod *p)
{
    f->heap[at] = p;
    p->heap = at;
}

static bool heap_is_before(const struct inference_fleet_pod *a, const struct inference_fleet_pod *b)
{
    return a->next_ns != b->next_ns ? a->next_ns < b->next_ns : a->id < b->id;
}

static void heap_up(struct inference_fleet *f, struct inference_fleet_pod *p)
{
    size_t at = p->heap;
    while (at && heap_is_before(p, f->heap[(at - 1) / 2])) {
        heap_put(f, at, f->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(f, at, p);
}

static void heap_down(struct inference_fleet *f, struct inference_fleet_pod *p)
{
    size_t at = p->heap, child;
    while ((child = 2 * at + 1) < f->n_heap) {
        if (child + 1 < f->n_heap && heap_is_before(f->heap[child + 1], f->heap[child]))
            child++;
        if (!heap_is_before(f->heap[child], p))
            break;
        heap_put(f, at, f->heap[child]);
        at = child;
    }
    heap_put(f, at, p);
}

static void heap_remove(struct inference_fleet_pod *p)
{
    struct inference_fleet *f = p->fleet;
    struct inference_fleet_pod *last = f->heap[--f->n_heap];
    p->next_ns = INT64_MAX;
    if (last == p)
        return;
    heap_put(f, p->heap, last);
    heap_up(f, last);
    heap_down(f, last);
}

static void happens_at(struct inference_fleet_pod *p, int64_t at)
{
    struct inference_fleet *f = p->fleet;
    bool was = p->next_ns != INT64_MAX;
    if (at == INT64_MAX) {
        if (was)
            heap_remove(p);
        return;
    }
    p->next_ns = at;
    if (!was) {
        gs_grow(&f->heap, &f->cap_heap, f->n_heap, sizeof(struct inference_fleet_pod *));
        heap_put(f, f->n_heap++, p);
    }
    heap_up(f, p);
    heap_down(f, p);
}

// --- starts ---

static double start_seconds(struct inference_fleet *f)
{
    double spread = f->setup.start_spread;
    if (!(spread > 0))
        return f->setup.start_s;
    double a = ((double)(gs_seeded_next(&f->random) >> 11) + 1) / 9007199254740992.0;
    double b = ((double)(gs_seeded_next(&f->random) >> 11) + 1) / 9007199254740992.0;
    return f->setup.start_s * exp(spread * sqrt(-2 * log(a)) * cos(2 * M_PI * b));
}

static void set_phase(struct inference_fleet_pod *p, enum inference_pod_phase phase)
{
    p->phase = phase;
    p->since_ns = p->fleet->now;
}

void inference_fleet_pod_starts(struct inference_fleet_pod *p)
{
    if (p->phase != INFERENCE_POD_STARTING)
        set_phase(p, INFERENCE_POD_STARTING);
    p->starts++;
    double seconds = fmax(start_seconds(p->fleet) - p->saved_s, 1);
    happens_at(p, p->fleet->now + (int64_t)(seconds * 1e9));
}

// Returns since when it was set.
static int64_t end_placeholder(struct inference_fleet *f, size_t at)
{
    int64_t since = f->places[at];
    f->ended_hours += (double)(f->now - since) / 3600e9;
    for (f->n_places--; at < f->n_places; at++)
        f->places[at] = f->places[at + 1];
    return since;
}

void inference_fleet_hold(struct inference_fleet *f, uint32_t placeholders)
{
    while (f->n_places > placeholders)
        (void)end_placeholder(f, f->n_places - 1);
    while (f->n_places < placeholders) {
        gs_grow(&f->places, &f->cap_places, f->n_places, sizeof(*f->places));
        f->places[f->n_places++] = f->now;
    }
}

// Seconds that the pod does not wait for its node, because it takes the place of a placeholder.
static double saved_seconds(struct inference_fleet *f)
{
    if (!f->n_places)
        return 0;
    return fmin((double)(f->now - end_placeholder(f, 0)) / 1e9, f->setup.node_s);
}

static void place(struct inference_fleet_pod *p)
{
    p->placed_ns = p->fleet->now;
    p->saved_s = saved_seconds(p->fleet);
    inference_fleet_pod_starts(p);
}

static void on_token(void *arg, void *user, const struct inference_token *t)
{
    struct inference_fleet_pod *p = arg;
    struct inference_fleet_request *r = user;
    inference_stats_token(&p->stats, t);
    if (t->nth == 1)
        inference_fleet_figures_token(p, r, t->at);
}

static void on_finish(void *arg, void *user, const struct inference_finished *end)
{
    struct inference_fleet_pod *p = arg;
    struct inference_fleet_request *r = user;
    inference_stats_finished(&p->stats, end);
    inference_fleet_figures_finish(p, r, end);
    TAILQ_REMOVE(&p->requests, r, link);
    p->n_requests--;
    free(r);
}

static void on_step(void *arg, const struct inference_step *step)
{
    struct inference_fleet_pod *p = arg;
    inference_stats_step(&p->stats, step);
    p->last_step = *step;
}

void inference_fleet_pod_serves(struct inference_fleet_pod *p)
{
    const struct inference_dialect vllm = {.engine = INFERENCE_VLLM, .release = 33000};
    const struct inference_model_events events = {
        .token = on_token, .finish = on_finish, .step = on_step, .arg = p};
    p->model = inference_model_new(&p->fleet->setup.engine, &events);
    inference_dialect_init_stats(&vllm, p->fleet->setup.engine.max_model_len, &p->stats);
    p->begun_ns = p->fleet->now;
    p->saved_s = 0;
    p->slow = 1;
    p->last_step = (struct inference_step){0};
    set_phase(p, INFERENCE_POD_READY);
    happens_at(p, INT64_MAX);
}

// --- requests ---

void inference_fleet_pod_plans(struct inference_fleet_pod *p)
{
    const struct inference_step *step = inference_model_step(p->model);
    if (!step) {
        happens_at(p, INT64_MAX);
        return;
    }
    double age_h = (double)(step->start - p->begun_ns) / 3600e9;
    double factor = p->slow * (1 + p->fleet->setup.leak_per_hour * age_h);
    happens_at(p, step->start + (int64_t)((double)(step->end - step->start) * factor));
}

void inference_fleet_pod_add(struct inference_fleet_pod *p, struct inference_fleet_request *r)
{
    const struct inference_request request = {.prompt_tokens = r->arrival->prompt,
                                              .max_tokens = r->arrival->output,
                                              .ignore_eos = true,
                                              .user = r};
    struct inference_sequence *unused;
    bool idle = !inference_model_step(p->model);
    TAILQ_INSERT_TAIL(&p->requests, r, link);
    p->n_requests++;
    if (inference_model_add(p->model, p->fleet->now, &request, &unused) != INFERENCE_ADMITTED) {
        TAILQ_REMOVE(&p->requests, r, link);
        p->n_requests--;
        free(r);
        return;
    }
    if (idle)
        inference_fleet_pod_plans(p);
}

// --- the end ---

void inference_fleet_pod_stops(struct inference_fleet_pod *p, struct inference_fleet_requests *ret)
{
    TAILQ_CONCAT(ret, &p->requests, link);
    p->n_requests = 0;
    if (!p->model)
        return;
    inference_model_free(p->model);
    inference_stats_finish(&p->stats);
    p->model = NULL;
}

void inference_fleet_pod_free(struct inference_fleet_pod *p)
{
    struct inference_fleet_requests left = TAILQ_HEAD_INITIALIZER(left);
    struct inference_fleet_request *r;
    inference_fleet_pod_stops(p, &left);
    while ((r = TAILQ_FIRST(&left))) {
        TAILQ_REMOVE(&left, r, link);
        free(r);
    }
    free(p);
}

static void place_waiting(struct inference_fleet *f)
{
    for (size_t i = 0; i < f->n_pods; i++) {
        if (f->pods[i]->phase == INFERENCE_POD_UNSCHEDULABLE) {
            place(f->pods[i]);
            return;
        }
    }
}

void inference_fleet_pod_goes(struct inference_fleet_pod *p)
{
    struct inference_fleet *f = p->fleet;
    bool had_room = p->phase != INFERENCE_POD_UNSCHEDULABLE;
    size_t at = 0;
    happens_at(p, INT64_MAX);
    while (f->pods[at] != p)
        at++;
    for (f->n_pods--; at < f->n_pods; at++)
        f->pods[at] = f->pods[at + 1];
    if (had_room) {
        f->ended_hours += (double)(f->now - p->placed_ns) / 3600e9;
        place_waiting(f);
    }
    inference_fleet_pod_free(p);
}

// --- as many as are set ---

static uint32_t count(const struct inference_fleet *f,
                      bool (*is)(const struct inference_fleet_pod *p))
{
    uint32_t n = 0;
    for (size_t i = 0; i < f->n_pods; i++)
        n += is(f->pods[i]);
    return n;
}

static bool is_kept(const struct inference_fleet_pod *p)
{
    return p->phase != INFERENCE_POD_DRAINING;
}

static bool has_room(const struct inference_fleet_pod *p)
{
    return p->phase != INFERENCE_POD_UNSCHEDULABLE;
}

void inference_fleet_pods_grow(struct inference_fleet *f)
{
    for (uint32_t n = count(f, is_kept); n < f->replicas; n++) {
        bool room = !f->setup.gpus || count(f, has_room) < f->setup.gpus;
        struct inference_fleet_pod *p = gs_alloc(sizeof(*p));
        p->fleet = f;
        p->id = ++f->next_id;
        p->created_ns = f->now;
        p->next_ns = INT64_MAX;
        TAILQ_INIT(&p->requests);
        snprintf(p->name, sizeof(p->name), "llm-%u", p->id);
        set_phase(p, INFERENCE_POD_UNSCHEDULABLE);
        gs_grow(&f->pods, &f->cap_pods, f->n_pods, sizeof(struct inference_fleet_pod *));
        f->pods[f->n_pods++] = p;
        if (room)
            place(p);
    }
}

// As the ReplicaSet controller: those without a node, those that are not ready, those that became
// ready last.
static struct inference_fleet_pod *least_useful(const struct inference_fleet *f)
{
    struct inference_fleet_pod *found = NULL;
    for (size_t i = 0; i < f->n_pods; i++) {
        struct inference_fleet_pod *p = f->pods[i];
        if (!is_kept(p))
            continue;
        if (!found || p->phase < found->phase ||
            (p->phase == found->phase && p->since_ns >= found->since_ns))
            found = p;
    }
    return found;
}

void inference_fleet_pods_shrink(struct inference_fleet *f)
{
    for (uint32_t n = count(f, is_kept); n > f->replicas; n--) {
        struct inference_fleet_pod *p = least_useful(f);
        if (p->n_requests)
            set_phase(p, INFERENCE_POD_DRAINING);
        else
            inference_fleet_pod_goes(p);
    }
}
