// SPDX-License-Identifier: Apache-2.0
// Asks name servers on the event loop: all records of a name, as resolv.conf(5) says where.
#pragma once

#include "net/dns/message.h"

#include <uv.h>

#define DNS_MAX_SERVERS 8
#define DNS_MAX_SEARCH  32

struct dns_config {
    char servers[DNS_MAX_SERVERS][64]; // addresses
    size_t n_servers;
    char search[DNS_MAX_SEARCH][256];
    size_t n_search;
    unsigned ndots;      // names with so many dots are asked for as they are first
    uint16_t port;       // of the servers
    unsigned timeout_ms; // of each question to a server
};

#define DNS_RESOLV_CONF "/etc/resolv.conf"
// More servers and suffixes than there is room for are left out.
void dns_config_read(struct gs_slice text, struct dns_config *ret);
struct gs_error *dns_config_load(const char *path, struct dns_config *ret);

// An answer that the name has records (or none of the type), or that it does not exist (then
// without records). Else an error: some server was not able to say.
typedef void (*dns_fn)(void *arg, const struct dns_answer *answer, struct gs_error *err);

// The name with each suffix in turn, from each server in turn, over TCP when an answer does not
// fit. cfg is copied. fn is called once, later, unless it was cancelled; it owns err.
struct dns_lookup;
struct dns_lookup *dns_lookup_start(uv_loop_t *loop, const struct dns_config *cfg, const char *name,
                                    enum dns_type type, dns_fn fn, void *arg);
void dns_lookup_cancel(struct dns_lookup *l); // NULL is fine; not from fn
