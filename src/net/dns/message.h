// SPDX-License-Identifier: Apache-2.0
// Messages of the DNS (RFC 1035, 2782, 6891), without input and output.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

#define DNS_MAX_MESSAGE 65535
#define DNS_UDP_SIZE    4096 // that we say to take

enum dns_type { DNS_A = 1, DNS_NS = 2, DNS_MX = 15, DNS_AAAA = 28, DNS_SRV = 33 };
enum dns_rcode { DNS_NOERROR = 0, DNS_NXDOMAIN = 3 };

// One of the types above; others are left out of answers.
struct dns_record {
    enum dns_type type;
    const char *target; // the address, or the name with a dot at its end
    uint16_t port;      // of SRV
};

struct dns_answer {
    unsigned rcode;
    bool truncated;
    struct dns_record *records;
    size_t n;
};

// name: with or without a dot at its end. GS_EINVAL: no name of the DNS. edns: answers may be as
// large as DNS_UDP_SIZE.
struct gs_error *dns_write_query(const char *name, enum dns_type type, uint16_t id, bool edns,
                                 struct gs_buf *out);
// Whether a message answers this query: it has its number and its question.
bool dns_answers(struct gs_slice message, struct gs_slice query);
// GS_EPROTO: not a message, or a record in it is none. Texts live in mem.
struct gs_error *dns_read_answer(struct gs_slice message, struct gs_arena *mem,
                                 struct dns_answer *ret);
