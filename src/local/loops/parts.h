// SPDX-License-Identifier: Apache-2.0
// The four loops behind local_workloads, each with its own queue; private to the room.
#pragma once

#include "local/cluster.h"

struct local_deployments;
struct local_deployments *local_deployments_new(struct local_cluster *c);
void local_deployments_free(struct local_deployments *d);

struct local_replicasets;
struct local_replicasets *local_replicasets_new(struct local_cluster *c);
void local_replicasets_free(struct local_replicasets *r);

// Deletes what lost all its owners; carries out cascading deletion "Orphan" and "Foreground".
struct local_collector;
struct local_collector *local_collector_new(struct local_cluster *c);
void local_collector_free(struct local_collector *g);

// Empties namespaces that are being deleted, then finalises them.
struct local_namespaces;
struct local_namespaces *local_namespaces_new(struct local_cluster *c);
void local_namespaces_free(struct local_namespaces *n);
