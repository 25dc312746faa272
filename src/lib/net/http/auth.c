// SPDX-License-Identifier: Apache-2.0
// Authenticates the peer by a verified client certificate (CN and O, as in Kubernetes), else by a
// bearer token. Other peers are anonymous.
#include "base/log.h"
#include "base/mem.h"
#include "net/http/server_private.h"
#include "net/tls/tls.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <strings.h>

enum { MAX_DN_PART = 256, MAX_GROUPS = 32, MAX_CHAIN = 16, KEEPALIVE_IDLE_S = 30 };

static void name_peer(const struct sockaddr *sa, char *out, size_t size)
{
    char ip[INET6_ADDRSTRLEN] = "";
    if (sa->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;
        uv_ip6_name(in6, ip, sizeof(ip));
        snprintf(out, size, "[%s]:%u", ip, ntohs(in6->sin6_port));
    } else if (sa->sa_family != AF_INET) {
        snprintf(out, size, "a Unix socket");
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;
        uv_ip4_name(in, ip, sizeof(ip));
        snprintf(out, size, "%s:%u", ip, ntohs(in->sin_port));
    }
}

// The kernel detects a peer that disappeared: a stream may send no data for hours.
static void enable_keepalive(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    int on = 1, idle = KEEPALIVE_IDLE_S;
    if (!info)
        return;
    setsockopt(info->connect_fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(info->connect_fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
}

// Stores the server in the session, to select the certificate.
static void prepare_tls(struct http_server *s, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        s->tls ? MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION) : NULL;
    if (!info || !info->tls_session)
        return;
    gnutls_session_set_ptr(info->tls_session, s);
    if (s->request_client_cert)
        gnutls_certificate_server_set_request(info->tls_session, GNUTLS_CERT_REQUEST);
}

void http_server_connection_event(void *server, struct MHD_Connection *connection, void **context,
                                  enum MHD_ConnectionNotificationCode event)
{
    struct http_server_connection *c = *context;
    if (event == MHD_CONNECTION_NOTIFY_CLOSED)
        ((struct http_server *)server)->connection_closed = true;
    if (event == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = c = gs_alloc(sizeof(*c));
        c->server = server;
        c->mhd = connection;
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        if (info && info->client_addr)
            name_peer(info->client_addr, c->peer, sizeof(c->peer));
        enable_keepalive(connection);
        prepare_tls(server, connection);
        http_server_connection_opened(c);
    } else if (c) {
        http_server_connection_closed(c);
        gs_arena_finish(&c->arena);
        free(c);
        *context = NULL;
    }
}

struct http_server_connection *http_server_connection_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

// NULL at the end of the list; "" for a part that cannot be a name (too long, NUL inside).
static const char *dn_part(struct gs_arena *arena, gnutls_x509_crt_t crt, const char *oid,
                           unsigned i)
{
    char text[MAX_DN_PART];
    size_t size = sizeof(text);
    int rc = gnutls_x509_crt_get_dn_by_oid(crt, oid, i, 0, text, &size);
    if (rc == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
        return NULL;
    if (rc < 0 || memchr(text, '\0', size))
        return "";
    return gs_arena_strndup(arena, text, size);
}

static void read_subject(struct http_server_connection *c, gnutls_x509_crt_t crt)
{
    const char *user = dn_part(&c->arena, crt, GNUTLS_OID_X520_COMMON_NAME, 0);
    if (!user || !*user)
        return;
    const char **groups = gs_arena_alloc(&c->arena, MAX_GROUPS * sizeof(*groups));
    size_t n = 0;
    const char *group;
    for (unsigned i = 0; i < MAX_GROUPS; i++) {
        group = dn_part(&c->arena, crt, GNUTLS_OID_X520_ORGANIZATION_NAME, i);
        if (!group)
            break;
        if (*group)
            groups[n++] = group;
    }
    c->identity = (struct http_identity){user, groups, n};
}

static void read_certificate(struct http_server *s, struct MHD_Connection *connection,
                             struct http_server_connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    gnutls_session_t session = info ? info->tls_session : NULL;
    unsigned n = 0, status = 0;
    const gnutls_datum_t *chain = session ? gnutls_certificate_get_peers(session, &n) : NULL;
    if (!chain || n == 0)
        return;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    int rc = gnutls_certificate_verify_peers(session, &purpose, 1, &status);
    if (rc < 0 || status != 0) {
        gs_debug("http", "%s: client certificate refused (%s, status 0x%x)", c->peer,
                 rc < 0 ? gnutls_strerror(rc) : "not verified", status);
        return;
    }
    gnutls_x509_crt_t crt;
    if (gnutls_x509_crt_init(&crt) < 0)
        return;
    if (gnutls_x509_crt_import(crt, &chain[0], GNUTLS_X509_FMT_DER) >= 0)
        read_subject(c, crt);
    gnutls_x509_crt_deinit(crt);
}

// Returns the certificates as the peer sent them, for a handler that verifies them.
static void keep_chain(struct MHD_Connection *connection, struct http_server_connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    gnutls_session_t session = info ? info->tls_session : NULL;
    unsigned n = 0;
    const gnutls_datum_t *chain = session ? gnutls_certificate_get_peers(session, &n) : NULL;
    if (!chain || n == 0 || n > MAX_CHAIN)
        return;
    c->chain = gs_arena_alloc(&c->arena, n * sizeof(*c->chain));
    for (unsigned i = 0; i < n; i++)
        c->chain[i] = gs_slice_make(
            gs_arena_strndup(&c->arena, (const char *)chain[i].data, chain[i].size), chain[i].size);
    c->n_chain = n;
}

static const char *bearer_token_of(const struct http_server_request *r)
{
    static const char scheme[] = "Bearer ";
    const char *value = http_header(&r->x, "Authorization");
    return value && strncasecmp(value, scheme, strlen(scheme)) == 0 ? value + strlen(scheme) : NULL;
}

static void read_bearer_token(struct http_server_request *r)
{
    static const char *const admin_groups[] = {"system:masters"};
    static const struct http_identity admin = {"admin", admin_groups, 1};
    const struct http_server *s = r->server;
    const char *token = bearer_token_of(r);
    struct http_identity found = {0};
    if (token && s->bearer_token && tls_secret_equal(token, s->bearer_token))
        http_exchange_set_identity(&r->x, &admin);
    else if (token && s->check_token && s->check_token(s->check_token_arg, token, &found))
        http_exchange_set_identity(&r->x, &found);
}

bool http_server_authenticate(struct http_server_request *r)
{
    struct http_server *s = r->server;
    struct http_server_connection *c = r->on;
    if (s->tls && s->client_ca_pem && !c->authenticated) {
        c->authenticated = true;
        read_certificate(s, r->connection, c);
    }
    if (s->tls && s->request_client_cert && !c->authenticated) {
        c->authenticated = true;
        keep_chain(r->connection, c);
    }
    r->x.peer_chain = c->chain;
    r->x.n_peer_chain = c->n_chain;
    if (c->identity.user)
        http_exchange_set_identity(&r->x, &c->identity);
    else
        read_bearer_token(r);
    if (r->x.identity.user || !s->require_identity)
        return true;
    for (const char **p = s->public_paths; *p; p++)
        if (strcmp(*p, r->x.path) == 0)
            return true;
    return false;
}
