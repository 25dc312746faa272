// SPDX-License-Identifier: Apache-2.0
#include "net/dns/exchange.h"

#include "base/mem.h"

struct dns_exchange {
    union {
        uv_handle_t handle;
        uv_udp_t udp;
        uv_tcp_t tcp;
    };
    uv_timer_t timer;
    uv_connect_t connect;
    uv_write_t write;
    struct gs_buf query; // over TCP with its length in front
    struct gs_buf reply; // over TCP, as it comes
    dns_exchange_fn fn;
    void *arg;
    bool tcp_used, over;
    int open_handles;
    char room[DNS_MAX_MESSAGE]; // for what comes next
};

// --- the end ---

static void on_closed(uv_handle_t *h)
{
    struct dns_exchange *x = h->data;
    if (--x->open_handles)
        return;
    gs_buf_finish(&x->query);
    gs_buf_finish(&x->reply);
    free(x);
}

void dns_exchange_cancel(struct dns_exchange *x)
{
    if (!x || x->over)
        return;
    x->over = true;
    uv_close(&x->handle, on_closed);
    uv_close((uv_handle_t *)&x->timer, on_closed);
}

// err is taken.
static void end(struct dns_exchange *x, struct gs_slice message, struct gs_error *err)
{
    if (x->over) {
        gs_error_free(err);
        return;
    }
    dns_exchange_cancel(x); // the memory stays until the loop turns
    x->fn(x->arg, message, err);
}

static void fail(struct dns_exchange *x, int code)
{
    end(x, GS_SLICE(""), gs_error_new(GS_EUNAVAIL, "%s", uv_strerror(code)));
}

static void on_timeout(uv_timer_t *t)
{
    end(t->data, GS_SLICE(""), gs_error_new(GS_ETIMEOUT, "i/o timeout"));
}

static void give_room(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
    struct dns_exchange *x = h->data;
    (void)suggested;
    *ret = uv_buf_init(x->room, sizeof(x->room));
}

// --- UDP ---

// Late answers to other questions, and forged ones, are passed over.
static void on_datagram(uv_udp_t *h, ssize_t n, const uv_buf_t *buf, const struct sockaddr *from,
                        unsigned flags)
{
    struct dns_exchange *x = h->data;
    struct gs_slice message = gs_slice_make(buf->base, n > 0 ? (size_t)n : 0);
    (void)from;
    if (n < 0)
        fail(x, (int)n);
    else if (!(flags & UV_UDP_PARTIAL) && dns_answers(message, gs_buf_slice(&x->query)))
        end(x, message, NULL);
}

static int start_udp(struct dns_exchange *x, uv_loop_t *loop, const struct sockaddr *to)
{
    uv_buf_t bytes = uv_buf_init(x->query.data, (unsigned)x->query.len);
    int rc = uv_udp_init(loop, &x->udp);
    if (rc)
        return rc;
    x->open_handles++;
    // Only from this server.
    rc = uv_udp_connect(&x->udp, to);
    if (!rc)
        rc = uv_udp_recv_start(&x->udp, give_room, on_datagram);
    if (!rc)
        rc = uv_udp_try_send(&x->udp, &bytes, 1, NULL);
    return rc < 0 ? rc : 0;
}

// --- TCP ---

static void on_bytes(uv_stream_t *h, ssize_t n, const uv_buf_t *buf)
{
    struct dns_exchange *x = h->data;
    if (n < 0) {
        fail(x, (int)n);
        return;
    }
    gs_buf_add(&x->reply, buf->base, (size_t)n);
    const unsigned char *head = (const unsigned char *)x->reply.data;
    size_t want = x->reply.len < 2 ? SIZE_MAX : (size_t)(head[0] << 8 | head[1]);
    if (x->reply.len < 2 || x->reply.len - 2 < want)
        return;
    struct gs_slice message = gs_slice_make(x->reply.data + 2, want);
    struct gs_slice query = gs_slice_make(x->query.data + 2, x->query.len - 2);
    if (dns_answers(message, query))
        end(x, message, NULL);
    else
        end(x, GS_SLICE(""), gs_error_new(GS_EPROTO, "the answer is to another question"));
}

static void on_written(uv_write_t *w, int status)
{
    if (status < 0)
        fail(w->data, status);
}

static void on_connected(uv_connect_t *c, int status)
{
    struct dns_exchange *x = c->data;
    uv_buf_t bytes = uv_buf_init(x->query.data, (unsigned)x->query.len);
    if (!status && !x->over)
        status = uv_read_start((uv_stream_t *)&x->tcp, give_room, on_bytes);
    if (!status && !x->over)
        status = uv_write(&x->write, (uv_stream_t *)&x->tcp, &bytes, 1, on_written);
    if (status)
        fail(x, status);
}

static int start_tcp(struct dns_exchange *x, uv_loop_t *loop, const struct sockaddr *to)
{
    int rc = uv_tcp_init(loop, &x->tcp);
    if (rc)
        return rc;
    x->open_handles++;
    return uv_tcp_connect(&x->connect, &x->tcp, to, on_connected);
}

// --- the beginning ---

static bool address_of(const char *server, uint16_t port, struct sockaddr_storage *ret)
{
    return uv_ip4_addr(server, port, (struct sockaddr_in *)ret) == 0 ||
           uv_ip6_addr(server, port, (struct sockaddr_in6 *)ret) == 0;
}

struct gs_error *dns_exchange_start(uv_loop_t *loop, const char *server, uint16_t port, bool tcp,
                                    struct gs_slice query, unsigned timeout_ms, dns_exchange_fn fn,
                                    void *arg, struct dns_exchange **ret)
{
    struct sockaddr_storage to = {0};
    if (!address_of(server, port, &to))
        return gs_error_new(GS_EINVAL, "\"%s\" is not an address", server);
    struct dns_exchange *x = gs_alloc(sizeof(*x));
    x->fn = fn;
    x->arg = arg;
    if (tcp) {
        gs_buf_add_char(&x->query, (char)(query.len >> 8));
        gs_buf_add_char(&x->query, (char)(query.len & 0xff));
    }
    gs_buf_add_slice(&x->query, query);
    uv_timer_init(loop, &x->timer);
    x->open_handles = 1;
    x->timer.data = x->connect.data = x->write.data = x;
    const struct sockaddr *address = (const struct sockaddr *)&to;
    int rc = tcp ? start_tcp(x, loop, address) : start_udp(x, loop, address);
    x->handle.data = x;
    if (rc && x->open_handles == 1) { // no handle was made
        x->over = true;
        uv_close((uv_handle_t *)&x->timer, on_closed);
    } else if (rc) {
        dns_exchange_cancel(x);
    }
    if (rc)
        return gs_error_new(GS_EUNAVAIL, "%s", uv_strerror(rc));
    uv_timer_start(&x->timer, on_timeout, timeout_ms, 0);
    *ret = x;
    return NULL;
}
