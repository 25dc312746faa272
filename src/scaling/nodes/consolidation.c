// SPDX-License-Identifier: Apache-2.0
// Which pods can move so that nodes become empty: nodes with the fewest GPUs in use first, to
// nodes that are in use anyway. A node is emptied completely or not at all; the snapshot is
// restored at the end.
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/nodes_private.h"
#include "nodes/packing.h"

void nodes_consolidation_finish(struct nodes_consolidation *c)
{
    for (size_t i = 0; i < c->n_nodes; i++)
        free(c->nodes[i].why);
    free(c->nodes);
    free(c->moves);
    *c = (struct nodes_consolidation){0};
}

struct candidate {
    size_t node, gpus, used; // used: GPUs
};

struct emptying {
    struct nodes_snapshot *s;
    nodes_movable_fn *movable;
    void *arg;
    struct nodes_consolidation *ret;
    bool *target;   // by node: has GPUs in use that stay
    size_t *starts; // by node: the first of its pods in `pods`
    size_t *pods;
};

// The nodes with the fewest GPUs in use first; of these, the largest.
static int compare_candidates(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    if (a->used != b->used)
        return a->used < b->used ? -1 : 1;
    if (a->gpus != b->gpus)
        return a->gpus > b->gpus ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static size_t used_gpus(const struct nodes_snapshot *s, size_t node)
{
    size_t gpus = nodes_gpus(s, node), left = nodes_free_gpus(s, node);
    return left < gpus ? gpus - left : 0;
}

// The tightest node that is in use, else a smaller one than the source.
static size_t home_for(const struct emptying *e, size_t pod, size_t from)
{
    size_t best = NODES_NONE, best_left = 0, best_gpus = 0;
    size_t want = nodes_gpu_request(e->s, pod);
    for (size_t node = 0; node < e->s->n_nodes; node++) {
        size_t gpus = nodes_gpus(e->s, node);
        bool suits = want ? e->target[node] || (gpus && gpus < nodes_gpus(e->s, from))
                          : e->s->nodes[node].n_pods > 0;
        if (node == from || !suits || !nodes_fits(e->s, pod, node, NULL))
            continue;
        size_t left = nodes_free_gpus(e->s, node) - want;
        if (best != NODES_NONE && (left > best_left || (left == best_left && gpus >= best_gpus)))
            continue;
        best = node;
        best_left = left;
        best_gpus = gpus;
    }
    return best;
}

static void undo(struct emptying *e, size_t first)
{
    for (size_t i = e->ret->n_moves; i-- > first;) {
        const struct nodes_move *m = &e->ret->moves[i];
        if (m->to != NODES_NONE)
            nodes_unplace(e->s, m->pod, m->to);
        nodes_place(e->s, m->pod, m->from);
    }
    e->ret->n_moves = first;
}

static int compare_gpus(const void *pa, const void *pb, void *arg)
{
    const struct nodes_move *a = pa, *b = pb;
    size_t ga = nodes_gpu_request(arg, a->pod), gb = nodes_gpu_request(arg, b->pod);
    return ga != gb ? (ga > gb ? -1 : 1) : a->pod < b->pod ? -1 : a->pod > b->pod;
}

// Takes the pods off the node. False: one must stay.
static bool unload(struct emptying *e, size_t node)
{
    struct nodes_consolidation *r = e->ret;
    for (size_t i = e->starts[node]; i < e->starts[node + 1]; i++) {
        size_t pod = e->pods[i];
        if (nodes_of_pod(e->s, pod) != node)
            continue;
        enum nodes_movability m = e->movable(e->arg, e->s->pods[pod].object);
        if (m == NODES_BLOCK)
            return false;
        if (m == NODES_STAY)
            continue;
        gs_grow(&r->moves, &r->moves_cap, r->n_moves, sizeof(*r->moves));
        r->moves[r->n_moves++] = (struct nodes_move){pod, node, NODES_NONE};
        nodes_unplace(e->s, pod, node);
    }
    return true;
}

static bool empty(struct emptying *e, size_t node)
{
    size_t first = e->ret->n_moves;
    bool ok = unload(e, node) && e->ret->n_moves > first;
    if (ok)
        qsort_r(e->ret->moves + first, e->ret->n_moves - first, sizeof(*e->ret->moves),
                compare_gpus, e->s);
    for (size_t i = first; ok && i < e->ret->n_moves; i++) {
        struct nodes_move *m = &e->ret->moves[i];
        m->to = home_for(e, m->pod, node);
        ok = m->to != NODES_NONE;
        if (ok)
            nodes_place(e->s, m->pod, m->to);
    }
    if (!ok) {
        undo(e, first);
        return false;
    }
    struct nodes_consolidation *r = e->ret;
    for (size_t i = first; i < r->n_moves; i++)
        e->target[r->moves[i].to] = true;
    gs_grow(&r->nodes, &r->nodes_cap, r->n_nodes, sizeof(*r->nodes));
    size_t n = r->n_moves - first, gpus = nodes_gpus(e->s, node);
    r->nodes[r->n_nodes++] = (struct nodes_emptied){
        node, gs_format("its %zu pod%s fit%s on other nodes, and then all %zu GPUs of it are free",
                        n, n == 1 ? "" : "s", n == 1 ? "s" : "", gpus)};
    return true;
}

void nodes_plan_consolidation(struct nodes_snapshot *s, nodes_movable_fn *movable, void *arg,
                              size_t max_nodes, struct nodes_consolidation *ret)
{
    struct emptying e = {.s = s, .movable = movable, .arg = arg, .ret = ret};
    struct candidate *list = gs_alloc_array(s->n_nodes + 1, sizeof(*list));
    size_t n = 0, checkpoint = nodes_checkpoint(s);
    e.target = gs_alloc_array(s->n_nodes + 1, sizeof(bool));
    nodes_pods_by_node(s, &e.starts, &e.pods);
    for (size_t i = 0; i < s->n_nodes; i++) {
        size_t gpus = nodes_gpus(s, i), used = used_gpus(s, i);
        e.target[i] = used > 0;
        if (used && used < gpus && !s->nodes[i].excluded)
            list[n++] = (struct candidate){i, gpus, used};
    }
    if (n)
        qsort(list, n, sizeof(*list), compare_candidates);
    for (size_t i = 0; i < n && ret->n_nodes < max_nodes; i++) {
        e.target[list[i].node] = false;
        bool received = used_gpus(s, list[i].node) != list[i].used;
        if (received || !empty(&e, list[i].node))
            e.target[list[i].node] = true;
        else
            nodes_exclude(s, list[i].node, true);
    }
    nodes_restore(s, checkpoint);
    free(list);
    free(e.target);
    free(e.starts);
    free(e.pods);
}
