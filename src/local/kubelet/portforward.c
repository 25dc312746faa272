// SPDX-License-Identifier: Apache-2.0
// port-forward: TCP connections to a pod's address, each a pair of SPDY streams (data, error). SPDY
// runs on the upgraded connection itself or, for newer clients, inside the binary messages of a
// WebSocket.
#include "local/kubelet/streaming.h"

#include "base/mem.h"
#include "base/num.h"
#include "kube/status.h"
#include "local/ports.h"
#include "net/spdy/spdy.h"
#include "net/websocket/websocket.h"

#include <sys/queue.h>

enum { PORT_QUEUE = 1024 * 1024 }; // bytes that a program has not taken yet

static const char *const spdy_protocols[] = {"portforward.k8s.io", NULL};
static const char *const websocket_protocols[] = {"SPDY/3.1+portforward.k8s.io", NULL};

// One forwarded connection.
struct port_link {
    struct port_forward *f; // NULL: the client is gone
    TAILQ_ENTRY(port_link) link;
    char *request; // identifier of the pair
    int port;
    struct spdy_stream *error, *data; // NULL: not there yet
    struct gs_timer *deadline;        // for the other stream of the pair
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool has_tcp, connected, writing, reading;
    bool client_ended, program_ended; // their directions
    struct gs_buf sent, queue;
    bool blocks; // its queue is full: the client's connection is not read
};

struct port_forward {
    struct kubelet_stream stream;
    uv_loop_t *loop;
    char *ip, *pod, *ports; // ports: the record of moved ports, or NULL
    struct http_upgrade *connection;
    struct websocket *websocket; // NULL: SPDY without one
    struct spdy *spdy;
    struct gs_timer *idle;
    TAILQ_HEAD(, port_link) links;
    size_t n_blocking;
    bool full; // the client reads slower than programs write
};

// --- the end of a connection ---

static void link_free(struct port_link *l)
{
    gs_timer_free(l->deadline);
    gs_buf_finish(&l->sent);
    gs_buf_finish(&l->queue);
    free(l->request);
    free(l);
}

static void on_tcp_closed(uv_handle_t *handle)
{
    link_free(handle->data);
}

static void unblock(struct port_link *l)
{
    if (!l->blocks)
        return;
    l->blocks = false;
    if (--l->f->n_blocking == 0)
        http_upgrade_pause(l->f->connection, false);
}

static void drop_link(struct port_link *l)
{
    struct port_forward *f = l->f;
    if (!f)
        return;
    unblock(l);
    TAILQ_REMOVE(&f->links, l, link);
    l->f = NULL;
    gs_timer_stop(l->deadline);
    spdy_stream_free(GS_TAKE(l->data));
    spdy_stream_free(GS_TAKE(l->error));
    if (l->has_tcp)
        uv_close((uv_handle_t *)&l->tcp, on_tcp_closed);
    else
        link_free(l);
}

static void fail_link(struct port_link *l, const char *why)
{
    if (l->error) {
        GS_AUTO_FREE char *text = gs_format("error forwarding port %d to pod %s, uid %s: %s",
                                            l->port, l->f->pod, l->f->stream.pod_uid, why);
        spdy_stream_write(l->error, gs_slice_of(text));
        spdy_stream_end(l->error);
    }
    if (l->data)
        spdy_stream_end(l->data);
    drop_link(l);
}

static void end_if_done(struct port_link *l)
{
    if (!l->client_ended || !l->program_ended || l->queue.len || l->writing)
        return;
    if (l->error)
        spdy_stream_end(l->error);
    drop_link(l);
}

// --- from the program ---

static void on_link_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char chunk[32 * 1024]; // used up before the next read: one loop, one thread
    *buf = uv_buf_init(chunk, sizeof(chunk));
}

static void on_link_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

static void set_link_reading(struct port_link *l, bool on)
{
    if (!l->connected || l->program_ended || l->reading == on)
        return;
    l->reading = on;
    if (on)
        uv_read_start((uv_stream_t *)&l->tcp, on_link_alloc, on_link_read);
    else
        uv_read_stop((uv_stream_t *)&l->tcp);
}

static bool is_full(const struct port_forward *f)
{
    const struct port_link *l;
    TAILQ_FOREACH(l, &f->links, link)
    if (l->data && spdy_stream_held(l->data) > KUBELET_STREAM_HIGH)
        return true;
    return http_upgrade_pending(f->connection) > KUBELET_STREAM_HIGH;
}

static void adjust_reading(struct port_forward *f)
{
    struct port_link *l;
    f->full = is_full(f);
    TAILQ_FOREACH(l, &f->links, link)
    set_link_reading(l, !f->full);
}

static void on_link_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct port_link *l = stream->data;
    struct port_forward *f = l->f;
    if (n > 0 && f) {
        spdy_stream_write(l->data, gs_slice_make(buf->base, (size_t)n));
        adjust_reading(f);
    }
    if (n >= 0 || !f)
        return;
    set_link_reading(l, false);
    l->program_ended = true;
    spdy_stream_end(l->data);
    if (n != UV_EOF)
        l->client_ended = true; // it cannot be written to either
    if (n != UV_EOF)
        gs_buf_clear(&l->queue);
    end_if_done(l);
}

// --- to the program ---

static void write_link(struct port_link *l);

static void on_link_written(uv_write_t *w, int status)
{
    struct port_link *l = w->data;
    l->writing = false;
    if (!l->f)
        return;
    if (l->data)
        spdy_stream_consumed(l->data, l->sent.len);
    gs_buf_clear(&l->sent);
    if (status < 0) {
        gs_buf_clear(&l->queue);
        l->client_ended = true;
    }
    write_link(l);
}

static void on_link_shut_down(uv_shutdown_t *request, int status)
{
}

static void write_link(struct port_link *l)
{
    if (l->blocks && l->queue.len <= PORT_QUEUE / 2)
        unblock(l);
    if (!l->connected || l->writing)
        return;
    if (!l->queue.len) {
        if (l->client_ended && !l->shutdown.data) {
            l->shutdown.data = l;
            uv_shutdown(&l->shutdown, (uv_stream_t *)&l->tcp, on_link_shut_down);
        }
        end_if_done(l);
        return;
    }
    struct gs_buf swap = l->sent;
    l->sent = l->queue;
    l->queue = swap;
    uv_buf_t buf = uv_buf_init(l->sent.data, (unsigned)l->sent.len);
    l->write.data = l;
    l->writing = uv_write(&l->write, (uv_stream_t *)&l->tcp, &buf, 1, on_link_written) == 0;
}

// --- connecting ---

static void on_link_connected(uv_connect_t *request, int status)
{
    struct port_link *l = request->data;
    struct port_forward *f = l->f;
    if (!f)
        return;
    if (status < 0) {
        GS_AUTO_FREE char *why = gs_format("dial tcp4 %s:%d: connect: %s", f->ip,
                                           local_port_by(f->ports, l->port), uv_strerror(status));
        fail_link(l, why);
        return;
    }
    l->connected = true;
    set_link_reading(l, !f->full);
    write_link(l);
}

static void connect_link(struct port_link *l)
{
    struct port_forward *f = l->f;
    struct sockaddr_in address;
    uv_ip4_addr(f->ip, local_port_by(f->ports, l->port), &address);
    uv_tcp_init(f->loop, &l->tcp);
    l->has_tcp = true;
    l->tcp.data = l->connect.data = l;
    int rc =
        uv_tcp_connect(&l->connect, &l->tcp, (const struct sockaddr *)&address, on_link_connected);
    if (rc < 0)
        fail_link(l, uv_strerror(rc));
}

// --- streams of the client ---

static void on_pair_deadline(void *arg)
{
    fail_link(arg, "timed out waiting for streams");
}

static struct port_link *find_link(struct port_forward *f, const char *request, int port)
{
    struct port_link *l;
    TAILQ_FOREACH(l, &f->links, link)
    if (gs_streq(l->request, request))
        return l;
    l = gs_alloc(sizeof(*l));
    l->f = f;
    l->request = gs_strdup(request);
    l->port = port;
    l->deadline = gs_timer_new(f->loop, l);
    gs_timer_start(l->deadline, on_pair_deadline, KUBELET_STREAM_CREATION_MS);
    TAILQ_INSERT_TAIL(&f->links, l, link);
    return l;
}

// Clients of Kubernetes 1.0 send no identifier: the error stream comes right before its data
// stream.
static char *request_of_stream(const struct spdy_stream *s, bool is_data)
{
    const char *given = spdy_stream_header(s, "requestid");
    return given && *given ? gs_strdup(given)
                           : gs_format("#%u", spdy_stream_id(s) - (is_data ? 2u : 0));
}

static void on_stream(void *arg, struct spdy_stream *s)
{
    struct port_forward *f = arg;
    const char *type = spdy_stream_header(s, "streamtype");
    const char *port = spdy_stream_header(s, "port");
    bool is_data = gs_streq(type, "data");
    int64_t number = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_i64(gs_slice_of(port), 1, UINT16_MAX, &number);
    if (err || (!is_data && !gs_streq(type, "error"))) {
        spdy_stream_free(s); // resets it
        return;
    }
    GS_AUTO_FREE char *request = request_of_stream(s, is_data);
    struct port_link *l = find_link(f, request, (int)number);
    struct spdy_stream **place = is_data ? &l->data : &l->error;
    if (*place || l->port != number) {
        spdy_stream_free(s);
        return;
    }
    *place = s;
    spdy_stream_set_data(s, l);
    spdy_stream_accept(s);
    if (!l->data || !l->error)
        return;
    gs_timer_stop(l->deadline);
    connect_link(l);
}

static void on_stream_data(void *arg, struct spdy_stream *s, struct gs_slice bytes)
{
    struct port_link *l = spdy_stream_data(s);
    if (s != l->data || l->client_ended)
        return;
    gs_buf_add_slice(&l->queue, bytes);
    if (!l->blocks && l->queue.len > PORT_QUEUE) {
        l->blocks = true;
        if (l->f->n_blocking++ == 0)
            http_upgrade_pause(l->f->connection, true);
    }
    write_link(l);
}

static void on_stream_fin(void *arg, struct spdy_stream *s)
{
    struct port_link *l = spdy_stream_data(s);
    if (s != l->data)
        return;
    l->client_ended = true;
    write_link(l);
}

static void on_stream_reset(void *arg, struct spdy_stream *s)
{
    struct port_link *l = spdy_stream_data(s);
    if (s != l->data)
        return;
    if (l->error)
        spdy_stream_end(l->error);
    drop_link(l);
}

// --- the client's connection ---

static void on_spdy_output(void *arg, struct gs_slice bytes)
{
    struct port_forward *f = arg;
    if (f->websocket)
        websocket_send(f->websocket, WEBSOCKET_BINARY, bytes, (struct gs_slice){0});
    else
        http_upgrade_write(f->connection, bytes);
}

static void close_forward(struct port_forward *f)
{
    if (f->websocket)
        websocket_close(f->websocket, WEBSOCKET_NORMAL, NULL);
    http_upgrade_end(f->connection);
}

static void on_spdy_end(void *arg, const char *why)
{
    close_forward(arg);
}

static const struct spdy_callbacks spdy_callbacks = {
    .on_stream = on_stream,
    .on_data = on_stream_data,
    .on_fin = on_stream_fin,
    .on_reset = on_stream_reset,
    .on_output = on_spdy_output,
    .on_end = on_spdy_end,
};

static void on_forward_idle(void *arg)
{
    struct port_forward *f = arg;
    spdy_close(f->spdy);
    close_forward(f);
}

static void on_websocket_message(void *arg, enum websocket_opcode opcode, struct gs_slice part,
                                 bool first, bool last)
{
    struct port_forward *f = arg;
    if (opcode == WEBSOCKET_BINARY)
        spdy_feed(f->spdy, part);
}

static void on_websocket_output(void *arg, struct gs_slice bytes)
{
    struct port_forward *f = arg;
    http_upgrade_write(f->connection, bytes);
}

static void on_websocket_end(void *arg, unsigned code)
{
    struct port_forward *f = arg;
    http_upgrade_end(f->connection);
}

static const struct websocket_callbacks websocket_callbacks = {
    .on_message = on_websocket_message,
    .on_output = on_websocket_output,
    .on_end = on_websocket_end,
};

static void on_bytes(void *arg, struct gs_slice bytes)
{
    struct port_forward *f = arg;
    gs_timer_start(f->idle, on_forward_idle, KUBELET_STREAM_IDLE_MS);
    if (f->websocket)
        websocket_feed(f->websocket, bytes);
    else
        spdy_feed(f->spdy, bytes);
    if (f->full)
        adjust_reading(f);
}

static void on_forward_drained(void *arg)
{
    struct port_forward *f = arg;
    gs_timer_start(f->idle, on_forward_idle, KUBELET_STREAM_IDLE_MS);
    adjust_reading(f);
}

static void forward_free(struct port_forward *f)
{
    kubelet_stream_remove(&f->stream);
    websocket_free(f->websocket);
    spdy_free(f->spdy);
    gs_timer_free(f->idle);
    free(f->ip);
    free(f->pod);
    free(f->ports);
    free(f);
}

// What a link still writes is not for anyone any more.
static void on_forward_closed(void *arg)
{
    struct port_forward *f = arg;
    struct port_link *l;
    while ((l = TAILQ_FIRST(&f->links)))
        drop_link(l); // NOLINT(clang-analyzer-unix.Malloc): freed ones are not in the list
    forward_free(f);
}

static const struct http_upgrade_callbacks connection_callbacks = {
    .on_data = on_bytes,
    .on_drained = on_forward_drained,
    .on_close = on_forward_closed,
};

static void end_forward(struct kubelet_stream *stream)
{
    struct port_forward *f = GS_CONTAINER_OF(stream, struct port_forward, stream);
    spdy_close(f->spdy);
    close_forward(f);
}

// --- the request ---

static bool switch_to(struct port_forward *f, struct http_exchange *x, const char *protocol)
{
    f->connection = http_reply_upgrade(x, protocol, &connection_callbacks, f);
    if (!f->connection)
        kube_reply_failure(x, 501, "NotImplemented", "this connection cannot be upgraded");
    return f->connection;
}

static bool open_websocket(struct port_forward *f, struct http_exchange *x)
{
    GS_AUTO_FREE char *accept = NULL;
    bool offered;
    const char *fault = websocket_handshake(x, &accept);
    const char *protocol = websocket_protocol(x, websocket_protocols, &offered);
    if (!fault && !protocol)
        fault = "unable to negotiate protocol: the server accepts [SPDY/3.1+portforward.k8s.io]";
    if (fault) {
        kube_reply_failure(x, 400, "BadRequest", "%s", fault);
        return false;
    }
    http_add_header(x, "Sec-WebSocket-Accept", accept);
    http_add_header(x, "Sec-WebSocket-Protocol", protocol);
    f->websocket = websocket_new(&websocket_callbacks, f);
    return switch_to(f, x, "websocket");
}

static bool open_spdy(struct port_forward *f, struct http_exchange *x)
{
    const char *protocol;
    if (!kubelet_spdy_protocol(x, spdy_protocols, &protocol))
        return false;
    if (protocol)
        http_add_header(x, "X-Stream-Protocol-Version", protocol);
    return switch_to(f, x, "SPDY/3.1");
}

void kubelet_port_forward(struct kubelet *k, const struct kubelet_worker *w,
                          struct http_exchange *x)
{
    struct port_forward *f = gs_alloc(sizeof(*f));
    f->stream.end = end_forward;
    f->loop = k->cluster->loop;
    f->ip = gs_strdup(w->ip);
    f->pod = gs_strdup(w->name);
    f->ports = gs_strdup(w->ports);
    f->spdy = spdy_new(&spdy_callbacks, f);
    f->idle = gs_timer_new(f->loop, f);
    TAILQ_INIT(&f->links);
    if (websocket_requested(x) ? !open_websocket(f, x) : !open_spdy(f, x)) {
        forward_free(f);
        return;
    }
    gs_timer_start(f->idle, on_forward_idle, KUBELET_STREAM_IDLE_MS);
    kubelet_stream_add(k, &f->stream, w, NULL);
}
