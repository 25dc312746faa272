// SPDX-License-Identifier: Apache-2.0
// The pods and nodes of a run with pools: a snapshot of nodes that changes over time.
#include "replay/fleet_run.h"
#include "replay/scenario_private.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"

// --- lists ---

void replay_fleet_list_add(struct replay_fleet_list *l, size_t v)
{
    gs_grow(&l->items, &l->cap, l->len, sizeof(*l->items));
    l->items[l->len++] = v;
}

void replay_fleet_list_drop(struct replay_fleet_list *l, size_t v)
{
    for (size_t i = 0; i < l->len; i++) {
        if (l->items[i] != v)
            continue;
        memmove(&l->items[i], &l->items[i + 1], (l->len - i - 1) * sizeof(*l->items));
        l->len--;
        return;
    }
}

static size_t list_pop(struct replay_fleet_list *l)
{
    return l->len ? l->items[--l->len] : REPLAY_NONE;
}

// --- pods ---

// The requests of the GPUs, and the other fields as they are written in the scenario. Pods that
// request GPUs tolerate the GPUs' taint, as the admission plug-in ExtendedResourceToleration adds
// it.
static json_t *pod_object(const struct replay_fleet_workload *w, size_t gpus)
{
    json_t *spec = w->pod ? json_deep_copy(w->pod) : json_object();
    json_t *containers = json_object_get(spec, "containers");
    if (!json_is_array(containers)) {
        containers = json_array();
        json_object_set_new(spec, "containers", containers);
    }
    if (gpus) {
        json_t *gpu = json_pack("{s:{s:{s:I}, s:{s:I}}}", "resources", "requests", NODES_GPU,
                                (json_int_t)gpus, "limits", NODES_GPU, (json_int_t)gpus);
        json_object_set_new(gpu, "name", json_string("gpu"));
        json_array_append_new(containers, gpu);
        json_t *tolerations = json_object_get(spec, "tolerations");
        if (!json_is_array(tolerations)) {
            tolerations = json_array();
            json_object_set_new(spec, "tolerations", tolerations);
        }
        json_array_append_new(tolerations,
                              json_pack("{s:s, s:s}", "key", NODES_GPU, "operator", "Exists"));
    }
    return json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:{s:s}, s:{s:s}, s:[{s:s, s:s, s:b}]}, s:o}", "apiVersion", "v1",
        "kind", "Pod", "metadata", "name", w->s->name, "namespace", "default", "labels", "app",
        w->s->name, "annotations", REPLAY_ANN_SAFE_TO_EVICT, w->safe_to_evict ? "true" : "false",
        "ownerReferences", "kind", "ReplicaSet", "name", w->s->name, "controller", 1, "spec", spec);
}

static size_t shape_of(struct replay_fleet_run *run, size_t workload, size_t gpus)
{
    for (size_t i = 0; i < run->n_shapes; i++)
        if (run->shapes[i].workload == workload && run->shapes[i].gpus == gpus)
            return i;
    gs_grow(&run->shapes, &run->shapes_cap, run->n_shapes, sizeof(*run->shapes));
    run->shapes[run->n_shapes] = (struct replay_fleet_shape){
        .workload = workload, .gpus = gpus, .pod = pod_object(&run->f->workloads[workload], gpus)};
    return run->n_shapes++;
}

// Pods that do not exist are parked on a node of their own, as those without a node wait for one.
// Each has an object of its own, of which only the time of creation changes. The snapshot does not
// depend on it; plans do.
static size_t pod_from_snapshot(struct replay_fleet_run *run, struct replay_fleet_shape *s)
{
    char time[GS_RFC3339_SIZE];
    size_t index = list_pop(&s->spare);
    json_t *pod;
    if (index == REPLAY_NONE) {
        pod = json_copy(s->pod);
        json_object_set_new(pod, "metadata", json_deep_copy(json_object_get(pod, "metadata")));
        index = nodes_snapshot_add_pod(run->snapshot, pod);
        json_decref(pod);
    } else {
        pod = (json_t *)nodes_pod(run->snapshot, index);
        nodes_unplace(run->snapshot, index, run->parking);
    }
    gs_format_rfc3339(REPLAY_T0_MS + run->t_ms, time);
    json_object_set_new(json_object_get(pod, "metadata"), "creationTimestamp", json_string(time));
    return index;
}

size_t replay_fleet_add_pod(struct replay_fleet_run *run, size_t workload, size_t gpus,
                            const struct replay_job *job)
{
    size_t ticket = list_pop(&run->spare_tickets), shape = shape_of(run, workload, gpus);
    struct replay_fleet_shape *s = &run->shapes[shape];
    if (ticket == REPLAY_NONE) {
        gs_grow(&run->pods, &run->pods_cap, run->n_pods, sizeof(*run->pods));
        ticket = run->n_pods++;
    }
    run->pods[ticket] = (struct replay_fleet_pod){.live = true,
                                                  .workload = workload,
                                                  .shape = shape,
                                                  .index = pod_from_snapshot(run, s),
                                                  .node = REPLAY_NONE,
                                                  .job = job,
                                                  .created_ms = run->t_ms,
                                                  .end_ms = INT64_MAX};
    replay_fleet_list_add(&run->waiting, ticket);
    run->changed = true;
    return ticket;
}

static void leave_node(struct replay_fleet_run *run, struct replay_fleet_pod *p)
{
    struct replay_fleet_node *n = &run->nodes[p->node];
    gs_assert(n->n_pods && n->used >= run->shapes[p->shape].gpus);
    nodes_unplace(run->snapshot, p->index, p->node);
    n->used -= run->shapes[p->shape].gpus;
    n->n_pods--;
    if (n->state == REPLAY_NODE_DRAINING && !n->n_pods)
        replay_fleet_remove_node(run, p->node);
}

void replay_fleet_remove_pod(struct replay_fleet_run *run, size_t ticket)
{
    struct replay_fleet_pod *p = &run->pods[ticket];
    gs_assert(p->live);
    if (p->node == REPLAY_NONE)
        replay_fleet_list_drop(&run->waiting, ticket);
    else
        leave_node(run, p);
    if (p->job)
        replay_fleet_list_drop(&run->running_jobs, ticket);
    nodes_place(run->snapshot, p->index, run->parking);
    replay_fleet_list_add(&run->shapes[p->shape].spare, p->index);
    *p = (struct replay_fleet_pod){0};
    replay_fleet_list_add(&run->spare_tickets, ticket);
    run->changed = true;
}

static void start_pod(struct replay_fleet_run *run, size_t ticket, size_t node)
{
    struct replay_fleet_pod *p = &run->pods[ticket];
    nodes_place(run->snapshot, p->index, node);
    p->node = node;
    run->nodes[node].used += run->shapes[p->shape].gpus;
    run->nodes[node].n_pods++;
    replay_fleet_add_wait(run, p->workload, run->t_ms - p->created_ms);
    run->changed = true;
    if (p->job) {
        p->end_ms = run->t_ms + run->f->workloads[p->workload].s->startup_ms + p->job->run_ms;
        p->end_ms = (p->end_ms + 999) / 1000 * 1000;
        replay_fleet_list_add(&run->running_jobs, ticket);
    } else {
        replay_cluster_placed(&run->workloads[p->workload].cluster, ticket);
    }
}

// Pods of one form fail for the same reasons, so only the first is tried.
void replay_fleet_schedule(struct replay_fleet_run *run)
{
    size_t kept = 0;
    GS_AUTO_FREE bool *failed = NULL;
    if (run->waiting.len)
        failed = gs_alloc_array(nodes_pod_count(run->snapshot), sizeof(*failed));
    for (size_t i = 0; i < run->waiting.len; i++) {
        size_t ticket = run->waiting.items[i], index = run->pods[ticket].index;
        size_t form = nodes_pod_form(run->snapshot, index);
        size_t node =
            failed[form] ? NODES_NONE : nodes_best(run->snapshot, index, run->f->scoring, NULL);
        if (node == NODES_NONE) {
            failed[form] = true;
            run->waiting.items[kept++] = ticket;
        } else {
            start_pod(run, ticket, node);
        }
    }
    run->waiting.len = kept;
}

// --- nodes ---

void replay_fleet_start_nodes(struct replay_fleet_run *run)
{
    run->snapshot = nodes_snapshot_new();
    run->parking = nodes_snapshot_add_parking(run->snapshot);
    gs_grow(&run->nodes, &run->nodes_cap, run->n_nodes, sizeof(*run->nodes));
    run->nodes[run->n_nodes++] = (struct replay_fleet_node){.state = REPLAY_NODE_ABSENT};
}

static size_t place_of_node(struct replay_fleet_run *run, size_t pool, bool cordoned)
{
    struct replay_fleet_pool *p = &run->pools[pool];
    size_t node = list_pop(&p->spare[cordoned]);
    if (node != REPLAY_NONE)
        return node;
    // Names are in the order of the places.
    GS_AUTO_FREE char *name = gs_format("%05zu-%s", run->n_nodes, p->pool->name);
    node = nodes_snapshot_add_template(run->snapshot, p->template[cordoned], name);
    gs_assert(node == run->n_nodes);
    gs_grow(&run->nodes, &run->nodes_cap, run->n_nodes, sizeof(*run->nodes));
    run->n_nodes++;
    return node;
}

static void move_pods(struct replay_fleet_run *run, size_t from, size_t to)
{
    for (size_t i = 0; i < run->n_pods; i++) {
        struct replay_fleet_pod *p = &run->pods[i];
        if (!p->live || p->node != from)
            continue;
        nodes_unplace(run->snapshot, p->index, from);
        nodes_place(run->snapshot, p->index, to);
        p->node = to;
    }
}

// The snapshot knows a node by its object, which does not change.
void replay_fleet_cordon_node(struct replay_fleet_run *run, size_t node, bool cordon)
{
    size_t pool = run->nodes[node].pool, place = place_of_node(run, pool, cordon);
    gs_assert(run->nodes[node].state == REPLAY_NODE_READY);
    run->nodes[place] = run->nodes[node];
    run->nodes[place].cordoned = cordon;
    nodes_exclude(run->snapshot, place, false);
    move_pods(run, node, place);
    run->nodes[node].state = REPLAY_NODE_ABSENT;
    nodes_exclude(run->snapshot, node, true);
    replay_fleet_list_add(&run->pools[pool].spare[!cordon], node);
    run->changed = true;
}

void replay_fleet_add_node(struct replay_fleet_run *run, size_t pool, bool at_once)
{
    struct replay_fleet_pool *p = &run->pools[pool];
    size_t node = place_of_node(run, pool, false);
    run->nodes[node] = (struct replay_fleet_node){.state = REPLAY_NODE_CREATING,
                                                  .pool = pool,
                                                  .gpus = nodes_gpus(run->snapshot, node),
                                                  .number = p->attempts++,
                                                  .created_ms = run->t_ms,
                                                  .next_ms = run->t_ms,
                                                  .preempt_ms = INT64_MAX};
    p->size++;
    p->creating += !at_once;
    run->changed = true;
    if (at_once) {
        run->nodes[node].state = REPLAY_NODE_READY;
        replay_fleet_expect_preemption(run, &run->nodes[node]);
    } else {
        replay_fleet_start_node(run, &run->nodes[node]);
    }
    nodes_exclude(run->snapshot, node, !at_once);
}

void replay_fleet_remove_node(struct replay_fleet_run *run, size_t node)
{
    struct replay_fleet_node *n = &run->nodes[node];
    struct replay_fleet_pool *p = &run->pools[n->pool];
    gs_assert(!n->n_pods);
    p->size -= n->state != REPLAY_NODE_DRAINING;
    p->creating -= n->state == REPLAY_NODE_CREATING;
    n->state = REPLAY_NODE_ABSENT;
    nodes_exclude(run->snapshot, node, true);
    replay_fleet_list_add(&p->spare[n->cordoned], node);
    run->changed = true;
}

static void evict_pod(struct replay_fleet_run *run, size_t ticket)
{
    struct replay_fleet_pod p = run->pods[ticket];
    run->result->summary.evictions++;
    if (p.job) { // it begins again
        replay_fleet_remove_pod(run, ticket);
        replay_fleet_add_pod(run, p.workload, run->shapes[p.shape].gpus, p.job);
    } else {
        replay_cluster_evict(&run->workloads[p.workload].cluster, ticket);
    }
}

static void empty_node(struct replay_fleet_run *run, size_t node)
{
    struct replay_fleet_node *n = &run->nodes[node];
    GS_AUTO_FREE size_t *tickets = gs_alloc_array(n->n_pods + 1, sizeof(*tickets));
    size_t len = 0;
    if (!n->n_pods) {
        replay_fleet_remove_node(run, node);
        return;
    }
    for (size_t i = 0; i < run->n_pods; i++)
        if (run->pods[i].live && run->pods[i].node == node)
            tickets[len++] = i;
    n->state = REPLAY_NODE_DRAINING;
    run->pools[n->pool].size--;
    nodes_exclude(run->snapshot, node, true);
    run->changed = true;
    for (size_t i = 0; i < len; i++)
        evict_pod(run, tickets[i]);
}

void replay_fleet_drain_node(struct replay_fleet_run *run, size_t node, const char *why)
{
    const struct replay_fleet_node *n = &run->nodes[node];
    replay_fleet_log(run, "node %s-%u %s: %s", run->pools[n->pool].pool->name, n->number + 1,
                     n->n_pods ? "drained" : "removed", why);
    run->result->summary.nodes_removed++;
    run->result->pools[n->pool].removed++;
    empty_node(run, node);
}

void replay_fleet_preempt_node(struct replay_fleet_run *run, size_t node)
{
    const struct replay_fleet_node *n = &run->nodes[node];
    replay_fleet_log(run, "node %s-%u preempted with %zu pod%s", run->pools[n->pool].pool->name,
                     n->number + 1, n->n_pods, n->n_pods == 1 ? "" : "s");
    run->result->summary.preemptions++;
    run->result->pools[n->pool].preempted++;
    empty_node(run, node);
}

static void set_earlier(int64_t *t_ms, int64_t other_ms)
{
    if (other_ms < *t_ms)
        *t_ms = other_ms;
}

int64_t replay_fleet_advance_nodes(struct replay_fleet_run *run)
{
    int64_t next_ms = INT64_MAX;
    for (size_t i = 0; i < run->n_nodes; i++) {
        struct replay_fleet_node *n = &run->nodes[i];
        if (n->state == REPLAY_NODE_CREATING && n->next_ms <= run->t_ms)
            replay_fleet_end_start(run, i);
        if (n->state == REPLAY_NODE_READY && n->preempt_ms <= run->t_ms)
            replay_fleet_preempt_node(run, i);
        if (n->state == REPLAY_NODE_CREATING)
            set_earlier(&next_ms, n->next_ms);
        else if (n->state == REPLAY_NODE_READY)
            set_earlier(&next_ms, n->preempt_ms);
    }
    return next_ms;
}
