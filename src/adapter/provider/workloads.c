// SPDX-License-Identifier: Apache-2.0
// The pods of a workload: by their controllers if these are known, otherwise by the workload's
// selector. A selector alone would count the pods of another workload whose labels match, too.
#include "adapter/provider/provider_private.h"

#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"

#define MAX_COMPARISONS ((size_t)4000000)

struct candidate {
    const char *name;
    struct kube_selector selector;
    size_t *pods;
    size_t n, cap;
};

struct provider_workloads_op {
    struct provider_workloads_request rq;
    provider_workloads_fn cb;
    void *arg;
    struct kube_request *get;
    json_t *answer; // owns the names
    struct candidate *list;
    size_t n;
    char *pod_selector; // of a single workload; NULL: all pods
    struct provider_objects_op *pods_op, *sets_op;
    struct provider_object_names *pods, *sets; // sets: ReplicaSets of a Deployment; NULL: unknown
    bool starting;                             // the requests for the lists are being sent
    bool waits_pods, waits_sets;
    bool inside, done;
};

static void op_free(struct provider_workloads_op *op)
{
    kube_request_cancel(op->get);
    provider_objects_cancel(op->pods_op);
    provider_objects_cancel(op->sets_op);
    provider_object_names_unref(op->pods);
    provider_object_names_unref(op->sets);
    for (size_t i = 0; i < op->n; i++) {
        kube_selector_finish(&op->list[i].selector);
        free(op->list[i].pods);
    }
    free(op->list);
    free(op->pod_selector);
    json_decref(op->answer);
    free(op);
}

static void end_workloads(struct provider_workloads_op *op, struct provider_workloads *o,
                          int status, struct gs_error *err)
{
    op->done = true;
    op->cb(op->arg, o, status, err);
    if (!op->inside)
        op_free(op);
}

void provider_workloads_free(struct provider_workloads *o)
{
    if (!o)
        return;
    gs_arena_finish(&o->arena);
    free(o);
}

// --- controllers of pods ---

// Maps names of ReplicaSets to names of their Deployments.
static struct gs_hmap *deployments_of(const struct provider_object_names *sets)
{
    struct gs_hmap *map = gs_hmap_new(NULL);
    for (size_t i = 0; i < sets->n; i++)
        if (gs_streq(sets->details[i].owner_kind, "Deployment"))
            gs_hmap_put_str(map, sets->items[i], sets->details[i].owner_name);
    return map;
}

// Returns the name of the only workload of this kind that can own the pod; NULL: none. *ret_any:
// every workload can own it, because the controller is unknown.
static const char *controller(const struct provider_workloads_op *op,
                              const struct gs_hmap *deployments,
                              const struct provider_object_detail *pod, bool *ret_any)
{
    const struct provider_workload_kind *kind = op->rq.kind;
    bool deployment = gs_streq(kind->kind, "Deployment");
    *ret_any = !kind->controls || !pod->owner_kind;
    if (*ret_any)
        return NULL;
    if (!deployment)
        return gs_streq(pod->owner_kind, kind->kind) ? pod->owner_name : NULL;
    if (!gs_streq(pod->owner_kind, "ReplicaSet"))
        return NULL;
    *ret_any = !deployments;
    return deployments ? gs_hmap_get_str(deployments, pod->owner_name) : NULL;
}

static void add_candidate_pod(struct candidate *c, size_t pod)
{
    gs_grow(&c->pods, &c->cap, c->n, sizeof(*c->pods));
    c->pods[c->n++] = pod;
}

static struct gs_error *match(struct provider_workloads_op *op)
{
    struct gs_hmap *by_name = gs_hmap_new(NULL);
    struct gs_hmap *deployments = op->sets ? deployments_of(op->sets) : NULL;
    size_t compared = 0;
    for (size_t i = 0; i < op->n; i++)
        gs_hmap_put_str(by_name, op->list[i].name, &op->list[i]);
    for (size_t k = 0; k < op->pods->n && compared <= MAX_COMPARISONS; k++) {
        const struct provider_object_detail *pod = &op->pods->details[k];
        bool any;
        const char *name = controller(op, deployments, pod, &any);
        struct candidate *c = name ? gs_hmap_get_str(by_name, name) : NULL;
        if (c && kube_selector_matches(&c->selector, pod->labels))
            add_candidate_pod(c, k);
        for (size_t i = 0; any && i < op->n; i++, compared++)
            if (kube_selector_matches(&op->list[i].selector, pod->labels))
                add_candidate_pod(&op->list[i], k);
    }
    gs_hmap_free(by_name);
    gs_hmap_free(deployments);
    return compared > MAX_COMPARISONS
               ? gs_error_new(GS_ELIMIT, "%zu %s and %zu pods are too many to compare", op->n,
                              op->rq.kind->resource, op->pods->n)
               : NULL;
}

// --- the result ---

static struct provider_workloads *collect_workloads(const struct provider_workloads_op *op)
{
    struct provider_workloads *o = gs_alloc(sizeof(*o));
    struct provider_workload *items = gs_arena_alloc(&o->arena, (op->n + 1) * sizeof(*items));
    const char **pods = gs_arena_alloc(&o->arena, (op->pods->n + 1) * sizeof(*pods));
    size_t *place = gs_alloc_array(op->pods->n + 1, sizeof(*place)); // index in pods + 1
    for (size_t i = 0; i < op->n; i++) {
        const struct candidate *c = &op->list[i];
        size_t *own = gs_arena_alloc(&o->arena, (c->n + 1) * sizeof(*own));
        for (size_t k = 0; k < c->n; k++) {
            size_t pod = c->pods[k];
            const char *name = op->pods->items[pod];
            if (!place[pod]) {
                pods[o->n_pods++] = gs_arena_strdup(&o->arena, name);
                place[pod] = o->n_pods;
            }
            own[k] = place[pod] - 1;
        }
        items[i] = (struct provider_workload){gs_arena_strdup(&o->arena, c->name), own, c->n};
    }
    free(place);
    o->items = items;
    o->n = op->n;
    o->pods = pods;
    o->until_ns = op->pods->until_ns;
    return o;
}

static void go_on(struct provider_workloads_op *op)
{
    if (op->starting || op->waits_pods || op->waits_sets)
        return;
    struct gs_error *err = match(op);
    end_workloads(op, err ? NULL : collect_workloads(op), 0, err);
}

// --- pods and ReplicaSets ---

static void on_pods(void *arg, struct provider_object_names *names, struct gs_error *err)
{
    struct provider_workloads_op *op = arg;
    op->pods_op = NULL;
    op->waits_pods = false;
    if (err) {
        end_workloads(op, NULL, 0, gs_error_wrap(err, "listing pods"));
        return;
    }
    op->pods = provider_object_names_ref(names);
    go_on(op);
}

static void on_sets(void *arg, struct provider_object_names *names, struct gs_error *err)
{
    struct provider_workloads_op *op = arg;
    op->sets_op = NULL;
    op->waits_sets = false;
    if (err) // then only selectors assign pods to workloads
        gs_warn("adapter", "listing replicasets: %s", gs_error_message(err));
    else
        op->sets = provider_object_names_ref(names);
    gs_error_free(err);
    go_on(op);
}

static void request_lists(struct provider_workloads_op *op)
{
    const struct provider_workloads_request *rq = &op->rq;
    op->starting = op->waits_pods = true;
    op->waits_sets = gs_streq(rq->kind->kind, "Deployment");
    // Both may call back before they return.
    if (op->waits_sets) {
        struct provider_objects_op *sets = provider_objects_list(
            rq->objects, KUBE_REPLICASETS, rq->ns, op->pod_selector, true, on_sets, op);
        if (op->waits_sets)
            op->sets_op = sets;
    }
    bool inside = op->inside;
    op->inside = true; // prevents a failure from freeing op here
    struct provider_objects_op *pods =
        provider_objects_list(rq->objects, KUBE_PODS, rq->ns, op->pod_selector, true, on_pods, op);
    op->inside = inside;
    if (op->waits_pods)
        op->pods_op = pods;
    op->starting = false;
    if (!op->done)
        go_on(op);
    else if (!inside)
        op_free(op);
}

// --- workloads ---

// An empty selector selects no pods.
static bool read_selector(const struct provider_workload_kind *kind, const json_t *obj,
                          struct kube_selector *ret)
{
    const json_t *spec = codec_json_get(obj, "spec", "selector", NULL);
    struct gs_error *err = NULL;
    if (kind->match_labels)
        err = kube_selector_from_json(spec, ret);
    else
        kube_selector_from_map(spec, ret);
    bool good = !err && !ret->nothing && ret->len > 0;
    gs_error_free(err);
    if (!good)
        kube_selector_finish(ret);
    return good;
}

static void add_workload_object(struct provider_workloads_op *op, const json_t *obj)
{
    struct candidate c = {.name = op->rq.name ? op->rq.name : kube_name(obj)};
    if (c.name && read_selector(op->rq.kind, obj, &c.selector))
        op->list[op->n++] = c;
}

static void on_workload_pods(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct provider_workloads_op *op = arg;
    size_t i;
    json_t *item;
    op->get = NULL;
    if (err) {
        end_workloads(op, NULL, status, err);
        return;
    }
    op->answer = json_incref(body);
    const json_t *items = op->rq.name ? NULL : json_object_get(body, "items");
    op->list = gs_alloc_array(json_array_size(items) + 1, sizeof(*op->list));
    if (op->rq.name)
        add_workload_object(op, body);
    json_array_foreach (items, i, item)
        add_workload_object(op, item);
    if (op->n == 0) {
        end_workloads(op, gs_alloc(sizeof(struct provider_workloads)), 0, NULL);
        return;
    }
    if (op->n == 1) {
        GS_AUTO_BUF struct gs_buf text = {0};
        kube_selector_format(&op->list[0].selector, &text);
        op->pod_selector = gs_buf_take(&text);
    }
    request_lists(op);
}

struct provider_workloads_op *provider_workloads_find(const struct provider_workloads_request *rq,
                                                      provider_workloads_fn cb, void *arg)
{
    struct provider_workloads_op *op = gs_alloc(sizeof(*op));
    const struct kube_gvr gvr = {rq->kind->group, rq->version, rq->kind->resource};
    GS_AUTO_BUF struct gs_buf query = {0};
    op->rq = *rq;
    op->cb = cb;
    op->arg = arg;
    gs_buf_add_str(&query, "resourceVersion=0");
    if (rq->selector && *rq->selector) {
        gs_buf_add_str(&query, "&labelSelector=");
        http_encode(gs_slice_of(rq->selector), &query);
    }
    if (rq->name)
        op->get = kube_get(rq->kube, gvr, rq->ns, rq->name, NULL, on_workload_pods, op);
    else
        op->get = kube_list(rq->kube, gvr, rq->ns, query.data, on_workload_pods, op);
    return op;
}

void provider_workloads_cancel(struct provider_workloads_op *op)
{
    if (op)
        op_free(op);
}
