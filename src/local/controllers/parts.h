// SPDX-License-Identifier: Apache-2.0
// The four loops behind local_workloads, each with its own queue; private to the room.
#pragma once

#include "local/cluster.h"

struct controllers_deployments;
struct controllers_deployments *controllers_deployments_new(struct local_cluster *c);
void controllers_deployments_free(struct controllers_deployments *d);

struct controllers_replicasets;
struct controllers_replicasets *controllers_replicasets_new(struct local_cluster *c);
void controllers_replicasets_free(struct controllers_replicasets *r);

// Deletes what lost all its owners; carries out cascading deletion "Orphan" and "Foreground".
struct controllers_collector;
struct controllers_collector *controllers_collector_new(struct local_cluster *c);
void controllers_collector_free(struct controllers_collector *g);

// Empties namespaces that are being deleted, then finalises them.
struct controllers_namespaces;
struct controllers_namespaces *controllers_namespaces_new(struct local_cluster *c);
void controllers_namespaces_free(struct controllers_namespaces *n);
