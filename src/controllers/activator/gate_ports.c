// SPDX-License-Identifier: Apache-2.0
// The listeners of a gate and the endpoints of each port. A connection holds its endpoint, so that
// the count of its requests survives changes of the list.
#include "activator/gate_parts.h"

#include "base/clock.h"
#include "base/mem.h"

#define LISTEN_QUEUE 1024

static struct activator_gate_port *port_at(struct activator_gate *g, size_t index)
{
    if (index >= g->n_ports) {
        g->ports = gs_realloc_array(g->ports, index + 1, sizeof(*g->ports));
        memset(g->ports + g->n_ports, 0, (index + 1 - g->n_ports) * sizeof(*g->ports));
        g->n_ports = index + 1;
    }
    return &g->ports[index];
}

// --- listeners ---

static void listener_closed(uv_handle_t *h)
{
    free(h);
}

static void close_listener(struct activator_gate_port *p)
{
    if (p->listener)
        uv_close((uv_handle_t *)GS_TAKE(p->listener), listener_closed);
}

struct gs_error *activator_gate_listen(struct activator_gate *g, size_t index, const char *ip,
                                       uint16_t *port)
{
    struct sockaddr_storage at;
    struct activator_gate_port *p = port_at(g, index);
    if (splice_parse_address(ip, *port, &at) < 0)
        return gs_error_new(GS_EINVAL, "%s: not a numeric address", ip);
    close_listener(p);
    uv_tcp_t *tcp = gs_alloc(sizeof(*tcp));
    uv_tcp_init(g->loop, tcp);
    tcp->data = g;
    int rc = uv_tcp_bind(tcp, (struct sockaddr *)&at, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)tcp, LISTEN_QUEUE, activator_gate_accept);
    if (rc < 0) {
        uv_close((uv_handle_t *)tcp, listener_closed);
        return gs_error_new(rc == UV_EADDRINUSE ? GS_EEXIST : GS_EIO, "listening on %s:%u: %s", ip,
                            *port, uv_strerror(rc));
    }
    p->listener = tcp;
    *port = splice_bound_port(tcp);
    return NULL;
}

static void end_held(struct activator_gate *g, size_t index, enum activator_state state)
{
    struct activator_connection *next;
    for (struct activator_connection *c = g->lists[state].first; c; c = next) {
        next = c->next;
        if (c->port == index)
            activator_connection_refuse(c, ACTIVATOR_CLOSED, 503);
    }
}

void activator_gate_remove(struct activator_gate *g, size_t index)
{
    close_listener(port_at(g, index));
    end_held(g, index, ACTIVATOR_STATE_SILENT);
    end_held(g, index, ACTIVATOR_STATE_WAITING);
    end_held(g, index, ACTIVATOR_STATE_CONNECTING);
    activator_gate_set(g, index, NULL, 0);
}

void activator_gate_close_ports(struct activator_gate *g)
{
    for (size_t i = 0; i < g->n_ports; i++) {
        close_listener(&g->ports[i]);
        for (size_t k = 0; k < g->ports[i].n; k++)
            activator_endpoint_unref(g->ports[i].endpoints[k]);
        free(g->ports[i].endpoints);
    }
    free(g->ports);
}

// --- endpoints ---

void activator_endpoint_unref(struct activator_endpoint *e)
{
    if (e && --e->refs == 0)
        free(e);
}

static struct activator_endpoint *take_same(struct activator_gate_port *p,
                                            const struct activator_address *a)
{
    for (size_t i = 0; i < p->n; i++) {
        struct activator_endpoint *e = p->endpoints[i];
        if (e && e->address.port == a->port && gs_streq(e->address.ip, a->ip))
            return GS_TAKE(p->endpoints[i]);
    }
    struct activator_endpoint *e = gs_alloc(sizeof(*e));
    e->address = *a;
    e->refs = 1;
    return e;
}

void activator_gate_set(struct activator_gate *g, size_t index,
                        const struct activator_address *items, size_t n)
{
    struct activator_gate_port *p = port_at(g, index);
    struct activator_endpoint **next = gs_alloc_array(n + 1, sizeof(*next));
    for (size_t i = 0; i < n; i++)
        next[i] = take_same(p, &items[i]);
    for (size_t i = 0; i < p->n; i++)
        activator_endpoint_unref(p->endpoints[i]);
    free(p->endpoints);
    p->endpoints = next;
    if (!p->n)
        p->ready_ns = gs_mono_ns();
    p->n = n;
    if (n)
        free(GS_TAKE(g->failure));
    activator_gate_release(g);
}

bool activator_gate_has_endpoints(const struct activator_gate *g)
{
    for (size_t i = 0; i < g->n_ports; i++)
        if (g->ports[i].n)
            return true;
    return false;
}

struct activator_endpoint *activator_endpoint_choose(const struct activator_gate *g, size_t port,
                                                     int64_t now_ns)
{
    const struct activator_gate_port *p = port < g->n_ports ? &g->ports[port] : NULL;
    struct activator_endpoint *best = NULL;
    for (size_t i = 0; p && i < p->n; i++) {
        struct activator_endpoint *e = p->endpoints[i];
        if (e->busy < g->cfg.per_endpoint && e->not_before_ns <= now_ns &&
            (!best || e->busy < best->busy))
            best = e;
    }
    return best;
}
