// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the simulated machines.
#pragma once

#include "local/machines/machines.h"

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
