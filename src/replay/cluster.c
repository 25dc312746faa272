// SPDX-License-Identifier: Apache-2.0
#include "replay/replay_private.h"

#include "base/assert.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>

#define NO_NODE SIZE_MAX
#define STEP_MS INT64_C(1000)

// --- nodes ---

static size_t count_live_nodes(const struct replay_cluster *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_nodes; i++)
        n += !w->nodes[i].gone;
    return n;
}

static void add_node(struct replay_cluster *w, int64_t ready_ms)
{
    gs_grow(&w->nodes, &w->nodes_cap, w->n_nodes, sizeof(*w->nodes));
    w->nodes[w->n_nodes++] = (struct replay_node){.ready_ms = ready_ms, .idle_since_ms = ready_ms};
    w->counts.stale = true;
}

// GPUs of nodes that are ready (or on their way) and free.
static size_t free_gpus(const struct replay_cluster *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_nodes; i++)
        if (!w->nodes[i].gone)
            n += w->s->gpus_per_node - w->nodes[i].used;
    return n;
}

// Like a node autoscaler: as many nodes as the waiting pods need, up to the maximum.
static void provision(struct replay_cluster *w)
{
    size_t waiting = 0;
    for (size_t i = 0; i < w->n_pods; i++)
        waiting += w->pods[i].started_ms == INT64_MAX;
    size_t wanted = waiting * w->s->gpus_per_replica, have = free_gpus(w);
    while (have < wanted && count_live_nodes(w) < w->s->max_nodes) {
        add_node(w, w->t_ms + w->s->provision_ms);
        w->sum.nodes_added++;
        have += w->s->gpus_per_node;
    }
}

static void remove_idle_nodes(struct replay_cluster *w)
{
    for (size_t i = 0; i < w->n_nodes && count_live_nodes(w) > w->s->min_nodes; i++) {
        struct replay_node *n = &w->nodes[i];
        if (!n->gone && !n->used && n->ready_ms <= w->t_ms &&
            w->t_ms - n->idle_since_ms >= w->s->idle_ms) {
            n->gone = w->counts.stale = true;
            w->sum.nodes_removed++;
        }
    }
}

// --- pods ---

static bool place_pod(struct replay_cluster *w, struct replay_pod *p)
{
    size_t gpus = w->s->gpus_per_replica;
    if (!w->s->gpus_per_node)
        return true;
    for (size_t i = 0; i < w->n_nodes; i++) {
        struct replay_node *n = &w->nodes[i];
        if (n->gone || n->ready_ms > w->t_ms || w->s->gpus_per_node - n->used < gpus)
            continue;
        n->used += gpus;
        n->idle_since_ms = INT64_MAX;
        p->node = i;
        return true;
    }
    return false;
}

static void start_pods(struct replay_cluster *w)
{
    for (size_t i = 0; i < w->n_pods; i++) {
        struct replay_pod *p = &w->pods[i];
        if (p->started_ms != INT64_MAX || !place_pod(w, p))
            continue;
        w->counts.stale = true;
        p->started_ms = w->t_ms;
        p->ready_ms = w->t_ms + w->s->startup_ms;
    }
}

static void free_gpus_of(struct replay_cluster *w, size_t node)
{
    if (node == NO_NODE)
        return;
    struct replay_node *n = &w->nodes[node];
    gs_assert(node < w->n_nodes && n->used >= w->s->gpus_per_replica);
    n->used -= w->s->gpus_per_replica;
    if (!n->used)
        n->idle_since_ms = w->t_ms;
}

static void end_drains(struct replay_cluster *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->n_drains; i++) {
        if (w->drains[i].until_ms <= w->t_ms)
            free_gpus_of(w, w->drains[i].node);
        else
            w->drains[kept++] = w->drains[i];
    }
    w->n_drains = kept;
}

// The pod serves no more. With a drain time it keeps its GPUs until its work is done.
static void remove_pod(struct replay_cluster *w, size_t i)
{
    const struct replay_pod *p = &w->pods[i];
    w->counts.stale = true;
    if (p->started_ms != INT64_MAX && w->s->drain_ms > 0) {
        gs_grow(&w->drains, &w->drains_cap, w->n_drains, sizeof(*w->drains));
        w->drains[w->n_drains++] = (struct replay_drain){w->t_ms + w->s->drain_ms, p->node};
    } else {
        free_gpus_of(w, p->node);
    }
    memmove(&w->pods[i], &w->pods[i + 1], (w->n_pods - i - 1) * sizeof(*w->pods));
    w->n_pods--;
}

// Like a ReplicaSet: waiting before starting before ready pods, then the youngest.
static size_t choose_pod_to_remove(const struct replay_cluster *w)
{
    size_t best = w->n_pods - 1;
    for (size_t i = w->n_pods; i-- > 0;) {
        const struct replay_pod *p = &w->pods[i], *b = &w->pods[best];
        int rank = p->started_ms == INT64_MAX ? 0 : p->ready_ms > w->t_ms ? 1 : 2;
        int best_rank = b->started_ms == INT64_MAX ? 0 : b->ready_ms > w->t_ms ? 1 : 2;
        if (rank < best_rank)
            best = i;
    }
    return best;
}

void replay_cluster_scale(struct replay_cluster *w, int32_t replicas)
{
    while (w->n_pods > (size_t)replicas)
        remove_pod(w, choose_pod_to_remove(w));
    while (w->n_pods < (size_t)replicas) {
        gs_grow(&w->pods, &w->pods_cap, w->n_pods, sizeof(*w->pods));
        struct replay_pod *p = &w->pods[w->n_pods++];
        w->counts.stale = true;
        *p = (struct replay_pod){
            .created_ms = w->t_ms, .started_ms = INT64_MAX, .ready_ms = INT64_MAX, .node = NO_NODE};
        snprintf(p->name, sizeof(p->name), "pod-%u", (unsigned)w->next_name++);
    }
    start_pods(w);
    if (w->s->gpus_per_node)
        provision(w);
}

void replay_cluster_lose(struct replay_cluster *w, size_t n)
{
    int32_t replicas = (int32_t)w->n_pods;
    for (; n && w->n_pods; n--)
        remove_pod(w, 0);
    replay_cluster_scale(w, replicas);
}

// --- counts ---

static void set_earlier(int64_t *t_ms, int64_t other_ms)
{
    if (other_ms < *t_ms)
        *t_ms = other_ms;
}

static void count_pods(const struct replay_cluster *w, struct replay_counts *c)
{
    for (size_t i = 0; i < w->n_pods; i++) {
        const struct replay_pod *p = &w->pods[i];
        c->running += p->started_ms != INT64_MAX;
        if (p->started_ms == INT64_MAX)
            c->rest = false;
        else if (p->ready_ms <= w->t_ms)
            c->ready++;
        else
            set_earlier(&c->until_ms, p->ready_ms);
    }
}

static void count_nodes(const struct replay_cluster *w, struct replay_counts *c)
{
    bool can_go = (c->nodes = count_live_nodes(w)) > w->s->min_nodes;
    for (size_t i = 0; i < w->n_nodes; i++) {
        const struct replay_node *n = &w->nodes[i];
        bool ready = n->ready_ms <= w->t_ms;
        if (n->gone)
            continue;
        c->nodes_ready += ready;
        if (!ready)
            set_earlier(&c->until_ms, n->ready_ms);
        if (!ready || (can_go && !n->used))
            c->rest = false;
    }
}

const struct replay_counts *replay_cluster_count(struct replay_cluster *w)
{
    struct replay_counts *c = &w->counts;
    if (!c->stale && w->t_ms < c->until_ms)
        return c;
    *c = (struct replay_counts){.until_ms = INT64_MAX, .rest = true};
    count_pods(w, c);
    c->draining = (int32_t)w->n_drains;
    for (size_t i = 0; i < w->n_drains; i++)
        set_earlier(&c->until_ms, w->drains[i].until_ms);
    if (w->s->gpus_per_node)
        count_nodes(w, c);
    if (c->nodes > w->sum.max_nodes)
        w->sum.max_nodes = c->nodes;
    w->version++;
    return c;
}

// --- time ---

static struct replay_moment *past_at(const struct replay_cluster *w, int64_t second)
{
    return &w->past[(size_t)second & (w->n_past - 1)];
}

static struct replay_moment in_calm(struct replay_cluster *w, int64_t second,
                                    struct replay_curve_piece *at)
{
    struct replay_moment p = {.ready = w->calm.ready};
    p.load = replay_curve_at(&w->s->load, second * STEP_MS, at);
    p.utilization = 100 * p.load / (p.ready * w->s->capacity);
    return p;
}

// Before seconds of another kind: stores as many of the calm ones as can be read.
static void end_calm(struct replay_cluster *w)
{
    struct replay_calm *c = &w->calm;
    int64_t from = c->last - (int64_t)w->looked_back + 1;
    for (int64_t s = from > c->first ? from : c->first; s <= c->last; s++)
        *past_at(w, s) = in_calm(w, s, &w->load_before);
    *c = (struct replay_calm){.last = -1};
}

static void store_moment(struct replay_cluster *w, struct replay_moment p)
{
    end_calm(w);
    *past_at(w, w->t_ms / STEP_MS) = p;
}

static struct replay_moment load_moment(struct replay_cluster *w, int64_t second,
                                        struct replay_curve_piece *at)
{
    bool calm = second >= w->calm.first && second <= w->calm.last;
    return calm ? in_calm(w, second, at) : *past_at(w, second);
}

const struct replay_moment *replay_cluster_now(struct replay_cluster *w)
{
    w->now = load_moment(w, w->t_ms / STEP_MS, &w->load);
    return &w->now;
}

const struct replay_moment *replay_cluster_observed(struct replay_cluster *w)
{
    int64_t now = w->t_ms / STEP_MS, ago = w->s->delay_ms / STEP_MS;
    w->seen = load_moment(w, now > ago ? now - ago : 0, &w->load_before);
    return &w->seen;
}

static double at_most(double v, double limit)
{
    return v < limit ? v : limit;
}

// One second of work: what comes and what waits is served as far as the ready replicas can.
static struct replay_moment serve_load(struct replay_cluster *w)
{
    struct replay_moment p = {.load = replay_curve_at(&w->s->load, w->t_ms, &w->load),
                              .ready = replay_cluster_count(w)->ready};
    double can = p.ready * w->s->capacity, wanted = p.load + w->queue, done = at_most(wanted, can);
    int64_t now_s = w->t_ms / STEP_MS;
    if (w->queue > 0 || done < wanted) {
        replay_waits_add(&w->waits, now_s, p.load);
        replay_waits_serve(&w->waits, now_s, done);
    } else {
        replay_waits_serve_at_once(&w->waits, done);
    }
    w->queue = wanted - done;
    p.queue = w->queue;
    p.utilization = can > 0 ? 100 * done / can : wanted > 0 ? 100 : 0;
    w->sum.offered += p.load;
    w->sum.served += done;
    return p;
}

static void count_replicas(struct replay_cluster *w)
{
    int32_t n = (int32_t)w->n_pods;
    if (n < w->sum.min_replicas)
        w->sum.min_replicas = n;
    if (n > w->sum.max_replicas)
        w->sum.max_replicas = n;
}

static void add_to_summary(struct replay_cluster *w, const struct replay_moment *p)
{
    struct replay_summary *s = &w->sum;
    const struct replay_counts *c = replay_cluster_count(w);
    size_t gpus = w->s->gpus_per_replica, pending = w->n_pods - (size_t)c->running;
    s->gpu_hours += (c->running + c->draining) * (double)gpus / 3600;
    s->drain_gpu_hours += c->draining * (double)gpus / 3600;
    s->node_hours += (double)c->nodes / 3600;
    s->node_gpu_hours += (double)(c->nodes * w->s->gpus_per_node) / 3600;
    s->over_level_s += p->utilization > w->s->level || p->queue > 0;
    s->queue_max = fmax(s->queue_max, p->queue);
    s->pending_s += (double)pending;
    w->queue_seconds += p->queue;
    w->replica_seconds += (double)w->n_pods;
    count_replicas(w);
}

// The GPUs in use are those of the pods and of the terminating pods, and no node has too many.
static bool gpus_are_consistent(const struct replay_cluster *w)
{
    size_t used = 0, held = 0;
    for (size_t i = 0; i < w->n_nodes; i++) {
        used += w->nodes[i].used;
        if (w->nodes[i].used > w->s->gpus_per_node)
            return false;
    }
    for (size_t i = 0; i < w->n_pods; i++)
        held += w->pods[i].node != NO_NODE ? w->s->gpus_per_replica : 0;
    for (size_t i = 0; i < w->n_drains; i++)
        held += w->drains[i].node != NO_NODE ? w->s->gpus_per_replica : 0;
    return used == held;
}

static void run_second(struct replay_cluster *w)
{
    bool rest = replay_cluster_count(w)->rest;
    w->t_ms += STEP_MS;
    if (!rest || w->n_drains) {
        end_drains(w);
        start_pods(w);
        if (w->s->gpus_per_node) {
            provision(w);
            remove_idle_nodes(w);
        }
        gs_assert_debug(gpus_are_consistent(w));
        w->counts.stale = true;
    }
    struct replay_moment p = serve_load(w);
    add_to_summary(w, &p);
    store_moment(w, p);
}

// --- many seconds at once, where nothing happens in them ---

struct stretch {
    int64_t n; // seconds
    double first, last, can;
};

// Seconds, at most up to `until`, in which no pod changes and everything is served at once along a
// straight line of the load, on one side of the level.
static bool find_stretch(struct replay_cluster *w, int64_t until_ms, struct stretch *ret)
{
    const struct replay_counts *c = replay_cluster_count(w);
    if (w->queue > 0 || !c->rest || until_ms - w->t_ms < 2 * STEP_MS)
        return false;
    replay_curve_at(&w->s->load, w->t_ms, &w->load);
    int64_t end_ms = until_ms;
    set_earlier(&end_ms, w->load.until_ms - 1);
    set_earlier(&end_ms, c->until_ms - 1);
    int64_t n = (end_ms - w->t_ms) / STEP_MS;
    if (n < 2)
        return false;
    double can = c->ready * w->s->capacity, level = can * w->s->level / 100;
    double first = replay_curve_at(&w->s->load, w->t_ms + STEP_MS, &w->load);
    double last = replay_curve_at(&w->s->load, w->t_ms + n * STEP_MS, &w->load);
    *ret = (struct stretch){n, first, last, can};
    return first <= can && last <= can && can > 0 && (first > level) == (last > level);
}

static void skip_stretch(struct replay_cluster *w, const struct stretch *to)
{
    const struct replay_counts *c = replay_cluster_count(w);
    double n = (double)to->n, gpus = (double)w->s->gpus_per_replica;
    int64_t second = w->t_ms / STEP_MS;
    if (to->n < (int64_t)w->looked_back)
        end_calm(w);
    w->calm = (struct replay_calm){second + 1, second + to->n, c->ready};
    w->t_ms += to->n * STEP_MS;
    double work = (to->first + to->last) / 2 * n;
    struct replay_summary *s = &w->sum;
    s->offered += work;
    s->served += work;
    replay_waits_serve_at_once(&w->waits, work);
    s->gpu_hours += (c->running + c->draining) * gpus * n / 3600;
    if (c->draining)
        s->drain_gpu_hours += c->draining * gpus * n / 3600;
    if (c->nodes)
        s->node_hours += (double)c->nodes * n / 3600;
    if (c->nodes)
        s->node_gpu_hours += (double)(c->nodes * w->s->gpus_per_node) * n / 3600;
    s->over_level_s += 100 * to->last / to->can > w->s->level ? n : 0;
    w->replica_seconds += (double)w->n_pods * n;
    count_replicas(w);
}

void replay_cluster_run(struct replay_cluster *w, int64_t until_ms)
{
    while (w->t_ms < until_ms) {
        struct stretch to;
        if (find_stretch(w, until_ms, &to))
            skip_stretch(w, &to);
        else
            run_second(w);
    }
}

void replay_cluster_start(struct replay_cluster *w, const struct replay_scenario *s)
{
    *w = (struct replay_cluster){
        .s = s, .looked_back = (size_t)(s->delay_ms / STEP_MS) + 1, .n_past = 1};
    while (w->n_past < w->looked_back)
        w->n_past *= 2;
    w->counts.stale = true;
    w->calm.last = -1;
    w->past = gs_alloc_array(w->n_past, sizeof(*w->past));
    w->sum.min_replicas = INT32_MAX;
    for (size_t i = 0; s->gpus_per_node && i < s->min_nodes; i++)
        add_node(w, 0);
    // The initial pods are ready, and have the nodes that they need.
    while (s->gpus_per_node && w->n_nodes < s->max_nodes &&
           free_gpus(w) < (size_t)s->replicas * s->gpus_per_replica)
        add_node(w, 0);
    replay_cluster_scale(w, s->replicas);
    for (size_t i = 0; i < w->n_pods; i++)
        if (w->pods[i].started_ms != INT64_MAX)
            w->pods[i].ready_ms = 0;
    w->counts.stale = true;
    store_moment(w, serve_load(w));
    w->sum.offered = w->sum.served = 0;
    w->queue = 0;
    replay_waits_finish(&w->waits);
}

void replay_cluster_finish(struct replay_cluster *w)
{
    free(w->pods);
    free(w->drains);
    replay_waits_finish(&w->waits);
    free(w->nodes);
    free(w->past);
}
