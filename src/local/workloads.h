// SPDX-License-Identifier: Apache-2.0
// The controllers of workloads (Deployments, ReplicaSets, ReplicationControllers, DaemonSets),
// garbage collection by owner references, and deletion of namespaces.
#pragma once

#include "local/cluster.h"

struct local_workloads;
struct local_workloads *controllers_workloads_new(struct local_cluster *c);
void controllers_workloads_free(struct local_workloads *w);
