// SPDX-License-Identifier: Apache-2.0
#include "replay/world.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>

#define NO_NODE SIZE_MAX
#define STEP_MS INT64_C(1000)

// --- nodes ---

static size_t nodes_there(const struct world *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_nodes; i++)
        n += !w->nodes[i].gone;
    return n;
}

static void add_node(struct world *w, int64_t ready_ms)
{
    gs_grow(&w->nodes, &w->nodes_cap, w->n_nodes, sizeof(*w->nodes));
    w->nodes[w->n_nodes++] = (struct world_node){.ready_ms = ready_ms, .idle_since_ms = ready_ms};
}

// GPUs of nodes that are ready (or on their way) and free.
static size_t free_gpus(const struct world *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_nodes; i++)
        if (!w->nodes[i].gone)
            n += w->s->gpus_per_node - w->nodes[i].used;
    return n;
}

// As a node autoscaler: as many nodes as the waiting pods need, up to the limit.
static void provision(struct world *w)
{
    size_t waiting = 0;
    for (size_t i = 0; i < w->n_pods; i++)
        waiting += w->pods[i].started_ms == INT64_MAX;
    size_t wanted = waiting * w->s->gpus_per_replica, have = free_gpus(w);
    while (have < wanted && nodes_there(w) < w->s->max_nodes) {
        add_node(w, w->t_ms + w->s->provision_ms);
        have += w->s->gpus_per_node;
    }
}

static void remove_idle_nodes(struct world *w)
{
    for (size_t i = 0; i < w->n_nodes && nodes_there(w) > w->s->min_nodes; i++) {
        struct world_node *n = &w->nodes[i];
        if (!n->gone && !n->used && n->ready_ms <= w->t_ms &&
            w->t_ms - n->idle_since_ms >= w->s->idle_ms)
            n->gone = true;
    }
}

// --- pods ---

static bool place(struct world *w, struct world_pod *p)
{
    size_t gpus = w->s->gpus_per_replica;
    if (!w->s->gpus_per_node)
        return true;
    for (size_t i = 0; i < w->n_nodes; i++) {
        struct world_node *n = &w->nodes[i];
        if (n->gone || n->ready_ms > w->t_ms || w->s->gpus_per_node - n->used < gpus)
            continue;
        n->used += gpus;
        n->idle_since_ms = INT64_MAX;
        p->node = i;
        return true;
    }
    return false;
}

static void start_pods(struct world *w)
{
    for (size_t i = 0; i < w->n_pods; i++) {
        struct world_pod *p = &w->pods[i];
        if (p->started_ms != INT64_MAX || !place(w, p))
            continue;
        p->started_ms = w->t_ms;
        p->ready_ms = w->t_ms + w->s->startup_ms;
    }
}

static void remove_pod(struct world *w, size_t i)
{
    if (w->pods[i].node != NO_NODE) {
        struct world_node *n = &w->nodes[w->pods[i].node];
        n->used -= w->s->gpus_per_replica;
        if (!n->used)
            n->idle_since_ms = w->t_ms;
    }
    memmove(&w->pods[i], &w->pods[i + 1], (w->n_pods - i - 1) * sizeof(*w->pods));
    w->n_pods--;
}

// As a ReplicaSet chooses: waiting before starting before ready, then the youngest.
static size_t victim(const struct world *w)
{
    size_t best = w->n_pods - 1;
    for (size_t i = w->n_pods; i-- > 0;) {
        const struct world_pod *p = &w->pods[i], *b = &w->pods[best];
        int rank = p->started_ms == INT64_MAX ? 0 : p->ready_ms > w->t_ms ? 1 : 2;
        int best_rank = b->started_ms == INT64_MAX ? 0 : b->ready_ms > w->t_ms ? 1 : 2;
        if (rank < best_rank)
            best = i;
    }
    return best;
}

void world_scale(struct world *w, int32_t replicas)
{
    while (w->n_pods > (size_t)replicas)
        remove_pod(w, victim(w));
    while (w->n_pods < (size_t)replicas) {
        gs_grow(&w->pods, &w->pods_cap, w->n_pods, sizeof(*w->pods));
        struct world_pod *p = &w->pods[w->n_pods++];
        *p = (struct world_pod){
            .created_ms = w->t_ms, .started_ms = INT64_MAX, .ready_ms = INT64_MAX, .node = NO_NODE};
        snprintf(p->name, sizeof(p->name), "pod-%u", (unsigned)w->next_name++);
    }
    start_pods(w);
    if (w->s->gpus_per_node)
        provision(w);
}

void world_lose(struct world *w, size_t n)
{
    int32_t replicas = (int32_t)w->n_pods;
    for (; n && w->n_pods; n--)
        remove_pod(w, 0);
    world_scale(w, replicas);
}

int32_t world_ready(const struct world *w)
{
    int32_t n = 0;
    for (size_t i = 0; i < w->n_pods; i++)
        n += w->pods[i].ready_ms <= w->t_ms;
    return n;
}

int32_t world_running(const struct world *w)
{
    int32_t n = 0;
    for (size_t i = 0; i < w->n_pods; i++)
        n += w->pods[i].started_ms != INT64_MAX;
    return n;
}

size_t world_nodes(const struct world *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_nodes; i++)
        n += !w->nodes[i].gone && w->nodes[i].ready_ms <= w->t_ms;
    return n;
}

// --- time ---

static struct world_past *past_at(const struct world *w, int64_t second)
{
    return &w->past[(size_t)second % w->n_past];
}

static void remember(struct world *w, struct world_past p)
{
    *past_at(w, w->t_ms / STEP_MS) = p;
}

const struct world_past *world_now(const struct world *w)
{
    return past_at(w, w->t_ms / STEP_MS);
}

const struct world_past *world_seen(const struct world *w)
{
    int64_t now = w->t_ms / STEP_MS, ago = w->s->delay_ms / STEP_MS;
    return past_at(w, now > ago ? now - ago : 0);
}

static double at_most(double v, double limit)
{
    return v < limit ? v : limit;
}

// One second of work: what comes and what waits is served as far as the ready replicas can.
static struct world_past serve(struct world *w)
{
    struct world_past p = {.load = curve_at(&w->s->load, w->t_ms), .ready = world_ready(w)};
    double can = p.ready * w->s->capacity, wanted = p.load + w->queue, done = at_most(wanted, can);
    w->queue = wanted - done;
    p.queue = w->queue;
    p.utilization = can > 0 ? 100 * done / can : wanted > 0 ? 100 : 0;
    w->sum.offered += p.load;
    w->sum.served += done;
    return p;
}

static void note_replicas(struct world *w)
{
    int32_t n = (int32_t)w->n_pods;
    if (n < w->sum.min_replicas)
        w->sum.min_replicas = n;
    if (n > w->sum.max_replicas)
        w->sum.max_replicas = n;
}

static void add_up(struct world *w, const struct world_past *p)
{
    struct replay_summary *s = &w->sum;
    size_t gpus = w->s->gpus_per_replica, pending = w->n_pods - (size_t)world_running(w);
    s->gpu_hours += world_running(w) * (double)gpus / 3600;
    size_t nodes = nodes_there(w);
    s->node_gpu_hours += (double)(nodes * w->s->gpus_per_node) / 3600;
    s->over_level_s += p->utilization > w->s->level || p->queue > 0;
    s->queue_max = fmax(s->queue_max, p->queue);
    s->pending_s += (double)pending;
    w->queue_seconds += p->queue;
    w->replica_seconds += (double)w->n_pods;
    note_replicas(w);
}

static void step(struct world *w)
{
    w->t_ms += STEP_MS;
    start_pods(w);
    if (w->s->gpus_per_node) {
        provision(w);
        remove_idle_nodes(w);
    }
    struct world_past p = serve(w);
    add_up(w, &p);
    remember(w, p);
}

// --- many seconds at once, where nothing happens in them ---

static bool nodes_rest(const struct world *w)
{
    if (!w->s->gpus_per_node)
        return true;
    bool can_go = nodes_there(w) > w->s->min_nodes;
    for (size_t i = 0; i < w->n_nodes; i++) {
        const struct world_node *n = &w->nodes[i];
        if (!n->gone && (n->ready_ms > w->t_ms || (can_go && !n->used)))
            return false;
    }
    return true;
}

// Seconds, at most up to `until`, in which no pod changes and everything is served at once along a
// straight line of the load, on one side of the level.
static int64_t quiet_seconds(const struct world *w, int64_t until_ms)
{
    int64_t end = curve_straight_until(&w->s->load, w->t_ms) - 1;
    if (w->queue > 0 || !nodes_rest(w))
        return 0;
    for (size_t i = 0; i < w->n_pods; i++) {
        const struct world_pod *p = &w->pods[i];
        if (p->started_ms == INT64_MAX)
            return 0;
        if (p->ready_ms > w->t_ms && p->ready_ms - 1 < end)
            end = p->ready_ms - 1;
    }
    int64_t n = ((end < until_ms ? end : until_ms) - w->t_ms) / STEP_MS;
    if (n < 2)
        return 0;
    double can = world_ready(w) * w->s->capacity, level = can * w->s->level / 100;
    double first = curve_at(&w->s->load, w->t_ms + STEP_MS);
    double last = curve_at(&w->s->load, w->t_ms + n * STEP_MS);
    bool served = first <= can && last <= can && can > 0;
    return served && (first > level) == (last > level) ? n : 0;
}

static void skip(struct world *w, int64_t n)
{
    double can = world_ready(w) * w->s->capacity, gpus = (double)w->s->gpus_per_replica;
    double first = curve_at(&w->s->load, w->t_ms + STEP_MS);
    int64_t from = n > (int64_t)w->n_past ? n - (int64_t)w->n_past : 0, start_ms = w->t_ms;
    struct world_past p = {.ready = world_ready(w)};
    for (int64_t i = from + 1; i <= n; i++) {
        w->t_ms = start_ms + i * STEP_MS;
        p.load = curve_at(&w->s->load, w->t_ms);
        p.utilization = 100 * p.load / can;
        remember(w, p);
    }
    double work = (first + p.load) / 2 * (double)n;
    struct replay_summary *s = &w->sum;
    s->offered += work;
    s->served += work;
    s->gpu_hours += world_running(w) * gpus * (double)n / 3600;
    s->node_gpu_hours += (double)(nodes_there(w) * w->s->gpus_per_node) * (double)n / 3600;
    s->over_level_s += p.utilization > w->s->level ? (double)n : 0;
    w->replica_seconds += (double)w->n_pods * (double)n;
    note_replicas(w);
}

void world_run(struct world *w, int64_t until_ms)
{
    while (w->t_ms < until_ms) {
        int64_t n = quiet_seconds(w, until_ms);
        if (n)
            skip(w, n);
        else
            step(w);
    }
}

void world_start(struct world *w, const struct replay_scenario *s)
{
    *w = (struct world){.s = s, .n_past = (size_t)(s->delay_ms / STEP_MS) + 1};
    w->past = gs_alloc_array(w->n_past, sizeof(*w->past));
    w->sum.min_replicas = INT32_MAX;
    for (size_t i = 0; s->gpus_per_node && i < s->min_nodes; i++)
        add_node(w, 0);
    // Those of the start are there and ready, with the nodes that they need.
    while (s->gpus_per_node && w->n_nodes < s->max_nodes &&
           free_gpus(w) < (size_t)s->replicas * s->gpus_per_replica)
        add_node(w, 0);
    world_scale(w, s->replicas);
    for (size_t i = 0; i < w->n_pods; i++)
        if (w->pods[i].started_ms != INT64_MAX)
            w->pods[i].ready_ms = 0;
    remember(w, serve(w));
    w->sum.offered = w->sum.served = 0;
    w->queue = 0;
}

void world_finish(struct world *w)
{
    free(w->pods);
    free(w->nodes);
    free(w->past);
}
