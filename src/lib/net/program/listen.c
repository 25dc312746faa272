// SPDX-License-Identifier: Apache-2.0
// The listeners of a program, and the answers to health probes.
#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/program/program_private.h"

#include <string.h>

void program_add_server(struct program *p, const struct program_server *s)
{
    gs_assert(p->n_servers < PROGRAM_MAX_SERVERS);
    p->servers[p->n_servers++] = *s;
}

// --- gRPC ---

static void drain_grpc(void *server)
{
    grpc_server_drain(server);
}

static bool is_grpc_idle(void *server)
{
    return grpc_server_idle(server);
}

// Hosts without IPv6 have only the addresses of IPv4.
static struct gs_error *listen_everywhere(struct grpc_server *server, uint16_t *port)
{
    struct gs_error *err = grpc_server_listen_tcp(server, "::", *port, port);
    if (!err || gs_error_code(err) == GS_EEXIST)
        return err;
    gs_error_free(err);
    return grpc_server_listen_tcp(server, "0.0.0.0", *port, port);
}

struct gs_error *program_listen_grpc(struct program *p, const char *flag, const char *address,
                                     struct grpc_server *server, char **ret_where)
{
    GS_AUTO_FREE char *host = NULL;
    uint16_t port = 0;
    struct gs_error *err = http_server_parse_address(flag, address, &host, &port);
    if (err)
        return err;
    err = *host ? grpc_server_listen_tcp(server, host, port, &port)
                : listen_everywhere(server, &port);
    if (err)
        return gs_error_wrap(err, "%s", flag);
    program_add_server(p, &(struct program_server){drain_grpc, is_grpc_idle, server});
    *ret_where = http_server_address_text(*host ? host : "::", port);
    return NULL;
}

// --- HTTP ---

static void drain_http(void *server)
{
    http_server_drain(server);
}

static bool is_http_idle(void *server)
{
    return http_server_idle(server);
}

static void log_listener(const struct program *p, const struct program_listener *l, bool tls,
                         const char *host, uint16_t port)
{
    GS_AUTO_FREE char *address = http_server_address_text(*host ? host : "0.0.0.0", port);
    gs_info(p->cfg.name, "%s%s://%s%s", l->prefix ? l->prefix : "", tls ? "https" : "http", address,
            l->path);
}

struct gs_error *program_listen(struct program *p, const struct program_listener *l,
                                struct http_server **ret)
{
    GS_AUTO_FREE char *host = NULL;
    struct http_server_config cfg = l->http ? *l->http : (struct http_server_config){0};
    struct http_routes *routes = &p->routes[p->n_listeners];
    struct http_server *server = NULL;
    if (l->optional && !*l->address)
        return NULL;
    if (p->n_servers == PROGRAM_MAX_SERVERS)
        return gs_error_new(GS_ELIMIT, "%s: more than %d addresses", l->flag, PROGRAM_MAX_SERVERS);
    struct gs_error *err = http_server_parse_address(l->flag, l->address, &host, &cfg.port);
    if (err)
        return err;
    cfg.address = host;
    *routes = (struct http_routes){.rows = l->rows, .ctx = l->ctx, .more = &p->health};
    err = http_server_start(&p->loop, &cfg, l->rows ? http_routes_handle : l->handler,
                            l->rows ? routes : l->ctx, &server);
    if (err)
        return gs_error_wrap(err, "%s", l->flag);
    p->listeners[p->n_listeners++] = server;
    program_add_server(p, &(struct program_server){drain_http, is_http_idle, server});
    if (l->path)
        log_listener(p, l, cfg.cert_pem && cfg.key_pem, host, http_server_port(server));
    if (ret)
        *ret = server;
    return NULL;
}

void program_close(struct program *p)
{
    while (p->n_listeners)
        http_server_stop(p->listeners[--p->n_listeners]);
    p->n_servers = 0;
}

// --- health ---

static void reply_health(struct program *p, struct http_exchange *x, bool readiness)
{
    GS_AUTO_BUF struct gs_buf details = {0};
    bool ok = !p->cfg.health || p->cfg.health(p->cfg.arg, readiness, &details);
    if (readiness && p->stopping) {
        ok = false;
        gs_buf_add_str(&details, "the program stops\n");
    }
    http_reply_text(x, ok ? 200 : 503, "%s%s", ok ? "ok\n" : "not ready\n",
                    details.len ? details.data : "");
}

static void handle_health(void *program, struct http_exchange *x)
{
    reply_health(program, x, false);
}

static void handle_readiness(void *program, struct http_exchange *x)
{
    reply_health(program, x, true);
}

const struct http_route program_health_rows[] = {
    {.path = "/healthz", .handle = handle_health},
    {.path = "/livez", .handle = handle_health, .unlisted = true},
    {.path = "/readyz", .handle = handle_readiness},
    {0},
};
