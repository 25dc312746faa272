// SPDX-License-Identifier: Apache-2.0
// The limits of a server's connections: their number, and the time of a peer. MHD's own timeout
// restarts with each byte, and its edge-triggered epoll misses a peer's end of stream that arrives
// together with other bytes. Each socket is therefore also in a second epoll that reports this end,
// and time limits start at fixed points. A connection is closed by shutting down its socket: MHD
// detects this in every state and frees the connection in its next run.
#include "base/assert.h"
#include "base/log.h"
#include "net/http/server_private.h"

#include <inttypes.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    BUSY_AGE_MS = 10000, // an older unfinished body or reply may be closed for other connections
    WARN_EVERY_MS = 60000,
};

void http_server_connections_init(struct http_server *s)
{
    for (int i = 0; i < HTTP_CONNECTION_STATES; i++)
        TAILQ_INIT(&s->connections[i]);
    TAILQ_INIT(&s->gone);
}

// --- time limits ---

// Returns milliseconds; 0: no limit.
static uint64_t limit_of(const struct http_server *s, enum http_connection_state state)
{
    switch (state) {
    case HTTP_CONNECTION_HEAD:
        return (uint64_t)s->head_timeout_s * 1000;
    case HTTP_CONNECTION_IDLE:
        return (uint64_t)s->idle_timeout_s * 1000;
    case HTTP_CONNECTION_BODY:
        return (uint64_t)s->body_timeout_s * 1000;
    default:
        return 0;
    }
}

// Data that has arrived meanwhile is read before the check.
static void on_sweep_timer(uv_timer_t *t)
{
    struct http_server *s = t->data;
    s->sweep_due_ms = 0;
    s->sweep_now = true;
    http_server_run_soon(s);
}

static void sweep_at(struct http_server *s, uint64_t due_ms)
{
    if (s->closed || (s->sweep_due_ms && s->sweep_due_ms <= due_ms))
        return;
    uint64_t now = uv_now(s->loop);
    s->sweep_due_ms = due_ms;
    uv_timer_start(&s->sweep, on_sweep_timer, due_ms > now ? due_ms - now : 0, 0);
}

void http_server_connection_enter(struct http_server_connection *c,
                                  enum http_connection_state state)
{
    struct http_server *s = c->server;
    if (c->state == HTTP_CONNECTION_CLOSING)
        return;
    TAILQ_REMOVE(&s->connections[c->state], c, link);
    c->state = state;
    c->since_ms = uv_now(s->loop);
    TAILQ_INSERT_TAIL(&s->connections[state], c, link);
    uint64_t limit = limit_of(s, state);
    if (limit)
        sweep_at(s, c->since_ms + limit);
    if (state == HTTP_CONNECTION_IDLE && c->peer_closed)
        http_server_connection_ended(c);
}

static void shut_down(struct http_server_connection *c)
{
    struct http_server *s = c->server;
    http_server_connection_enter(c, HTTP_CONNECTION_CLOSING);
    s->n_closing++;
    shutdown(c->fd, SHUT_RDWR);
    http_server_run_soon(s);
}

static void sweep_connections(struct http_server *s)
{
    static const enum http_connection_state states[] = {HTTP_CONNECTION_HEAD, HTTP_CONNECTION_IDLE,
                                                        HTTP_CONNECTION_BODY};
    uint64_t now = uv_now(s->loop);
    s->sweep_now = false;
    for (size_t i = 0; i < GS_ARRAY_LEN(states); i++) {
        uint64_t limit = limit_of(s, states[i]);
        struct http_server_connection *c;
        while ((c = TAILQ_FIRST(&s->connections[states[i]])) && c->since_ms + limit <= now)
            shut_down(c);
        if (c)
            sweep_at(s, c->since_ms + limit);
    }
}

// --- the end of what a peer sends ---

static void leave_gone(struct http_server_connection *c)
{
    if (c->is_gone)
        TAILQ_REMOVE(&c->server->gone, c, gone_link);
    c->is_gone = false;
}

void http_server_connection_ended(struct http_server_connection *c)
{
    c->peer_closed = true;
    if (c->is_gone || c->state == HTTP_CONNECTION_CLOSING)
        return;
    c->is_gone = true;
    TAILQ_INSERT_TAIL(&c->server->gone, c, gone_link);
    http_server_run_soon(c->server);
}

static bool has_unread(const struct http_server_connection *c)
{
    int n = 0;
    if (ioctl(c->fd, FIONREAD, &n) == 0 && n > 0)
        return true;
    const union MHD_ConnectionInfo *info =
        c->server->tls ? MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION) : NULL;
    return info && info->tls_session && gnutls_record_check_pending(info->tls_session) > 0;
}

// MHD reads until no data is left; the connection stays in the queue until then.
static void settle_gone(struct http_server *s)
{
    struct http_server_connection *next;
    for (struct http_server_connection *c = TAILQ_FIRST(&s->gone); c; c = next) {
        next = TAILQ_NEXT(c, gone_link);
        bool waits_for_peer = c->state == HTTP_CONNECTION_HEAD ||
                              c->state == HTTP_CONNECTION_IDLE || c->state == HTTP_CONNECTION_BODY;
        if (waits_for_peer && has_unread(c))
            continue;
        leave_gone(c);
        if (waits_for_peer)
            shut_down(c);
        else if (c->request && c->request->upgrade)
            http_server_upgrade_hung_up(c->request->upgrade);
        else if (c->request && c->request->suspended)
            http_server_request_abandon(c->request);
    }
}

static unsigned count_connections(const struct http_server *s)
{
    const struct http_server_connection *c;
    unsigned n = 0;
    for (int state = 0; state < HTTP_CONNECTION_STATES; state++)
        TAILQ_FOREACH (c, &s->connections[state], link)
            n++;
    return n;
}

void http_server_connections_check(struct http_server *s)
{
    gs_assert_debug(count_connections(s) == s->n_connections);
    if (s->sweep_now)
        sweep_connections(s);
    settle_gone(s);
}

// --- how many ---

static struct http_server_connection *is_older_connection(struct http_server_connection *a,
                                                          struct http_server_connection *b)
{
    return !a || (b && b->since_ms < a->since_ms) ? b : a;
}

static struct http_server_connection *busy_for_long(const struct http_server *s,
                                                    enum http_connection_state state)
{
    struct http_server_connection *c = TAILQ_FIRST(&s->connections[state]);
    return c && c->since_ms + BUSY_AGE_MS <= uv_now(s->loop) ? c : NULL;
}

static struct http_server_connection *choose_victim(const struct http_server *s,
                                                    const struct http_server_connection *fresh)
{
    struct http_server_connection *c =
        is_older_connection(TAILQ_FIRST(&s->connections[HTTP_CONNECTION_HEAD]),
                            TAILQ_FIRST(&s->connections[HTTP_CONNECTION_IDLE]));
    if (c && c != fresh)
        return c;
    return is_older_connection(busy_for_long(s, HTTP_CONNECTION_BODY),
                               busy_for_long(s, HTTP_CONNECTION_REPLY));
}

static void warn_full(struct http_server *s)
{
    uint64_t now = uv_now(s->loop);
    s->evicted++;
    if (s->warned_ms && now - s->warned_ms < WARN_EVERY_MS)
        return;
    gs_warn("http",
            "port %u: all %u connections are in use; the connections that are idle for the longest "
            "time are closed "
            "(%" PRIu64 " since the last such line)",
            s->port, s->max_connections, s->evicted);
    s->warned_ms = now ? now : 1;
    s->evicted = 0;
}

static bool is_over_limit(const struct http_server *s)
{
    return s->n_connections - s->n_closing > s->max_connections;
}

static void evict_connection(struct http_server_connection *fresh)
{
    struct http_server *s = fresh->server;
    if (!is_over_limit(s))
        return;
    struct http_server_connection *victim = choose_victim(s, fresh);
    fresh->surplus = !victim;
    if (!victim)
        return;
    shut_down(victim);
    warn_full(s);
}

bool http_server_connection_admits(const struct http_server_connection *c, const char *path)
{
    static const char *const probes[] = {"/healthz", "/livez", "/readyz", "/health"};
    if (!c->surplus || !is_over_limit(c->server))
        return true;
    for (size_t i = 0; i < GS_ARRAY_LEN(probes); i++) {
        size_t len = strlen(probes[i]);
        if (strncmp(path, probes[i], len) == 0 && (!path[len] || path[len] == '/'))
            return true;
    }
    // These may follow the prefix of a route.
    return gs_ends(path, "/-/healthy") || gs_ends(path, "/-/ready");
}

// --- begin and end ---

void http_server_connection_opened(struct http_server_connection *c)
{
    struct http_server *s = c->server;
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = c};
    c->fd = MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    s->n_connections++;
    c->state = HTTP_CONNECTION_HEAD;
    TAILQ_INSERT_TAIL(&s->connections[HTTP_CONNECTION_HEAD], c, link);
    http_server_connection_enter(c, HTTP_CONNECTION_HEAD);
    epoll_ctl(s->hangup_fd, EPOLL_CTL_ADD, c->fd, &event);
    evict_connection(c);
}

void http_server_connection_closed(struct http_server_connection *c)
{
    struct http_server *s = c->server;
    epoll_ctl(s->hangup_fd, EPOLL_CTL_DEL, c->fd, NULL);
    leave_gone(c);
    gs_assert(s->n_connections > 0 && s->n_closing <= s->n_connections);
    TAILQ_REMOVE(&s->connections[c->state], c, link);
    s->n_connections--;
    s->n_closing -= c->state == HTTP_CONNECTION_CLOSING;
}
