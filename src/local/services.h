// SPDX-License-Identifier: Apache-2.0
// Services: allocates ClusterIP, NodePort and LoadBalancer addresses (see the plan in cluster.h),
// keeps Endpoints from ready pods, and balances TCP connections over them (fewest connections
// first).
#pragma once

#include "local/cluster.h"

struct local_services;
struct local_services *services_new(struct local_cluster *c);
void services_free(struct local_services *s);
