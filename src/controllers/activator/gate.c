// SPDX-License-Identifier: Apache-2.0
// Accepts connections, reads what they send first, and ends those that do not wait.
#include "activator/gate_parts.h"

#include "base/clock.h"
#include "base/mem.h"

#define MAX_ENDING    256 // more are closed at once
#define MAX_OVER      128 // above the limit, and read only to be answered
#define RETRY_SECONDS 10

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

static void list_remove(struct activator_connection *c)
{
    struct activator_list *l = &c->gate->lists[c->state];
    *(c->prev ? &c->prev->next : &l->first) = c->next;
    *(c->next ? &c->next->prev : &l->last) = c->prev;
    c->prev = c->next = NULL;
    l->n--;
}

static void list_add(struct activator_connection *c, enum activator_state state, bool first)
{
    struct activator_list *l = &c->gate->lists[state];
    c->state = state;
    c->prev = first ? NULL : l->last;
    c->next = first ? l->first : NULL;
    *(c->prev ? &c->prev->next : &l->first) = c;
    *(c->next ? &c->next->prev : &l->last) = c;
    l->n++;
}

void activator_connection_move(struct activator_connection *c, enum activator_state state)
{
    list_remove(c);
    list_add(c, state, false);
    c->since_ns = gs_mono_ns();
}

// First, because it has waited the longest.
void activator_connection_hold_again(struct activator_connection *c)
{
    list_remove(c);
    list_add(c, c->counted ? ACTIVATOR_STATE_WAITING : ACTIVATOR_STATE_SILENT, true);
    c->since_ns = c->accepted_ns;
}

void activator_gate_report(struct activator_gate *g)
{
    if (g->cfg.on_waiting)
        g->cfg.on_waiting(g->cfg.arg);
}

// --- the end of a connection ---

void activator_connection_drop_bytes(struct activator_connection *c)
{
    c->gate->cfg.budget->left += (int64_t)c->len;
    free(GS_TAKE(c->bytes));
    c->len = 0;
}

void activator_connection_free(struct activator_connection *c)
{
    list_remove(c);
    activator_connection_leave_endpoint(c);
    activator_connection_drop_bytes(c);
    splice_free(c->splice);
    splice_socket_close(c->client);
    splice_socket_close(c->server);
    activator_stream_free(c->stream);
    free(c);
}

static void discard(void *arg, const char *data, ssize_t n)
{
    (void)data;
    if (n < 0)
        activator_connection_free(arg);
}

static bool is_waiting(const struct activator_connection *c)
{
    return c->state == ACTIVATOR_STATE_WAITING || c->state == ACTIVATOR_STATE_CONNECTING;
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
        return "the service, or this port of it, was removed";
    }
}

static void write_refusal(struct activator_connection *c, enum activator_reason reason, int status,
                          struct gs_buf *out)
{
    const char *text = text_of(c->gate, reason);
    if (!c->http || c->gate->lists[ACTIVATOR_STATE_ENDING].n >= MAX_ENDING)
        return;
    if (c->stream)
        activator_stream_refuse(out, status, text);
    else
        activator_head_refuse(out, status, status == 200 ? 0 : RETRY_SECONDS, text);
}

void activator_connection_refuse(struct activator_connection *c, enum activator_reason reason,
                                 int status)
{
    struct activator_gate *g = c->gate;
    GS_AUTO_BUF struct gs_buf out = {0};
    bool waited = is_waiting(c);
    g->stats.rejected[reason]++;
    write_refusal(c, reason, status, &out);
    splice_socket_close(GS_TAKE(c->server));
    activator_connection_leave_endpoint(c);
    if (!out.len || !splice_socket_send(c->client, gs_buf_slice(&out)) ||
        splice_socket_read(c->client, discard, c) < 0) {
        activator_connection_free(c);
    } else {
        splice_socket_end(c->client);
        activator_connection_drop_bytes(c);
        activator_connection_move(c, ACTIVATOR_STATE_ENDING);
    }
    if (waited)
        activator_gate_report(g);
}

// --- the end of a client ---

void activator_connection_gone(struct activator_connection *c)
{
    struct activator_gate *g = c->gate;
    bool waited = is_waiting(c);
    g->stats.rejected[ACTIVATOR_GONE] += waited;
    activator_connection_free(c);
    if (waited)
        activator_gate_report(g);
}

// A client of HTTP/1.1 may end its side after the request and wait for the answer. One that has
// closed the connection answers the interim response with a reset, which a sweep finds.
void activator_connection_ended(struct activator_connection *c)
{
    static const struct gs_slice interim = GS_SLICE("HTTP/1.1 100 Continue\r\n\r\n");
    if (!c->interim || !is_waiting(c) || (!c->stream && !splice_socket_send(c->client, interim))) {
        activator_connection_gone(c);
        return;
    }
    splice_socket_pause(c->client);
    c->ended = true;
}

// --- holding ---

static size_t n_waiting(const struct activator_gate *g)
{
    return g->lists[ACTIVATOR_STATE_WAITING].n + g->lists[ACTIVATOR_STATE_CONNECTING].n;
}

static bool may_read(const struct activator_connection *c)
{
    return c->len < c->gate->cfg.max_bytes && c->gate->cfg.budget->left > 0;
}

// The first request, or bytes of another protocol, are complete enough to wait for an endpoint.
static void arrive(struct activator_connection *c)
{
    struct activator_gate *g = c->gate;
    c->counted = true;
    g->stats.arrivals++;
    if (c->over || n_waiting(g) >= g->cfg.max_held) {
        activator_connection_refuse(c, ACTIVATOR_LIMIT, 429);
        return;
    }
    if (g->failure) {
        activator_connection_refuse(c, ACTIVATOR_FAILED, 503);
        return;
    }
    activator_connection_move(c, ACTIVATOR_STATE_WAITING);
    activator_gate_report(g);
    activator_gate_release(g);
}

static void classify(struct activator_connection *c)
{
    struct gs_slice bytes = gs_slice_make(c->bytes, c->len);
    enum activator_protocol protocol = activator_head_protocol(bytes);
    if (protocol == ACTIVATOR_PART && !c->paused)
        return;
    c->http = protocol == ACTIVATOR_HTTP || protocol == ACTIVATOR_TOO_LONG;
    c->interim = protocol == ACTIVATOR_HTTP && activator_head_is_1_1(bytes);
    if (protocol == ACTIVATOR_TOO_LONG)
        activator_connection_refuse(c, ACTIVATOR_LIMIT, 431);
    else if (protocol == ACTIVATOR_HTTP && activator_head_is_probe(bytes, c->gate->rules))
        activator_connection_refuse(c, ACTIVATOR_PROBE, 200);
    else
        arrive(c);
}

static bool keep_bytes(struct activator_connection *c, const char *data, size_t n)
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

static void on_held_bytes(void *arg, const char *data, ssize_t n)
{
    struct activator_connection *c = arg;
    if (n == UV_EOF) {
        activator_connection_ended(c);
        return;
    }
    if (n < 0 || !keep_bytes(c, data, (size_t)n)) {
        activator_connection_gone(c);
        return;
    }
    if (!may_read(c)) {
        splice_socket_pause(c->client);
        c->paused = true;
    }
    if (c->state == ACTIVATOR_STATE_SILENT)
        classify(c);
}

void activator_connection_read_again(struct activator_connection *c)
{
    if (c->paused && !c->ended && may_read(c) &&
        splice_socket_read(c->client, on_held_bytes, c) == 0)
        c->paused = false;
}

// Connections without a request give way to new ones, so that a flood of them keeps no request out.
// False: the connection cannot be held and is closed.
static bool make_room(struct activator_gate *g, struct activator_connection *c)
{
    if (n_waiting(g) + g->lists[ACTIVATOR_STATE_SILENT].n < g->cfg.max_held)
        return true;
    if (n_waiting(g) < g->cfg.max_held) {
        g->stats.rejected[ACTIVATOR_LIMIT]++;
        activator_connection_free(g->lists[ACTIVATOR_STATE_SILENT].first);
        return true;
    }
    c->over = true;
    if (g->lists[ACTIVATOR_STATE_SILENT].n < MAX_OVER)
        return true;
    g->stats.rejected[ACTIVATOR_LIMIT]++;
    return false;
}

void activator_gate_accept(uv_stream_t *listener, int status)
{
    struct activator_gate *g = listener->data;
    if (status < 0)
        return;
    struct activator_connection *c = gs_alloc(sizeof(*c));
    c->gate = g;
    for (size_t i = 0; i < g->n_ports; i++)
        if ((uv_stream_t *)g->ports[i].listener == listener)
            c->port = i;
    c->client = splice_socket_new(g->loop);
    c->accepted_ns = c->since_ns = gs_mono_ns();
    uv_tcp_t *tcp = splice_socket_tcp(c->client);
    bool room = make_room(g, c);
    list_add(c, ACTIVATOR_STATE_SILENT, false);
    if (uv_accept(listener, (uv_stream_t *)tcp) < 0 || !room ||
        splice_socket_read(c->client, on_held_bytes, c) < 0) {
        activator_connection_free(c);
        return;
    }
    uv_tcp_nodelay(tcp, 1);
    uv_tcp_keepalive(tcp, 1, ACTIVATOR_ALIVE_S); // a client that is gone without an end
    activator_gate_start_sweeps(g);
    if (g->cfg.budget->left <= 0) { // it cannot be read, so nobody knows whether it is silent
        splice_socket_pause(c->client);
        c->paused = true;
        arrive(c);
        return;
    }
    activator_gate_release(g);
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

static void end_all(struct activator_gate *g, enum activator_state state)
{
    while (g->lists[state].first) {
        g->stats.rejected[ACTIVATOR_CLOSED] +=
            state == ACTIVATOR_STATE_WAITING || state == ACTIVATOR_STATE_CONNECTING;
        activator_connection_free(g->lists[state].first); // NOLINT(clang-analyzer-unix.Malloc)
    }
}

void activator_gate_free(struct activator_gate *g)
{
    if (!g)
        return;
    for (enum activator_state s = 0; s < ACTIVATOR_N_STATES; s++)
        end_all(g, s);
    activator_gate_close_ports(g);
    free(g->failure);
    gs_timer_free(g->timer);
    free(g);
}

void activator_gate_fail(struct activator_gate *g, const char *why)
{
    struct activator_connection *next;
    free(g->failure);
    g->failure = gs_strdup(why);
    for (struct activator_connection *c = why ? g->lists[ACTIVATOR_STATE_WAITING].first : NULL; c;
         c = next) {
        next = c->next;
        activator_connection_refuse(c, ACTIVATOR_FAILED, 503);
    }
}

void activator_gate_extend(struct activator_gate *g, int64_t ms)
{
    g->extended_ns = gs_mono_ns() + ms * GS_NS_PER_MS;
}

void activator_gate_set_rules(struct activator_gate *g, const struct activator_rules *rules)
{
    g->rules = rules;
}

void activator_gate_stats(const struct activator_gate *g, struct activator_gate_stats *ret)
{
    const struct activator_connection *oldest = g->lists[ACTIVATOR_STATE_WAITING].first;
    struct activator_gate_stats s = g->stats;
    s.silent = g->lists[ACTIVATOR_STATE_SILENT].n;
    s.waiting = g->lists[ACTIVATOR_STATE_WAITING].n + g->lists[ACTIVATOR_STATE_CONNECTING].n;
    s.open = g->lists[ACTIVATOR_STATE_OPEN].n;
    s.oldest_ms = oldest ? (gs_mono_ns() - oldest->since_ns) / GS_NS_PER_MS : 0;
    *ret = s;
}
