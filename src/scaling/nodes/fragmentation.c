// SPDX-License-Identifier: Apache-2.0
// How much of the free GPUs is useless for the pods that the cluster usually runs (the mix), after
// Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
// Gradient Descent" (USENIX ATC 2023).
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/nodes_private.h"
#include "nodes/packing.h"

// --- the mix ---

void nodes_mix_finish(struct nodes_mix *mix)
{
    free(mix->tasks);
    *mix = (struct nodes_mix){0};
}

void nodes_mix_add_task(struct nodes_mix *mix, struct nodes_task t)
{
    for (size_t i = 0; i < mix->len; i++) {
        struct nodes_task *o = &mix->tasks[i];
        if (o->gpus == t.gpus && o->cpu_milli == t.cpu_milli && o->memory_bytes == t.memory_bytes) {
            o->share += t.share;
            return;
        }
    }
    gs_grow(&mix->tasks, &mix->cap, mix->len, sizeof(*mix->tasks));
    mix->tasks[mix->len++] = t;
}

static int compare_tasks(const void *pa, const void *pb)
{
    const struct nodes_task *a = pa, *b = pb;
    if (a->share != b->share)
        return a->share > b->share ? -1 : 1;
    if (a->gpus != b->gpus)
        return a->gpus < b->gpus ? -1 : 1;
    if (a->cpu_milli != b->cpu_milli)
        return a->cpu_milli < b->cpu_milli ? -1 : 1;
    return a->memory_bytes < b->memory_bytes ? -1 : a->memory_bytes > b->memory_bytes;
}

void nodes_mix_of(const struct nodes_snapshot *s, struct nodes_mix *ret)
{
    GS_AUTO_FREE size_t *pods = gs_alloc_array(s->n_forms + 1, sizeof(size_t));
    GS_AUTO_FREE size_t *samples = gs_alloc_array(s->n_forms + 1, sizeof(size_t));
    struct nodes_task *all = gs_alloc_array(s->n_forms + 1, sizeof(*all));
    size_t n = 0;
    for (size_t i = 0; i < s->n_pods; i++) {
        if (s->pods[i].node != UINT32_MAX && s->nodes[s->pods[i].node].parking)
            continue;
        pods[s->pods[i].form]++;
        samples[s->pods[i].form] = i;
    }
    for (size_t f = 0; f < s->n_forms; f++) {
        size_t gpus = pods[f] ? nodes_gpu_request(s, samples[f]) : 0;
        if (gpus)
            all[n++] =
                (struct nodes_task){(double)pods[f], gpus, nodes_request(s, samples[f], "cpu"),
                                    nodes_request(s, samples[f], "memory") / 1000};
    }
    if (n)
        qsort(all, n, sizeof(*all), compare_tasks);
    for (size_t i = 0; i < n && ret->len < NODES_MAX_TASKS; i++)
        nodes_mix_add_task(ret, all[i]);
    free(all);
}

static bool has_size(const struct nodes_mix *mix, size_t gpus)
{
    for (size_t i = 0; i < mix->len; i++)
        if (mix->tasks[i].gpus == gpus)
            return true;
    return false;
}

void nodes_mix_add_groups(struct nodes_mix *mix, const struct nodes_group *groups, size_t n)
{
    double all = 0;
    for (size_t i = 0; i < mix->len; i++)
        all += mix->tasks[i].share;
    for (size_t i = 0; i < n; i++) {
        size_t gpus = 0;
        if (groups[i].pool)
            gpus = groups[i].pool->gpus;
        else if (groups[i].node)
            gpus = (size_t)(nodes_milli_of(codec_json_get(groups[i].node, "status", "allocatable",
                                                          NODES_GPU, NULL)) /
                            1000);
        if (gpus && !has_size(mix, gpus))
            nodes_mix_add_task(
                mix, (struct nodes_task){.share = all > 0 ? all / 1000 : 1, .gpus = gpus});
    }
}

// --- fragmentation ---

struct room {
    int64_t gpus, cpu_milli, memory_bytes, pods;
};

static struct room room_of(const struct nodes_snapshot *s, size_t node)
{
    return (struct room){(int64_t)nodes_free_gpus(s, node), nodes_free(s, node, "cpu"),
                         nodes_free(s, node, "memory") / 1000, s->nodes[node].free_pods};
}

static bool runs(const struct room *r, const struct nodes_task *t)
{
    return (int64_t)t->gpus <= r->gpus && t->cpu_milli <= r->cpu_milli &&
           t->memory_bytes <= r->memory_bytes && r->pods > 0;
}

static double fragmentation(const struct room *r, const struct nodes_mix *mix)
{
    double useless = 0, all = 0;
    for (size_t i = 0; i < mix->len; i++) {
        all += mix->tasks[i].share;
        if (!runs(r, &mix->tasks[i]))
            useless += mix->tasks[i].share;
    }
    return all > 0 && r->gpus > 0 ? (double)r->gpus * useless / all : 0;
}

static bool takes_pods(const struct nodes_snapshot *s, size_t node)
{
    const struct nodes_node *n = &s->nodes[node];
    return !n->excluded && !codec_json_bool(n->object, false, "spec", "unschedulable", NULL) &&
           (n->template || kube_condition_true(n->object, "Ready"));
}

double nodes_fragmentation_of(const struct nodes_snapshot *s, size_t node,
                              const struct nodes_mix *mix)
{
    struct room r = room_of(s, node);
    return takes_pods(s, node) ? fragmentation(&r, mix) : 0;
}

static void measure_node(const struct nodes_snapshot *s, size_t node, const struct nodes_mix *mix,
                         struct nodes_fragmentation *ret)
{
    size_t gpus = nodes_gpus(s, node);
    struct room r = room_of(s, node);
    bool usable = false;
    if (!gpus || s->nodes[node].excluded)
        return;
    ret->nodes++;
    ret->gpus += gpus;
    ret->idle_nodes += r.gpus == (int64_t)gpus;
    if (!takes_pods(s, node) || r.gpus <= 0)
        return;
    ret->free_gpus += (size_t)r.gpus;
    ret->fragmented_gpus += fragmentation(&r, mix);
    for (size_t i = 0; i < mix->len && !usable; i++)
        usable = runs(&r, &mix->tasks[i]);
    if (mix->len && !usable)
        ret->stranded_gpus += (size_t)r.gpus;
    if ((size_t)r.gpus > ret->largest_gpus && r.pods > 0) {
        ret->largest_gpus = (size_t)r.gpus;
        ret->largest_node = node;
    }
}

void nodes_measure(const struct nodes_snapshot *s, const struct nodes_mix *mix,
                   struct nodes_fragmentation *ret)
{
    *ret = (struct nodes_fragmentation){.largest_node = NODES_NONE};
    for (size_t i = 0; i < s->n_nodes; i++)
        measure_node(s, i, mix, ret);
}
