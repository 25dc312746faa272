// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the simulated machines.
#pragma once

#include "local/machines/machines.h"

#include "base/timer.h"
#include "nodes/simulation.h"

// --- machine.c: the life of one machine ---

enum { MACHINES_ID_LEN = 5 };

struct machines_pool {
    const struct nodes_pool *spec;
    size_t created; // without the first ones; for failures on purpose
};

struct machines_machine {
    struct machines *owner;
    struct machines_pool *pool;
    char id[MACHINES_ID_LEN + 1]; // random: in its name and the name of its folder
    char *node, *provider_id, *address, *dir, *socket;
    enum machines_phase phase;
    enum nodes_failure failure; // what goes wrong on purpose
    bool first;                 // of the minimum: no start-up time
    struct kubelet *kubelet;
    struct machines_gpus gpus;
    bool has_gpus;   // gpus is set
    double slowness; // of its start: 1 is the median
    const char *error_code;
    char *error_message;
    struct gs_timer *timer;
};

// Adds a machine to the list, which begins to start. first: of the minimum of the pool. Does
// nothing if no address is free.
void machines_machine_create(struct machines *all, struct machines_pool *pool, bool first);
// Ends its pods and removes it from the list, later.
void machines_machine_delete(struct machines_machine *m);
// Frees it without removing it from the list.
void machines_machine_free(struct machines_machine *m);
struct machines_info machines_machine_info(const struct machines_machine *m);

// --- machines.c: the list, and its provider ---

struct machines {
    struct machines_config cfg;
    struct kubelet *first;
    char *self_exe, *work_dir;
    char **extra_env;
    size_t n_env;
    struct machines_pool *pools;
    struct machines_machine **items; // in the order of their creation
    size_t len, cap;
    size_t next_address;
    bool begun, stopping;
    size_t n_stopping;
    void (*stop_done)(void *arg);
    void *stop_arg;
    struct gs_timer *timer;
    struct machines_orphans *orphans;
    struct nodes_provider provider;
};

// --- objects.c: the objects of nodes that are gone ---

// Deletes the Node, its Lease and its pods.
void machines_delete_node(struct local_cluster *c, const char *node);
// Deletes the nodes of machines that a former run left.
void machines_delete_former(struct local_cluster *c);

// Deletes pods whose node does not exist, as the pod garbage collector of Kubernetes: a pod may
// have been bound while its node was deleted. A pod is deleted if two sweeps find it.
struct machines_orphans;
struct machines_orphans *machines_orphans_new(struct local_cluster *c);
void machines_orphans_free(struct machines_orphans *o); // NULL is fine
