// SPDX-License-Identifier: Apache-2.0
#include "nodes_world.h"

#include "bench.h"

#include "base/mem.h"
#include "kube/object.h"

static const struct world_shape world_shapes[] = {
    {1592, 1, 3152, 5600},  {857, 1, 11300, 49152}, {778, 1, 11908, 47104}, {534, 1, 11400, 48128},
    {486, 1, 8000, 30517},  {364, 0, 12500, 57344}, {284, 0, 32000, 49152}, {255, 1, 18708, 64512},
    {195, 1, 9810, 41560},  {189, 1, 4000, 22888},  {182, 1, 4000, 15258},  {163, 0, 8000, 30517},
    {158, 1, 12000, 24576}, {158, 1, 15700, 58368}, {152, 1, 4152, 10600},  {136, 1, 4000, 30517},
    {120, 0, 15400, 51200}, {108, 1, 16000, 32768}, {104, 1, 8000, 16384},  {104, 1, 4000, 24576},
    {99, 1, 12000, 16384},  {95, 0, 16500, 51200},  {93, 1, 14200, 58368},  {84, 1, 24200, 93184},
    {65, 1, 11400, 77824},  {55, 1, 8000, 32768},   {51, 1, 6000, 6144},    {51, 1, 11900, 77824},
    {44, 1, 12000, 15360},  {41, 1, 8200, 33792},   {40, 1, 4000, 31250},   {18, 8, 88000, 327680},
    {18, 8, 64200, 263168}, {9, 4, 32200, 132096},  {7, 2, 16200, 66560},   {3, 8, 120000, 737280},
    {3, 2, 6000, 65536},    {3, 8, 64000, 262144},  {3, 4, 32000, 131072},  {3, 2, 30200, 160768},
    {3, 4, 60200, 320512},  {2, 2, 17400, 43008},   {2, 8, 120200, 640000}, {1, 2, 14000, 60000},
};

// The machines of the trace, and pools as the GKE guide has them with the trace's most frequent
// amounts per GPU.
const struct world_fleet world_fleets[WORLD_FLEETS] = {
    {"the machines of the trace",
     12,
     {{"p100-1", 1, 8, 32},
      {"t4-2", 2, 104, 512},
      {"p100-2", 2, 16, 120},
      {"p100-2l", 2, 64, 256},
      {"v100-4", 4, 32, 128},
      {"t4-4", 4, 96, 384},
      {"v100-4l", 4, 48, 368},
      {"g2-8", 8, 96, 384},
      {"g3-8", 8, 128, 768},
      {"v100-8", 8, 96, 768},
      {"cpu-32", 0, 32, 256},
      {"cpu-96", 0, 96, 512}}},
    {"pools with 1, 2, 4 and 8 GPUs, 12 cores and 48 GiB for each GPU",
     5,
     {{"gpu-1", 1, 12, 48},
      {"gpu-2", 2, 24, 96},
      {"gpu-4", 4, 48, 192},
      {"gpu-8", 8, 96, 384},
      {"cpu-32", 0, 32, 256}}},
};
const struct world_fleet *world_fleet = &world_fleets[0];

// The trace has no prices. These are made up: the same for a GPU, a core and a GiB everywhere.
double world_price(const struct world_machine *m)
{
    return 1.0 * m->gpus + 0.03 * m->cpu + 0.004 * m->memory_gib;
}

static uint64_t random_state;

void world_seed(uint64_t seed)
{
    random_state = seed;
}

uint32_t world_roll(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

const struct world_shape *world_draw(void)
{
    unsigned all = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(world_shapes); i++)
        all += world_shapes[i].pods;
    unsigned at = world_roll(all);
    size_t i = 0;
    while (at >= world_shapes[i].pods)
        at -= world_shapes[i++].pods;
    return &world_shapes[i];
}

json_t *world_pod(const struct world_shape *sh, const char *owner, size_t number, const char *node)
{
    json_t *requests = json_object(), *pod = json_object();
    json_object_set_new(requests, "cpu", codec_json_strf("%um", sh->cpu_milli));
    json_object_set_new(requests, "memory", codec_json_strf("%uMi", sh->memory_mib));
    if (sh->gpus)
        json_object_set_new(requests, NODES_GPU, codec_json_strf("%u", sh->gpus));
    codec_json_set(pod, codec_json_strf("%s-%zu", owner, number), "metadata", "name", NULL);
    codec_json_set(pod, json_string("default"), "metadata", "namespace", NULL);
    codec_json_set(pod, json_string(owner), "metadata", "labels", "app", NULL);
    codec_json_set(pod,
                   json_pack("[{s:s, s:{s:o}}]", "name", "main", "resources", "requests", requests),
                   "spec", "containers", NULL);
    codec_json_set(pod,
                   json_pack("[{s:s, s:s, s:s, s:i}, {s:s, s:s, s:s}]", "key",
                             "node.kubernetes.io/not-ready", "operator", "Exists", "effect",
                             "NoExecute", "tolerationSeconds", 300, "key", NODES_GPU, "operator",
                             "Exists", "effect", "NoSchedule"),
                   "spec", "tolerations", NULL);
    if (!sh->gpus)
        json_array_remove(codec_json_get(pod, "spec", "tolerations", NULL), 1);
    if (node)
        codec_json_set(pod, json_string(node), "spec", "nodeName", NULL);
    return pod;
}

void world_pools_open(struct world_pools *c)
{
    *c = (struct world_pools){0};
    for (size_t i = 0; i < world_fleet->n; i++) {
        const struct world_machine *m = &world_fleet->machines[i];
        GS_AUTO_FREE char *option =
            gs_format("%s=0..15000x%u,cpu=%u,memory=%uGi,price=%.3f,startup=90s%s", m->name,
                      m->gpus, m->cpu, m->memory_gib, world_price(m),
                      m->gpus ? ",taint=nvidia.com/gpu=present:NoSchedule" : "");
        bench_check(nodes_pools_add_option(&c->pools, option));
    }
    for (size_t i = 0; i < world_fleet->n; i++) {
        const struct nodes_pool *p = &c->pools.items[i];
        c->groups[i] = (struct nodes_group){.name = p->name, .pool = p, .max = p->max};
        c->templates[i] = nodes_pool_template(p, NULL);
    }
}

void world_pools_close(struct world_pools *c)
{
    for (size_t i = 0; i < world_fleet->n; i++)
        json_decref(c->templates[i]);
    nodes_pools_finish(&c->pools);
}

void world_add_machine(struct world *w, struct nodes_snapshot *s, size_t pool)
{
    GS_AUTO_FREE char *name = gs_format("%s-%zu", world_fleet->machines[pool].name, w->made++);
    gs_grow(&w->nodes, &w->nodes_cap, w->n_nodes, sizeof(*w->nodes));
    gs_grow(&w->pool_of, &w->pool_cap, w->n_nodes, sizeof(*w->pool_of));
    w->nodes[w->n_nodes] = nodes_pool_template(&w->c.pools.items[pool], name);
    w->pool_of[w->n_nodes] = pool;
    nodes_snapshot_add_node(s, w->nodes[w->n_nodes++]);
}

// kube-scheduler binds what fits.
void world_bind(struct world *w, struct nodes_snapshot *s)
{
    for (size_t i = 0; i < w->n_pods; i++) {
        if (w->pods[i].bound)
            continue;
        size_t node = nodes_best(s, i, w->scoring, NULL);
        if (node == NODES_NONE)
            continue;
        nodes_place(s, i, node);
        w->pods[i].bound = true;
        codec_json_set(w->pods[i].object, json_string(nodes_name(s, node)), "spec", "nodeName",
                       NULL);
    }
}

void world_scale_up(struct world *w, struct nodes_snapshot *s, struct world_totals *t)
{
    for (;;) {
        struct nodes_decision d;
        nodes_decide(s, w->c.groups, world_fleet->n, &w->settings, &d);
        size_t chosen = d.chosen, count = chosen == NODES_NONE ? 0 : d.options[chosen].count;
        nodes_decision_finish(&d);
        t->decisions++;
        if (!count)
            return;
        for (size_t i = 0; i < count; i++)
            world_add_machine(w, s, chosen);
        w->c.groups[chosen].size += count;
        t->added += count;
        world_bind(w, s);
    }
}

void world_measure(const struct world *w, const struct nodes_snapshot *s, struct world_totals *t)
{
    struct nodes_fragmentation f;
    nodes_measure(s, &w->mix, &f);
    t->rounds++;
    t->nodes += (double)w->n_nodes;
    t->gpus += (double)f.gpus;
    t->unused += (double)f.free_gpus;
    t->fragmented += f.fragmented_gpus;
    for (size_t i = 0; i < w->n_nodes; i++)
        t->cost += world_price(&world_fleet->machines[w->pool_of[i]]);
}

static void world_drop_empty(struct world *w, const struct nodes_snapshot *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->n_nodes; i++) {
        if (!nodes_pods_on(s, i)) {
            w->c.groups[w->pool_of[i]].size--;
            json_decref(w->nodes[i]);
            continue;
        }
        w->nodes[kept] = w->nodes[i];
        w->pool_of[kept++] = w->pool_of[i];
    }
    w->n_nodes = kept;
}

static void world_end_pods(struct world *w, size_t round)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->n_pods; i++) {
        if (w->pods[i].until > round)
            w->pods[kept++] = w->pods[i];
        else
            json_decref(w->pods[i].object);
    }
    w->n_pods = kept;
}

struct nodes_snapshot *world_snapshot(const struct world *w)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    for (size_t i = 0; i < w->n_nodes; i++)
        nodes_snapshot_add_node(s, w->nodes[i]);
    for (size_t i = 0; i < w->n_pods; i++)
        nodes_snapshot_add_pod(s, w->pods[i].object);
    return s;
}

void world_open(struct world *w, enum nodes_policy policy, enum nodes_scoring scoring,
                uint64_t seed)
{
    *w = (struct world){.settings = {.policy = policy, .seed = seed}, .scoring = scoring};
    world_pools_open(&w->c);
    for (size_t i = 0; i < GS_ARRAY_LEN(world_shapes); i++)
        if (world_shapes[i].gpus)
            nodes_mix_add_task(&w->mix,
                               (struct nodes_task){world_shapes[i].pods, world_shapes[i].gpus,
                                                   world_shapes[i].cpu_milli,
                                                   (int64_t)world_shapes[i].memory_mib << 20});
    world_seed(seed);
}

void world_close(struct world *w)
{
    world_end_pods(w, SIZE_MAX);
    for (size_t i = 0; i < w->n_nodes; i++)
        json_decref(w->nodes[i]);
    free(w->nodes);
    free(w->pool_of);
    free(w->pods);
    nodes_mix_finish(&w->mix);
    world_pools_close(&w->c);
}

struct nodes_snapshot *world_arrive(struct world *w, size_t round, size_t n)
{
    world_end_pods(w, round);
    struct nodes_snapshot *s = world_snapshot(w);
    world_drop_empty(w, s);
    nodes_snapshot_free(s);
    for (size_t i = 0; i < n; i++) {
        const struct world_shape *sh = world_draw();
        gs_grow(&w->pods, &w->pods_cap, w->n_pods, sizeof(*w->pods));
        w->pods[w->n_pods++] = (struct world_live_pod){world_pod(sh, "app", w->arrived++, NULL), sh,
                                                       round + 1 + world_roll(20), false};
    }
    s = world_snapshot(w);
    world_bind(w, s);
    return s;
}
