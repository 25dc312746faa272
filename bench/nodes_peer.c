// SPDX-License-Identifier: Apache-2.0
// A cluster in the middle of its work, for the comparison with the Cluster Autoscaler
// (bench/autoscaler-peer): writes its objects, or decides itself. Equal arguments give the same
// cluster.
#include "bench.h"
#include "nodes_world.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 25 // after which as many pods end as arrive

struct options {
    int64_t arrivals, burst, seed;
    const char *write, *policy;
};

static FILE *create(const char *folder, const char *name)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    if (!f)
        bench_fail("%s: %s", path, strerror(errno));
    return f;
}

static void finish(FILE *f)
{
    if (ferror(f) || fclose(f) != 0)
        bench_fail("cannot write: %s", strerror(errno));
}

static void write_line(FILE *f, const json_t *object)
{
    GS_AUTO_FREE char *text = json_dumps(object, JSON_COMPACT);
    fprintf(f, "%s\n", text);
}

// As the API requires them: an image, and limits that equal the requests of GPUs.
static void write_pods(const struct world *w, const char *folder, const char *name, bool bound)
{
    FILE *f = create(folder, name);
    for (size_t i = 0; i < w->n_pods; i++) {
        if (w->pods[i].bound != bound)
            continue;
        json_t *pod = json_deep_copy(w->pods[i].object);
        json_t *main = json_array_get(codec_json_get(pod, "spec", "containers", NULL), 0);
        const unsigned gpus = w->pods[i].shape->gpus;
        json_object_set_new(pod, "apiVersion", json_string("v1"));
        json_object_set_new(pod, "kind", json_string("Pod"));
        json_object_set_new(main, "image", json_string("bench"));
        if (gpus)
            codec_json_set(main, codec_json_strf("%u", gpus), "resources", "limits", NODES_GPU,
                           NULL);
        // Pods with equal requests have one owner: the Cluster Autoscaler groups them.
        codec_json_set(pod,
                       codec_json_strf("shape-%u-%u-%u", gpus, w->pods[i].shape->cpu_milli,
                                       w->pods[i].shape->memory_mib),
                       "metadata", "labels", "app", NULL);
        write_line(f, pod);
        json_decref(pod);
    }
    finish(f);
}

static void write_nodes(const struct world *w, const char *folder)
{
    FILE *nodes = create(folder, "nodes.jsonl");
    FILE *machines = create(folder, "machines");
    FILE *templates = create(folder, "templates.jsonl");
    FILE *pools = create(folder, "pools.yaml");
    fprintf(pools, "pools:\n");
    for (size_t i = 0; i < world_fleet->n; i++) {
        const struct world_machine *m = &world_fleet->machines[i];
        fprintf(pools,
                "- {name: %s, max: 10000, price: %.3f, startup: 90s%s,\n"
                "   machine: {cpu: %u, memory: %uGi, gpus: %u}}\n",
                m->name, world_price(m),
                m->gpus ? ", taints: ['nvidia.com/gpu=present:NoSchedule']" : "", m->cpu,
                m->memory_gib, m->gpus);
        write_line(templates, w->c.templates[i]);
    }
    for (size_t i = 0; i < w->n_nodes; i++) {
        write_line(nodes, w->nodes[i]);
        fprintf(machines, "%s %s\n", world_fleet->machines[w->pool_of[i]].name,
                kube_name(w->nodes[i]));
    }
    finish(nodes);
    finish(machines);
    finish(templates);
    finish(pools);
}

static void print_row(const struct world *w, const struct nodes_snapshot *s, size_t first,
                      double ms, size_t decisions)
{
    struct nodes_fragmentation f;
    size_t gpus = 0, pending = 0;
    double price = 0;
    nodes_measure(s, &w->mix, &f);
    for (size_t i = first; i < w->n_nodes; i++) {
        gpus += world_fleet->machines[w->pool_of[i]].gpus;
        price += world_price(&world_fleet->machines[w->pool_of[i]]);
    }
    for (size_t i = 0; i < w->n_pods; i++)
        pending += !w->pods[i].bound;
    printf("%zu %.1f %zu %zu %zu %.1f %zu\n", decisions, ms, w->n_nodes - first, gpus, f.free_gpus,
           price, pending);
}

static void decide(struct world *w, const struct options *o)
{
    struct world_totals t = {0};
    const size_t first = w->n_nodes;
    bench_check(nodes_policy_parse(o->policy, &w->settings.policy));
    int64_t start = gs_mono_ns();
    struct nodes_snapshot *s = world_snapshot(w);
    world_scale_up(w, s, &t);
    print_row(w, s, first, (double)(gs_mono_ns() - start) / 1e6, t.decisions);
    nodes_snapshot_free(s);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    bench_begin();
    struct world w;
    struct world_totals t = {0};
    world_open(&w, NODES_POLICY_LEAST_WASTE, NODES_LEAST_ALLOCATED, (uint64_t)o->seed);
    for (size_t round = 0; round <= ROUNDS; round++) {
        struct nodes_snapshot *s =
            world_arrive(&w, round, (size_t)(round < ROUNDS ? o->arrivals : o->burst));
        if (round < ROUNDS)
            world_scale_up(&w, s, &t);
        nodes_snapshot_free(s);
    }
    w.scoring = NODES_FIRST; // as the scheduler of gpuscale up
    if (*o->write) {
        write_nodes(&w, o->write);
        write_pods(&w, o->write, "bound.jsonl", true);
        write_pods(&w, o->write, "pending.jsonl", false);
    }
    if (*o->policy)
        decide(&w, o);
    world_close(&w);
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"arrivals", GS_OPT_INT, AT(arrivals), "N", "300", .min = 1, .max = 10000,
     .help = "Pods that arrive in each round. About 2.5 times as many nodes exist."},
    {"burst", GS_OPT_INT, AT(burst), "N", "800", .min = 1, .max = 10000,
     .help = "Pods that arrive in the last round. Those that fit on no node are pending."},
    {"seed", GS_OPT_INT, AT(seed), "N", "1", .max = INT32_MAX,
     .help = "Seed of the random numbers."},
    {"write", GS_OPT_STRING, AT(write), "DIR", "",
     .help = "Write the cluster: nodes.jsonl, bound.jsonl, pending.jsonl, templates.jsonl, "
             "pools.yaml and machines."},
    {"policy", GS_OPT_STRING, AT(policy), "POLICY", "",
     .help =
         "Decide with the policy until no pod is pending. Prints decisions, milliseconds, nodes "
         "and GPUs added, unused GPUs of all nodes, price of the added nodes, and pending pods."},
    {0},
};

int main(int argc, char **argv)
{
    static const struct gs_command command = {
        .name = "nodes-peer",
        .summary = "Write a cluster with pending pods, or decide about its nodes.",
        .opts = rows,
        .opts_size = sizeof(struct options),
        .run = run,
    };
    return bench_main(&command, argc, argv);
}
