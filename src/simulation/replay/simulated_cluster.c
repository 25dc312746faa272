// SPDX-License-Identifier: Apache-2.0
// One workload in a simulated cluster: pods, nodes, load and queue, second by second. Seconds in
// which nothing but the load changes are calculated at once, with the same results. Times are
// simulated milliseconds from 0.
#include "replay/simulated_cluster.h"

#include "base/assert.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>

#define NO_NODE SIZE_MAX
#define STEP_MS INT64_C(1000)

// --- nodes ---

static size_t count_live_nodes(const struct replay_cluster *cluster)
{
    size_t n = 0;
    for (size_t i = 0; i < cluster->n_nodes; i++)
        n += !cluster->nodes[i].removed;
    return n;
}

static void add_simulated_node(struct replay_cluster *cluster, int64_t ready_ms)
{
    gs_grow(&cluster->nodes, &cluster->nodes_cap, cluster->n_nodes, sizeof(*cluster->nodes));
    cluster->nodes[cluster->n_nodes++] =
        (struct replay_node){.ready_ms = ready_ms, .idle_since_ms = ready_ms};
    cluster->counts.stale = true;
}

// Free GPUs of nodes that are ready or being provisioned.
static size_t free_gpus(const struct replay_cluster *cluster)
{
    size_t n = 0;
    for (size_t i = 0; i < cluster->n_nodes; i++)
        if (!cluster->nodes[i].removed)
            n += cluster->s->gpus_per_node - cluster->nodes[i].used;
    return n;
}

// Like a node autoscaler: as many nodes as the waiting pods need, up to the maximum.
static void provision(struct replay_cluster *cluster)
{
    size_t waiting = 0;
    for (size_t i = 0; i < cluster->n_pods; i++)
        waiting += cluster->pods[i].started_ms == INT64_MAX;
    size_t wanted = waiting * cluster->s->gpus_per_replica, have = free_gpus(cluster);
    while (have < wanted && count_live_nodes(cluster) < cluster->s->max_nodes) {
        add_simulated_node(cluster, cluster->t_ms + cluster->s->provision_ms);
        cluster->sum.nodes_added++;
        have += cluster->s->gpus_per_node;
    }
}

static void remove_idle_nodes(struct replay_cluster *cluster)
{
    for (size_t i = 0; i < cluster->n_nodes && count_live_nodes(cluster) > cluster->s->min_nodes;
         i++) {
        struct replay_node *n = &cluster->nodes[i];
        if (!n->removed && !n->used && n->ready_ms <= cluster->t_ms &&
            cluster->t_ms - n->idle_since_ms >= cluster->s->idle_ms) {
            n->removed = cluster->counts.stale = true;
            cluster->sum.nodes_removed++;
        }
    }
}

// --- pods ---

static bool place_pod(struct replay_cluster *cluster, struct replay_pod *p)
{
    size_t gpus = cluster->s->gpus_per_replica;
    if (!cluster->s->gpus_per_node)
        return true;
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        struct replay_node *n = &cluster->nodes[i];
        if (n->removed || n->ready_ms > cluster->t_ms || cluster->s->gpus_per_node - n->used < gpus)
            continue;
        n->used += gpus;
        n->idle_since_ms = INT64_MAX;
        p->node = i;
        return true;
    }
    return false;
}

static void mark_started(struct replay_cluster *cluster, struct replay_pod *p)
{
    cluster->counts.stale = true;
    p->started_ms = cluster->t_ms;
    p->ready_ms = cluster->t_ms + cluster->s->startup_ms;
}

static void start_pods(struct replay_cluster *cluster)
{
    if (cluster->placer) {
        cluster->placer->schedule(cluster->placer->ctx);
        return;
    }
    for (size_t i = 0; i < cluster->n_pods; i++) {
        struct replay_pod *p = &cluster->pods[i];
        if (p->started_ms != INT64_MAX || !place_pod(cluster, p))
            continue;
        mark_started(cluster, p);
    }
}

static struct replay_pod *pod_of_ticket(struct replay_cluster *cluster, size_t ticket)
{
    for (size_t i = 0; i < cluster->n_pods; i++)
        if (cluster->pods[i].node == ticket)
            return &cluster->pods[i];
    return NULL;
}

void replay_cluster_placed(struct replay_cluster *cluster, size_t ticket)
{
    struct replay_pod *p = pod_of_ticket(cluster, ticket);
    gs_assert(cluster->placer && p && p->started_ms == INT64_MAX);
    mark_started(cluster, p);
}

static void free_gpus_of(struct replay_cluster *cluster, size_t node)
{
    if (cluster->placer) {
        cluster->placer->remove(cluster->placer->ctx, node);
        return;
    }
    if (node == NO_NODE)
        return;
    struct replay_node *n = &cluster->nodes[node];
    gs_assert(node < cluster->n_nodes && n->used >= cluster->s->gpus_per_replica);
    n->used -= cluster->s->gpus_per_replica;
    if (!n->used)
        n->idle_since_ms = cluster->t_ms;
}

static void end_drains(struct replay_cluster *cluster)
{
    size_t kept = 0;
    for (size_t i = 0; i < cluster->n_drains; i++) {
        if (cluster->drains[i].until_ms <= cluster->t_ms)
            free_gpus_of(cluster, cluster->drains[i].node);
        else
            cluster->drains[kept++] = cluster->drains[i];
    }
    cluster->n_drains = kept;
}

// The pod stops serving. With a drain time, it keeps its GPUs until its work is done.
static void remove_pod(struct replay_cluster *cluster, size_t i)
{
    const struct replay_pod *p = &cluster->pods[i];
    cluster->counts.stale = true;
    if (p->started_ms != INT64_MAX && cluster->s->drain_ms > 0) {
        gs_grow(&cluster->drains, &cluster->drains_cap, cluster->n_drains,
                sizeof(*cluster->drains));
        cluster->drains[cluster->n_drains++] =
            (struct replay_drain){cluster->t_ms + cluster->s->drain_ms, p->node};
    } else {
        free_gpus_of(cluster, p->node);
    }
    memmove(&cluster->pods[i], &cluster->pods[i + 1],
            (cluster->n_pods - i - 1) * sizeof(*cluster->pods));
    cluster->n_pods--;
}

// Like a ReplicaSet: waiting before starting before ready pods, then the youngest.
static size_t choose_pod_to_remove(const struct replay_cluster *cluster)
{
    size_t best = cluster->n_pods - 1;
    for (size_t i = cluster->n_pods; i-- > 0;) {
        const struct replay_pod *p = &cluster->pods[i], *b = &cluster->pods[best];
        int rank = p->started_ms == INT64_MAX ? 0 : p->ready_ms > cluster->t_ms ? 1 : 2;
        int best_rank = b->started_ms == INT64_MAX ? 0 : b->ready_ms > cluster->t_ms ? 1 : 2;
        if (rank < best_rank)
            best = i;
    }
    return best;
}

void replay_cluster_scale(struct replay_cluster *cluster, int32_t replicas)
{
    while (cluster->n_pods > (size_t)replicas)
        remove_pod(cluster, choose_pod_to_remove(cluster));
    while (cluster->n_pods < (size_t)replicas) {
        gs_grow(&cluster->pods, &cluster->pods_cap, cluster->n_pods, sizeof(*cluster->pods));
        struct replay_pod *p = &cluster->pods[cluster->n_pods++];
        cluster->counts.stale = true;
        *p = (struct replay_pod){.created_ms = cluster->t_ms,
                                 .started_ms = INT64_MAX,
                                 .ready_ms = INT64_MAX,
                                 .node = NO_NODE};
        snprintf(p->name, sizeof(p->name), "pod-%u", (unsigned)cluster->next_name++);
        if (cluster->placer)
            p->node = cluster->placer->add(cluster->placer->ctx, cluster);
    }
    start_pods(cluster);
    if (cluster->s->gpus_per_node)
        provision(cluster);
}

void replay_cluster_lose(struct replay_cluster *cluster, size_t n)
{
    int32_t replicas = (int32_t)cluster->n_pods;
    for (; n && cluster->n_pods; n--)
        remove_pod(cluster, 0);
    replay_cluster_scale(cluster, replicas);
}

void replay_cluster_evict(struct replay_cluster *cluster, size_t ticket)
{
    const struct replay_pod *p = pod_of_ticket(cluster, ticket);
    int32_t replicas = (int32_t)cluster->n_pods;
    if (!p) // it is terminating
        return;
    remove_pod(cluster, (size_t)(p - cluster->pods));
    replay_cluster_scale(cluster, replicas);
}

// --- counts ---

static void set_earlier(int64_t *t_ms, int64_t other_ms)
{
    if (other_ms < *t_ms)
        *t_ms = other_ms;
}

static void count_pods(const struct replay_cluster *cluster, struct replay_counts *c)
{
    for (size_t i = 0; i < cluster->n_pods; i++) {
        const struct replay_pod *p = &cluster->pods[i];
        c->running += p->started_ms != INT64_MAX;
        if (p->started_ms == INT64_MAX)
            c->rest = false;
        else if (p->ready_ms <= cluster->t_ms)
            c->ready++;
        else
            set_earlier(&c->until_ms, p->ready_ms);
    }
}

static void count_nodes(const struct replay_cluster *cluster, struct replay_counts *c)
{
    bool can_go = (c->nodes = count_live_nodes(cluster)) > cluster->s->min_nodes;
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        const struct replay_node *n = &cluster->nodes[i];
        bool ready = n->ready_ms <= cluster->t_ms;
        if (n->removed)
            continue;
        c->nodes_ready += ready;
        if (!ready)
            set_earlier(&c->until_ms, n->ready_ms);
        if (!ready || (can_go && !n->used))
            c->rest = false;
    }
}

const struct replay_counts *replay_cluster_count(struct replay_cluster *cluster)
{
    struct replay_counts *c = &cluster->counts;
    if (!c->stale && cluster->t_ms < c->until_ms)
        return c;
    *c = (struct replay_counts){.until_ms = INT64_MAX, .rest = true};
    count_pods(cluster, c);
    c->draining = (int32_t)cluster->n_drains;
    for (size_t i = 0; i < cluster->n_drains; i++)
        set_earlier(&c->until_ms, cluster->drains[i].until_ms);
    if (cluster->s->gpus_per_node)
        count_nodes(cluster, c);
    if (c->nodes > cluster->sum.max_nodes)
        cluster->sum.max_nodes = c->nodes;
    cluster->version++;
    return c;
}

// --- time ---

static struct replay_moment *past_at(const struct replay_cluster *cluster, int64_t second)
{
    return &cluster->past[(size_t)second & (cluster->n_past - 1)];
}

static struct replay_moment in_calm(struct replay_cluster *cluster, int64_t second,
                                    struct replay_curve_piece *at)
{
    struct replay_moment p = {.ready = cluster->calm.ready};
    p.load = replay_curve_at(&cluster->s->load, second * STEP_MS, at);
    p.utilization = 100 * p.load / (p.ready * cluster->s->capacity);
    return p;
}

// Ends a series of calm seconds: stores those that can still be read.
static void end_calm(struct replay_cluster *cluster)
{
    struct replay_calm *c = &cluster->calm;
    int64_t from = c->last - (int64_t)cluster->history_steps + 1;
    for (int64_t s = from > c->first ? from : c->first; s <= c->last; s++)
        *past_at(cluster, s) = in_calm(cluster, s, &cluster->load_before);
    *c = (struct replay_calm){.last = -1};
}

static void store_moment(struct replay_cluster *cluster, struct replay_moment p)
{
    end_calm(cluster);
    *past_at(cluster, cluster->t_ms / STEP_MS) = p;
}

static struct replay_moment load_moment(struct replay_cluster *cluster, int64_t second,
                                        struct replay_curve_piece *at)
{
    bool calm = second >= cluster->calm.first && second <= cluster->calm.last;
    return calm ? in_calm(cluster, second, at) : *past_at(cluster, second);
}

const struct replay_moment *replay_cluster_now(struct replay_cluster *cluster)
{
    cluster->now = load_moment(cluster, cluster->t_ms / STEP_MS, &cluster->load);
    return &cluster->now;
}

const struct replay_moment *replay_cluster_observed(struct replay_cluster *cluster)
{
    int64_t now = cluster->t_ms / STEP_MS, ago = cluster->s->delay_ms / STEP_MS;
    cluster->seen = load_moment(cluster, now > ago ? now - ago : 0, &cluster->load_before);
    return &cluster->seen;
}

static double at_most(double v, double limit)
{
    return v < limit ? v : limit;
}

// One second of work: ready replicas serve new and waiting work, up to their capacity.
static struct replay_moment serve_load(struct replay_cluster *cluster)
{
    struct replay_moment p = {.load =
                                  replay_curve_at(&cluster->s->load, cluster->t_ms, &cluster->load),
                              .ready = replay_cluster_count(cluster)->ready};
    double can = p.ready * cluster->s->capacity, wanted = p.load + cluster->queue,
           done = at_most(wanted, can);
    int64_t now_s = cluster->t_ms / STEP_MS;
    if (cluster->queue > 0 || done < wanted) {
        replay_waits_add(&cluster->waits, now_s, p.load);
        replay_waits_serve(&cluster->waits, now_s, done);
    } else {
        replay_waits_serve_at_once(&cluster->waits, done);
    }
    cluster->queue = wanted - done;
    p.queue = cluster->queue;
    p.utilization = can > 0 ? 100 * done / can : wanted > 0 ? 100 : 0;
    cluster->sum.offered += p.load;
    cluster->sum.served += done;
    return p;
}

static void count_replicas(struct replay_cluster *cluster)
{
    int32_t n = (int32_t)cluster->n_pods;
    if (n < cluster->sum.min_replicas)
        cluster->sum.min_replicas = n;
    if (n > cluster->sum.max_replicas)
        cluster->sum.max_replicas = n;
}

static void add_to_summary(struct replay_cluster *cluster, const struct replay_moment *p)
{
    struct replay_summary *s = &cluster->sum;
    const struct replay_counts *c = replay_cluster_count(cluster);
    size_t gpus = cluster->s->gpus_per_replica, pending = cluster->n_pods - (size_t)c->running;
    s->gpu_hours += (c->running + c->draining) * (double)gpus / 3600;
    s->drain_gpu_hours += c->draining * (double)gpus / 3600;
    s->node_hours += (double)c->nodes / 3600;
    s->node_gpu_hours += (double)(c->nodes * cluster->s->gpus_per_node) / 3600;
    s->over_level_s += p->utilization > cluster->s->level || p->queue > 0;
    s->queue_max = fmax(s->queue_max, p->queue);
    s->pending_s += (double)pending;
    cluster->queue_seconds += p->queue;
    cluster->replica_seconds += (double)cluster->n_pods;
    count_replicas(cluster);
}

// The GPUs in use are those of the pods and of the terminating pods, and no node has too many.
static bool gpus_are_consistent(const struct replay_cluster *cluster)
{
    size_t used = 0, held = 0;
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        used += cluster->nodes[i].used;
        if (cluster->nodes[i].used > cluster->s->gpus_per_node)
            return false;
    }
    for (size_t i = 0; i < cluster->n_pods; i++)
        held += cluster->pods[i].node != NO_NODE ? cluster->s->gpus_per_replica : 0;
    for (size_t i = 0; i < cluster->n_drains; i++)
        held += cluster->drains[i].node != NO_NODE ? cluster->s->gpus_per_replica : 0;
    return used == held;
}

static void run_second(struct replay_cluster *cluster)
{
    bool rest = replay_cluster_count(cluster)->rest;
    cluster->t_ms += STEP_MS;
    if (!rest || cluster->n_drains) {
        end_drains(cluster);
        if (!cluster->placer)
            start_pods(cluster);
        if (cluster->s->gpus_per_node) {
            provision(cluster);
            remove_idle_nodes(cluster);
        }
        gs_assert_debug(cluster->placer || gpus_are_consistent(cluster));
        cluster->counts.stale = true;
    }
    struct replay_moment p = serve_load(cluster);
    add_to_summary(cluster, &p);
    store_moment(cluster, p);
}

// --- skipping seconds without events ---

struct stretch {
    int64_t n; // seconds
    double first, last, can;
};

// The number of seconds, up to `until`, that can be calculated at once: no pod changes, all work is
// served immediately, the load is a straight line, and it does not cross the level.
static bool find_stretch(struct replay_cluster *cluster, int64_t until_ms, struct stretch *ret)
{
    const struct replay_counts *c = replay_cluster_count(cluster);
    if (cluster->queue > 0 || !c->rest || until_ms - cluster->t_ms < 2 * STEP_MS)
        return false;
    replay_curve_at(&cluster->s->load, cluster->t_ms, &cluster->load);
    int64_t end_ms = until_ms;
    set_earlier(&end_ms, cluster->load.until_ms - 1);
    set_earlier(&end_ms, c->until_ms - 1);
    int64_t n = (end_ms - cluster->t_ms) / STEP_MS;
    if (n < 2)
        return false;
    double can = c->ready * cluster->s->capacity, level = can * cluster->s->level / 100;
    double first = replay_curve_at(&cluster->s->load, cluster->t_ms + STEP_MS, &cluster->load);
    double last = replay_curve_at(&cluster->s->load, cluster->t_ms + n * STEP_MS, &cluster->load);
    *ret = (struct stretch){n, first, last, can};
    return first <= can && last <= can && can > 0 && (first > level) == (last > level);
}

static void skip_stretch(struct replay_cluster *cluster, const struct stretch *to)
{
    const struct replay_counts *c = replay_cluster_count(cluster);
    double n = (double)to->n, gpus = (double)cluster->s->gpus_per_replica;
    int64_t second = cluster->t_ms / STEP_MS;
    if (to->n < (int64_t)cluster->history_steps)
        end_calm(cluster);
    cluster->calm = (struct replay_calm){second + 1, second + to->n, c->ready};
    cluster->t_ms += to->n * STEP_MS;
    double work = (to->first + to->last) / 2 * n;
    struct replay_summary *s = &cluster->sum;
    s->offered += work;
    s->served += work;
    replay_waits_serve_at_once(&cluster->waits, work);
    s->gpu_hours += (c->running + c->draining) * gpus * n / 3600;
    if (c->draining)
        s->drain_gpu_hours += c->draining * gpus * n / 3600;
    if (c->nodes)
        s->node_hours += (double)c->nodes * n / 3600;
    if (c->nodes)
        s->node_gpu_hours += (double)(c->nodes * cluster->s->gpus_per_node) * n / 3600;
    s->over_level_s += 100 * to->last / to->can > cluster->s->level ? n : 0;
    cluster->replica_seconds += (double)cluster->n_pods * n;
    count_replicas(cluster);
}

void replay_cluster_run(struct replay_cluster *cluster, int64_t until_ms)
{
    while (cluster->t_ms < until_ms) {
        struct stretch to;
        if (find_stretch(cluster, until_ms, &to))
            skip_stretch(cluster, &to);
        else
            run_second(cluster);
    }
}

void replay_cluster_start(struct replay_cluster *cluster, const struct replay_scenario *s,
                          const struct replay_placer *placer)
{
    *cluster = (struct replay_cluster){.s = s,
                                       .placer = placer,
                                       .history_steps = (size_t)(s->delay_ms / STEP_MS) + 1,
                                       .n_past = 1};
    while (cluster->n_past < cluster->history_steps)
        cluster->n_past *= 2;
    cluster->counts.stale = true;
    cluster->calm.last = -1;
    cluster->past = gs_alloc_array(cluster->n_past, sizeof(*cluster->past));
    cluster->sum.min_replicas = INT32_MAX;
    for (size_t i = 0; s->gpus_per_node && i < s->min_nodes; i++)
        add_simulated_node(cluster, 0);
    // The initial pods are ready, and have the nodes that they need.
    while (s->gpus_per_node && cluster->n_nodes < s->max_nodes &&
           free_gpus(cluster) < (size_t)s->replicas * s->gpus_per_replica)
        add_simulated_node(cluster, 0);
    replay_cluster_scale(cluster, s->replicas);
    for (size_t i = 0; i < cluster->n_pods; i++)
        if (cluster->pods[i].started_ms != INT64_MAX)
            cluster->pods[i].ready_ms = 0;
    cluster->counts.stale = true;
    store_moment(cluster, serve_load(cluster));
    cluster->sum.offered = cluster->sum.served = 0;
    cluster->queue = 0;
    replay_waits_finish(&cluster->waits);
}

void replay_cluster_finish(struct replay_cluster *cluster)
{
    free(cluster->pods);
    free(cluster->drains);
    replay_waits_finish(&cluster->waits);
    free(cluster->nodes);
    free(cluster->past);
}
