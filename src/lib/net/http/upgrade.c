// SPDX-License-Identifier: Apache-2.0
// A connection that has changed to another protocol. For libmicrohttpd it is suspended from the
// request on, while we use its socket and its TLS session; at the end it is resumed and closed.
// libmicrohttpd's own upgrades are not used: with TLS they pass all bytes through a socket pair in
// pieces of what is left of the connection's memory, which can be 4 bytes.
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "net/http/server_private.h"

#include <errno.h>
#include <sys/socket.h>

enum {
    CHUNK = 32 * 1024,
    READS_A_TURN = 4,
    LINGER_MS = 1000, // for what a peer sent before its end, and for a peer to see ours
    END_MS = 60000,   // for a peer to take the rest
};

struct http_upgrade {
    struct http_server_request *request; // NULL: the connection was given back
    gnutls_session_t tls;                // NULL: none
    int fd;
    struct http_upgrade_callbacks cb;
    void *arg;
    uv_poll_t poll;
    struct gs_timer *deadline, *again;
    struct gs_buf queue;
    size_t written; // bytes of queue
    bool tls_retry; // GnuTLS has the front of the queue already
    bool was_full;  // on_drained is due
    bool paused;
    bool ended, sent_end; // no more writes; the end was sent to the peer
    bool closed;          // on_close was called
};

static void tell_closed(struct http_upgrade *u)
{
    if (u->closed)
        return;
    u->closed = true;
    u->cb.on_close(u->arg);
}

static void on_poll_closed(uv_handle_t *h)
{
    struct http_upgrade *u = h->data;
    tell_closed(u);
    gs_timer_free(u->deadline);
    gs_timer_free(u->again);
    gs_buf_finish(&u->queue);
    free(u);
}

static bool is_closing(const struct http_upgrade *u)
{
    return !u->request;
}

static void close_upgrade(struct http_upgrade *u)
{
    struct http_server_request *r = GS_TAKE(u->request);
    if (!r)
        return;
    gs_timer_stop(u->deadline);
    gs_timer_stop(u->again);
    uv_close((uv_handle_t *)&u->poll, on_poll_closed);
    r->upgrade = NULL;
    http_server_request_over(r);
}

static void on_deadline(void *arg)
{
    close_upgrade(arg);
}

// --- the socket ---

// Bytes; 0: the end; -1: would block; -2: an error.
static ssize_t receive(const struct http_upgrade *u, char *out, size_t size)
{
    ssize_t n;
    if (!u->tls) {
        do
            n = recv(u->fd, out, size, 0);
        while (n < 0 && errno == EINTR);
        return n >= 0 ? n : errno == EAGAIN ? -1 : -2;
    }
    do
        n = gnutls_record_recv(u->tls, out, size);
    while (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_WARNING_ALERT_RECEIVED);
    return n >= 0 ? n : n == GNUTLS_E_AGAIN ? -1 : -2;
}

static ssize_t transmit(struct http_upgrade *u, struct gs_slice bytes)
{
    ssize_t n;
    if (!u->tls) {
        do
            n = send(u->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n >= 0 ? n : errno == EAGAIN ? -1 : -2;
    }
    do
        n = u->tls_retry ? gnutls_record_send(u->tls, NULL, 0)
                         : gnutls_record_send(u->tls, bytes.data, bytes.len);
    while (n == GNUTLS_E_INTERRUPTED);
    u->tls_retry = n == GNUTLS_E_AGAIN;
    return n >= 0 ? n : n == GNUTLS_E_AGAIN ? -1 : -2;
}

static void on_upgrade_event(uv_poll_t *poll, int status, int events);

static void watch_socket(struct http_upgrade *u)
{
    int events = (u->paused ? 0 : UV_READABLE) | (http_upgrade_pending(u) ? UV_WRITABLE : 0);
    if (is_closing(u))
        return;
    if (events)
        uv_poll_start(&u->poll, events, on_upgrade_event);
    else
        uv_poll_stop(&u->poll);
}

// --- writing ---

// The peer learns that nothing more comes, and may have sent something meanwhile: if the socket was
// closed with unread bytes, the kernel would discard what the peer has not read yet.
static void send_end(struct http_upgrade *u)
{
    u->sent_end = true;
    u->paused = false;
    if (u->tls)
        gnutls_bye(u->tls, GNUTLS_SHUT_WR);
    shutdown(u->fd, SHUT_WR);
    gs_timer_start(u->deadline, on_deadline, LINGER_MS);
}

static void flush_queue(struct http_upgrade *u)
{
    while (http_upgrade_pending(u)) {
        ssize_t n =
            transmit(u, gs_slice_make(u->queue.data + u->written, u->queue.len - u->written));
        if (n < -1) {
            close_upgrade(u);
            return;
        }
        if (n < 0)
            break;
        u->written += (size_t)n;
    }
    // Moving the rest to the front only when it is the smaller part keeps this linear.
    if (u->written * 2 >= u->queue.len) {
        gs_buf_consume(&u->queue, u->written);
        u->written = 0;
    }
    if (u->ended && !u->sent_end && !http_upgrade_pending(u))
        send_end(u);
}

void http_upgrade_write(struct http_upgrade *u, struct gs_slice bytes)
{
    if (is_closing(u) || u->ended || !bytes.len)
        return;
    if (bytes.len > HTTP_STREAM_LIMIT - http_upgrade_pending(u)) {
        gs_warn("http", "an upgraded connection is closed: its peer has not read %u bytes",
                HTTP_STREAM_LIMIT);
        close_upgrade(u);
        return;
    }
    bool idle = !http_upgrade_pending(u);
    gs_buf_add_slice(&u->queue, bytes);
    if (idle)
        flush_queue(u);
    u->was_full = http_upgrade_pending(u) > 0;
    watch_socket(u);
}

size_t http_upgrade_pending(const struct http_upgrade *u)
{
    return u->queue.len - u->written;
}

void http_upgrade_end(struct http_upgrade *u)
{
    if (u->ended || is_closing(u))
        return;
    u->ended = true;
    gs_timer_start(u->deadline, on_deadline, END_MS);
    flush_queue(u);
    watch_socket(u);
}

// --- reading ---

static void on_again(void *arg);

static void read_some(struct http_upgrade *u)
{
    char chunk[CHUNK];
    for (int i = 0; i < READS_A_TURN && !u->paused && !is_closing(u); i++) {
        ssize_t n = receive(u, chunk, sizeof(chunk));
        if (n == -1)
            return;
        if (n <= 0)
            close_upgrade(u);
        else if (!u->ended)
            u->cb.on_data(u->arg, gs_slice_make(chunk, (size_t)n));
    }
    // What the TLS session holds makes no event of the socket.
    if (!u->paused && !is_closing(u))
        gs_timer_start(u->again, on_again, 0);
}

static void on_again(void *arg)
{
    struct http_upgrade *u = arg;
    read_some(u);
    watch_socket(u);
}

void http_upgrade_pause(struct http_upgrade *u, bool pause)
{
    if (u->paused == pause || u->sent_end || is_closing(u))
        return;
    u->paused = pause;
    if (!pause)
        gs_timer_start(u->again, on_again, 0);
    watch_socket(u);
}

static void on_upgrade_event(uv_poll_t *poll, int status, int events)
{
    struct http_upgrade *u = poll->data;
    if (status < 0) {
        close_upgrade(u);
        return;
    }
    if (events & UV_WRITABLE)
        flush_queue(u);
    if (!is_closing(u) && u->was_full && !http_upgrade_pending(u)) {
        u->was_full = false;
        if (u->cb.on_drained && !u->ended)
            u->cb.on_drained(u->arg);
    }
    if (events & UV_READABLE)
        read_some(u);
    watch_socket(u);
}

// --- the switch ---

static gnutls_session_t session_of(const struct http_server_request *r)
{
    const union MHD_ConnectionInfo *info =
        r->server->tls ? MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)
                       : NULL;
    return info ? info->tls_session : NULL;
}

static void write_upgrade_head(struct http_upgrade *u, const struct http_exchange *x,
                               const char *protocol)
{
    GS_AUTO_BUF struct gs_buf head = {0};
    gs_buf_addf(&head, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n",
                protocol);
    for (size_t i = 0; i < x->reply_headers.len; i++) {
        const struct http_pair *h = &x->reply_headers.items[i];
        if (!gs_has_control(h->name) && !gs_has_control(h->value))
            gs_buf_addf(&head, "%s: %s\r\n", h->name, h->value);
    }
    gs_buf_add_str(&head, "\r\n");
    http_upgrade_write(u, gs_buf_slice(&head));
}

struct http_upgrade *http_server_upgrade(struct http_server_request *r, const char *protocol,
                                         const struct http_upgrade_callbacks *cb, void *arg)
{
    struct http_upgrade *u = gs_alloc(sizeof(*u));
    u->request = r;
    u->tls = session_of(r);
    u->fd = r->fd;
    u->cb = *cb;
    u->arg = arg;
    u->deadline = gs_timer_new(r->server->loop, u);
    u->again = gs_timer_new(r->server->loop, u);
    u->poll.data = u;
    uv_poll_init(r->server->loop, &u->poll, u->fd);
    r->upgrade = u;
    http_server_connection_enter(r->on, HTTP_CONNECTION_UPGRADED);
    write_upgrade_head(u, &r->x, protocol);
    gs_timer_start(u->again, on_again, 0);
    return u;
}

// --- the end ---

void http_server_upgrade_hung_up(struct http_upgrade *u)
{
    if (!u->ended)
        gs_timer_start(u->deadline, on_deadline, LINGER_MS);
}

void http_server_upgrade_cut(struct http_upgrade *u)
{
    close_upgrade(u);
    tell_closed(u);
}

void http_server_upgrade_forget(struct http_upgrade *u)
{
    close_upgrade(u);
}
