// SPDX-License-Identifier: Apache-2.0
#include "net/dns/message.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <resolv.h>
#include <stdio.h>
#include <strings.h>

#define HEADER 12
#define OPT    41

// --- queries ---

static void add16(struct gs_buf *out, unsigned v)
{
    gs_buf_add_char(out, (char)(v >> 8));
    gs_buf_add_char(out, (char)(v & 0xff));
}

struct gs_error *dns_write_query(const char *name, enum dns_type type, uint16_t id, bool edns,
                                 struct gs_buf *out)
{
    unsigned char wire[NS_MAXCDNAME];
    if (!*name || ns_name_pton(name, wire, sizeof(wire)) < 0)
        return gs_error_new(GS_EINVAL, "\"%s\" is no name of the DNS", name);
    add16(out, id);
    add16(out, 0x0100); // recursion is desired
    add16(out, 1);
    add16(out, 0);
    add16(out, 0);
    add16(out, edns);
    size_t len = 0;
    while (wire[len])
        len += (size_t)wire[len] + 1;
    gs_buf_add(out, wire, len + 1);
    add16(out, type);
    add16(out, ns_c_in);
    if (edns) {
        gs_buf_add_char(out, 0);
        add16(out, OPT);
        add16(out, DNS_UDP_SIZE);
        add16(out, 0);
        add16(out, 0);
        add16(out, 0);
    }
    return NULL;
}

// --- answers ---

static unsigned get16(const unsigned char *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

// A message while it is read. What follows the place at is read next.
struct reader {
    const unsigned char *base, *end, *at;
};

static struct reader reader_of(struct gs_slice message)
{
    const unsigned char *base = (const unsigned char *)message.data;
    return (struct reader){base, base + message.len, base + HEADER};
}

static size_t left(const struct reader *r)
{
    return (size_t)(r->end - r->at);
}

// An expanded name, without the dot at its end.
static bool read_name(struct reader *r, char ret[NS_MAXDNAME])
{
    int used = left(r) ? dn_expand(r->base, r->end, r->at, ret, NS_MAXDNAME) : -1;
    if (used > 0)
        r->at += used;
    return used > 0;
}

struct question {
    char name[NS_MAXDNAME];
    unsigned type, class;
};

static bool read_question(struct reader *r, struct question *ret)
{
    if (!read_name(r, ret->name) || left(r) < 4)
        return false;
    ret->type = get16(r->at);
    ret->class = get16(r->at + 2);
    r->at += 4;
    return true;
}

struct raw_record {
    unsigned type;
    uint32_t ttl;
    const unsigned char *data;
    size_t len;
};

static bool read_raw(struct reader *r, struct raw_record *ret)
{
    char name[NS_MAXDNAME];
    if (!read_name(r, name) || left(r) < 10)
        return false;
    *ret = (struct raw_record){.type = get16(r->at),
                               .ttl = (uint32_t)get16(r->at + 4) << 16 | get16(r->at + 6),
                               .data = r->at + 10,
                               .len = get16(r->at + 8)};
    r->at += 10;
    if (left(r) < ret->len)
        return false;
    r->at += ret->len;
    return true;
}

bool dns_answers(struct gs_slice message, struct gs_slice query)
{
    struct reader a = reader_of(message), q = reader_of(query);
    struct question asked, answered;
    if (message.len < HEADER || query.len < HEADER || get16(a.base) != get16(q.base) ||
        !(a.base[2] & 0x80))
        return false;
    // Some servers leave the question out of an error.
    if (!get16(a.base + 4))
        return a.base[3] & 0x0f;
    return read_question(&a, &answered) && read_question(&q, &asked) &&
           answered.type == asked.type && answered.class == asked.class &&
           strcasecmp(answered.name, asked.name) == 0;
}

static bool read_address(const struct raw_record *raw, int family, size_t size,
                         struct gs_arena *mem, struct dns_record *ret)
{
    static const unsigned char mapped[12] = {[10] = 0xff, 0xff};
    char text[INET6_ADDRSTRLEN];
    const unsigned char *data = raw->data;
    if (raw->len != size)
        return false;
    if (size == 16 && memcmp(data, mapped, sizeof(mapped)) == 0) { // ::ffff:10.0.0.1
        data += sizeof(mapped);
        family = AF_INET;
    }
    if (!inet_ntop(family, data, text, sizeof(text)))
        return false;
    ret->target = gs_arena_strdup(mem, text);
    return true;
}

// A name behind the first bytes of a record.
static bool read_target(const struct reader *message, const struct raw_record *raw, size_t at,
                        struct gs_arena *mem, struct dns_record *ret)
{
    struct reader r = *message;
    char name[NS_MAXDNAME + 1];
    r.at = raw->data + at;
    if (raw->len <= at || !read_name(&r, name) || r.at != raw->data + raw->len)
        return false;
    (void)snprintf(name + strlen(name), 2, ".");
    ret->target = gs_arena_strdup(mem, name);
    return true;
}

static bool read_record(const struct reader *message, const struct raw_record *raw,
                        struct gs_arena *mem, struct dns_record *ret)
{
    switch (raw->type) {
    case DNS_A:
        return read_address(raw, AF_INET, 4, mem, ret);
    case DNS_AAAA:
        return read_address(raw, AF_INET6, 16, mem, ret);
    case DNS_NS:
        return read_target(message, raw, 0, mem, ret);
    case DNS_MX:
        return read_target(message, raw, 2, mem, ret);
    default: // SRV
        ret->port = raw->len > 6 ? (uint16_t)get16(raw->data + 4) : 0;
        return read_target(message, raw, 6, mem, ret);
    }
}

static bool is_known(unsigned type)
{
    return type == DNS_A || type == DNS_AAAA || type == DNS_NS || type == DNS_MX || type == DNS_SRV;
}

static bool read_records(struct reader *r, size_t n, struct gs_arena *mem, struct dns_answer *ret)
{
    // A record has at least 11 bytes.
    if (n > left(r) / 11)
        return false;
    ret->records = gs_arena_alloc(mem, (n + 1) * sizeof(*ret->records));
    for (size_t i = 0; i < n; i++) {
        struct raw_record raw;
        if (!read_raw(r, &raw))
            return false;
        if (!is_known(raw.type))
            continue; // CNAME on the way to the answer
        struct dns_record *record = &ret->records[ret->n++];
        *record = (struct dns_record){.type = (enum dns_type)raw.type};
        if (!read_record(r, &raw, mem, record))
            return false;
    }
    return true;
}

// The upper bits of the code stand in the OPT record.
static unsigned upper_rcode(struct reader *r, size_t n)
{
    struct raw_record raw;
    for (size_t i = 0; i < n && read_raw(r, &raw); i++)
        if (raw.type == OPT)
            return raw.ttl >> 24 << 4;
    return 0;
}

static bool skip_records(struct reader *r, size_t n)
{
    struct raw_record raw;
    for (size_t i = 0; i < n; i++)
        if (!read_raw(r, &raw))
            return false;
    return true;
}

static bool skip_questions(struct reader *r, size_t n)
{
    struct question q;
    for (size_t i = 0; i < n; i++)
        if (!read_question(r, &q))
            return false;
    return true;
}

struct gs_error *dns_read_answer(struct gs_slice message, struct gs_arena *mem,
                                 struct dns_answer *ret)
{
    struct dns_answer a = {0};
    struct reader r = reader_of(message);
    if (message.len < HEADER || message.len > DNS_MAX_MESSAGE)
        return gs_error_new(GS_EPROTO, "not a message of the DNS");
    a.truncated = r.base[2] & 0x02;
    a.rcode = r.base[3] & 0x0f;
    if (!a.truncated) { // else what there is may end anywhere
        if (!skip_questions(&r, get16(r.base + 4)) || !read_records(&r, get16(r.base + 6), mem, &a))
            return gs_error_new(GS_EPROTO, "a record of the DNS is broken");
        if (skip_records(&r, get16(r.base + 8)))
            a.rcode |= upper_rcode(&r, get16(r.base + 10));
    }
    *ret = a;
    return NULL;
}
