// SPDX-License-Identifier: Apache-2.0
// The Endpoints of a service: made from ready pods, and read for balancing. Private to the room.
#pragma once

#include "local/cluster.h"
#include "local/services/balancer.h"
#include "local/workqueue.h"

struct services_endpoints_list {
    struct services_balancer_address *items;
    size_t len, cap;
};

// Writes the Endpoints of a service with a selector when they differ from what its pods say.
void services_endpoints_write(struct local_cluster *c, struct local_reconcile *w,
                              const json_t *service);
// Deletes the Endpoints that services_endpoints_write made for a service that is gone.
void services_endpoints_delete(struct local_cluster *c, struct local_reconcile *w, const char *ns,
                               const char *name);
// Where connections to this port of the service go: the ready addresses.
void services_endpoints_of_port(const struct local_cluster *c, const json_t *service,
                                const json_t *port, struct services_endpoints_list *ret);
