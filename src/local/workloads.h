// SPDX-License-Identifier: Apache-2.0
// The Deployment and ReplicaSet loops (rolling update, revision, conditions, status), garbage
// collection by owner references, and namespace deletion.
#pragma once

#include "local/cluster.h"

struct local_workloads;
struct local_workloads *controllers_workloads_new(struct local_cluster *c);
void controllers_workloads_free(struct local_workloads *w);
