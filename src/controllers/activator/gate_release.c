// SPDX-License-Identifier: Apache-2.0
// Passes held connections on to endpoints, in the order in which they came. Bytes of the client are
// sent only after the connection to the endpoint exists.
#include "activator/gate_parts.h"

#include "base/clock.h"
#include "base/mem.h"

#define RETRY_NS (250 * GS_NS_PER_MS) // of an endpoint that refused a connection

void activator_connection_set_busy(struct activator_connection *c, bool busy)
{
    if (c->busy == busy)
        return;
    c->busy = busy;
    if (busy)
        c->endpoint->busy++;
    else
        c->endpoint->busy--;
}

void activator_connection_leave_endpoint(struct activator_connection *c)
{
    activator_connection_set_busy(c, false);
    activator_endpoint_unref(GS_TAKE(c->endpoint));
}

static void on_end(void *arg)
{
    struct activator_connection *c = arg;
    struct activator_gate *g = c->gate;
    activator_connection_free(c);
    activator_gate_release(g);
}

static void on_bytes(void *arg, enum splice_side from, size_t n)
{
    struct activator_connection *c = arg;
    c->answered |= from == SPLICE_SERVER;
    c->awaits = from == SPLICE_CLIENT && (n || c->awaits);
    if (from == SPLICE_SERVER || !n || c->sent)
        return;
    c->sent = true;
    activator_connection_set_busy(c, !c->answered);
}

void activator_connection_attempt_failed(struct activator_connection *c)
{
    struct activator_gate *g = c->gate;
    g->stats.connect_failures++;
    c->endpoint->not_before_ns = gs_mono_ns() + RETRY_NS;
    activator_connection_leave_endpoint(c);
    splice_socket_close(GS_TAKE(c->server));
    activator_connection_hold_again(c);
}

static void open_splice(struct activator_connection *c)
{
    const struct splice_config cfg = {.on_end = on_end,
                                      .on_bytes = on_bytes,
                                      .take = c->stream ? activator_stream_take : NULL,
                                      .arg = c};
    uv_tcp_keepalive(splice_socket_tcp(c->server), 1, ACTIVATOR_ALIVE_S);
    c->splice = splice_new(GS_TAKE(c->client), GS_TAKE(c->server), &cfg);
    c->sent = c->awaits = c->len > 0;
}

static void on_connected(void *arg, int status)
{
    struct activator_connection *c = arg;
    struct activator_gate *g = c->gate;
    if (status < 0) {
        activator_connection_attempt_failed(c);
        activator_gate_release(g); // another endpoint
        return;
    }
    g->stats.arrivals += !c->counted; // it sent nothing before there was an endpoint
    g->stats.released++;
    g->stats.waited_seconds += (double)(gs_mono_ns() - c->accepted_ns) / 1e9;
    activator_connection_move(c, ACTIVATOR_STATE_OPEN);
    open_splice(c);
    struct splice *s = c->splice;
    activator_gate_report(g);
    struct gs_slice bytes = gs_slice_make(c->bytes, c->len);
    if (!splice_send(s, SPLICE_SERVER, bytes))
        return; // freed
    activator_connection_drop_bytes(c);
    splice_start(s);
}

static void connect_to(struct activator_connection *c, struct activator_endpoint *e)
{
    struct activator_gate *g = c->gate;
    struct sockaddr_storage to;
    e->refs++;
    c->endpoint = e;
    activator_connection_set_busy(c, true);
    c->server = splice_socket_new(g->loop);
    activator_connection_move(c, ACTIVATOR_STATE_CONNECTING);
    if (splice_parse_address(e->address.ip, e->address.port, &to) < 0 ||
        splice_socket_connect(c->server, (struct sockaddr *)&to, on_connected, c) < 0)
        activator_connection_attempt_failed(c);
}

static bool is_full(const struct activator_gate *g)
{
    return g->lists[ACTIVATOR_STATE_OPEN].n + g->lists[ACTIVATOR_STATE_CONNECTING].n >=
           g->cfg.max_open;
}

static void release_list(struct activator_gate *g, enum activator_state state, int64_t now_ns)
{
    struct activator_connection *next;
    for (struct activator_connection *c = g->lists[state].first; c && !is_full(g); c = next) {
        next = c->next;
        struct activator_endpoint *e =
            c->over ? NULL : activator_endpoint_choose(g, c->port, now_ns);
        if (e)
            connect_to(c, e);
    }
}

void activator_gate_release(struct activator_gate *g)
{
    int64_t now_ns = gs_mono_ns();
    if (!activator_gate_has_endpoints(g))
        return;
    release_list(g, ACTIVATOR_STATE_WAITING, now_ns);
    release_list(g, ACTIVATOR_STATE_SILENT, now_ns);
}
