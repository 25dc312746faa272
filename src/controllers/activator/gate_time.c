// SPDX-License-Identifier: Apache-2.0
// What ends a connection because of time: held ones that wait too long, passed on ones without
// traffic, and clients that are gone without being read. A sweep of all connections runs while
// there are any.
#include "activator/gate_parts.h"

#include "base/clock.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#define SWEEP_MS 250

enum peer { PEER_THERE, PEER_ENDED, PEER_GONE };

// The client of a connection that is not read.
static enum peer peer_of(const struct activator_connection *c)
{
    uv_os_fd_t fd;
    struct tcp_info info;
    socklen_t len = sizeof(info);
    if ((!c->paused && !c->ended) ||
        uv_fileno((uv_handle_t *)splice_socket_tcp(c->client), &fd) < 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        return PEER_THERE;
    return info.tcpi_state == TCP_CLOSE        ? PEER_GONE
           : info.tcpi_state == TCP_CLOSE_WAIT ? PEER_ENDED
                                               : PEER_THERE;
}

// Those that waited while pods started have the same time again for their turn at the first one.
static int64_t held_since(const struct activator_connection *c)
{
    const struct activator_gate *g = c->gate;
    const struct activator_gate_port *p = c->port < g->n_ports ? &g->ports[c->port] : NULL;
    if (c->state == ACTIVATOR_STATE_SILENT)
        return c->accepted_ns;
    return p && p->n && p->ready_ns > c->since_ns ? p->ready_ns : c->since_ns;
}

static bool is_too_old(const struct activator_connection *c, int64_t now_ns)
{
    const struct activator_gate_config *cfg = &c->gate->cfg;
    bool silent = c->state == ACTIVATOR_STATE_SILENT;
    int64_t limit_ns = c->over  ? ACTIVATOR_ENDING_NS
                       : silent ? cfg->silent_ms * GS_NS_PER_MS
                                : cfg->hold_ms * GS_NS_PER_MS;
    if (!c->over && !silent && now_ns < c->gate->extended_ns)
        return false;
    return now_ns - held_since(c) >= limit_ns;
}

static void sweep_held(struct activator_connection *c, int64_t now_ns)
{
    bool silent = c->state == ACTIVATOR_STATE_SILENT;
    enum peer peer = peer_of(c);
    if (peer == PEER_ENDED && !c->ended)
        activator_connection_ended(c);
    else if (peer != PEER_GONE && is_too_old(c, now_ns))
        activator_connection_refuse(c,
                                    c->over  ? ACTIVATOR_LIMIT
                                    : silent ? ACTIVATOR_SILENT
                                             : ACTIVATOR_TIMEOUT,
                                    503);
    else if (peer == PEER_GONE || (!silent && !activator_stream_comment(c, now_ns)))
        activator_connection_gone(c);
    else
        activator_connection_read_again(c);
}

// A request whose answer has not begun may take any time: keep-alive probes show whether both peers
// are there.
static void sweep_open(struct activator_connection *c, int64_t now_ns)
{
    int64_t quiet_ns = now_ns - splice_last_ns(c->splice);
    if ((c->answered || !c->sent) && quiet_ns >= ACTIVATOR_QUIET_NS)
        activator_connection_set_busy(c, false);
    if (!c->awaits && quiet_ns >= c->gate->cfg.idle_ms * GS_NS_PER_MS)
        activator_connection_free(c);
}

static void sweep_state(struct activator_gate *g, enum activator_state state, int64_t now_ns)
{
    struct activator_connection *next;
    for (struct activator_connection *c = g->lists[state].first; c; c = next) {
        next = c->next;
        if (state == ACTIVATOR_STATE_OPEN)
            sweep_open(c, now_ns);
        else if (state == ACTIVATOR_STATE_CONNECTING &&
                 now_ns - c->since_ns >= g->cfg.connect_ms * GS_NS_PER_MS)
            activator_connection_attempt_failed(c);
        else if (state == ACTIVATOR_STATE_ENDING && now_ns - c->since_ns >= ACTIVATOR_ENDING_NS)
            activator_connection_free(c);
        else if (state == ACTIVATOR_STATE_SILENT || state == ACTIVATOR_STATE_WAITING)
            sweep_held(c, now_ns);
    }
}

static void sweep(void *gate)
{
    struct activator_gate *g = gate;
    int64_t now_ns = gs_mono_ns();
    size_t n = 0;
    for (enum activator_state s = 0; s < ACTIVATOR_N_STATES; s++)
        sweep_state(g, s, now_ns);
    activator_gate_release(g);
    for (enum activator_state s = 0; s < ACTIVATOR_N_STATES; s++)
        n += g->lists[s].n;
    if (n)
        activator_gate_start_sweeps(g);
}

void activator_gate_start_sweeps(struct activator_gate *g)
{
    if (!gs_timer_is_active(g->timer))
        gs_timer_start(g->timer, sweep, SWEEP_MS);
}
