// SPDX-License-Identifier: Apache-2.0
// A connection goes through these states, each of which is a list:
//
//   SILENT ──its first bytes──▶ WAITING ──an endpoint──▶ CONNECTING ──▶ OPEN
//      │                           ▲  └──refused──▶ ENDING  │
//      └──an endpoint──────────────┼────────────────────────┘ fails: WAITING or SILENT again
//
// ENDING has been answered and waits until the client has read the answer.
#include "activator/gate_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/timer.h"
#include "net/splice/splice.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>

#define LISTEN_QUEUE  1024
#define SWEEP_MS      250
#define RETRY_NS      (250 * GS_NS_PER_MS) // of an endpoint that refused a connection
#define QUIET_NS      GS_NS_PER_SEC        // after an answer or without bytes: no request is open
#define ENDING_NS     (2 * GS_NS_PER_SEC)
#define MAX_ENDING    256 // more are closed at once
#define MAX_OVER      128 // above the limit, and read only to be answered
#define RETRY_SECONDS 10
#define KEEPALIVE_S   30

enum state { SILENT, WAITING, CONNECTING, OPEN, ENDING, N_STATES };

struct endpoint {
    struct activator_address address;
    unsigned refs;
    unsigned busy; // requests of connections that were held
    int64_t not_before_ns;
};

struct port {
    uv_tcp_t *listener;
    struct endpoint **endpoints;
    size_t n;
    int64_t ready_ns; // monotonic time since when it has endpoints
};

struct connection {
    struct activator_gate *gate;
    struct connection *prev, *next;
    size_t port;
    enum state state;
    struct splice_socket *client, *server;
    struct splice *splice;
    struct endpoint *endpoint;
    char *bytes;
    size_t len;
    int64_t since_ns, accepted_ns; // since: it is in this state; of WAITING: it sent something
    bool http;                     // the head of an HTTP/1 request is complete
    bool counted;                  // it has been an arrival
    bool paused;                   // not read, because of a limit
    bool over;                     // above the limit of connections
    bool busy;                     // counted at the endpoint
    bool sent, answered;           // bytes were passed on, of the client and of the endpoint
};

struct list {
    struct connection *first, *last;
    size_t n;
};

struct activator_gate {
    uv_loop_t *loop;
    struct activator_gate_config cfg;
    struct port *ports;
    size_t n_ports;
    struct list lists[N_STATES];
    struct gs_timer *timer; // of sweeps
    char *failure;
    bool extended;
    struct activator_gate_stats stats; // the counters
};

const char *activator_reason_name(enum activator_reason r)
{
    static const char *const names[ACTIVATOR_N_REASONS] = {
        [ACTIVATOR_LIMIT] = "limit",   [ACTIVATOR_TIMEOUT] = "timeout",
        [ACTIVATOR_SILENT] = "silent", [ACTIVATOR_GONE] = "client_gone",
        [ACTIVATOR_FAILED] = "failed", [ACTIVATOR_PROBE] = "probe",
        [ACTIVATOR_CLOSED] = "closed",
    };
    return names[r];
}

// --- lists ---

static void list_remove(struct connection *c)
{
    struct list *l = &c->gate->lists[c->state];
    *(c->prev ? &c->prev->next : &l->first) = c->next;
    *(c->next ? &c->next->prev : &l->last) = c->prev;
    c->prev = c->next = NULL;
    l->n--;
}

static void list_add(struct connection *c, enum state state, bool first)
{
    struct list *l = &c->gate->lists[state];
    c->state = state;
    c->prev = first ? NULL : l->last;
    c->next = first ? l->first : NULL;
    *(c->prev ? &c->prev->next : &l->first) = c;
    *(c->next ? &c->next->prev : &l->last) = c;
    l->n++;
}

static void sweep(void *arg);

static void set_state(struct connection *c, enum state state)
{
    list_remove(c);
    list_add(c, state, false);
    c->since_ns = gs_mono_ns();
}

static void report(struct activator_gate *g)
{
    if (g->cfg.on_waiting)
        g->cfg.on_waiting(g->cfg.arg);
}

// --- the end of a connection ---

static void endpoint_unref(struct endpoint *e)
{
    if (e && --e->refs == 0)
        free(e);
}

static void set_busy(struct connection *c, bool busy)
{
    if (c->busy == busy)
        return;
    c->busy = busy;
    if (busy)
        c->endpoint->busy++;
    else
        c->endpoint->busy--;
}

static void leave_endpoint(struct connection *c)
{
    set_busy(c, false);
    endpoint_unref(GS_TAKE(c->endpoint));
}

static void drop_bytes(struct connection *c)
{
    c->gate->cfg.budget->left += (int64_t)c->len;
    free(GS_TAKE(c->bytes));
    c->len = 0;
}

static void connection_free(struct connection *c)
{
    list_remove(c);
    leave_endpoint(c);
    drop_bytes(c);
    splice_free(c->splice);
    splice_socket_close(c->client);
    splice_socket_close(c->server);
    free(c);
}

static void discard(void *arg, const char *data, ssize_t n)
{
    (void)data;
    if (n < 0)
        connection_free(arg);
}

static const char *text_of(const struct activator_gate *g, enum activator_reason r)
{
    switch (r) {
    case ACTIVATOR_LIMIT:
        return "too many requests wait for this service to start";
    case ACTIVATOR_TIMEOUT:
        return "the service did not start in time";
    case ACTIVATOR_FAILED:
        return g->failure ? g->failure : "the service cannot start";
    case ACTIVATOR_PROBE:
        return "no pod is running: the next request starts one";
    default:
        return "the service is being removed";
    }
}

// Ends a connection that is held: with an answer if it has sent an HTTP request.
static void refuse(struct connection *c, enum activator_reason reason, int status)
{
    struct activator_gate *g = c->gate;
    GS_AUTO_BUF struct gs_buf out = {0};
    bool waited = c->state == WAITING;
    g->stats.rejected[reason]++;
    if (c->http && g->lists[ENDING].n < MAX_ENDING)
        activator_head_refuse(&out, status, status == 200 ? 0 : RETRY_SECONDS, text_of(g, reason));
    if (!out.len || !splice_socket_send(c->client, gs_buf_slice(&out)) ||
        splice_socket_read(c->client, discard, c) < 0) {
        connection_free(c);
    } else {
        splice_socket_end(c->client);
        drop_bytes(c);
        set_state(c, ENDING);
    }
    if (waited)
        report(g);
}

// --- passing on ---

static void release(struct activator_gate *g);

static void on_end(void *arg)
{
    struct connection *c = arg;
    struct activator_gate *g = c->gate;
    connection_free(c);
    release(g);
}

static void on_bytes(void *arg, enum splice_side from, size_t n)
{
    struct connection *c = arg;
    c->answered |= from == SPLICE_SERVER;
    if (from == SPLICE_SERVER || !n || c->sent)
        return;
    c->sent = true;
    set_busy(c, !c->answered);
}

// Held again: first, because it has waited the longest.
static void attempt_failed(struct connection *c)
{
    struct activator_gate *g = c->gate;
    g->stats.connect_failures++;
    c->endpoint->not_before_ns = gs_mono_ns() + RETRY_NS;
    leave_endpoint(c);
    splice_socket_close(GS_TAKE(c->server));
    list_remove(c);
    list_add(c, c->counted ? WAITING : SILENT, true);
    c->since_ns = c->accepted_ns;
}

static void on_connected(void *arg, int status)
{
    struct connection *c = arg;
    struct activator_gate *g = c->gate;
    if (status < 0) {
        attempt_failed(c);
        release(g); // another endpoint
        return;
    }
    const struct splice_config cfg = {.on_end = on_end, .on_bytes = on_bytes, .arg = c};
    g->stats.arrivals += !c->counted; // it sent nothing before there was an endpoint
    g->stats.released++;
    g->stats.waited_seconds += (double)(gs_mono_ns() - c->accepted_ns) / 1e9;
    set_state(c, OPEN);
    c->sent = c->len > 0;
    c->splice = splice_new(GS_TAKE(c->client), GS_TAKE(c->server), &cfg);
    struct splice *s = c->splice;
    report(g);
    if (!splice_send(s, SPLICE_SERVER, gs_slice_make(c->bytes, c->len)))
        return; // freed
    drop_bytes(c);
    splice_start(s);
}

static struct endpoint *choose(const struct activator_gate *g, size_t port, int64_t now_ns)
{
    const struct port *p = port < g->n_ports ? &g->ports[port] : NULL;
    struct endpoint *best = NULL;
    for (size_t i = 0; p && i < p->n; i++) {
        struct endpoint *e = p->endpoints[i];
        if (e->busy < g->cfg.per_endpoint && e->not_before_ns <= now_ns &&
            (!best || e->busy < best->busy))
            best = e;
    }
    return best;
}

static void connect_to(struct connection *c, struct endpoint *e)
{
    struct activator_gate *g = c->gate;
    struct sockaddr_storage to;
    e->refs++;
    c->endpoint = e;
    set_busy(c, true);
    c->server = splice_socket_new(g->loop);
    set_state(c, CONNECTING);
    if (splice_parse_address(e->address.ip, e->address.port, &to) < 0 ||
        splice_socket_connect(c->server, (struct sockaddr *)&to, on_connected, c) < 0)
        attempt_failed(c);
}

static void release_list(struct activator_gate *g, enum state state, int64_t now_ns)
{
    struct connection *next;
    for (struct connection *c = g->lists[state].first; c; c = next) {
        next = c->next;
        struct endpoint *e = c->over ? NULL : choose(g, c->port, now_ns);
        if (e)
            connect_to(c, e);
    }
}

static bool has_endpoints(const struct activator_gate *g)
{
    for (size_t i = 0; i < g->n_ports; i++)
        if (g->ports[i].n)
            return true;
    return false;
}

static void release(struct activator_gate *g)
{
    int64_t now_ns = gs_mono_ns();
    if (!has_endpoints(g))
        return;
    release_list(g, WAITING, now_ns);
    release_list(g, SILENT, now_ns);
}

// --- holding ---

static size_t n_waiting(const struct activator_gate *g)
{
    return g->lists[WAITING].n + g->lists[CONNECTING].n;
}

static bool may_read(const struct connection *c)
{
    return c->len < c->gate->cfg.max_bytes && c->gate->cfg.budget->left > 0;
}

// The first request, or bytes of another protocol, are complete enough to wait for an endpoint.
static void arrive(struct connection *c)
{
    struct activator_gate *g = c->gate;
    c->counted = true;
    g->stats.arrivals++;
    if (c->over || n_waiting(g) >= g->cfg.max_held) {
        refuse(c, ACTIVATOR_LIMIT, 429);
        return;
    }
    if (g->failure) {
        refuse(c, ACTIVATOR_FAILED, 503);
        return;
    }
    set_state(c, WAITING);
    report(g);
    release(g);
}

static void classify(struct connection *c)
{
    struct gs_slice bytes = gs_slice_make(c->bytes, c->len);
    enum activator_protocol protocol = activator_head_protocol(bytes);
    if (protocol == ACTIVATOR_PART && !c->paused)
        return;
    c->http = protocol == ACTIVATOR_HTTP || protocol == ACTIVATOR_TOO_LONG;
    if (protocol == ACTIVATOR_TOO_LONG)
        refuse(c, ACTIVATOR_LIMIT, 431);
    else if (protocol == ACTIVATOR_HTTP && activator_head_is_probe(bytes))
        refuse(c, ACTIVATOR_PROBE, 200);
    else
        arrive(c);
}

static bool keep_bytes(struct connection *c, const char *data, size_t n)
{
    char *bytes = gs_try_realloc(c->bytes, c->len + n);
    if (!bytes)
        return false;
    c->bytes = bytes;
    memcpy(bytes + c->len, data, n);
    c->len += n;
    c->gate->cfg.budget->left -= (int64_t)n;
    return true;
}

static void client_gone(struct connection *c)
{
    struct activator_gate *g = c->gate;
    bool waited = c->state == WAITING || c->state == CONNECTING;
    g->stats.rejected[ACTIVATOR_GONE] += waited;
    connection_free(c);
    if (waited)
        report(g);
}

static void on_held_bytes(void *arg, const char *data, ssize_t n)
{
    struct connection *c = arg;
    if (n < 0 || !keep_bytes(c, data, (size_t)n)) {
        client_gone(c);
        return;
    }
    if (!may_read(c)) {
        splice_socket_pause(c->client);
        c->paused = true;
    }
    if (c->state == SILENT)
        classify(c);
}

static void start_sweeps(struct activator_gate *g)
{
    if (!gs_timer_is_active(g->timer))
        gs_timer_start(g->timer, sweep, SWEEP_MS);
}

// Connections without a request give way to new ones, so that a flood of them keeps no request out.
// False: the connection cannot be held and is closed.
static bool make_room(struct activator_gate *g, struct connection *c)
{
    if (n_waiting(g) + g->lists[SILENT].n < g->cfg.max_held)
        return true;
    if (n_waiting(g) < g->cfg.max_held) {
        g->stats.rejected[ACTIVATOR_LIMIT]++;
        connection_free(g->lists[SILENT].first);
        return true;
    }
    c->over = true;
    if (g->lists[SILENT].n < MAX_OVER)
        return true;
    g->stats.rejected[ACTIVATOR_LIMIT]++;
    return false;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct activator_gate *g = listener->data;
    if (status < 0)
        return;
    struct connection *c = gs_alloc(sizeof(*c));
    c->gate = g;
    for (size_t i = 0; i < g->n_ports; i++)
        if ((uv_stream_t *)g->ports[i].listener == listener)
            c->port = i;
    c->client = splice_socket_new(g->loop);
    c->accepted_ns = c->since_ns = gs_mono_ns();
    uv_tcp_t *tcp = splice_socket_tcp(c->client);
    bool room = make_room(g, c);
    list_add(c, SILENT, false);
    if (uv_accept(listener, (uv_stream_t *)tcp) < 0 || !room ||
        splice_socket_read(c->client, on_held_bytes, c) < 0) {
        connection_free(c);
        return;
    }
    uv_tcp_nodelay(tcp, 1);
    uv_tcp_keepalive(tcp, 1, KEEPALIVE_S); // a client that is gone without an end
    start_sweeps(g);
    if (g->cfg.budget->left <= 0) { // it cannot be read, so nobody knows whether it is silent
        splice_socket_pause(c->client);
        c->paused = true;
        arrive(c);
        return;
    }
    release(g);
}

// --- time ---

// The client of a connection that is not read has closed it.
static bool has_gone(const struct connection *c)
{
    uv_os_fd_t fd;
    struct tcp_info info;
    socklen_t len = sizeof(info);
    if (!c->paused || uv_fileno((uv_handle_t *)splice_socket_tcp(c->client), &fd) < 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        return false;
    return info.tcpi_state == TCP_CLOSE_WAIT || info.tcpi_state == TCP_CLOSE;
}

static void read_again(struct connection *c)
{
    if (c->paused && may_read(c) && splice_socket_read(c->client, on_held_bytes, c) == 0)
        c->paused = false;
}

// Those that waited while pods started have the same time again for their turn at the first one.
static int64_t held_since(const struct connection *c)
{
    const struct port *p = c->port < c->gate->n_ports ? &c->gate->ports[c->port] : NULL;
    if (c->state == SILENT)
        return c->accepted_ns;
    return p && p->n && p->ready_ns > c->since_ns ? p->ready_ns : c->since_ns;
}

static void sweep_held(struct connection *c, int64_t now_ns)
{
    const struct activator_gate_config *cfg = &c->gate->cfg;
    int64_t limit_ms = c->over              ? ENDING_NS / GS_NS_PER_MS
                       : c->state == SILENT ? cfg->silent_ms
                       : c->gate->extended  ? INT64_MAX / GS_NS_PER_MS
                                            : cfg->hold_ms;
    if (has_gone(c))
        client_gone(c);
    else if (now_ns - held_since(c) >= limit_ms * GS_NS_PER_MS)
        refuse(c,
               c->over              ? ACTIVATOR_LIMIT
               : c->state == SILENT ? ACTIVATOR_SILENT
                                    : ACTIVATOR_TIMEOUT,
               503);
    else
        read_again(c);
}

static void sweep_open(struct connection *c, int64_t now_ns)
{
    int64_t quiet_ns = now_ns - splice_last_ns(c->splice);
    if ((c->answered || !c->sent) && quiet_ns >= QUIET_NS)
        set_busy(c, false);
    if (quiet_ns >= c->gate->cfg.idle_ms * GS_NS_PER_MS)
        connection_free(c);
}

static void sweep_state(struct activator_gate *g, enum state state, int64_t now_ns)
{
    struct connection *next;
    for (struct connection *c = g->lists[state].first; c; c = next) {
        next = c->next;
        if (state == OPEN)
            sweep_open(c, now_ns);
        else if (state == CONNECTING && now_ns - c->since_ns >= g->cfg.connect_ms * GS_NS_PER_MS)
            attempt_failed(c);
        else if (state == ENDING && now_ns - c->since_ns >= ENDING_NS)
            connection_free(c);
        else if (state == SILENT || state == WAITING)
            sweep_held(c, now_ns);
    }
}

static void sweep(void *arg)
{
    struct activator_gate *g = arg;
    int64_t now_ns = gs_mono_ns();
    size_t n = 0;
    for (enum state s = 0; s < N_STATES; s++)
        sweep_state(g, s, now_ns);
    release(g);
    for (enum state s = 0; s < N_STATES; s++)
        n += g->lists[s].n;
    if (n)
        start_sweeps(g);
}

// --- the gate ---

struct activator_gate *activator_gate_new(uv_loop_t *loop, const struct activator_gate_config *cfg)
{
    struct activator_gate *g = gs_alloc(sizeof(*g));
    g->loop = loop;
    g->cfg = *cfg;
    g->timer = gs_timer_new(loop, g);
    return g;
}

static void end_all(struct activator_gate *g, enum state state)
{
    while (g->lists[state].first) {
        g->stats.rejected[ACTIVATOR_CLOSED] += state == WAITING || state == CONNECTING;
        connection_free(g->lists[state].first); // NOLINT(clang-analyzer-unix.Malloc)
    }
}

void activator_gate_free(struct activator_gate *g)
{
    if (!g)
        return;
    for (enum state s = 0; s < N_STATES; s++)
        end_all(g, s);
    for (size_t i = 0; i < g->n_ports; i++) {
        activator_gate_unlisten(g, i);
        for (size_t k = 0; k < g->ports[i].n; k++)
            endpoint_unref(g->ports[i].endpoints[k]);
        free(g->ports[i].endpoints);
    }
    free(g->ports);
    free(g->failure);
    gs_timer_free(g->timer);
    free(g);
}

static struct port *port_at(struct activator_gate *g, size_t index)
{
    if (index >= g->n_ports) {
        g->ports = gs_realloc_array(g->ports, index + 1, sizeof(*g->ports));
        memset(g->ports + g->n_ports, 0, (index + 1 - g->n_ports) * sizeof(*g->ports));
        g->n_ports = index + 1;
    }
    return &g->ports[index];
}

static void listener_closed(uv_handle_t *h)
{
    free(h);
}

void activator_gate_unlisten(struct activator_gate *g, size_t index)
{
    struct port *p = port_at(g, index);
    if (p->listener)
        uv_close((uv_handle_t *)GS_TAKE(p->listener), listener_closed);
}

struct gs_error *activator_gate_listen(struct activator_gate *g, size_t index, const char *ip,
                                       uint16_t *port)
{
    struct sockaddr_storage at;
    struct port *p = port_at(g, index);
    if (splice_parse_address(ip, *port, &at) < 0)
        return gs_error_new(GS_EINVAL, "%s: not a numeric address", ip);
    activator_gate_unlisten(g, index);
    uv_tcp_t *tcp = gs_alloc(sizeof(*tcp));
    uv_tcp_init(g->loop, tcp);
    tcp->data = g;
    int rc = uv_tcp_bind(tcp, (struct sockaddr *)&at, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)tcp, LISTEN_QUEUE, on_connection);
    if (rc < 0) {
        uv_close((uv_handle_t *)tcp, listener_closed);
        return gs_error_new(rc == UV_EADDRINUSE ? GS_EEXIST : GS_EIO, "listening on %s:%u: %s", ip,
                            *port, uv_strerror(rc));
    }
    p->listener = tcp;
    *port = splice_bound_port(tcp);
    return NULL;
}

static struct endpoint *take_same(struct port *p, const struct activator_address *a)
{
    for (size_t i = 0; i < p->n; i++) {
        struct endpoint *e = p->endpoints[i];
        if (e && e->address.port == a->port && gs_streq(e->address.ip, a->ip))
            return GS_TAKE(p->endpoints[i]);
    }
    struct endpoint *e = gs_alloc(sizeof(*e));
    e->address = *a;
    e->refs = 1;
    return e;
}

void activator_gate_set(struct activator_gate *g, size_t index,
                        const struct activator_address *items, size_t n)
{
    struct port *p = port_at(g, index);
    struct endpoint **next = gs_alloc_array(n + 1, sizeof(*next));
    for (size_t i = 0; i < n; i++)
        next[i] = take_same(p, &items[i]);
    for (size_t i = 0; i < p->n; i++)
        endpoint_unref(p->endpoints[i]);
    free(p->endpoints);
    p->endpoints = next;
    if (!p->n)
        p->ready_ns = gs_mono_ns();
    p->n = n;
    if (n)
        free(GS_TAKE(g->failure));
    release(g);
}

void activator_gate_fail(struct activator_gate *g, const char *why)
{
    struct connection *next;
    free(g->failure);
    g->failure = gs_strdup(why);
    for (struct connection *c = why ? g->lists[WAITING].first : NULL; c; c = next) {
        next = c->next;
        refuse(c, ACTIVATOR_FAILED, 503);
    }
}

void activator_gate_extend(struct activator_gate *g, bool extend)
{
    g->extended = extend;
}

void activator_gate_stats(const struct activator_gate *g, struct activator_gate_stats *ret)
{
    const struct connection *oldest = g->lists[WAITING].first;
    struct activator_gate_stats s = g->stats;
    s.silent = g->lists[SILENT].n;
    s.waiting = g->lists[WAITING].n + g->lists[CONNECTING].n;
    s.open = g->lists[OPEN].n;
    s.oldest_ms = oldest ? (gs_mono_ns() - oldest->since_ns) / GS_NS_PER_MS : 0;
    *ret = s;
}
