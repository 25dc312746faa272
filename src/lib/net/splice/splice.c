// SPDX-License-Identifier: Apache-2.0
// A splice may be freed while callbacks of its sockets are pending: these find no splice in their
// socket. on_end may free it at once, so nothing uses a splice after end().
#include "net/splice/splice.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

#define QUEUE_HIGH (256u * 1024)
#define QUEUE_LOW  (64u * 1024)
#define READ_SIZE  (64u * 1024)

struct splice_socket {
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_shutdown_t ending;
    struct splice *splice; // NULL: none, or given up
    enum splice_side side;
    splice_connected on_connected;
    splice_read on_read;
    void *arg;
    bool closed, reading, read_ended, write_ended;
};

struct splice {
    struct splice_socket *side[2];
    struct splice_config cfg;
    int64_t last_ns;
    bool ended;
};

// Used within one read callback only.
static _Thread_local char read_buffer[READ_SIZE];

// --- sockets ---

static struct splice_socket *socket_of(void *tcp)
{
    return GS_CONTAINER_OF(tcp, struct splice_socket, tcp);
}

struct splice_socket *splice_socket_new(uv_loop_t *loop)
{
    struct splice_socket *s = gs_alloc(sizeof(*s));
    uv_tcp_init(loop, &s->tcp);
    return s;
}

uint16_t splice_bound_port(const uv_tcp_t *tcp)
{
    struct sockaddr_storage a;
    int len = sizeof(a);
    if (uv_tcp_getsockname(tcp, (struct sockaddr *)&a, &len) < 0)
        return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

uv_tcp_t *splice_socket_tcp(struct splice_socket *s)
{
    return &s->tcp;
}

static void socket_closed(uv_handle_t *h)
{
    free(socket_of(h));
}

void splice_socket_close(struct splice_socket *s)
{
    if (!s)
        return;
    s->splice = NULL;
    s->closed = true;
    uv_close((uv_handle_t *)&s->tcp, socket_closed);
}

static void connect_done(uv_connect_t *req, int status)
{
    struct splice_socket *s = GS_CONTAINER_OF(req, struct splice_socket, connecting);
    if (s->closed)
        return;
    if (status == 0)
        uv_tcp_nodelay(&s->tcp, 1);
    s->on_connected(s->arg, status);
}

int splice_socket_connect(struct splice_socket *s, const struct sockaddr *to, splice_connected done,
                          void *arg)
{
    s->on_connected = done;
    s->arg = arg;
    return uv_tcp_connect(&s->connecting, &s->tcp, to, connect_done);
}

int splice_parse_address(const char *ip, uint16_t port, struct sockaddr_storage *ret)
{
    if (strchr(ip, ':'))
        return uv_ip6_addr(ip, port, (struct sockaddr_in6 *)ret);
    return uv_ip4_addr(ip, port, (struct sockaddr_in *)ret);
}

static void give_buffer(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    *buf = socket_of(h)->closed ? uv_buf_init(NULL, 0) : uv_buf_init(read_buffer, READ_SIZE);
}

static void bytes_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct splice_socket *s = socket_of(stream);
    if (n != 0 && !s->closed)
        s->on_read(s->arg, buf->base, n);
}

int splice_socket_read(struct splice_socket *s, splice_read on_read, void *arg)
{
    s->on_read = on_read;
    s->arg = arg;
    if (s->reading)
        return 0;
    int rc = uv_read_start((uv_stream_t *)&s->tcp, give_buffer, bytes_read);
    s->reading = rc == 0;
    return rc;
}

void splice_socket_pause(struct splice_socket *s)
{
    if (s->reading)
        uv_read_stop((uv_stream_t *)&s->tcp);
    s->reading = false;
}

// --- the end ---

static void end(struct splice *s)
{
    if (s->ended)
        return;
    s->ended = true;
    s->cfg.on_end(s->cfg.arg);
}

void splice_free(struct splice *s)
{
    if (!s)
        return;
    splice_socket_close(s->side[SPLICE_CLIENT]);
    splice_socket_close(s->side[SPLICE_SERVER]);
    free(s);
}

int64_t splice_last_ns(const struct splice *s)
{
    return s->last_ns;
}

// --- moving bytes ---

struct write {
    uv_write_t req;
    char data[];
};

static struct splice_socket *other(struct splice_socket *s)
{
    return s->splice->side[s->side == SPLICE_CLIENT ? SPLICE_SERVER : SPLICE_CLIENT];
}

static size_t queued(const struct splice_socket *s)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&s->tcp);
}

static void move_bytes(void *arg, const char *data, ssize_t n);

// False: it failed, and the splice may be freed.
static bool start_reading(struct splice_socket *s)
{
    if (s->read_ended || splice_socket_read(s, move_bytes, s) == 0)
        return true;
    end(s->splice);
    return false;
}

static void write_done(uv_write_t *req, int status)
{
    struct splice_socket *s = socket_of(req->handle);
    free(GS_CONTAINER_OF(req, struct write, req));
    if (!s->splice)
        return;
    if (status < 0) {
        end(s->splice);
        return;
    }
    s->splice->last_ns = gs_mono_ns();
    if (queued(s) <= QUEUE_LOW)
        start_reading(other(s));
}

static bool socket_send(struct splice_socket *to, const char *data, size_t len)
{
    uv_buf_t buf = uv_buf_init((char *)data, (unsigned)len);
    if (queued(to) == 0) {
        int n = uv_try_write((uv_stream_t *)&to->tcp, &buf, 1);
        if (n == (int)len)
            return true;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    struct write *w = gs_try_alloc(sizeof(*w) + len);
    if (!w)
        return false;
    memcpy(w->data, data, len);
    buf = uv_buf_init(w->data, (unsigned)len);
    if (uv_write(&w->req, (uv_stream_t *)&to->tcp, &buf, 1, write_done) < 0) {
        free(w);
        return false;
    }
    return true;
}

bool splice_socket_send(struct splice_socket *s, struct gs_slice bytes)
{
    return !bytes.len || socket_send(s, bytes.data, bytes.len);
}

bool splice_send(struct splice *s, enum splice_side to, struct gs_slice bytes)
{
    if (splice_socket_send(s->side[to], bytes))
        return true;
    end(s);
    return false;
}

static void shutdown_done(uv_shutdown_t *req, int status)
{
    struct splice_socket *s = socket_of(req->handle);
    if (!s->splice)
        return;
    s->write_ended = true;
    if (status < 0 || other(s)->write_ended)
        end(s->splice);
}

void splice_socket_end(struct splice_socket *s)
{
    uv_shutdown(&s->ending, (uv_stream_t *)&s->tcp, shutdown_done);
}

static void report(struct splice_socket *from, size_t n)
{
    const struct splice_config *cfg = &from->splice->cfg;
    if (cfg->on_bytes)
        cfg->on_bytes(cfg->arg, from->side, n);
}

static void pass_end_on(struct splice_socket *from)
{
    struct splice_socket *to = other(from);
    from->read_ended = true;
    splice_socket_pause(from);
    if (uv_shutdown(&to->ending, (uv_stream_t *)&to->tcp, shutdown_done) < 0)
        end(from->splice);
    else
        report(from, 0);
}

// False: the splice may have been freed.
static bool pass_on(struct splice_socket *from, struct gs_slice bytes)
{
    struct splice *s = from->splice;
    const struct splice_config *cfg = &s->cfg;
    if (cfg->take && cfg->take(cfg->arg, from->side, bytes))
        return from->splice && !s->ended;
    return splice_send(s, other(from)->side, bytes);
}

static void move_bytes(void *arg, const char *data, ssize_t n)
{
    struct splice_socket *s = arg;
    struct splice *p = s->splice;
    if (!p || p->ended)
        return;
    if (n == UV_EOF) {
        if (pass_on(s, (struct gs_slice){0}))
            pass_end_on(s);
        return;
    }
    if (n < 0) {
        end(p);
        return;
    }
    p->last_ns = gs_mono_ns();
    struct splice_socket *to = other(s);
    if (!pass_on(s, gs_slice_make(data, (size_t)n)))
        return;
    if (queued(to) > QUEUE_HIGH)
        splice_socket_pause(s);
    report(s, (size_t)n);
}

struct splice *splice_new(struct splice_socket *client, struct splice_socket *server,
                          const struct splice_config *cfg)
{
    struct splice *s = gs_alloc(sizeof(*s));
    s->side[SPLICE_CLIENT] = client;
    s->side[SPLICE_SERVER] = server;
    s->cfg = *cfg;
    s->last_ns = gs_mono_ns();
    for (enum splice_side side = SPLICE_CLIENT; side <= SPLICE_SERVER; side++) {
        s->side[side]->splice = s;
        s->side[side]->side = side;
    }
    return s;
}

void splice_start(struct splice *s)
{
    if (start_reading(s->side[SPLICE_CLIENT]))
        start_reading(s->side[SPLICE_SERVER]);
}
