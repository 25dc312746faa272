// SPDX-License-Identifier: Apache-2.0
//
//   client ──accept──▶ connection ──connect──▶ endpoint      refs: a connection holds its endpoint,
//                          │  fails: the next endpoint       a pool holds its endpoints
//                          ▼
//                       splice
#include "local/services/services_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "base/timer.h"
#include "net/splice/splice.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

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

struct connection {
    struct services_balancer *balancer;
    struct connection *prev, *next;
    struct services_balancer_pool *pool;   // until connected; NULL when it went away
    struct splice_socket *client, *server; // until connected
    struct splice *splice;                 // then
    struct endpoint *endpoint;
    struct endpoint *tried[ATTEMPTS_MAX];
    size_t n_tried;
    struct gs_timer *timer;
    int64_t accepted_ns;
    bool closed;
};

struct services_balancer {
    uv_loop_t *loop;
    struct services_balancer_config cfg;
    struct connection *connections;
    size_t n_connections;
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
            e->address.standby = a->standby;
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

static bool is_better(const struct endpoint *e, const struct endpoint *than)
{
    if (e->address.standby != than->address.standby)
        return than->address.standby;
    return e->open < than->open;
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
        if (!was_tried(c, e) && (!best || is_better(e, best))) {
            best = e;
            at = k;
        }
    }
    if (best)
        p->turn = at + 1;
    return best;
}

// --- the end of connections ---

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
    splice_free(c->splice);
    splice_socket_close(c->client);
    splice_socket_close(c->server);
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

static void on_end(void *arg)
{
    connection_close(arg);
}

static int64_t last_ns(const struct connection *c) // of any traffic
{
    return c->splice ? splice_last_ns(c->splice) : c->accepted_ns;
}

static void idle_check(void *arg)
{
    struct connection *c = arg;
    int64_t idle_ms = (gs_mono_ns() - last_ns(c)) / GS_NS_PER_MS;
    if (idle_ms >= c->balancer->cfg.idle_ms)
        connection_close(c);
    else
        gs_timer_start(c->timer, idle_check, (uint64_t)(c->balancer->cfg.idle_ms - idle_ms) + 1);
}

// --- connecting ---

static void connect_next(struct connection *c);

static void attempt_failed(struct connection *c)
{
    splice_socket_close(GS_TAKE(c->server));
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

static void connect_done(void *arg, int status)
{
    struct connection *c = arg;
    if (status < 0) {
        attempt_failed(c);
        return;
    }
    const struct splice_config cfg = {.on_end = on_end, .arg = c};
    c->pool = NULL;
    c->splice = splice_new(GS_TAKE(c->client), GS_TAKE(c->server), &cfg);
    gs_timer_start(c->timer, idle_check, c->balancer->cfg.idle_ms);
    splice_start(c->splice);
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
    c->server = splice_socket_new(c->balancer->loop);
    struct sockaddr_storage to;
    gs_timer_start(c->timer, connect_timed_out, c->balancer->cfg.connect_ms);
    if (splice_parse_address(e->address.ip, e->address.port, &to) < 0 ||
        splice_socket_connect(c->server, (struct sockaddr *)&to, connect_done, c) < 0)
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
        if (last_ns(c) <= before && (!victim || last_ns(c) <= last_ns(victim)))
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
    c->accepted_ns = gs_mono_ns();
    c->next = b->connections;
    if (c->next)
        c->next->prev = c;
    b->connections = c;
    b->n_connections++;
    c->timer = gs_timer_new(b->loop, c);
    c->client = splice_socket_new(b->loop);
    uv_tcp_t *tcp = splice_socket_tcp(c->client);
    if (uv_accept(listener, (uv_stream_t *)tcp) < 0 || b->n_connections > b->cfg.max_connections) {
        connection_close(c);
        return;
    }
    uv_tcp_nodelay(tcp, 1);
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

struct gs_error *services_balancer_listen(struct services_balancer_pool *p, const char *ip,
                                          uint16_t port, struct services_balancer_listener **ret)
{
    struct sockaddr_storage at;
    if (splice_parse_address(ip, port, &at) < 0)
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
    l->port = splice_bound_port(&l->tcp);
    *ret = l;
    return NULL;
}

uint16_t services_balancer_listener_port(const struct services_balancer_listener *l)
{
    return l->port;
}
