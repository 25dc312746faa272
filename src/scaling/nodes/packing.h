// SPDX-License-Identifier: Apache-2.0
// How well the GPUs of a snapshot can be used, and what helps: early cordon of idle large nodes,
// and consolidation.
//
// Fragmentation follows "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
// Fragmentation Gradient Descent" (USENIX ATC 2023): the expected number of free GPUs that a task
// of the typical workload cannot use. The typical workload is a mix of tasks with shares. Unlike in
// the paper, tasks without GPUs are not part of the mix, because every free GPU is useless for
// them; and GPUs are whole, because kube-scheduler does not share them.
#pragma once

#include "nodes/choice.h"

// --- the typical workload ---

struct nodes_task {
    double share; // of the tasks; the shares of a mix are relative
    size_t gpus;
    int64_t cpu_milli, memory_bytes;
};

struct nodes_mix {
    struct nodes_task *tasks; // with different requests
    size_t len, cap;
};

#define NODES_MAX_TASKS 1000 // of a mix; rarer ones are left out

void nodes_mix_finish(struct nodes_mix *mix);
void nodes_mix_add_task(struct nodes_mix *mix, struct nodes_task task);
// The pods of the snapshot that request GPUs, placed or not.
void nodes_mix_of(const struct nodes_snapshot *s, struct nodes_mix *ret);
// Adds a rare task for each GPU pool that fills a machine, if the mix has no task with this number
// of GPUs: a pool of this size announces such pods, also before the first one arrives.
void nodes_mix_add_groups(struct nodes_mix *mix, const struct nodes_group *groups, size_t n);

// --- fragmentation ---

struct nodes_fragmentation {
    size_t nodes, idle_nodes; // with GPUs; idle: no GPU is in use
    size_t gpus, free_gpus;   // free: on nodes that take pods, and not requested
    double fragmented_gpus;   // expected number of free GPUs that a typical task cannot use
    size_t stranded_gpus;     // free GPUs on nodes where no typical task fits
    size_t largest_gpus;      // GPUs of the largest pod that fits now
    size_t largest_node;      // where; NODES_NONE
};

// Nodes that are cordoned, not ready or excluded have no free GPUs.
void nodes_measure(const struct nodes_snapshot *s, const struct nodes_mix *mix,
                   struct nodes_fragmentation *ret);
double nodes_fragmentation_of(const struct nodes_snapshot *s, size_t node,
                              const struct nodes_mix *mix);

// --- early cordon ---
//
// A pod with one GPU that arrives while a node with four GPUs is idle runs there at once: it is
// never Pending, so no node autoscaler can choose a smaller node for it. An idle large node is
// therefore cordoned beforehand if typical tasks would split it and a smaller node for them is
// cheaper. A pod that needs the large node ends the cordon.

#define NODES_ANN_EARLY_CORDON "gpuscale.dev/early-cordon" // of nodes that were cordoned so

struct nodes_cordon {
    size_t node;
    bool cordon; // false: end the cordon
    char *why;
};
struct nodes_cordons {
    struct nodes_cordon *items; // by node
    size_t len, cap;
};
void nodes_cordons_finish(struct nodes_cordons *c);

// The actions for the present snapshot; nothing for nodes that stay as they are. The group of a
// node is that of its labels (nodes_pool_labels). Nodes that somebody else cordoned are left alone.
void nodes_plan_cordons(struct nodes_snapshot *s, const struct nodes_group *groups, size_t n_groups,
                        const struct nodes_mix *mix, const struct nodes_choice_settings *settings,
                        struct nodes_cordons *ret);
// The same with the mix of the snapshot and of the groups.
void nodes_find_cordons(struct nodes_snapshot *s, const struct nodes_group *groups, size_t n_groups,
                        const struct nodes_choice_settings *settings, struct nodes_cordons *ret);
// Places the pending pods for which a cordon will end on copies of these nodes, so that no new node
// is ordered for them. Call it before nodes_decide(), within a checkpoint. A cordon does not end
// while an older pod waits that would take the node first but gets a smaller one. Returns the
// number of pods.
size_t nodes_reserve_cordoned(struct nodes_snapshot *s, const struct nodes_group *groups,
                              size_t n_groups, const struct nodes_choice_settings *settings);
const struct nodes_group *nodes_group_of(const struct nodes_group *groups, size_t n_groups,
                                         const json_t *node); // NULL: none

// How an action is carried out: a merge patch of the Node, which fails if the node has changed (new
// reference), and the reason of the event about the node with the text `why`.
json_t *nodes_cordon_patch(const json_t *node, bool cordon, const char *why);
const char *nodes_cordon_event(bool cordon);                // "EarlyCordon", "EarlyCordonEnded"
#define NODES_CORDON_DISABLED "early cordon is not enabled" // why all cordons end
// A copy of a cordoned node that takes pods; new reference.
json_t *nodes_uncordoned(const json_t *node);

// --- consolidation ---

enum nodes_movability {
    NODES_MOVE,  // the pod may be evicted and runs elsewhere afterwards
    NODES_STAY,  // the pod belongs to its node (DaemonSets, mirror pods) and ends with it
    NODES_BLOCK, // the pod must not be evicted: its node stays
};
typedef enum nodes_movability nodes_movable_fn(void *arg, const json_t *pod);

struct nodes_move {
    size_t pod, from, to;
};
struct nodes_emptied { // a node that the moves empty
    size_t node;
    char *why;
};
struct nodes_consolidation {
    struct nodes_move *moves;
    size_t n_moves, moves_cap;
    struct nodes_emptied *nodes;
    size_t n_nodes, nodes_cap;
};
void nodes_consolidation_finish(struct nodes_consolidation *c);

// Which GPU nodes can be emptied because their pods fit on others. Pods move only to nodes that are
// in use already, or to smaller ones. At most max_nodes nodes. The snapshot is unchanged
// afterwards.
void nodes_plan_consolidation(struct nodes_snapshot *s, nodes_movable_fn *movable, void *arg,
                              size_t max_nodes, struct nodes_consolidation *ret);
