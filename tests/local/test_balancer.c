// SPDX-License-Identifier: Apache-2.0
// The balancer with real sockets: servers and clients of the test live on the same loop.
#include "../kube/loop.h"
#include "base/buf.h"
#include "base/mem.h"
#include "local/services/services_private.h"

#define IP "127.0.0.1"

// --- a server that says its name, and echoes when told to ---

struct server {
    uv_tcp_t tcp;
    const char *name;
    uint16_t port;
    int accepted, open;
    bool echo, silent;
};

struct peer { // one side of a connection, of a server or a client
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_shutdown_t shutdown;
    struct server *server;
    struct gs_buf got;
    size_t total;
    bool connected, eof, closed, count_only;
};

static void peer_gone(uv_handle_t *h)
{
    struct peer *p = h->data;
    p->closed = true;
    if (p->server) {
        p->server->open--;
        gs_buf_finish(&p->got);
        free(p);
    }
}

static void peer_close(struct peer *p)
{
    if (!uv_is_closing((uv_handle_t *)&p->tcp))
        uv_close((uv_handle_t *)&p->tcp, peer_gone);
}

static void alloc_buffer(uv_handle_t *h, size_t n, uv_buf_t *buf)
{
    *buf = uv_buf_init(malloc(n), (unsigned)n);
}

static void written(uv_write_t *req, int status)
{
    free(req->data);
    free(req);
}

static void source_peer_send(struct peer *p, const char *data, size_t len)
{
    uv_write_t *req = calloc(1, sizeof(*req));
    char *copy = malloc(len);
    memcpy(copy, data, len);
    req->data = copy;
    uv_buf_t buf = uv_buf_init(copy, (unsigned)len);
    uv_write(req, (uv_stream_t *)&p->tcp, &buf, 1, written);
}

static void peer_shut(uv_shutdown_t *req, int status)
{
    (void)status;
}

static void peer_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct peer *p = s->data;
    if (n > 0) {
        p->total += (size_t)n;
        if (!p->count_only)
            gs_buf_add(&p->got, buf->base, (size_t)n);
        if (p->server && p->server->echo)
            source_peer_send(p, buf->base, (size_t)n);
    } else if (n == UV_EOF) {
        p->eof = true;
        if (p->server) { // answers only now: the client's end must have come through
            if (p->server->echo)
                source_peer_send(p, "end", 3);
            uv_shutdown(&p->shutdown, s, peer_shut);
        }
    } else if (n < 0) {
        peer_close(p);
    }
    free(buf->base);
    if (p->server && p->eof && !p->server->silent)
        uv_read_stop(s);
}

static void server_accept(uv_stream_t *s, int status)
{
    struct server *server = s->data;
    struct peer *p = calloc(1, sizeof(*p));
    p->server = server;
    p->tcp.data = p;
    uv_tcp_init(s->loop, &p->tcp);
    p->tcp.data = p;
    uv_accept(s, (uv_stream_t *)&p->tcp);
    server->accepted++;
    server->open++;
    if (server->silent)
        return;
    uv_read_start((uv_stream_t *)&p->tcp, alloc_buffer, peer_read);
    if (!server->echo)
        source_peer_send(p, server->name, strlen(server->name));
}

static void server_start(uv_loop_t *loop, struct server *s)
{
    struct sockaddr_in at;
    int len = sizeof(at);
    uv_ip4_addr(IP, s->port, &at);
    uv_tcp_init(loop, &s->tcp);
    s->tcp.data = s;
    assert_int_equal(uv_tcp_bind(&s->tcp, (struct sockaddr *)&at, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&s->tcp, 64, server_accept), 0);
    uv_tcp_getsockname(&s->tcp, (struct sockaddr *)&at, &len);
    s->port = ntohs(at.sin_port);
}

// After everything else is closing, the open handles are the servers' sides of connections.
static void close_server_peer(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (h->type == UV_TCP && !uv_is_closing(h))
        peer_close(h->data);
}

// --- clients ---

static void peer_connected(uv_connect_t *req, int status)
{
    struct peer *p = req->handle->data;
    if (status < 0) {
        peer_close(p);
        return;
    }
    p->connected = true;
    uv_read_start((uv_stream_t *)&p->tcp, alloc_buffer, peer_read);
}

static void client_start(uv_loop_t *loop, struct peer *p, uint16_t port)
{
    struct sockaddr_in to;
    memset(p, 0, sizeof(*p));
    uv_ip4_addr(IP, port, &to);
    uv_tcp_init(loop, &p->tcp);
    p->tcp.data = p;
    uv_tcp_connect(&p->connect, &p->tcp, (struct sockaddr *)&to, peer_connected);
}

static bool got(struct peer *p, const char *text)
{
    return p->got.data && strcmp(p->got.data, text) == 0;
}

// --- fixture ---

struct fixture {
    uv_loop_t loop;
    struct services_balancer *balancer;
    struct services_balancer_pool *pool;
    struct services_balancer_listener *listener;
    uint16_t port;
    struct server a, b;
    struct services_balancer_address to[3];
};

static struct services_balancer_address address(uint16_t port)
{
    struct services_balancer_address a = {.ip = IP, .port = port};
    return a;
}

static void setup(struct fixture *f, const struct services_balancer_config *cfg)
{
    memset(f, 0, sizeof(*f));
    uv_loop_init(&f->loop);
    f->balancer = services_balancer_new(&f->loop, cfg);
    f->pool = services_balancer_pool_new(f->balancer);
    assert_ok(services_balancer_listen(f->pool, IP, 0, &f->listener));
    f->port = services_balancer_listener_port(f->listener);
    f->a.name = "a";
    f->b.name = "b";
    server_start(&f->loop, &f->a);
    server_start(&f->loop, &f->b);
    f->to[0] = address(f->a.port);
    f->to[1] = address(f->b.port);
}

static void finish(struct fixture *f, struct peer *clients, size_t n)
{
    for (size_t i = 0; i < n; i++)
        peer_close(&clients[i]);
    services_balancer_listener_close(f->listener);
    services_balancer_pool_free(f->pool);
    services_balancer_free(f->balancer);
    uv_close((uv_handle_t *)&f->a.tcp, NULL);
    uv_close((uv_handle_t *)&f->b.tcp, NULL);
    uv_walk(&f->loop, close_server_peer, NULL);
    loop_finish(&f->loop);
    for (size_t i = 0; i < n; i++)
        gs_buf_finish(&clients[i].got);
}

static void test_fewest_connections_first(void **state)
{
    struct fixture f;
    struct peer c[6];
    setup(&f, NULL);
    services_balancer_pool_set(f.pool, f.to, 2);
    for (size_t i = 0; i < 4; i++) {
        client_start(&f.loop, &c[i], f.port);
        loop_until(&f.loop, c[i].got.len == 1);
    }
    assert_int_equal(f.a.accepted, 2);
    assert_int_equal(f.b.accepted, 2);
    for (size_t i = 0; i < 4; i++) // both of a go
        if (got(&c[i], "a"))
            peer_close(&c[i]);
    loop_until(&f.loop, services_balancer_connections(f.balancer) == 2);
    for (size_t i = 4; i < 6; i++) {
        client_start(&f.loop, &c[i], f.port);
        loop_until(&f.loop, c[i].got.len == 1);
    }
    assert_int_equal(f.a.accepted, 4); // a had none, b two
    assert_int_equal(f.b.accepted, 2);
    finish(&f, c, 6);
}

static void test_no_endpoint_closes_at_once(void **state)
{
    struct fixture f;
    struct peer c;
    setup(&f, NULL);
    client_start(&f.loop, &c, f.port);
    loop_until(&f.loop, c.eof || c.closed);
    loop_until(&f.loop, services_balancer_connections(f.balancer) == 0);
    finish(&f, &c, 1);
}

static void test_a_dead_endpoint_is_passed_over(void **state)
{
    struct fixture f;
    struct peer c[4];
    struct server dead = {.name = "dead"};
    setup(&f, NULL);
    server_start(&f.loop, &dead);
    uv_close((uv_handle_t *)&dead.tcp, NULL);
    loop_for_ms(&f.loop, 10);
    struct services_balancer_address to[] = {address(dead.port), f.to[0]};
    services_balancer_pool_set(f.pool, to, 2);
    for (size_t i = 0; i < 4; i++) {
        client_start(&f.loop, &c[i], f.port);
        loop_until(&f.loop, got(&c[i], "a"));
    }
    finish(&f, c, 4);
}

static void test_leaving_endpoints_keep_their_connections(void **state)
{
    struct fixture f;
    struct peer c[2];
    setup(&f, NULL);
    f.a.echo = true;
    services_balancer_pool_set(f.pool, &f.to[0], 1);
    client_start(&f.loop, &c[0], f.port);
    loop_until(&f.loop, f.a.accepted == 1);
    services_balancer_pool_set(f.pool, &f.to[1], 1);
    source_peer_send(&c[0], "still", 5);
    loop_until(&f.loop, got(&c[0], "still"));
    client_start(&f.loop, &c[1], f.port);
    loop_until(&f.loop, got(&c[1], "b"));
    finish(&f, c, 2);
}

static void test_half_close_is_passed_on(void **state)
{
    struct fixture f;
    struct peer c;
    setup(&f, NULL);
    f.a.echo = true;
    services_balancer_pool_set(f.pool, &f.to[0], 1);
    client_start(&f.loop, &c, f.port);
    loop_until(&f.loop, c.connected);
    source_peer_send(&c, "x", 1);
    uv_shutdown(&c.shutdown, (uv_stream_t *)&c.tcp, peer_shut);
    loop_until(&f.loop, c.eof);
    assert_true(got(&c, "xend"));
    loop_until(&f.loop, services_balancer_connections(f.balancer) == 0);
    finish(&f, &c, 1);
}

static void test_a_slow_reader_stops_the_writer(void **state)
{
    enum { CHUNK = 64 * 1024, TOTAL = 64 * 1024 * 1024 };
    struct fixture f;
    struct peer c;
    setup(&f, NULL);
    f.a.silent = true; // accepts and never reads
    services_balancer_pool_set(f.pool, &f.to[0], 1);
    client_start(&f.loop, &c, f.port);
    loop_until(&f.loop, f.a.accepted == 1);
    GS_AUTO_FREE char *chunk = gs_alloc(CHUNK);
    for (size_t sent = 0; sent < TOTAL; sent += CHUNK)
        source_peer_send(&c, chunk, CHUNK);
    loop_for_ms(&f.loop, 300);
    // Sockets and the balancer hold some; most of it must still be with the writer.
    assert_true(uv_stream_get_write_queue_size((uv_stream_t *)&c.tcp) > TOTAL / 2);
    finish(&f, &c, 1);
}

static void test_much_data_both_ways(void **state)
{
    enum { TOTAL = 8 * 1024 * 1024 };
    struct fixture f;
    struct peer c;
    setup(&f, NULL);
    f.a.echo = true;
    services_balancer_pool_set(f.pool, &f.to[0], 1);
    client_start(&f.loop, &c, f.port);
    c.count_only = true;
    loop_until(&f.loop, c.connected);
    GS_AUTO_FREE char *data = gs_alloc(TOTAL);
    source_peer_send(&c, data, TOTAL);
    loop_until(&f.loop, c.total == TOTAL);
    finish(&f, &c, 1);
}

static void test_connections_are_limited(void **state)
{
    struct fixture f;
    struct peer c[3];
    struct services_balancer_config cfg = {.max_connections = 2, .idle_ms = WAIT_MS};
    setup(&f, &cfg);
    services_balancer_pool_set(f.pool, f.to, 2);
    client_start(&f.loop, &c[0], f.port);
    client_start(&f.loop, &c[1], f.port);
    loop_until(&f.loop, c[0].got.len == 1 && c[1].got.len == 1);
    client_start(&f.loop, &c[2], f.port);
    loop_until(&f.loop, c[2].eof || c[2].closed);
    assert_int_equal(c[2].got.len, 0);
    assert_int_equal(services_balancer_connections(f.balancer), 2);
    finish(&f, c, 3);
}

static void test_the_most_silent_connection_makes_room(void **state)
{
    struct fixture f;
    struct peer c[3];
    struct services_balancer_config cfg = {.max_connections = 2, .idle_ms = WAIT_MS, .evict_ms = 1};
    setup(&f, &cfg);
    services_balancer_pool_set(f.pool, f.to, 2);
    client_start(&f.loop, &c[0], f.port);
    loop_until(&f.loop, c[0].got.len == 1);
    client_start(&f.loop, &c[1], f.port);
    loop_until(&f.loop, c[1].got.len == 1);
    loop_for_ms(&f.loop, 10);
    client_start(&f.loop, &c[2], f.port);
    loop_until(&f.loop, c[2].got.len == 1 && c[0].eof);
    assert_false(c[1].eof);
    assert_int_equal(services_balancer_connections(f.balancer), 2);
    finish(&f, c, 3);
}

static void test_idle_connections_end(void **state)
{
    struct fixture f;
    struct peer c;
    struct services_balancer_config cfg = {.idle_ms = 200};
    setup(&f, &cfg);
    services_balancer_pool_set(f.pool, f.to, 2);
    client_start(&f.loop, &c, f.port);
    loop_until(&f.loop, c.eof);
    assert_int_equal(services_balancer_connections(f.balancer), 0);
    finish(&f, &c, 1);
}

static void test_a_busy_port_is_an_error_that_names_it(void **state)
{
    struct fixture f;
    struct services_balancer_listener *l = NULL;
    setup(&f, NULL);
    GS_AUTO_FREE char *where = gs_format(IP ":%u", f.a.port);
    struct gs_error *err = services_balancer_listen(f.pool, IP, f.a.port, &l);
    assert_non_null(err);
    assert_int_equal(gs_error_code(err), GS_EEXIST);
    assert_non_null(strstr(gs_error_message(err), where));
    gs_error_free(err);
    assert_null(l);
    finish(&f, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fewest_connections_first),
        cmocka_unit_test(test_no_endpoint_closes_at_once),
        cmocka_unit_test(test_a_dead_endpoint_is_passed_over),
        cmocka_unit_test(test_leaving_endpoints_keep_their_connections),
        cmocka_unit_test(test_half_close_is_passed_on),
        cmocka_unit_test(test_a_slow_reader_stops_the_writer),
        cmocka_unit_test(test_much_data_both_ways),
        cmocka_unit_test(test_connections_are_limited),
        cmocka_unit_test(test_the_most_silent_connection_makes_room),
        cmocka_unit_test(test_idle_connections_end),
        cmocka_unit_test(test_a_busy_port_is_an_error_that_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
