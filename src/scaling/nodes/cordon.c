// SPDX-License-Identifier: Apache-2.0
// Early cordons: an idle node with several GPUs is kept free of small pods while a cheaper,
// smaller node can be added for them. A cordon ends as soon as a pod needs the node. A pure
// function of the snapshot.
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/nodes_private.h"
#include "nodes/packing.h"

void nodes_cordons_finish(struct nodes_cordons *c)
{
    for (size_t i = 0; i < c->len; i++)
        free(c->items[i].why);
    free(c->items);
    *c = (struct nodes_cordons){0};
}

const struct nodes_group *nodes_group_of(const struct nodes_group *groups, size_t n_groups,
                                         const json_t *node)
{
    for (size_t k = 0; nodes_pool_labels[k]; k++) {
        const char *name = kube_label(node, nodes_pool_labels[k]);
        for (size_t i = 0; name && i < n_groups; i++)
            if (gs_streq(groups[i].name, name))
                return &groups[i];
    }
    return NULL;
}

// --- nodes ---

json_t *nodes_cordon_patch(const json_t *node, bool cordon, const char *why)
{
    json_t *patch = json_object();
    codec_json_set(patch, json_string(kube_resource_version(node)), "metadata", "resourceVersion",
                   NULL);
    codec_json_set(patch, cordon ? json_string(why) : json_null(), "metadata", "annotations",
                   NODES_ANN_EARLY_CORDON, NULL);
    codec_json_set(patch, cordon ? json_true() : json_null(), "spec", "unschedulable", NULL);
    return patch;
}

const char *nodes_cordon_event(bool cordon)
{
    return cordon ? "EarlyCordon" : "EarlyCordonEnded";
}

json_t *nodes_uncordoned(const json_t *node)
{
    json_t *copy = json_copy((json_t *)node), *taints = json_array(), *taint;
    json_t *old = json_object_get(node, "spec"), *spec = old ? json_copy(old) : json_object();
    size_t i;
    json_array_foreach (json_object_get(spec, "taints"), i, taint)
        if (!gs_streq(codec_json_str(taint, "key", NULL), "node.kubernetes.io/unschedulable"))
            json_array_append(taints, taint);
    json_object_del(spec, "unschedulable");
    json_object_set_new(spec, "taints", taints);
    json_object_set_new(copy, "spec", spec);
    return copy;
}

// --- smaller nodes ---

struct plan {
    struct nodes_snapshot *s;
    const struct nodes_group *groups;
    size_t n_groups;
    const struct nodes_mix *mix;
    const struct nodes_choice_settings *settings;
    size_t *templates; // by group: a node in the snapshot; NODES_NONE
    bool *waiting;     // by pod: it had no node at the beginning
    struct nodes_cordons *ret;
};

static double price_of(const struct plan *p, const struct nodes_group *g)
{
    if (g->pool && g->pool->has_price)
        return g->pool->price;
    size_t at = p->templates[g - p->groups];
    return at == NODES_NONE ? 0 : (double)nodes_gpus(p->s, at);
}

static bool both_priced(const struct nodes_group *a, const struct nodes_group *b)
{
    bool pa = a->pool && a->pool->has_price, pb = b->pool && b->pool->has_price;
    return pa == pb;
}

static bool can_grow(const struct plan *p, const struct nodes_group *g)
{
    return (g->size < g->max || g->upcoming) && !g->blocked &&
           !nodes_backoff_active(&g->backoff, p->settings->now_ms);
}

static bool holds(const struct nodes_snapshot *s, size_t node, const struct nodes_task *t)
{
    return t->gpus <= nodes_gpus(s, node) && t->cpu_milli <= nodes_allocatable(s, node, "cpu") &&
           t->memory_bytes <= nodes_allocatable(s, node, "memory") / 1000;
}

// The cheapest group that can grow by a node with fewer GPUs, on which the task runs.
static const struct nodes_group *smaller_group(const struct plan *p, const struct nodes_group *own,
                                               size_t gpus, const struct nodes_task *t)
{
    const struct nodes_group *best = NULL;
    for (size_t i = 0; i < p->n_groups; i++) {
        const struct nodes_group *g = &p->groups[i];
        size_t at = p->templates[i];
        if (at == NODES_NONE || g == own || !can_grow(p, g) || nodes_gpus(p->s, at) >= gpus ||
            !holds(p->s, at, t) || !both_priced(g, own) || price_of(p, g) >= price_of(p, own))
            continue;
        if (!best || price_of(p, g) < price_of(p, best))
            best = g;
    }
    return best;
}

// The most frequent task that would split the node although a smaller node is cheaper.
static const struct nodes_task *splitting_task(const struct plan *p, const struct nodes_group *own,
                                               size_t node, const struct nodes_group **ret)
{
    const struct nodes_task *best = NULL;
    size_t gpus = nodes_gpus(p->s, node);
    for (size_t i = 0; i < p->mix->len; i++) {
        const struct nodes_task *t = &p->mix->tasks[i];
        const struct nodes_group *g =
            t->gpus && t->gpus < gpus ? smaller_group(p, own, gpus, t) : NULL;
        if (!g || (best && t->share <= best->share))
            continue;
        best = t;
        *ret = g;
    }
    return best;
}

// --- pods that need a large node ---

static bool pod_has_smaller_home(const struct plan *p, const struct nodes_group *own, size_t pod,
                                 size_t gpus)
{
    struct nodes_task t = {1, nodes_gpu_request(p->s, pod), nodes_request(p->s, pod, "cpu"),
                           nodes_request(p->s, pod, "memory") / 1000};
    for (size_t i = 0; i < p->n_groups; i++) {
        size_t at = p->templates[i];
        if (at != NODES_NONE && &p->groups[i] != own && can_grow(p, &p->groups[i]) &&
            nodes_gpus(p->s, at) < gpus && holds(p->s, at, &t) &&
            nodes_fits_empty(p->s, pod, at, NULL))
            return true;
    }
    return false;
}

// A copy of a cordoned node that takes pods, in the snapshot.
static size_t uncordoned(struct plan *p, size_t node)
{
    CODEC_AUTO_JSON json_t *copy = nodes_uncordoned(p->s->nodes[node].object);
    return nodes_snapshot_add_template(p->s, copy, NULL);
}

// Whether the scheduler may take pod a first: the older one of equal priority.
static bool is_first(const struct nodes_snapshot *s, size_t a, size_t b)
{
    const json_t *pa = s->pods[a].object, *pb = s->pods[b].object;
    int64_t a_priority = codec_json_int(pa, 0, "spec", "priority", NULL);
    int64_t b_priority = codec_json_int(pb, 0, "spec", "priority", NULL);
    const char *a_time = kube_created(pa);
    const char *b_time = kube_created(pb);
    if (a_priority != b_priority)
        return a_priority > b_priority;
    // RFC 3339 in UTC. Within a second the order is not known: it may be the first.
    return a_time && b_time ? strcmp(a_time, b_time) <= 0 : a < b;
}

static bool is_pending(const struct nodes_snapshot *s, size_t pod)
{
    return s->pods[pod].node == UINT32_MAX && nodes_gpu_request(s, pod);
}

// Whether the scheduler would consider the pod for a node that takes pods: also if the plan has
// placed it on a node that does not exist yet.
static bool is_waiting(const struct plan *p, size_t pod)
{
    uint32_t node = p->s->pods[pod].node;
    return p->waiting[pod] && (node == UINT32_MAX || p->s->nodes[node].template);
}

// A pending pod for which the node is the right one. It is placed, so that it needs no other node.
// ret_taken: an older pod that has a smaller node to wait for would be scheduled there first.
static size_t pod_for(struct plan *p, const struct nodes_group *own, size_t node, bool *ret_taken)
{
    size_t open = uncordoned(p, node), gpus = nodes_gpus(p->s, node), found = NODES_NONE;
    *ret_taken = false;
    for (size_t pod = 0; pod < p->s->n_pods && found == NODES_NONE; pod++)
        if (is_pending(p->s, pod) && nodes_fits(p->s, pod, open, NULL) &&
            !pod_has_smaller_home(p, own, pod, gpus))
            found = pod;
    for (size_t pod = 0; pod < p->s->n_pods && found != NODES_NONE && !*ret_taken; pod++)
        *ret_taken = pod != found && is_waiting(p, pod) && is_first(p->s, pod, found) &&
                     nodes_fits(p->s, pod, open, NULL) && pod_has_smaller_home(p, own, pod, gpus);
    if (found != NODES_NONE)
        nodes_place(p->s, found, open);
    nodes_exclude(p->s, open, true); // of no use for other pods
    return found;
}

// --- the plan ---

static void act(struct plan *p, size_t node, bool cordon, char *why)
{
    struct nodes_cordons *r = p->ret;
    gs_grow(&r->items, &r->cap, r->len, sizeof(*r->items));
    r->items[r->len++] = (struct nodes_cordon){node, cordon, why};
}

static char *cordon_text(const struct plan *p, const struct nodes_group *own, size_t node,
                         const struct nodes_task *t, const struct nodes_group *small)
{
    size_t gpus = nodes_gpus(p->s, node),
           small_gpus = nodes_gpus(p->s, p->templates[small - p->groups]);
    GS_AUTO_FREE char *price =
        own->pool && own->pool->has_price
            ? gs_format(" for %.2f instead of %.2f %s an hour", price_of(p, small),
                        price_of(p, own), own->pool->currency)
            : gs_strdup("");
    return gs_format(
        "all %zu GPUs are idle, a pod with %zu GPU%s would split them, and a node of %s "
        "with %zu GPU%s serves it%s",
        gpus, t->gpus, t->gpus == 1 ? "" : "s", small->name, small_gpus, small_gpus == 1 ? "" : "s",
        price);
}

static bool is_idle(const struct nodes_snapshot *s, size_t node)
{
    return nodes_gpus(s, node) > 1 && nodes_free_gpus(s, node) == nodes_gpus(s, node);
}

static void plan_node(struct plan *p, size_t node)
{
    const struct nodes_node *n = &p->s->nodes[node];
    const struct nodes_group *own = nodes_group_of(p->groups, p->n_groups, n->object),
                             *small = NULL;
    bool cordoned = codec_json_bool(n->object, false, "spec", "unschedulable", NULL);
    bool ours = kube_annotation(n->object, NODES_ANN_EARLY_CORDON) != NULL;
    if (n->excluded || (cordoned && !ours) || kube_is_deleting(n->object))
        return;
    if (!own || p->templates[own - p->groups] == NODES_NONE) {
        if (cordoned)
            act(p, node, false, gs_strdup("its pool is not known any more"));
        return;
    }
    bool idle = is_idle(p->s, node);
    const struct nodes_task *t = idle ? splitting_task(p, own, node, &small) : NULL;
    if (cordoned && !idle) {
        act(p, node, false, gs_strdup("its GPUs are in use"));
        return;
    }
    if (cordoned && !t) {
        act(p, node, false, gs_strdup("no smaller node is cheaper for the typical pods now"));
        return;
    }
    if (!t || (!cordoned && !kube_condition_true(n->object, "Ready")))
        return;
    bool taken;
    size_t pod = pod_for(p, own, node, &taken);
    if (pod != NODES_NONE && cordoned && !taken)
        act(p, node, false,
            gs_format("pod %s/%s needs it", kube_namespace(p->s->pods[pod].object),
                      kube_name(p->s->pods[pod].object)));
    else if (pod == NODES_NONE && !cordoned)
        act(p, node, true, cordon_text(p, own, node, t, small));
}

// Pods that run on nodes as they are will be bound there.
static void bind_pending(struct nodes_snapshot *s)
{
    for (size_t i = 0; i < s->n_pods; i++) {
        if (s->pods[i].node != UINT32_MAX || !nodes_gpu_request(s, i))
            continue;
        size_t node = nodes_best(s, i, NODES_PACK_GPUS, NULL);
        if (node != NODES_NONE)
            nodes_place(s, i, node);
    }
}

static void plan_start(struct plan *p)
{
    p->waiting = gs_alloc_array(p->s->n_pods + 1, sizeof(*p->waiting));
    for (size_t i = 0; i < p->s->n_pods; i++)
        p->waiting[i] = is_pending(p->s, i);
    p->templates = gs_alloc_array(p->n_groups + 1, sizeof(size_t));
    for (size_t i = 0; i < p->n_groups; i++) {
        CODEC_AUTO_JSON json_t *node = nodes_group_node(&p->groups[i], p->settings);
        p->templates[i] =
            node ? nodes_snapshot_add_template(p->s, node, p->groups[i].name) : NODES_NONE;
        if (node)
            nodes_exclude(p->s, p->templates[i], true);
    }
}

static void plan_finish(struct plan *p)
{
    free(p->templates);
    free(p->waiting);
}

void nodes_plan_cordons(struct nodes_snapshot *s, const struct nodes_group *groups, size_t n_groups,
                        const struct nodes_mix *mix, const struct nodes_choice_settings *settings,
                        struct nodes_cordons *ret)
{
    struct plan p = {s, groups, n_groups, mix, settings, NULL, NULL, ret};
    size_t n_nodes = s->n_nodes, checkpoint = nodes_checkpoint(s);
    plan_start(&p);
    bind_pending(s);
    for (size_t i = 0; i < n_nodes; i++)
        plan_node(&p, i);
    nodes_restore(s, checkpoint);
    plan_finish(&p);
}

void nodes_find_cordons(struct nodes_snapshot *s, const struct nodes_group *groups, size_t n_groups,
                        const struct nodes_choice_settings *settings, struct nodes_cordons *ret)
{
    struct nodes_mix mix = {0};
    nodes_mix_of(s, &mix);
    nodes_mix_add_groups(&mix, groups, n_groups);
    nodes_plan_cordons(s, groups, n_groups, &mix, settings, ret);
    nodes_mix_finish(&mix);
}

size_t nodes_reserve_cordoned(struct nodes_snapshot *s, const struct nodes_group *groups,
                              size_t n_groups, const struct nodes_choice_settings *settings)
{
    struct plan p = {s, groups, n_groups, NULL, settings, NULL, NULL, NULL};
    size_t n_nodes = s->n_nodes, n = 0;
    plan_start(&p);
    for (size_t i = 0; i < n_nodes; i++) {
        const struct nodes_node *node = &s->nodes[i];
        const struct nodes_group *own = nodes_group_of(groups, n_groups, node->object);
        bool taken;
        if (!node->excluded && own && is_idle(s, i) && !kube_is_deleting(node->object) &&
            codec_json_bool(node->object, false, "spec", "unschedulable", NULL) &&
            kube_annotation(node->object, NODES_ANN_EARLY_CORDON))
            n += pod_for(&p, own, i, &taken) != NODES_NONE;
    }
    plan_finish(&p);
    return n;
}
