// SPDX-License-Identifier: Apache-2.0
//
//   client ──accept──▶ connection ──connect──▶ endpoint      refs: a connection holds its endpoint,
//                          │  fails: the next endpoint       a pool holds its endpoints
//                          ▼
//                       proxying: two directions, each stops reading while the other side's queue
//                       is above the high mark, each passes its end on with shutdown
#include "local/services/services_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "base/timer.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

#define QUEUE_HIGH          (256u * 1024)
#define QUEUE_LOW           (64u * 1024)
#define READ_SIZE           (64u * 1024)
#define ATTEMPTS_MAX        8
#define LISTEN_QUEUE        1024
#define DEFAULT_CONNECTIONS ((size_t)4096)

struct endpoint {
    struct services_balancer_address address;
    unsigned refs;
    size_t open; // connections
};

struct services_balancer_pool {
    struct services_balancer *balancer;
    struct endpoint **endpoints;
    size_t len;
    size_t turn; // position of the round robin
};

struct services_balancer_listener {
    uv_tcp_t tcp;
    struct services_balancer_pool *pool;
    uint16_t port;
};

enum side { CLIENT, SERVER };

struct socket {
    uv_tcp_t tcp;
    struct connection *connection; // NULL: given up, only waits for its close
    enum side side;
    uv_connect_t connecting;
    uv_shutdown_t ending;
    bool reading, read_ended, write_ended;
};

struct connection {
    struct services_balancer *balancer;
    struct connection *prev, *next;
    struct services_balancer_pool *pool; // until connected; NULL when it went away
    struct socket *side[2];
    struct endpoint *endpoint;
    struct endpoint *tried[ATTEMPTS_MAX];
    size_t n_tried;
    struct gs_timer *timer;
    int64_t last_ns; // of any traffic
    bool connected, closed;
};

struct services_balancer {
    uv_loop_t *loop;
    struct services_balancer_config cfg;
    struct connection *connections;
    size_t n_connections;
    char read_buffer[READ_SIZE]; // used within one read callback only
};

// Each has two sockets.
static size_t default_connections(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / 8 > DEFAULT_CONNECTIONS)
        return DEFAULT_CONNECTIONS;
    return files.rlim_cur / 8 ? (size_t)files.rlim_cur / 8 : 1;
}

struct services_balancer *services_balancer_new(uv_loop_t *loop,
                                                const struct services_balancer_config *cfg)
{
    struct services_balancer *b = gs_alloc(sizeof(*b));
    b->loop = loop;
    if (cfg)
        b->cfg = *cfg;
    if (!b->cfg.max_connections)
        b->cfg.max_connections = default_connections();
    if (!b->cfg.evict_ms)
        b->cfg.evict_ms = 10 * 1000;
    if (!b->cfg.idle_ms)
        b->cfg.idle_ms = 10 * 60 * 1000;
    if (!b->cfg.connect_ms)
        b->cfg.connect_ms = 5000;
    return b;
}

size_t services_balancer_connections(const struct services_balancer *b)
{
    return b->n_connections;
}

// --- endpoints ---

static void endpoint_unref(struct endpoint *e)
{
    if (e && --e->refs == 0)
        free(e);
}

struct services_balancer_pool *services_balancer_pool_new(struct services_balancer *b)
{
    struct services_balancer_pool *p = gs_alloc(sizeof(*p));
    p->balancer = b;
    return p;
}

static struct endpoint *take_same(struct services_balancer_pool *p,
                                  const struct services_balancer_address *a)
{
    for (size_t i = 0; i < p->len; i++) {
        struct endpoint *e = p->endpoints[i];
        if (e && e->address.port == a->port && strcmp(e->address.ip, a->ip) == 0) {
            p->endpoints[i] = NULL;
            return e;
        }
    }
    return NULL;
}

void services_balancer_pool_set(struct services_balancer_pool *p,
                                const struct services_balancer_address *items, size_t n)
{
    struct endpoint **next = gs_alloc_array(n + 1, sizeof(*next));
    for (size_t i = 0; i < n; i++) {
        next[i] = take_same(p, &items[i]);
        if (next[i])
            continue;
        next[i] = gs_alloc(sizeof(**next));
        next[i]->address = items[i];
        next[i]->refs = 1;
    }
    for (size_t i = 0; i < p->len; i++)
        endpoint_unref(p->endpoints[i]);
    free(p->endpoints);
    p->endpoints = next;
    p->len = n;
}

void services_balancer_pool_free(struct services_balancer_pool *p)
{
    if (!p)
        return;
    for (struct connection *c = p->balancer->connections; c; c = c->next)
        if (c->pool == p)
            c->pool = NULL;
    for (size_t i = 0; i < p->len; i++)
        endpoint_unref(p->endpoints[i]);
    free(p->endpoints);
    free(p);
}

static bool was_tried(const struct connection *c, const struct endpoint *e)
{
    for (size_t i = 0; i < c->n_tried; i++)
        if (c->tried[i] == e)
            return true;
    return false;
}

static struct endpoint *choose(struct connection *c)
{
    struct services_balancer_pool *p = c->pool;
    struct endpoint *best = NULL;
    if (!p || c->n_tried == ATTEMPTS_MAX)
        return NULL;
    size_t at = 0;
    for (size_t i = 0; i < p->len; i++) {
        size_t k = (p->turn + i) % p->len;
        struct endpoint *e = p->endpoints[k];
        if (!was_tried(c, e) && (!best || e->open < best->open)) {
            best = e;
            at = k;
        }
    }
    if (best)
        p->turn = at + 1;
    return best;
}

// --- the end of connections ---

static void socket_closed(uv_handle_t *h)
{
    free(GS_CONTAINER_OF(h, struct socket, tcp));
}

static void socket_close(struct socket *s)
{
    if (!s)
        return;
    s->connection = NULL;
    uv_close((uv_handle_t *)&s->tcp, socket_closed);
}

static void release_endpoint(struct connection *c)
{
    if (c->endpoint)
        c->endpoint->open--;
    endpoint_unref(c->endpoint);
    c->endpoint = NULL;
}

static void connection_close(struct connection *c)
{
    if (c->closed)
        return;
    c->closed = true;
    struct services_balancer *b = c->balancer;
    if (c->prev)
        c->prev->next = c->next;
    else
        b->connections = c->next;
    if (c->next)
        c->next->prev = c->prev;
    b->n_connections--;
    release_endpoint(c);
    for (size_t i = 0; i < c->n_tried; i++)
        endpoint_unref(c->tried[i]);
    socket_close(c->side[CLIENT]);
    socket_close(c->side[SERVER]);
    gs_timer_close(c->timer, free);
}

void services_balancer_free(struct services_balancer *b)
{
    if (!b)
        return;
    while (b->connections)
        connection_close(b->connections);
    free(b);
}

// --- moving bytes ---

struct write {
    uv_write_t req;
    char data[];
};

static struct socket *socket_of(void *tcp)
{
    return GS_CONTAINER_OF(tcp, struct socket, tcp);
}

static struct socket *other(struct socket *s)
{
    return s->connection->side[s->side == CLIENT ? SERVER : CLIENT];
}

static void start_reading(struct socket *s);

static void stop_reading(struct socket *s)
{
    if (s->reading)
        uv_read_stop((uv_stream_t *)&s->tcp);
    s->reading = false;
}

static void write_done(uv_write_t *req, int status)
{
    struct socket *s = socket_of(req->handle);
    free(GS_CONTAINER_OF(req, struct write, req));
    if (!s->connection)
        return;
    if (status < 0) {
        connection_close(s->connection);
        return;
    }
    s->connection->last_ns = gs_mono_ns();
    if (uv_stream_get_write_queue_size((uv_stream_t *)&s->tcp) <= QUEUE_LOW)
        start_reading(other(s));
}

// False when the connection was closed.
static bool send_bytes(struct socket *to, const char *data, size_t len)
{
    uv_buf_t buf = uv_buf_init((char *)data, (unsigned)len);
    if (uv_stream_get_write_queue_size((uv_stream_t *)&to->tcp) == 0) {
        int n = uv_try_write((uv_stream_t *)&to->tcp, &buf, 1);
        if (n == (int)len)
            return true;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    struct write *w = gs_try_alloc(sizeof(*w) + len);
    if (!w) {
        connection_close(to->connection);
        return false;
    }
    memcpy(w->data, data, len);
    buf = uv_buf_init(w->data, (unsigned)len);
    if (uv_write(&w->req, (uv_stream_t *)&to->tcp, &buf, 1, write_done) < 0) {
        free(w);
        connection_close(to->connection);
        return false;
    }
    return true;
}

static void shutdown_done(uv_shutdown_t *req, int status)
{
    struct socket *s = socket_of(req->handle);
    struct connection *c = s->connection;
    if (!c)
        return;
    s->write_ended = true;
    if (status < 0 || other(s)->write_ended)
        connection_close(c);
}

static void pass_end_on(struct socket *from)
{
    struct socket *to = other(from);
    from->read_ended = true;
    stop_reading(from);
    if (uv_shutdown(&to->ending, (uv_stream_t *)&to->tcp, shutdown_done) < 0)
        connection_close(from->connection);
}

static void give_buffer(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct socket *s = socket_of(h);
    struct services_balancer *b = s->connection ? s->connection->balancer : NULL;
    *buf = b ? uv_buf_init(b->read_buffer, READ_SIZE) : uv_buf_init(NULL, 0);
}

static void bytes_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct socket *s = socket_of(stream);
    if (n == 0 || !s->connection)
        return;
    if (n == UV_EOF) {
        pass_end_on(s);
        return;
    }
    if (n < 0) {
        connection_close(s->connection);
        return;
    }
    s->connection->last_ns = gs_mono_ns();
    struct socket *to = other(s);
    if (!send_bytes(to, buf->base, (size_t)n))
        return;
    if (uv_stream_get_write_queue_size((uv_stream_t *)&to->tcp) > QUEUE_HIGH)
        stop_reading(s);
}

static void start_reading(struct socket *s)
{
    if (s->reading || s->read_ended)
        return;
    s->reading = uv_read_start((uv_stream_t *)&s->tcp, give_buffer, bytes_read) == 0;
    if (!s->reading)
        connection_close(s->connection);
}

static void idle_check(void *arg)
{
    struct connection *c = arg;
    int64_t idle_ms = (gs_mono_ns() - c->last_ns) / GS_NS_PER_MS;
    if (idle_ms >= c->balancer->cfg.idle_ms)
        connection_close(c);
    else
        gs_timer_start(c->timer, idle_check, (uint64_t)(c->balancer->cfg.idle_ms - idle_ms) + 1);
}

// --- connecting ---

static void connect_next(struct connection *c);

static void attempt_failed(struct connection *c)
{
    socket_close(c->side[SERVER]);
    c->side[SERVER] = NULL;
    if (c->endpoint) {
        c->tried[c->n_tried++] = c->endpoint;
        c->endpoint->refs++;
    }
    release_endpoint(c);
    connect_next(c);
}

static void connect_timed_out(void *arg)
{
    attempt_failed(arg);
}

static void connect_done(uv_connect_t *req, int status)
{
    struct socket *s = socket_of(req->handle);
    struct connection *c = s->connection;
    if (!c)
        return;
    if (status < 0) {
        attempt_failed(c);
        return;
    }
    c->connected = true;
    c->pool = NULL;
    c->last_ns = gs_mono_ns();
    uv_tcp_nodelay(&s->tcp, 1);
    gs_timer_start(c->timer, idle_check, c->balancer->cfg.idle_ms);
    start_reading(c->side[CLIENT]);
    if (!c->closed)
        start_reading(c->side[SERVER]);
}

static struct socket *socket_new(struct connection *c, enum side side)
{
    struct socket *s = gs_alloc(sizeof(*s));
    s->connection = c;
    s->side = side;
    uv_tcp_init(c->balancer->loop, &s->tcp);
    c->side[side] = s;
    return s;
}

static int parse_address(const char *ip, uint16_t port, struct sockaddr_storage *ret)
{
    if (strchr(ip, ':'))
        return uv_ip6_addr(ip, port, (struct sockaddr_in6 *)ret);
    return uv_ip4_addr(ip, port, (struct sockaddr_in *)ret);
}

static void connect_next(struct connection *c)
{
    struct endpoint *e = choose(c);
    if (!e) {
        connection_close(c);
        return;
    }
    e->refs++;
    e->open++;
    c->endpoint = e;
    struct socket *s = socket_new(c, SERVER);
    struct sockaddr_storage to;
    gs_timer_start(c->timer, connect_timed_out, c->balancer->cfg.connect_ms);
    if (parse_address(e->address.ip, e->address.port, &to) < 0 ||
        uv_tcp_connect(&s->connecting, &s->tcp, (struct sockaddr *)&to, connect_done) < 0)
        attempt_failed(c);
}

// --- listening ---

static void make_room(struct services_balancer *b)
{
    struct connection *victim = NULL;
    int64_t before = gs_mono_ns() - b->cfg.evict_ms * GS_NS_PER_MS;
    if (b->n_connections < b->cfg.max_connections)
        return;
    for (struct connection *c = b->connections; c; c = c->next)
        if (c->last_ns <= before && (!victim || c->last_ns <= victim->last_ns))
            victim = c;
    if (victim)
        connection_close(victim);
}

static void accepted(uv_stream_t *listener, int status)
{
    if (status < 0)
        return;
    struct services_balancer_listener *l =
        GS_CONTAINER_OF(listener, struct services_balancer_listener, tcp);
    struct services_balancer *b = l->pool->balancer;
    make_room(b);
    struct connection *c = gs_alloc(sizeof(*c));
    c->balancer = b;
    c->pool = l->pool;
    c->last_ns = gs_mono_ns();
    c->next = b->connections;
    if (c->next)
        c->next->prev = c;
    b->connections = c;
    b->n_connections++;
    c->timer = gs_timer_new(b->loop, c);
    struct socket *s = socket_new(c, CLIENT);
    if (uv_accept(listener, (uv_stream_t *)&s->tcp) < 0 ||
        b->n_connections > b->cfg.max_connections) {
        connection_close(c);
        return;
    }
    uv_tcp_nodelay(&s->tcp, 1);
    connect_next(c);
}

static void listener_closed(uv_handle_t *h)
{
    free(GS_CONTAINER_OF(h, struct services_balancer_listener, tcp));
}

void services_balancer_listener_close(struct services_balancer_listener *l)
{
    if (l)
        uv_close((uv_handle_t *)&l->tcp, listener_closed);
}

static uint16_t bound_port(const uv_tcp_t *tcp)
{
    struct sockaddr_storage a;
    int len = sizeof(a);
    if (uv_tcp_getsockname(tcp, (struct sockaddr *)&a, &len) < 0)
        return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

struct gs_error *services_balancer_listen(struct services_balancer_pool *p, const char *ip,
                                          uint16_t port, struct services_balancer_listener **ret)
{
    struct sockaddr_storage at;
    if (parse_address(ip, port, &at) < 0)
        return gs_error_new(GS_EINVAL, "%s: not a numeric address", ip);
    struct services_balancer_listener *l = gs_alloc(sizeof(*l));
    l->pool = p;
    uv_tcp_init(p->balancer->loop, &l->tcp);
    int rc = uv_tcp_bind(&l->tcp, (struct sockaddr *)&at, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&l->tcp, LISTEN_QUEUE, accepted);
    if (rc < 0) {
        services_balancer_listener_close(l);
        return gs_error_errno(-rc, "%s:%u", ip, port);
    }
    l->port = bound_port(&l->tcp);
    *ret = l;
    return NULL;
}

uint16_t services_balancer_listener_port(const struct services_balancer_listener *l)
{
    return l->port;
}
