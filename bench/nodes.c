// SPDX-License-Identifier: Apache-2.0
// Node autoscaling: one decision of a large cluster, and the GPUs that policies leave unused on the
// workload mix of a published trace.
#include "bench.h"
#include "nodes_world.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/choice.h"

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
static struct objects make_objects(const struct options *o, const struct world_pools *c)
{
    struct objects all = {gs_alloc_array((size_t)o->nodes, sizeof(json_t *)),
                          gs_alloc_array((size_t)o->pods, sizeof(json_t *)), (size_t)o->nodes,
                          (size_t)o->pods};
    for (size_t i = 0; i < all.n_nodes; i++) {
        GS_AUTO_FREE char *name = gs_format("node-%zu", i);
        all.nodes[i] = nodes_pool_template(&c->pools.items[i % world_fleet->n], name);
    }
    const struct world_shape *sh = world_draw();
    for (size_t i = 0; i < all.n_pods; i++) {
        if (i % 50 == 0)
            sh = world_draw();
        GS_AUTO_FREE char *owner = gs_format("owner-%zu", i / 50);
        GS_AUTO_FREE char *node = gs_format("node-%u", world_roll((uint32_t)all.n_nodes));
        bool pending = i >= all.n_pods - all.n_pods / 10;
        all.pods[i] = world_pod(sh, owner, i, pending ? NULL : node);
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

static void measure_policy(const struct objects *all, const struct world_pools *c,
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
    nodes_decide(s, c->groups, world_fleet->n, &settings, &d);
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
    struct world_pools c;
    world_pools_open(&c);
    world_seed((uint64_t)o->seed);
    double before = heap_mb();
    struct objects all = make_objects(o, &c);
    printf("One decision, %zu nodes, %zu pods (a tenth pending), %zu pools; CPU time\n",
           all.n_nodes, all.n_pods, world_fleet->n);
    printf("  the objects, which the caches hold: %.0f MB; the lines below are in addition\n",
           heap_mb() - before);
    measure_policy(&all, &c, NODES_POLICY_COST);
    measure_policy(&all, &c, NODES_POLICY_PACKING);
    measure_policy(&all, &c, NODES_POLICY_LEAST_WASTE);
    objects_free(&all);
    world_pools_close(&c);
}

// --- options of another autoscaler ---

static void rate(const struct options *o)
{
    struct world_pools c;
    world_pools_open(&c);
    world_seed((uint64_t)o->seed);
    json_t *pods[1000];
    for (size_t i = 0; i < 1000; i++)
        pods[i] = world_pod(world_draw(), "owner", i, NULL);
    struct nodes_offer offers[100];
    for (size_t i = 0; i < 100; i++)
        offers[i] = (struct nodes_offer){.group = c.groups[i % world_fleet->n],
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
    world_pools_close(&c);
}

// --- the trace's mix ---

static struct world_totals run_world(enum nodes_policy policy, enum nodes_scoring scoring,
                                     const struct options *o)
{
    struct world w;
    struct world_totals t = {0};
    world_open(&w, policy, scoring, (uint64_t)o->seed);
    for (size_t round = 0; round < (size_t)o->rounds; round++) {
        struct nodes_snapshot *s = world_arrive(&w, round, 40);
        world_scale_up(&w, s, &t);
        world_measure(&w, s, &t);
        nodes_snapshot_free(s);
    }
    world_close(&w);
    return t;
}

static void print_world(const char *name, const struct world_totals *t,
                        const struct world_totals *base)
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
           world_fleet->name, (long long)o->rounds);
    printf("  %-26s %7s %6s %7s %8s %8s %9s\n", "policy", "nodes", "added", "GPUs", "unused",
           "fragm.", "cost/h");
    struct world_totals base = run_world(NODES_POLICY_LEAST_WASTE, NODES_LEAST_ALLOCATED, o);
    print_world("least-waste (model)", &base, &base);
    for (size_t i = 0; i < GS_ARRAY_LEN(policies); i++) {
        struct world_totals t = run_world(policies[i], NODES_LEAST_ALLOCATED, o);
        print_world(nodes_policy_name(policies[i]), &t, &base);
        if (i == 0)
            printf("    unused GPUs at least 20 %% below least-waste: %s; fragmented GPUs: %s\n",
                   bench_verdict(t.unused <= base.unused * STRANDED_BELOW),
                   bench_verdict(t.fragmented <= base.fragmented * STRANDED_BELOW));
    }
    // A scheduler that packs GPUs: NodeResourcesFit with RequestedToCapacityRatio on
    // nvidia.com/gpu.
    struct world_totals packed = run_world(NODES_POLICY_LEAST_WASTE, NODES_PACK_GPUS, o);
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
    for (size_t i = 0; i < GS_ARRAY_LEN(world_fleets); i++) {
        world_fleet = &world_fleets[i];
        mix(o);
    }
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"nodes", GS_OPT_INT, AT(nodes), "N", "5000", .min = 1, .max = 100000,
     .help = "Nodes of the large cluster."},
    {"pods", GS_OPT_INT, AT(pods), "N", "50000", .min = 10, .max = 1000000,
     .help = "Pods of the large cluster."},
    {"rounds", GS_OPT_INT, AT(rounds), "N", "60", .min = 1, .max = 100000,
     .help = "Rounds of the workload mix."},
    {"seed", GS_OPT_INT, AT(seed), "N", "1", .max = INT32_MAX,
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
