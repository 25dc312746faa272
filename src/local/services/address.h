// SPDX-License-Identifier: Apache-2.0
// Addresses and node ports of services: the lowest free one, kept in the services themselves.
// What was given but is not in the cache yet is held as a lease. Private to the room.
#pragma once

#include "local/cluster.h"

struct addresses;
// seed: chooses where among its addresses a cluster begins (a data directory has its own), so that
// two on one machine do not meet.
struct addresses *addresses_new(const struct kube_cache *services, const char *seed);
void addresses_free(struct addresses *a);
void addresses_drop(struct addresses *a, const char *service); // "ns/name" is gone

enum address_kind { ADDRESS_CLUSTER = 96, ADDRESS_BALANCER = 97 }; // second byte: 127.96.x.y
// The same one again until addresses_drop; NULL when all are given away. Borrowed.
const char *addresses_lease_ip(struct addresses *a, const char *service, enum address_kind kind);
// Another service than this one ("ns/name") has the address.
bool addresses_taken(const struct addresses *a, const char *ip, const char *service);
// The service has this address from now on.
void addresses_keep_ip(struct addresses *a, const char *service, enum address_kind kind,
                       const char *ip);
// For one port of the service. 0 when all are given away.
int addresses_lease_port(struct addresses *a, const char *service, int service_port);
