// SPDX-License-Identifier: Apache-2.0
// port-forward: TCP connections to a pod's address, and the client's connection, on which they run
// in a protocol of Kubernetes: SPDY, SPDY inside the binary messages of a WebSocket, or channels of
// a WebSocket.
#include "local/kubelet/portforward.h"

#include "base/mem.h"
#include "kube/status.h"
#include "local/ports.h"
#include "net/websocket/websocket.h"

enum { PORT_QUEUE = 1024 * 1024 }; // bytes that a program has not taken yet

#define TUNNEL "SPDY/3.1+portforward.k8s.io"
static const char *const websocket_protocols[] = {
    TUNNEL,           "v4.channel.k8s.io",     "v4.base64.channel.k8s.io",
    "channel.k8s.io", "base64.channel.k8s.io", NULL};

// --- the end of a connection ---

static void link_free(struct kubelet_port_link *l)
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

static void unblock(struct kubelet_port_link *l)
{
    if (!l->blocks)
        return;
    l->blocks = false;
    if (--l->f->n_blocking == 0 && l->f->connection)
        http_upgrade_pause(l->f->connection, false);
}

void kubelet_port_link_drop(struct kubelet_port_link *l)
{
    struct kubelet_port_forward *f = l->f;
    if (!f)
        return;
    unblock(l);
    TAILQ_REMOVE(&f->links, l, link);
    f->protocol->forget(f, l);
    l->f = NULL;
    if (l->has_tcp)
        uv_close((uv_handle_t *)&l->tcp, on_tcp_closed);
    else
        link_free(l);
}

void kubelet_port_link_fail(struct kubelet_port_link *l, const char *why)
{
    GS_AUTO_FREE char *text = gs_format("error forwarding port %d to pod %s, uid %s: %s", l->port,
                                        l->f->pod, l->f->stream.pod_uid, why);
    l->f->protocol->fail(l, text);
    kubelet_port_link_drop(l);
}

static void end_if_done(struct kubelet_port_link *l)
{
    if (!l->client_ended || !l->program_ended || l->queue.len || l->writing)
        return;
    l->f->protocol->done(l);
    kubelet_port_link_drop(l);
}

// --- from the program ---

static void on_link_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char chunk[32 * 1024]; // used up before the next read: one loop, one thread
    *buf = uv_buf_init(chunk, sizeof(chunk));
}

static void on_link_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

static void set_link_reading(struct kubelet_port_link *l, bool on)
{
    if (!l->connected || l->program_ended || l->reading == on)
        return;
    l->reading = on;
    if (on)
        uv_read_start((uv_stream_t *)&l->tcp, on_link_alloc, on_link_read);
    else
        uv_read_stop((uv_stream_t *)&l->tcp);
}

static bool is_full(const struct kubelet_port_forward *f)
{
    const struct kubelet_port_link *l;
    TAILQ_FOREACH (l, &f->links, link)
        if (f->protocol->held(l) > KUBELET_STREAM_HIGH)
            return true;
    return http_upgrade_pending(f->connection) > KUBELET_STREAM_HIGH;
}

static void adjust_reading(struct kubelet_port_forward *f)
{
    struct kubelet_port_link *l;
    f->full = is_full(f);
    TAILQ_FOREACH (l, &f->links, link)
        set_link_reading(l, !f->full);
}

static void on_link_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct kubelet_port_link *l = stream->data;
    struct kubelet_port_forward *f = l->f;
    if (n > 0 && f) {
        f->protocol->write(l, gs_slice_make(buf->base, (size_t)n));
        adjust_reading(f);
    }
    if (n >= 0 || !f)
        return;
    set_link_reading(l, false);
    l->program_ended = true;
    f->protocol->program_ended(l);
    if (n != UV_EOF)
        l->client_ended = true; // it cannot be written to either
    if (n != UV_EOF)
        gs_buf_clear(&l->queue);
    end_if_done(l);
}

// --- to the program ---

static void write_link(struct kubelet_port_link *l);

static void on_link_written(uv_write_t *w, int status)
{
    struct kubelet_port_link *l = w->data;
    l->writing = false;
    if (!l->f)
        return;
    l->f->protocol->consumed(l, l->sent.len);
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

static void write_link(struct kubelet_port_link *l)
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
    struct kubelet_port_link *l = request->data;
    struct kubelet_port_forward *f = l->f;
    if (!f)
        return;
    if (status < 0) {
        GS_AUTO_FREE char *why = gs_format("dial tcp4 %s:%d: connect: %s", f->ip,
                                           local_port_by(f->ports, l->port), uv_strerror(status));
        kubelet_port_link_fail(l, why);
        return;
    }
    l->connected = true;
    set_link_reading(l, !f->full);
    write_link(l);
}

void kubelet_port_link_connect(struct kubelet_port_link *l)
{
    struct kubelet_port_forward *f = l->f;
    struct sockaddr_in address;
    uv_ip4_addr(f->ip, local_port_by(f->ports, l->port), &address);
    uv_tcp_init(f->loop, &l->tcp);
    l->has_tcp = true;
    l->tcp.data = l->connect.data = l;
    int rc =
        uv_tcp_connect(&l->connect, &l->tcp, (const struct sockaddr *)&address, on_link_connected);
    if (rc < 0)
        kubelet_port_link_fail(l, uv_strerror(rc));
}

// --- for the protocols ---

struct kubelet_port_link *kubelet_port_link_new(struct kubelet_port_forward *f, int port)
{
    struct kubelet_port_link *l = gs_alloc(sizeof(*l));
    l->f = f;
    l->port = port;
    TAILQ_INSERT_TAIL(&f->links, l, link);
    return l;
}

void kubelet_port_link_write(struct kubelet_port_link *l, struct gs_slice bytes)
{
    if (l->client_ended)
        return;
    gs_buf_add_slice(&l->queue, bytes);
    if (!l->blocks && l->queue.len > PORT_QUEUE) {
        l->blocks = true;
        if (l->f->n_blocking++ == 0)
            http_upgrade_pause(l->f->connection, true);
    }
    write_link(l);
}

void kubelet_port_link_end(struct kubelet_port_link *l)
{
    l->client_ended = true;
    write_link(l);
}

// --- the client's connection ---

void kubelet_port_forward_output(void *forward, struct gs_slice bytes)
{
    struct kubelet_port_forward *f = forward;
    if (f->connection)
        http_upgrade_write(f->connection, bytes);
}

void kubelet_port_forward_ended(void *forward, unsigned code)
{
    struct kubelet_port_forward *f = forward;
    (void)code;
    http_upgrade_end(f->connection);
}

void kubelet_port_forward_close(struct kubelet_port_forward *f)
{
    if (!f->connection)
        return;
    f->protocol->close(f);
    if (f->websocket)
        websocket_close(f->websocket, WEBSOCKET_NORMAL, NULL);
    http_upgrade_end(f->connection);
}

static void on_forward_idle(void *arg)
{
    kubelet_port_forward_close(arg);
}

static void on_bytes(void *arg, struct gs_slice bytes)
{
    struct kubelet_port_forward *f = arg;
    gs_timer_start(f->idle, on_forward_idle, KUBELET_STREAM_IDLE_MS);
    f->protocol->feed(f, bytes);
    if (f->full)
        adjust_reading(f);
}

static void on_forward_drained(void *arg)
{
    struct kubelet_port_forward *f = arg;
    gs_timer_start(f->idle, on_forward_idle, KUBELET_STREAM_IDLE_MS);
    adjust_reading(f);
}

static void forward_free(struct kubelet_port_forward *f)
{
    kubelet_stream_remove(&f->stream);
    if (f->protocol)
        f->protocol->free(f);
    websocket_free(f->websocket);
    gs_timer_free(f->idle);
    free(f->ip);
    free(f->pod);
    free(f->ports);
    free(f);
}

// What a link still writes is not for anyone any more.
static void on_forward_closed(void *arg)
{
    struct kubelet_port_forward *f = arg;
    struct kubelet_port_link *l;
    f->connection = NULL;
    while ((l = TAILQ_FIRST(&f->links)))
        kubelet_port_link_drop(l); // NOLINT(clang-analyzer-unix.Malloc): they leave the list
    forward_free(f);
}

static const struct http_upgrade_callbacks connection_callbacks = {
    .on_data = on_bytes,
    .on_drained = on_forward_drained,
    .on_close = on_forward_closed,
};

static void end_forward(struct kubelet_stream *stream)
{
    kubelet_port_forward_close(GS_CONTAINER_OF(stream, struct kubelet_port_forward, stream));
}

// --- the request ---

bool kubelet_port_forward_upgrade(struct kubelet_port_forward *f, struct http_exchange *x,
                                  const char *protocol)
{
    f->connection = http_reply_upgrade(x, protocol, &connection_callbacks, f);
    if (!f->connection)
        kube_reply_failure(x, 501, "NotImplemented", "this connection cannot be upgraded");
    return f->connection;
}

static bool refuse(struct http_exchange *x, const char *why)
{
    kube_reply_failure(x, 400, "BadRequest", "%s", why);
    return false;
}

static bool open_websocket(struct kubelet_port_forward *f, struct http_exchange *x)
{
    GS_AUTO_FREE char *accept = NULL;
    bool offered;
    struct kubelet_port_list ports = {0};
    const char *fault = websocket_handshake(x, &accept);
    const char *protocol = websocket_protocol(x, websocket_protocols, &offered);
    bool tunnel = gs_streq(protocol, TUNNEL);
    if (!fault && offered && !protocol)
        fault = "unable to negotiate protocol: the server accepts [" TUNNEL " v4.channel.k8s.io "
                "v4.base64.channel.k8s.io channel.k8s.io base64.channel.k8s.io]";
    if (fault)
        return refuse(x, fault);
    GS_AUTO_ERROR struct gs_error *err = tunnel ? NULL : kubelet_port_channels_list(x, &ports);
    if (err)
        return refuse(x, gs_error_message(err));
    http_add_header(x, "Sec-WebSocket-Accept", accept);
    if (protocol)
        http_add_header(x, "Sec-WebSocket-Protocol", protocol);
    if (!kubelet_port_forward_upgrade(f, x, "websocket"))
        return false;
    if (tunnel)
        kubelet_port_spdy_open_websocket(f);
    else
        kubelet_port_channels_open(f, &ports, protocol);
    return true;
}

void kubelet_port_forward(struct kubelet *k, const struct kubelet_worker *w,
                          struct http_exchange *x)
{
    struct kubelet_port_forward *f = gs_alloc(sizeof(*f));
    f->stream.end = end_forward;
    f->loop = k->cluster->loop;
    f->ip = gs_strdup(w->ip);
    f->pod = gs_strdup(w->name);
    f->ports = gs_strdup(w->ports);
    f->idle = gs_timer_new(f->loop, f);
    TAILQ_INIT(&f->links);
    kubelet_stream_add(k, &f->stream, w, NULL);
    if (websocket_requested(x) ? !open_websocket(f, x) : !kubelet_port_spdy_open(f, x)) {
        forward_free(f);
        return;
    }
    gs_timer_start(f->idle, on_forward_idle, KUBELET_STREAM_IDLE_MS);
}
