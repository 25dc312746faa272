// SPDX-License-Identifier: Apache-2.0
// One request: the server has read it completely. It goes to the backend on a new connection, and
// the response to the client as it arrives. Time-outs are those of nginx. Requests of the API's
// proxy (forward.c) may be silent for any time.
#include "base/clock.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/status.h"
#include "local/services/services_private.h"

#include <strings.h>

enum {
    CONNECT_MS = 5000,
    READ_MS = 60000, // between two reads from the backend
    DRAIN_MS = 10,   // until the client's queue is inspected again
    READ_SIZE = 64 * 1024,
    QUEUE_HIGH = 512 * 1024,
    QUEUE_LOW = 128 * 1024,
    WHOLE_REPLY = 256 * 1024, // longer ones are streamed
    MAX_CALLS_OF_BACKEND = 256,
};

struct backend_socket {
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_write_t writing;
    struct call *call; // NULL: given up, only waits for its close
    struct gs_buf *request;
};

struct call {
    struct services_ingress_calls *calls;
    struct call *prev, *next;
    struct http_exchange *x;    // NULL: answered
    struct http_stream *stream; // NULL: not streamed
    bool websocket;             // the client requests one
    struct http_upgrade *tunnel;
    size_t unsent;                    // of the client's bytes in the tunnel
    struct services_forward *forward; // of the API's proxy; NULL: of the router
    int connect_error;                // of the last address, from libuv
    char *backend;
    struct services_balancer_address *items;
    size_t n, n_ready;            // those on standby are the last
    size_t start, tried;          // the ready ones are tried in a circle from start
    struct gs_buf request, whole; // whole: the body of a short reply
    struct backend_socket *socket;
    struct http_response_reader reply;
    struct gs_timer *timer;
    bool paused;
};

struct services_ingress_calls {
    uv_loop_t *loop;
    struct call *first;
    size_t turn;
    char buffer[READ_SIZE]; // used within one read callback only
};

struct services_ingress_calls *services_ingress_calls_new(uv_loop_t *loop)
{
    struct services_ingress_calls *c = gs_alloc(sizeof(*c));
    c->loop = loop;
    return c;
}

// --- the end ---

static void backend_closed(uv_handle_t *h)
{
    struct backend_socket *s = GS_CONTAINER_OF(h, struct backend_socket, tcp);
    gs_buf_finish(s->request);
    free(s->request);
    free(s);
}

static void close_backend(struct call *c)
{
    if (!c->socket)
        return;
    c->socket->call = NULL;
    uv_close((uv_handle_t *)&c->socket->tcp, backend_closed);
    c->socket = NULL;
}

static void call_free(void *arg)
{
    struct call *c = arg;
    close_backend(c);
    if (c->prev)
        c->prev->next = c->next;
    else
        c->calls->first = c->next;
    if (c->next)
        c->next->prev = c->prev;
    gs_timer_free(c->timer);
    gs_buf_finish(&c->request);
    gs_buf_finish(&c->whole);
    http_response_reader_finish(&c->reply);
    services_forward_free(c->forward);
    free(c->backend);
    free(c->items);
    free(c);
}

void services_ingress_calls_free(struct services_ingress_calls *c)
{
    if (!c)
        return;
    while (c->first)
        call_free(c->first); // NOLINT(clang-analyzer-unix.Malloc): freed ones are not in the list
    free(c);
}

void services_ingress_refuse(struct http_exchange *x, int status)
{
    const char *text = status == 400   ? "Bad Request"
                       : status == 503 ? "Service Temporarily Unavailable"
                       : status == 504 ? "Gateway Time-out"
                       : status == 502 ? "Bad Gateway"
                                       : "Not Found";
    http_reply_text(x, status, "%d %s\n", status, text);
}

// A stream that has begun ends early.
static void call_fail(struct call *c, int status)
{
    close_backend(c);
    gs_timer_stop(c->timer);
    if (c->tunnel) {
        http_upgrade_end(GS_TAKE(c->tunnel));
        return; // call_free follows as its on_close
    }
    if (c->stream) {
        http_stream_end(GS_TAKE(c->stream));
        return; // call_free follows as its on_close
    }
    if (c->forward)
        services_forward_refuse(c->forward, c->x, c->connect_error);
    else
        services_ingress_refuse(c->x, status);
    call_free(c);
}

// --- the response ---

// Headers of one connection (RFC 9110 section 7.6.1), and those that the server sets itself.
static bool is_hop_header(const char *name, const char *connection)
{
    static const char *const names[] = {"Connection",
                                        "Keep-Alive",
                                        "Proxy-Connection",
                                        "Proxy-Authenticate",
                                        "Proxy-Authorization",
                                        "TE",
                                        "Transfer-Encoding",
                                        "Trailer",
                                        "Upgrade",
                                        "Expect",
                                        "Content-Length"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return gs_lists_word(connection, name);
}

static void copy_headers(struct call *c)
{
    const struct http_response_reader *r = &c->reply;
    const char *connection = http_response_reader_header(r, "Connection");
    for (size_t i = 0; i < r->n_headers; i++)
        if (!is_hop_header(r->headers[i].name, connection) &&
            strcasecmp(r->headers[i].name, "Content-Type") != 0 &&
            strcasecmp(r->headers[i].name, "Date") != 0) {
            if (c->forward)
                services_forward_reply_header(c->forward, c->x, &r->headers[i]);
            else
                http_add_header(c->x, r->headers[i].name, r->headers[i].value);
        }
}

static bool is_whole(const struct http_response_reader *r)
{
    return r->no_body ||
           (r->length <= WHOLE_REPLY && (r->length >= 0 || r->state == HTTP_RESPONSE_DONE));
}

static void begin_reply(struct call *c)
{
    const char *type = http_response_reader_header(&c->reply, "Content-Type");
    copy_headers(c);
    if (!is_whole(&c->reply)) {
        c->stream = http_reply_stream(c->x, c->reply.status, type, call_free, c);
        c->x = NULL;
    }
}

static void end_reply(struct call *c)
{
    close_backend(c);
    gs_timer_stop(c->timer);
    if (c->stream) {
        http_stream_end(GS_TAKE(c->stream));
        return;
    }
    const char *type = http_response_reader_header(&c->reply, "Content-Type");
    if (c->reply.no_body)
        http_reply_head(c->x, c->reply.status, type, c->reply.length);
    else
        http_reply(c->x, c->reply.status, type, gs_buf_slice(&c->whole));
    call_free(c);
}

static void on_silence(void *arg)
{
    call_fail(arg, 504);
}

static void await_bytes(struct call *c)
{
    if (c->forward)
        gs_timer_stop(c->timer);
    else
        gs_timer_start(c->timer, on_silence, READ_MS);
}

static void start_reading(struct call *c);

static void on_drain_check(void *arg)
{
    struct call *c = arg;
    if (http_stream_pending(c->stream) > QUEUE_LOW)
        gs_timer_start(c->timer, on_drain_check, DRAIN_MS);
    else
        start_reading(c);
}

// The client takes less than the backend sends.
static void pause_backend(struct call *c)
{
    uv_read_stop((uv_stream_t *)&c->socket->tcp);
    gs_timer_start(c->timer, on_drain_check, DRAIN_MS);
    c->paused = true;
}

// --- WebSockets: after the response 101, bytes are passed on in both directions ---

struct tunnel_write {
    uv_write_t request;
    struct backend_socket *socket;
    size_t len;
    char *bytes;
};

static void on_tunnel_written(uv_write_t *request, int status)
{
    struct tunnel_write *w = GS_CONTAINER_OF(request, struct tunnel_write, request);
    struct call *c = w->socket->call; // the socket is closed after its writes
    size_t len = w->len;
    free(w->bytes);
    free(w);
    if (!c || !c->tunnel)
        return;
    c->unsent -= len;
    if (status < 0)
        call_fail(c, 502);
    else if (c->unsent <= QUEUE_LOW)
        http_upgrade_pause(c->tunnel, false);
}

static void send_to_backend(struct call *c, struct gs_slice bytes)
{
    struct tunnel_write *w = gs_alloc(sizeof(*w));
    *w = (struct tunnel_write){
        .socket = c->socket, .len = bytes.len, .bytes = gs_strndup(bytes.data, bytes.len)};
    uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)w->len);
    if (uv_write(&w->request, (uv_stream_t *)&c->socket->tcp, &buf, 1, on_tunnel_written) < 0) {
        free(w->bytes);
        free(w);
        call_fail(c, 502);
        return;
    }
    c->unsent += bytes.len;
    if (c->unsent > QUEUE_HIGH)
        http_upgrade_pause(c->tunnel, true);
}

static void on_client_bytes(void *arg, struct gs_slice bytes)
{
    struct call *c = arg;
    if (!c->socket || !c->tunnel)
        return;
    await_bytes(c);
    send_to_backend(c, bytes);
}

static void on_client_drained(void *arg)
{
    struct call *c = arg;
    if (c->paused && c->socket && c->tunnel)
        start_reading(c);
}

static void send_to_client(struct call *c, struct gs_slice bytes)
{
    if (bytes.len)
        http_upgrade_write(c->tunnel, bytes);
    if (http_upgrade_pending(c->tunnel) <= QUEUE_HIGH)
        return;
    uv_read_stop((uv_stream_t *)&c->socket->tcp);
    c->paused = true;
}

static void begin_tunnel(struct call *c, struct gs_slice rest)
{
    static const struct http_upgrade_callbacks callbacks = {
        .on_data = on_client_bytes, .on_drained = on_client_drained, .on_close = call_free};
    copy_headers(c);
    c->tunnel = http_reply_upgrade(c->x, "websocket", &callbacks, c);
    if (!c->tunnel) {
        call_fail(c, 502);
        return;
    }
    c->x = NULL;
    send_to_client(c, rest);
}

static void take_bytes(struct call *c, struct gs_slice bytes)
{
    if (c->tunnel) {
        send_to_client(c, bytes);
        return;
    }
    struct http_response_reader *r = &c->reply;
    while (bytes.len && r->state != HTTP_RESPONSE_DONE) {
        bool had_head = r->has_head;
        struct gs_slice body = {0};
        GS_AUTO_ERROR struct gs_error *err = http_response_reader_feed(r, &bytes, &body);
        if (!err && r->has_head && r->status == 101 && c->websocket) {
            begin_tunnel(c, bytes);
            return;
        }
        if (err || (r->has_head && r->status == 101)) {
            call_fail(c, 502);
            return;
        }
        if (!had_head && r->has_head)
            begin_reply(c);
        if (c->stream && body.len)
            http_stream_write(c->stream, body);
        else if (body.len)
            gs_buf_add_slice(&c->whole, body);
    }
    if (r->state == HTTP_RESPONSE_DONE)
        end_reply(c);
    else if (c->stream && http_stream_pending(c->stream) > QUEUE_HIGH)
        pause_backend(c);
}

static void give_buffer(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct backend_socket *s = GS_CONTAINER_OF(h, struct backend_socket, tcp);
    *buf = s->call ? uv_buf_init(s->call->calls->buffer, READ_SIZE) : uv_buf_init(NULL, 0);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct call *c = GS_CONTAINER_OF(stream, struct backend_socket, tcp)->call;
    if (!c || n == 0)
        return;
    if (n < 0) {
        if (n == UV_EOF && !c->tunnel && c->reply.has_head && http_response_reader_ended(&c->reply))
            end_reply(c);
        else
            call_fail(c, 502);
        return;
    }
    await_bytes(c);
    take_bytes(c, gs_slice_make(buf->base, (size_t)n));
}

static void start_reading(struct call *c)
{
    c->paused = false;
    await_bytes(c);
    if (uv_read_start((uv_stream_t *)&c->socket->tcp, give_buffer, on_read) < 0)
        call_fail(c, 502);
}

// --- the request ---

static void connect_next(struct call *c);

static void on_written(uv_write_t *req, int status)
{
    struct call *c = GS_CONTAINER_OF(req, struct backend_socket, writing)->call;
    // A backend may answer before it has read everything: its response decides.
    if (c && !c->paused && !c->stream)
        await_bytes(c);
}

static void on_connected(uv_connect_t *req, int status)
{
    struct backend_socket *s = GS_CONTAINER_OF(req, struct backend_socket, connecting);
    struct call *c = s->call;
    if (!c)
        return;
    if (status < 0) {
        c->connect_error = status;
        connect_next(c);
        return;
    }
    c->connect_error = 0;
    uv_tcp_nodelay(&s->tcp, 1);
    // The bytes belong to the socket, which may outlive the call.
    *s->request = c->request;
    c->request = (struct gs_buf){0};
    uv_buf_t buf = uv_buf_init(s->request->data, (unsigned)s->request->len);
    if (uv_write(&s->writing, (uv_stream_t *)&s->tcp, &buf, 1, on_written) < 0)
        call_fail(c, 502);
    else
        start_reading(c);
}

static void on_connect_timeout(void *arg)
{
    struct call *c = arg;
    c->connect_error = UV_ETIMEDOUT;
    connect_next(c);
}

static const struct services_balancer_address *next_address(struct call *c)
{
    size_t i = c->tried++;
    return &c->items[i < c->n_ready ? (c->start + i) % c->n_ready : i];
}

static void connect_next(struct call *c)
{
    struct sockaddr_storage to;
    close_backend(c);
    while (c->tried < c->n) {
        const struct services_balancer_address *a = next_address(c);
        struct backend_socket *s = gs_alloc(sizeof(*s));
        s->call = c;
        s->request = gs_alloc(sizeof(*s->request));
        uv_tcp_init(c->calls->loop, &s->tcp);
        c->socket = s;
        gs_timer_start(c->timer, on_connect_timeout, CONNECT_MS);
        int rc = strchr(a->ip, ':') ? uv_ip6_addr(a->ip, a->port, (struct sockaddr_in6 *)&to)
                                    : uv_ip4_addr(a->ip, a->port, (struct sockaddr_in *)&to);
        if (rc == 0)
            rc = uv_tcp_connect(&s->connecting, &s->tcp, (struct sockaddr *)&to, on_connected);
        if (rc == 0)
            return;
        close_backend(c);
    }
    call_fail(c, 502);
}

// Headers that the router alone sets. '_' equals '-' in the variables of CGI programs, where the
// header Proxy would become the variable HTTP_PROXY.
static bool is_forwarded(const char *name)
{
    GS_AUTO_FREE char *plain = gs_strdup(name);
    for (char *at = plain; *at; at++)
        if (*at == '_')
            *at = '-';
    return strncasecmp(plain, "X-Forwarded-", strlen("X-Forwarded-")) == 0 ||
           strcasecmp(plain, "X-Real-IP") == 0 || strcasecmp(plain, "Proxy") == 0;
}

static void add_forwarded(struct gs_buf *out, const struct http_exchange *x, bool tls)
{
    const char *peer = http_peer(x), *colon = strrchr(peer, ':');
    const char *host = http_header(x, "Host");
    int len = colon ? (int)(colon - peer) : (int)strlen(peer);
    gs_buf_addf(out, "X-Real-IP: %.*s\r\nX-Forwarded-For: %.*s\r\n", len, peer, len, peer);
    gs_buf_addf(out, "X-Forwarded-Proto: %s\r\n", tls ? "https" : "http");
    if (host)
        gs_buf_addf(out, "X-Forwarded-Host: %s\r\n", host);
}

static bool wants_websocket(const struct http_exchange *x)
{
    const char *upgrade = http_header(x, "Upgrade");
    return upgrade && strcasecmp(upgrade, "websocket") == 0 &&
           gs_lists_word(http_header(x, "Connection"), "upgrade");
}

static void write_request(struct gs_buf *out, const struct http_exchange *x, bool tls,
                          const struct services_forward *forward, bool websocket)
{
    const char *connection = http_header(x, "Connection"), *name, *value;
    struct gs_slice body = http_body(x);
    bool has_length = http_header(x, "Content-Length") || http_header(x, "Transfer-Encoding");
    gs_buf_addf(out, "%s %s HTTP/1.1\r\n", http_is_head(x) ? "HEAD" : http_method(x),
                forward ? services_forward_target(forward) : http_target(x));
    for (size_t i = 0; (value = http_header_nth(x, i, &name)); i++)
        if ((strcasecmp(name, "Host") == 0 || !is_hop_header(name, connection)) &&
            !(forward ? services_forward_hides(name) : is_forwarded(name)) &&
            !gs_has_control(value))
            gs_buf_addf(out, "%s: %s\r\n", name, value);
    if (forward)
        services_forward_add_headers(forward, x, out);
    else
        add_forwarded(out, x, tls);
    if (body.len || has_length)
        gs_buf_addf(out, "Content-Length: %zu\r\n", body.len);
    gs_buf_add_str(out, websocket ? "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
                                  : "Connection: close\r\n\r\n");
    gs_buf_add_slice(out, body);
}

static size_t calls_of(const struct services_ingress_calls *calls, const char *backend)
{
    size_t n = 0;
    for (const struct call *c = calls->first; c; c = c->next)
        n += strcmp(c->backend, backend) == 0;
    return n;
}

static void start_call(struct services_ingress_calls *calls, struct http_exchange *x,
                       const char *backend, const struct services_balancer_address *items, size_t n,
                       bool tls, struct services_forward *forward)
{
    struct call *c = gs_alloc(sizeof(*c));
    c->calls = calls;
    c->x = x;
    c->forward = forward;
    c->reply.no_body = http_is_head(x);
    c->backend = gs_strdup(backend);
    c->items = gs_alloc_array(n, sizeof(*items));
    memcpy(c->items, items, n * sizeof(*items));
    c->n = n;
    while (c->n_ready < n && !items[c->n_ready].standby)
        c->n_ready++;
    c->next = calls->first;
    if (c->next)
        c->next->prev = c;
    calls->first = c;
    c->start = calls->turn++;
    c->timer = gs_timer_new(calls->loop, c);
    c->websocket = wants_websocket(x);
    write_request(&c->request, x, tls, forward, c->websocket);
    http_on_abort(x, call_free, c);
    connect_next(c);
}

void services_ingress_proxy(struct services_ingress_calls *calls, struct http_exchange *x,
                            const char *backend, const struct services_balancer_address *items,
                            size_t n, bool tls)
{
    if (!n || calls_of(calls, backend) >= MAX_CALLS_OF_BACKEND)
        services_ingress_refuse(x, 503);
    else
        start_call(calls, x, backend, items, n, tls, NULL);
}

void services_ingress_forward(struct services_ingress_calls *calls, struct http_exchange *x,
                              struct services_forward *forward)
{
    struct services_balancer_address to = services_forward_address(forward);
    GS_AUTO_FREE char *backend = gs_format("%s:%u", to.ip, to.port);
    if (calls_of(calls, backend) >= MAX_CALLS_OF_BACKEND) {
        kube_reply_failure(x, 429, "TooManyRequests", "%d requests for %s are in progress",
                           MAX_CALLS_OF_BACKEND, backend);
        services_forward_free(forward);
        return;
    }
    start_call(calls, x, backend, &to, 1, false, forward);
}
