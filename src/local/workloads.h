// SPDX-License-Identifier: Apache-2.0
// The Deployment and ReplicaSet controllers (rolling update, revision, conditions, status), garbage
// collection by owner references, and deletion of namespaces.
#pragma once

#include "local/cluster.h"

struct local_workloads;
struct local_workloads *controllers_workloads_new(struct local_cluster *c);
void controllers_workloads_free(struct local_workloads *w);
