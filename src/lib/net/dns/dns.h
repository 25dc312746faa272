// SPDX-License-Identifier: Apache-2.0
// Looks up all records of a name with the name servers of resolv.conf(5), with c-ares on the loop.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum dns_type { DNS_A = 1, DNS_NS = 2, DNS_MX = 15, DNS_AAAA = 28, DNS_SRV = 33 };

struct dns_record {
    enum dns_type type;
    const char *target; // the address, or the name with a dot at its end
    uint16_t port;      // of an SRV record
};

struct dns_answer {
    bool exists; // false: NXDOMAIN, and no records
    const struct dns_record *records;
    size_t n;
};

struct dns_config {
    const char *resolv_conf; // NULL: /etc/resolv.conf
    uint16_t port;           // of the servers; 0: 53
    unsigned timeout_ms;     // of a query to a server; 0: 2000, as in Prometheus
};

// err: the lookup failed, and answer is NULL. The callee owns it.
typedef void (*dns_fn)(void *arg, const struct dns_answer *answer, struct gs_error *err);

// Queries the name with each suffix of the search list and each server in turn, over TCP if an
// answer is truncated. Each lookup reads resolv.conf. cfg NULL: all defaults; borrowed only during
// the call. fn is called once, from the loop, unless the lookup was cancelled.
struct dns_lookup;
struct dns_lookup *dns_lookup_start(uv_loop_t *loop, const struct dns_config *cfg, const char *name,
                                    enum dns_type type, dns_fn fn, void *arg);
void dns_lookup_cancel(struct dns_lookup *l); // accepts NULL; not inside fn
