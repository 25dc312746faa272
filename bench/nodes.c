// SPDX-License-Identifier: Apache-2.0
// Node autoscaling: one decision of a large cluster, and the GPUs that policies leave unused on the
// workload mix of a published trace.
//
// Trace: Alibaba's cluster-trace-gpu-v2023 (github.com/alibaba/clusterdata), the data of the paper
// "Beware of Fragmentation" (USENIX ATC 2023). shapes[] are the requests of
// openb_pod_list_default.csv that at least 40 of its 8,152 pods have, and all with two and more
// GPUs: 7,712 pods (94.6 %). A request for a part of a GPU counts as one GPU, because
// kube-scheduler gives whole ones. machines[] are the GPU machines of openb_node_list_all_node.csv
// that at least 7 of 1,523 nodes have, and its most frequent machines without GPUs.
#include "bench.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/choice.h"
#include "nodes/packing.h"

#include <malloc.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct options {
    int64_t nodes, pods, rounds, seed;
};

#define LARGE_SECONDS  1.0
#define LARGE_MB       200.0
#define RATE_MS        100.0
#define STRANDED_BELOW 0.8 // of least-waste

static const struct shape {
    unsigned pods, gpus, cpu_milli, memory_mib;
} shapes[] = {
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

struct machine {
    const char *name;
    unsigned gpus, cpu, memory_gib;
};

#define MAX_MACHINES 12

// The machines of the trace, and pools as the GKE guide has them with the trace's most frequent
// amounts per GPU.
static const struct fleet {
    const char *name;
    size_t n;
    struct machine machines[MAX_MACHINES];
} fleets[] = {
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
static const struct fleet *fleet = &fleets[0];

// The trace has no prices. These are made up: the same for a GPU, a core and a GiB everywhere.
static double price_of(const struct machine *m)
{
    return 1.0 * m->gpus + 0.03 * m->cpu + 0.004 * m->memory_gib;
}

static uint64_t random_state;

static uint32_t roll(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static const struct shape *draw(void)
{
    unsigned all = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(shapes); i++)
        all += shapes[i].pods;
    unsigned at = roll(all);
    size_t i = 0;
    while (at >= shapes[i].pods)
        at -= shapes[i++].pods;
    return &shapes[i];
}

static json_t *make_pod(const struct shape *sh, const char *owner, size_t number, const char *node)
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

struct cluster_pools {
    struct nodes_pools pools;
    struct nodes_group groups[MAX_MACHINES];
    json_t *templates[MAX_MACHINES];
};

static void pools_open(struct cluster_pools *c)
{
    *c = (struct cluster_pools){0};
    for (size_t i = 0; i < fleet->n; i++) {
        const struct machine *m = &fleet->machines[i];
        GS_AUTO_FREE char *option = gs_format(
            "%s=0..15000x%u,cpu=%u,memory=%uGi,price=%.3f,startup=90s%s", m->name, m->gpus, m->cpu,
            m->memory_gib, price_of(m), m->gpus ? ",taint=nvidia.com/gpu=present:NoSchedule" : "");
        bench_check(nodes_pools_add_option(&c->pools, option));
    }
    for (size_t i = 0; i < fleet->n; i++) {
        const struct nodes_pool *p = &c->pools.items[i];
        c->groups[i] = (struct nodes_group){.name = p->name, .pool = p, .max = p->max};
        c->templates[i] = nodes_pool_template(p, NULL);
    }
}

static void pools_close(struct cluster_pools *c)
{
    for (size_t i = 0; i < fleet->n; i++)
        json_decref(c->templates[i]);
    nodes_pools_finish(&c->pools);
}

// --- one large decision ---

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double heap_mb(void)
{
    struct mallinfo2 m = mallinfo2();
    return (double)(m.uordblks + m.hblkhd) / 1e6;
}

struct objects {
    json_t **nodes, **pods;
    size_t n_nodes, n_pods;
};

// Nine tenths of the pods run, a tenth is pending. Pods of one owner have equal requests.
static struct objects make_objects(const struct options *o, const struct cluster_pools *c)
{
    struct objects all = {gs_alloc_array((size_t)o->nodes, sizeof(json_t *)),
                          gs_alloc_array((size_t)o->pods, sizeof(json_t *)), (size_t)o->nodes,
                          (size_t)o->pods};
    for (size_t i = 0; i < all.n_nodes; i++) {
        GS_AUTO_FREE char *name = gs_format("node-%zu", i);
        all.nodes[i] = nodes_pool_template(&c->pools.items[i % fleet->n], name);
    }
    const struct shape *sh = draw();
    for (size_t i = 0; i < all.n_pods; i++) {
        if (i % 50 == 0)
            sh = draw();
        GS_AUTO_FREE char *owner = gs_format("owner-%zu", i / 50);
        GS_AUTO_FREE char *node = gs_format("node-%u", roll((uint32_t)all.n_nodes));
        bool pending = i >= all.n_pods - all.n_pods / 10;
        all.pods[i] = make_pod(sh, owner, i, pending ? NULL : node);
    }
    return all;
}

static void objects_free(struct objects *all)
{
    for (size_t i = 0; i < all->n_nodes; i++)
        json_decref(all->nodes[i]);
    for (size_t i = 0; i < all->n_pods; i++)
        json_decref(all->pods[i]);
    free(all->nodes);
    free(all->pods);
}

// Else the peak is that of the objects.
static void reset_peak(void)
{
    malloc_trim(0);
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        (void)fputs("5", f);
        (void)fclose(f);
    }
}

static void measure_policy(const struct objects *all, const struct cluster_pools *c,
                           enum nodes_policy policy)
{
    reset_peak();
    double rss_mb = (double)bench_status_kib(getpid(), "VmRSS") * 1024 / 1e6;
    double before = heap_mb(), start = cpu_s();
    struct nodes_snapshot *s = nodes_snapshot_new();
    for (size_t i = 0; i < all->n_nodes; i++)
        nodes_snapshot_add_node(s, all->nodes[i]);
    for (size_t i = 0; i < all->n_pods; i++)
        nodes_snapshot_add_pod(s, all->pods[i]);
    double built = cpu_s(), snapshot_mb = heap_mb() - before;
    struct nodes_choice_settings settings = {.policy = policy};
    struct nodes_decision d;
    nodes_decide(s, c->groups, fleet->n, &settings, &d);
    double end = cpu_s();
    double peak_mb = (double)bench_peak_kib(getpid()) * 1024 / 1e6 - rss_mb;
    printf("  %-12s snapshot %.2f s, decision %.2f s, %.0f MB of which the snapshot %.0f; %zu pods "
           "wait, "
           "%zu of them fit   %.0f s, %.0f MB: %s\n",
           nodes_policy_name(policy), built - start, end - built, peak_mb, snapshot_mb, d.n_pending,
           d.n_waiting, LARGE_SECONDS, LARGE_MB,
           bench_verdict(end - start < LARGE_SECONDS && peak_mb < LARGE_MB));
    nodes_decision_finish(&d);
    nodes_snapshot_free(s);
}

static void large(const struct options *o)
{
    struct cluster_pools c;
    pools_open(&c);
    random_state = (uint64_t)o->seed;
    double before = heap_mb();
    struct objects all = make_objects(o, &c);
    printf("One decision, %zu nodes, %zu pods (a tenth pending), %zu pools; CPU time\n",
           all.n_nodes, all.n_pods, fleet->n);
    printf("  the objects, which the caches hold: %.0f MB; the lines below are in addition\n",
           heap_mb() - before);
    measure_policy(&all, &c, NODES_POLICY_COST);
    measure_policy(&all, &c, NODES_POLICY_PACKING);
    measure_policy(&all, &c, NODES_POLICY_LEAST_WASTE);
    objects_free(&all);
    pools_close(&c);
}

// --- options of another autoscaler ---

static void rate(const struct options *o)
{
    struct cluster_pools c;
    pools_open(&c);
    random_state = (uint64_t)o->seed;
    json_t *pods[1000];
    for (size_t i = 0; i < 1000; i++)
        pods[i] = make_pod(draw(), "owner", i, NULL);
    struct nodes_offer offers[100];
    for (size_t i = 0; i < 100; i++)
        offers[i] = (struct nodes_offer){.group = c.groups[i % fleet->n],
                                         .count = 1000,
                                         .pods = (const json_t *const *)pods,
                                         .n_pods = 1000};
    struct nodes_choice_settings settings = {.policy = NODES_POLICY_COST};
    struct nodes_decision d;
    double start = cpu_s();
    nodes_rate(offers, 100, &settings, &d);
    double ms = (cpu_s() - start) * 1000;
    printf("Rating 100 options of 1,000 pods: %.1f ms   %.0f ms: %s\n", ms, RATE_MS,
           bench_verdict(ms < RATE_MS));
    nodes_decision_finish(&d);
    for (size_t i = 0; i < 1000; i++)
        json_decref(pods[i]);
    pools_close(&c);
}

// --- the trace's mix ---

struct live_pod {
    json_t *object;
    const struct shape *shape;
    size_t until; // round in which it ends
    bool bound;
};

struct world {
    struct cluster_pools c;
    struct nodes_choice_settings settings;
    enum nodes_scoring scoring;
    json_t **nodes;
    size_t *pool_of;
    size_t n_nodes, nodes_cap, pool_cap, made;
    struct live_pod *pods;
    size_t n_pods, pods_cap;
    struct nodes_mix mix;
};

struct totals {
    double nodes, gpus, unused, fragmented, cost, share; // means over the rounds
    size_t rounds, added;
};

static void add_machine(struct world *w, struct nodes_snapshot *s, size_t pool)
{
    GS_AUTO_FREE char *name = gs_format("%s-%zu", fleet->machines[pool].name, w->made++);
    gs_grow(&w->nodes, &w->nodes_cap, w->n_nodes, sizeof(*w->nodes));
    gs_grow(&w->pool_of, &w->pool_cap, w->n_nodes, sizeof(*w->pool_of));
    w->nodes[w->n_nodes] = nodes_pool_template(&w->c.pools.items[pool], name);
    w->pool_of[w->n_nodes] = pool;
    nodes_snapshot_add_node(s, w->nodes[w->n_nodes++]);
}

// kube-scheduler binds what fits.
static void bind(struct world *w, struct nodes_snapshot *s)
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

static void scale_up(struct world *w, struct nodes_snapshot *s, struct totals *t)
{
    for (;;) {
        struct nodes_decision d;
        nodes_decide(s, w->c.groups, fleet->n, &w->settings, &d);
        size_t chosen = d.chosen, count = chosen == NODES_NONE ? 0 : d.options[chosen].count;
        nodes_decision_finish(&d);
        if (!count)
            return;
        for (size_t i = 0; i < count; i++)
            add_machine(w, s, chosen);
        w->c.groups[chosen].size += count;
        t->added += count;
        bind(w, s);
    }
}

static void measure_round(const struct world *w, const struct nodes_snapshot *s, struct totals *t)
{
    struct nodes_fragmentation f;
    nodes_measure(s, &w->mix, &f);
    t->rounds++;
    t->nodes += (double)w->n_nodes;
    t->gpus += (double)f.gpus;
    t->unused += (double)f.free_gpus;
    t->fragmented += f.fragmented_gpus;
    for (size_t i = 0; i < w->n_nodes; i++)
        t->cost += price_of(&fleet->machines[w->pool_of[i]]);
}

static void drop_empty(struct world *w, const struct nodes_snapshot *s)
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

static void end_pods(struct world *w, size_t round)
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

static struct nodes_snapshot *take_snapshot(const struct world *w)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    for (size_t i = 0; i < w->n_nodes; i++)
        nodes_snapshot_add_node(s, w->nodes[i]);
    for (size_t i = 0; i < w->n_pods; i++)
        nodes_snapshot_add_pod(s, w->pods[i].object);
    return s;
}

// Each round, 40 pods arrive that live 1 to 20 rounds; then empty nodes are removed.
static struct totals run_world(enum nodes_policy policy, enum nodes_scoring scoring,
                               const struct options *o)
{
    struct world w = {.settings = {.policy = policy, .seed = (uint64_t)o->seed},
                      .scoring = scoring};
    struct totals t = {0};
    pools_open(&w.c);
    for (size_t i = 0; i < GS_ARRAY_LEN(shapes); i++)
        if (shapes[i].gpus)
            nodes_mix_add_task(&w.mix, (struct nodes_task){shapes[i].pods, shapes[i].gpus,
                                                           shapes[i].cpu_milli,
                                                           (int64_t)shapes[i].memory_mib << 20});
    random_state = (uint64_t)o->seed;
    for (size_t round = 0; round < (size_t)o->rounds; round++) {
        end_pods(&w, round);
        struct nodes_snapshot *s = take_snapshot(&w);
        drop_empty(&w, s);
        nodes_snapshot_free(s);
        for (size_t i = 0; i < 40; i++) {
            const struct shape *sh = draw();
            gs_grow(&w.pods, &w.pods_cap, w.n_pods, sizeof(*w.pods));
            w.pods[w.n_pods++] = (struct live_pod){make_pod(sh, "app", round * 40 + i, NULL), sh,
                                                   round + 1 + roll(20), false};
        }
        s = take_snapshot(&w);
        bind(&w, s);
        scale_up(&w, s, &t);
        measure_round(&w, s, &t);
        nodes_snapshot_free(s);
    }
    end_pods(&w, SIZE_MAX);
    for (size_t i = 0; i < w.n_nodes; i++)
        json_decref(w.nodes[i]);
    free(w.nodes);
    free(w.pool_of);
    free(w.pods);
    nodes_mix_finish(&w.mix);
    pools_close(&w.c);
    return t;
}

static void print_world(const char *name, const struct totals *t, const struct totals *base)
{
    double n = (double)t->rounds;
    printf("  %-26s %7.1f %6zu %7.1f %8.1f %8.1f %9.2f", name, t->nodes / n, t->added, t->gpus / n,
           t->unused / n, t->fragmented / n, t->cost / n);
    if (base == t)
        printf("\n");
    else
        printf("   %+.0f %% unused, %+.0f %% fragmented, %+.0f %% cost\n",
               100 * (t->unused / base->unused - 1), 100 * (t->fragmented / base->fragmented - 1),
               100 * (t->cost / base->cost - 1));
}

static void mix(const struct options *o)
{
    static const enum nodes_policy policies[] = {
        NODES_POLICY_PACKING,   NODES_POLICY_COST,  NODES_POLICY_SPEED,  NODES_POLICY_LEAST_NODES,
        NODES_POLICY_MOST_PODS, NODES_POLICY_PRICE, NODES_POLICY_RANDOM,
    };
    printf("The mix of the ATC 2023 trace on %s: %lld rounds of 40 pods that live 1 to 20 rounds; "
           "means over the rounds\n",
           fleet->name, (long long)o->rounds);
    printf("  %-26s %7s %6s %7s %8s %8s %9s\n", "policy", "nodes", "added", "GPUs", "unused",
           "fragm.", "cost/h");
    struct totals base = run_world(NODES_POLICY_LEAST_WASTE, NODES_LEAST_ALLOCATED, o);
    print_world("least-waste (model)", &base, &base);
    for (size_t i = 0; i < GS_ARRAY_LEN(policies); i++) {
        struct totals t = run_world(policies[i], NODES_LEAST_ALLOCATED, o);
        print_world(nodes_policy_name(policies[i]), &t, &base);
        if (i == 0)
            printf("    unused GPUs at least 20 %% below least-waste: %s; fragmented GPUs: %s\n",
                   bench_verdict(t.unused <= base.unused * STRANDED_BELOW),
                   bench_verdict(t.fragmented <= base.fragmented * STRANDED_BELOW));
    }
    // A scheduler that packs GPUs: NodeResourcesFit with RequestedToCapacityRatio on
    // nvidia.com/gpu.
    struct totals packed = run_world(NODES_POLICY_LEAST_WASTE, NODES_PACK_GPUS, o);
    print_world("least-waste, GPUs packed", &packed, &base);
    packed = run_world(NODES_POLICY_PACKING, NODES_PACK_GPUS, o);
    print_world("packing, GPUs packed", &packed, &base);
    packed = run_world(NODES_POLICY_COST, NODES_PACK_GPUS, o);
    print_world("cost, GPUs packed", &packed, &base);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    bench_begin();
    large(o);
    rate(o);
    for (size_t i = 0; i < GS_ARRAY_LEN(fleets); i++) {
        fleet = &fleets[i];
        mix(o);
    }
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {.name = "nodes",
     .arg = "N",
     .def = "5000",
     .type = GS_OPT_INT,
     .min = 1,
     .max = 100000,
     AT(nodes),
     .help = "Nodes of the large cluster."},
    {.name = "pods",
     .arg = "N",
     .def = "50000",
     .type = GS_OPT_INT,
     .min = 10,
     .max = 1000000,
     AT(pods),
     .help = "Pods of the large cluster."},
    {.name = "rounds",
     .arg = "N",
     .def = "60",
     .type = GS_OPT_INT,
     .min = 1,
     .max = 100000,
     AT(rounds),
     .help = "Rounds of the workload mix."},
    {.name = "seed",
     .arg = "N",
     .def = "1",
     .type = GS_OPT_INT,
     .min = 0,
     .max = INT32_MAX,
     AT(seed),
     .help = "Seed of the random numbers."},
    {0},
};

int main(int argc, char **argv)
{
    static const struct gs_command command = {
        .name = "nodes",
        .summary = "Measure decisions about nodes.",
        .opts = rows,
        .opts_size = sizeof(struct options),
        .run = run,
    };
    return bench_main(&command, argc, argv);
}
