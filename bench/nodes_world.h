// SPDX-License-Identifier: Apache-2.0
// A simulated cluster with the workload mix of a published trace, on which policies are compared.
// Trace: Alibaba's cluster-trace-gpu-v2023 (github.com/alibaba/clusterdata), the data of the paper
// "Beware of Fragmentation" (USENIX ATC 2023). shapes[] are the requests of
// openb_pod_list_default.csv that at least 40 of its 8,152 pods have, and all with two and more
// GPUs: 7,712 pods (94.6 %). A request for a part of a GPU counts as one GPU, because
// kube-scheduler gives whole ones. machines[] are the GPU machines of openb_node_list_all_node.csv
// that at least 7 of 1,523 nodes have, and its most frequent machines without GPUs.
#pragma once

#include "codec/json.h"
#include "nodes/choice.h"
#include "nodes/packing.h"

struct world_shape { // of pods
    unsigned pods, gpus, cpu_milli, memory_mib;
};

struct world_machine {
    const char *name;
    unsigned gpus, cpu, memory_gib;
};

#define WORLD_MAX_MACHINES 12
#define WORLD_FLEETS       2

struct world_fleet {
    const char *name;
    size_t n;
    struct world_machine machines[WORLD_MAX_MACHINES];
};
extern const struct world_fleet world_fleets[WORLD_FLEETS];
extern const struct world_fleet *world_fleet; // in use

double world_price(const struct world_machine *m); // per hour

// --- random numbers, equal for equal seeds ---

void world_seed(uint64_t seed);
uint32_t world_roll(uint32_t n);            // below n
const struct world_shape *world_draw(void); // as often as in the trace

json_t *world_pod(const struct world_shape *sh, const char *owner, size_t number, const char *node);

// --- the pools of the fleet ---

struct world_pools {
    struct nodes_pools pools;
    struct nodes_group groups[WORLD_MAX_MACHINES];
    json_t *templates[WORLD_MAX_MACHINES];
};
void world_pools_open(struct world_pools *c);
void world_pools_close(struct world_pools *c);

// --- a cluster in rounds: pods arrive, live 1 to 20 rounds, and empty nodes are removed ---

struct world_live_pod {
    json_t *object;
    const struct world_shape *shape;
    size_t until; // round in which it ends
    bool bound;
};

struct world {
    struct world_pools c;
    struct nodes_choice_settings settings;
    enum nodes_scoring scoring;
    json_t **nodes;
    size_t *pool_of;
    size_t n_nodes, nodes_cap, pool_cap, made;
    struct world_live_pod *pods;
    size_t n_pods, pods_cap, arrived;
    struct nodes_mix mix;
};

struct world_totals {
    double nodes, gpus, unused, fragmented, cost; // sums over the rounds
    size_t rounds, added, decisions;
};

void world_open(struct world *w, enum nodes_policy policy, enum nodes_scoring scoring,
                uint64_t seed);
void world_close(struct world *w);
// Ends the pods of the round, removes empty nodes, adds n pods, and binds those that fit.
struct nodes_snapshot *world_arrive(struct world *w, size_t round, size_t n);
struct nodes_snapshot *world_snapshot(const struct world *w);
// kube-scheduler binds what fits.
void world_bind(struct world *w, struct nodes_snapshot *s);
// Decisions of the policy until no pool helps, with the pods bound.
void world_scale_up(struct world *w, struct nodes_snapshot *s, struct world_totals *t);
void world_add_machine(struct world *w, struct nodes_snapshot *s, size_t pool);
void world_measure(const struct world *w, const struct nodes_snapshot *s, struct world_totals *t);
