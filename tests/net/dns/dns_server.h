// SPDX-License-Identifier: Apache-2.0
// A name server for tests, over UDP and TCP on one port of this machine. What it says is looked up
// by "TYPE name" in a table.
#pragma once

#include "../../kube/loop.h"
#include "base/file.h"
#include "base/mem.h"
#include "net/dns/dns.h"

#include <stdio.h>
#include <unistd.h>

enum dns_mood { SAYS_RECORDS, SAYS_NXDOMAIN, SAYS_SERVFAIL, SAYS_NOTHING, SAYS_LIES, SAYS_CUT };

struct dns_row {
    const char *question; // "1 gpu.example"
    enum dns_mood mood;   // SAYS_CUT: over UDP truncated, over TCP the records
    const char *records;  // their wire form after the name: type, class, TTL, length, data
    size_t size, n;
};
#define DNS_RECORDS(text, count) (text), sizeof(text) - 1, (count)

struct dns_server {
    uv_udp_t udp;
    uv_tcp_t tcp, peer; // one connection at a time
    uint16_t port;
    const struct dns_row *rows; // end with a NULL question
    struct gs_buf asked;        // "1 gpu.example;" of each
    struct gs_buf stream;
    bool peer_open;
    char room[65536];
    char resolv_conf[40];
    struct dns_config config; // for its clients
};

static inline char *dns_question(const char *query)
{
    GS_AUTO_BUF struct gs_buf name = {0};
    const unsigned char *at = (const unsigned char *)query + 12;
    for (; *at; at += *at + 1)
        gs_buf_addf(&name, "%s%.*s", name.len ? "." : "", *at, (const char *)at + 1);
    return gs_format("%d %s", at[1] << 8 | at[2], name.data ? name.data : "");
}

static inline size_t dns_question_size(const char *query)
{
    const unsigned char *start = (const unsigned char *)query + 12, *at = start;
    while (*at)
        at += *at + 1;
    return (size_t)(at - start) + 5;
}

// False: nothing is said.
static inline bool dns_say(struct dns_server *s, const char *query, bool tcp, struct gs_buf *out)
{
    GS_AUTO_FREE char *question = dns_question(query);
    const struct dns_row *row = s->rows;
    gs_buf_addf(&s->asked, "%s%s;", tcp ? "tcp " : "", question);
    while (row->question && strcmp(row->question, question) != 0)
        row++;
    enum dns_mood mood = row->question ? row->mood : SAYS_NXDOMAIN;
    bool cut = mood == SAYS_CUT && !tcp,
         records = mood == SAYS_RECORDS || (mood == SAYS_CUT && tcp);
    char head[12] = {query[0],
                     query[1],
                     cut ? (char)0x87 : (char)0x85,
                     mood == SAYS_NXDOMAIN   ? 3
                     : mood == SAYS_SERVFAIL ? 2
                                             : 0,
                     0,
                     1,
                     0,
                     records ? (char)row->n : 0};
    if (mood == SAYS_NOTHING)
        return false;
    head[1] ^= mood == SAYS_LIES;
    gs_buf_add(out, head, sizeof(head));
    gs_buf_add(out, query + 12, dns_question_size(query));
    if (records)
        gs_buf_add(out, row->records, row->size);
    return true;
}

static inline void dns_room(uv_handle_t *h, size_t n, uv_buf_t *ret)
{
    struct dns_server *s = h->data;
    (void)n;
    *ret = uv_buf_init(s->room, sizeof(s->room));
}

static inline void dns_datagram(uv_udp_t *h, ssize_t n, const uv_buf_t *buf,
                                const struct sockaddr *from, unsigned flags)
{
    struct dns_server *s = h->data;
    GS_AUTO_BUF struct gs_buf out = {0};
    (void)flags;
    if (n <= 0 || !from || !dns_say(s, buf->base, false, &out))
        return;
    uv_buf_t bytes = uv_buf_init(out.data, (unsigned)out.len);
    assert_int_equal(uv_udp_try_send(h, &bytes, 1, from), out.len);
}

static inline void dns_peer_closed(uv_handle_t *h)
{
    ((struct dns_server *)h->data)->peer_open = false;
}

static inline void dns_stream(uv_stream_t *h, ssize_t n, const uv_buf_t *buf)
{
    struct dns_server *s = h->data;
    GS_AUTO_BUF struct gs_buf out = {0};
    if (n < 0) {
        uv_close((uv_handle_t *)h, dns_peer_closed);
        return;
    }
    gs_buf_add(&s->stream, buf->base, (size_t)n);
    if (s->stream.len < 2 || s->stream.len < 2 + (size_t)s->stream.data[1])
        return;
    if (dns_say(s, s->stream.data + 2, true, &out)) {
        char len[2] = {(char)(out.len >> 8), (char)(out.len & 0xff)};
        uv_buf_t parts[] = {uv_buf_init(len, 2), uv_buf_init(out.data, (unsigned)out.len)};
        assert_int_equal(uv_try_write(h, parts, 2), out.len + 2);
    }
    gs_buf_clear(&s->stream);
}

static inline void dns_connection(uv_stream_t *h, int status)
{
    struct dns_server *s = h->data;
    assert_int_equal(status, 0);
    assert_int_equal(uv_tcp_init(h->loop, &s->peer), 0);
    s->peer.data = s;
    s->peer_open = true;
    assert_int_equal(uv_accept(h, (uv_stream_t *)&s->peer), 0);
    uv_read_start((uv_stream_t *)&s->peer, dns_room, dns_stream);
}

// What the clients' resolv.conf contains from now on.
static inline void dns_set_resolv_conf(struct dns_server *s, const char *text)
{
    assert_ok(gs_file_write_atomic(s->resolv_conf, 0600, gs_slice_of(text)));
}

static inline void dns_server_start(struct dns_server *s, uv_loop_t *loop,
                                    const struct dns_row *rows)
{
    struct sockaddr_in at;
    int size = sizeof(at), rc = -1;
    memset(s, 0, sizeof(*s));
    s->rows = rows;
    assert_int_equal(uv_udp_init(loop, &s->udp), 0);
    assert_int_equal(uv_tcp_init(loop, &s->tcp), 0);
    s->udp.data = s->tcp.data = s;
    uv_ip4_addr("127.0.0.1", 0, &at);
    assert_int_equal(uv_tcp_bind(&s->tcp, (struct sockaddr *)&at, 0), 0);
    uv_tcp_getsockname(&s->tcp, (struct sockaddr *)&at, &size);
    rc = uv_udp_bind(&s->udp, (struct sockaddr *)&at, 0);
    assert_int_equal(rc, 0);
    s->port = ntohs(at.sin_port);
    assert_int_equal(uv_listen((uv_stream_t *)&s->tcp, 4, dns_connection), 0);
    uv_udp_recv_start(&s->udp, dns_room, dns_datagram);
    strcpy(s->resolv_conf, "/tmp/gpuscale-resolv-XXXXXX");
    close(mkstemp(s->resolv_conf));
    dns_set_resolv_conf(s, "nameserver 127.0.0.1\n");
    s->config = (struct dns_config){s->resolv_conf, s->port, WAIT_MS};
}

static inline void dns_server_stop(struct dns_server *s, uv_loop_t *loop)
{
    uv_close((uv_handle_t *)&s->udp, NULL);
    uv_close((uv_handle_t *)&s->tcp, NULL);
    if (s->peer_open && !uv_is_closing((uv_handle_t *)&s->peer))
        uv_close((uv_handle_t *)&s->peer, NULL);
    loop_finish(loop);
    gs_buf_finish(&s->asked);
    gs_buf_finish(&s->stream);
    (void)unlink(s->resolv_conf);
}

// --- records ---

#define DNS_NAME                 "\xc0\x0c" // that of the question
#define DNS_A_RECORD(a, b, c, d) DNS_NAME "\0\x01\0\x01\0\0\0\x0a\0\x04" a b c d
#define DNS_AAAA_RECORD          DNS_NAME "\0\x1c\0\x01\0\0\0\x0a\0\x10\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"
// "gpu0" below the name of the question, port 9400
#define DNS_SRV_RECORD   DNS_NAME "\0\x21\0\x01\0\0\0\x0a\0\x0d\0\0\0\0\x24\xb8\x04gpu0" DNS_NAME
#define DNS_MX_RECORD    DNS_NAME "\0\x0f\0\x01\0\0\0\x0a\0\x08\0\x0a\x03mx1" DNS_NAME
#define DNS_NS_RECORD    DNS_NAME "\0\x02\0\x01\0\0\0\x0a\0\x06\x03ns1" DNS_NAME
#define DNS_CNAME_RECORD DNS_NAME "\0\x05\0\x01\0\0\0\x0a\0\x06\x03www" DNS_NAME
// Of the name that the CNAME record gives, when it is the first for "gpu.example".
#define DNS_ALIAS_A_RECORD(a, b, c, d) "\xc0\x29\0\x01\0\x01\0\0\0\x0a\0\x04" a b c d
