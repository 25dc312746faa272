// SPDX-License-Identifier: Apache-2.0
// Addresses and node ports of services: the lowest free one, kept in the services themselves.
// What was given but is not in the cache yet is held as a lease. Private to the room.
#pragma once

#include "local/cluster.h"

struct services_addresses;
// seed: chooses where among its addresses a cluster begins (a data directory has its own), so that
// two on one machine do not meet.
struct services_addresses *services_addresses_new(const struct kube_cache *services,
                                                  const char *seed);
void services_addresses_free(struct services_addresses *a);
void services_addresses_drop(struct services_addresses *a,
                             const char *service); // "ns/name" is gone

enum services_address_kind {
    SERVICES_ADDRESS_CLUSTER = 96,
    SERVICES_ADDRESS_BALANCER = 97
}; // second byte: 127.96.x.y
// The same one again until services_addresses_drop; NULL when all are given away. Borrowed.
const char *services_addresses_lease_ip(struct services_addresses *a, const char *service,
                                        enum services_address_kind kind);
// Another service than this one ("ns/name") has the address.
bool services_addresses_taken(const struct services_addresses *a, const char *ip,
                              const char *service);
// The service has this address from now on.
void services_addresses_keep_ip(struct services_addresses *a, const char *service,
                                enum services_address_kind kind, const char *ip);
// For one port of the service. 0 when all are given away.
int services_addresses_lease_port(struct services_addresses *a, const char *service,
                                  int service_port);
