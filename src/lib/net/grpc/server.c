// SPDX-License-Identifier: Apache-2.0
// The server's sockets and connections.
#include "net/grpc/grpc.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/grpc/grpc_private.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 128, CLOSING = 64 }; // the second: until closed connections are freed
enum { ALIVE_S = 60 };                        // between probes of a silent connection

struct grpc_server_listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } io;
    LIST_ENTRY(grpc_server_listener) all;
    struct grpc_server *server;
    char *path; // of the socket file; NULL for TCP
    dev_t dev;  // identity of the file: another server may have replaced it
    ino_t ino;
};

struct grpc_server *grpc_server_new(uv_loop_t *loop)
{
    struct grpc_server *s = gs_alloc(sizeof(*s));
    s->loop = loop;
    s->methods = gs_hmap_new(free);
    s->max_message = GRPC_MAX_MESSAGE;
    s->refs = 1;
    return s;
}

struct gs_error *grpc_server_set_tls(struct grpc_server *s, const struct grpc_tls *tls)
{
    struct grpc_tls_credentials *new = NULL;
    struct gs_error *err = grpc_tls_credentials_new(tls, true, &new);
    if (err)
        return gs_error_wrap(err, "the gRPC server");
    grpc_tls_credentials_unref(s->tls);
    s->tls = new;
    return NULL;
}

void grpc_server_set_max_message(struct grpc_server *s, size_t bytes)
{
    s->max_message = bytes;
}

void grpc_server_set_max_streams(struct grpc_server *s, uint32_t streams)
{
    s->max_streams = streams;
}

void grpc_server_handle(struct grpc_server *s, const char *path, grpc_method_fn fn, void *ctx)
{
    struct grpc_method *m = gs_alloc(sizeof(*m));
    *m = (struct grpc_method){fn, ctx};
    gs_hmap_put_str(s->methods, path, m);
}

static void server_unref(struct grpc_server *s)
{
    if (--s->refs > 0)
        return;
    gs_hmap_free(s->methods);
    grpc_tls_credentials_unref(s->tls);
    free(s);
}

// --- connections ---

static void conn_closed(struct grpc_conn *base)
{
    struct grpc_server_conn *c = GS_CONTAINER_OF(base, struct grpc_server_conn, base);
    grpc_server_calls_end(c);
    // Otherwise nobody learns why a client is refused.
    if (gs_starts(base->reason, "TLS: "))
        gs_warn("grpc", "connection refused: %s: %s", c->peer, base->reason);
    if (c->server) {
        LIST_REMOVE(c, all);
        c->server->n_conns--;
        server_unref(c->server);
    }
    free(c);
}

static void start_session(struct grpc_conn *base)
{
    struct grpc_server_conn *c = GS_CONTAINER_OF(base, struct grpc_server_conn, base);
    GS_AUTO_ERROR struct gs_error *err = grpc_server_session_new(c);
    if (err)
        grpc_conn_close(&c->base, gs_error_message(err));
    else
        grpc_conn_start(&c->base);
}

static struct grpc_server_conn *add_conn(struct grpc_server *s, bool detached)
{
    struct grpc_server_conn *c = gs_alloc(sizeof(*c));
    c->base.detached = detached;
    c->base.on_secured = start_session;
    c->base.max_message = s->max_message;
    c->base.max_streams = s->max_streams;
    c->server = s;
    LIST_INSERT_HEAD(&s->conns, c, all);
    s->n_conns++;
    s->refs++;
    return c;
}

struct grpc_server_conn *grpc_server_detached_conn(struct grpc_server *s)
{
    struct grpc_server_conn *c = add_conn(s, true);
    grpc_conn_init(&c->base, s->loop, conn_closed);
    start_session(&c->base);
    return c;
}

// Returns the oldest connection without a call.
static void evict_idle_connection(struct grpc_server *s)
{
    struct grpc_server_conn *c, *victim = NULL;
    if (s->n_conns < MAX_CONNECTIONS)
        return;
    LIST_FOREACH (c, &s->conns, all)
        if (!c->base.closing && LIST_EMPTY(&c->calls))
            victim = c; // the newest is the first
    if (victim)
        grpc_conn_close(&victim->base, "closed for a new connection");
}

static void name_peer(struct grpc_server_conn *c)
{
    struct sockaddr_storage sa = {0};
    char host[INET6_ADDRSTRLEN] = "";
    int len = sizeof(sa);
    if (uv_tcp_getpeername(&c->base.io.tcp, (struct sockaddr *)&sa, &len) == 0)
        uv_ip_name((const struct sockaddr *)&sa, host, sizeof(host));
    snprintf(c->peer, sizeof(c->peer), "%s", host);
}

static void start_conn(struct grpc_server_conn *c, bool tcp)
{
    if (tcp) {
        uv_tcp_nodelay(&c->base.io.tcp, 1);
        uv_tcp_keepalive(&c->base.io.tcp, 1, ALIVE_S); // a node that is gone ends nothing
        name_peer(c);
    }
    if (c->server->tls)
        grpc_tls_start(&c->base, c->server->tls);
    else
        start_session(&c->base);
    if (!c->base.closing)
        grpc_conn_start_reading(&c->base);
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct grpc_server_listener *l = stream->data;
    struct grpc_server *s = l->server;
    if (status < 0)
        return;
    evict_idle_connection(s);
    struct grpc_server_conn *c = add_conn(s, false);
    if (l->path)
        uv_pipe_init(s->loop, &c->base.io.pipe, 0);
    else
        uv_tcp_init(s->loop, &c->base.io.tcp);
    grpc_conn_init(&c->base, s->loop, conn_closed);
    int rc = uv_accept(stream, &c->base.io.stream);
    if (rc < 0)
        grpc_conn_close(&c->base, uv_strerror(rc));
    else if (s->n_conns > MAX_CONNECTIONS + CLOSING)
        grpc_conn_close(&c->base, "too many connections");
    else
        start_conn(c, l->path == NULL);
}

// --- listening ---

static void listener_closed(uv_handle_t *h)
{
    struct grpc_server_listener *l = h->data;
    server_unref(l->server);
    free(l->path);
    free(l);
}

static void close_listener(struct grpc_server_listener *l)
{
    struct stat st;
    LIST_REMOVE(l, all);
    if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
        unlink(l->path);
    uv_close(&l->io.handle, listener_closed);
}

static struct grpc_server_listener *add_listener(struct grpc_server *s, const char *path)
{
    struct grpc_server_listener *l = gs_alloc(sizeof(*l));
    l->server = s;
    l->path = gs_strdup(path);
    if (path)
        uv_pipe_init(s->loop, &l->io.pipe, 0);
    else
        uv_tcp_init(s->loop, &l->io.tcp);
    l->io.handle.data = l;
    LIST_INSERT_HEAD(&s->listeners, l, all);
    s->refs++;
    return l;
}

// Removes the file of a server that has ended.
static struct gs_error *clear_stale_socket(const struct sockaddr_un *sa)
{
    struct stat st;
    if (lstat(sa->sun_path, &st) < 0)
        return NULL; // bind reports errors
    if (!S_ISSOCK(st.st_mode))
        return gs_error_new(
            GS_EEXIST,
            "%s: the path is a file that is not a socket; remove it or choose another path",
            sa->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return gs_error_errno(errno, "%s: checking for a running server", sa->sun_path);
    int rc = connect(fd, (const struct sockaddr *)sa, sizeof(*sa));
    int error = errno;
    close(fd);
    if (rc == 0 || error != ECONNREFUSED)
        return gs_error_new(GS_EEXIST,
                            "%s: a running server uses this socket; stop it or choose another path",
                            sa->sun_path);
    if (unlink(sa->sun_path) < 0)
        return gs_error_errno(errno, "%s: removing the left-over socket", sa->sun_path);
    return NULL;
}

static struct gs_error *bind_unix(const struct sockaddr_un *sa, int *ret_fd)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return gs_error_errno(errno, "%s: socket", sa->sun_path);
    // Clients cannot connect before listen(), so the mode applies from the start.
    if (bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0 || chmod(sa->sun_path, 0600) < 0) {
        struct gs_error *err = gs_error_errno(errno, "%s: listening on the socket", sa->sun_path);
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return NULL;
}

struct gs_error *grpc_server_listen_unix(struct grpc_server *s, const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(sa.sun_path))
        return gs_error_new(GS_EINVAL, "%s: a socket path has at most %zu bytes, not %zu", path,
                            sizeof(sa.sun_path) - 1, strlen(path));
    memcpy(sa.sun_path, path, strlen(path));
    int fd = -1;
    struct gs_error *err = clear_stale_socket(&sa);
    if (!err)
        err = bind_unix(&sa, &fd);
    if (err)
        return err;
    struct grpc_server_listener *l = add_listener(s, path);
    struct stat st = {0};
    lstat(path, &st);
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    int rc = uv_pipe_open(&l->io.pipe, fd);
    if (rc < 0)
        close(fd);
    else
        rc = uv_listen(&l->io.stream, GRPC_BACKLOG, on_connection);
    if (rc == 0)
        return NULL;
    close_listener(l);
    return gs_error_new(GS_EIO, "%s: listening: %s", path, uv_strerror(rc));
}

static uint16_t port_of(const uv_tcp_t *tcp)
{
    struct sockaddr_storage sa = {0};
    int len = sizeof(sa);
    uv_tcp_getsockname(tcp, (struct sockaddr *)&sa, &len);
    return ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&sa)->sin6_port
                                          : ((struct sockaddr_in *)(void *)&sa)->sin_port);
}

struct gs_error *grpc_server_listen_tcp(struct grpc_server *s, const char *address, uint16_t port,
                                        uint16_t *ret_port)
{
    struct sockaddr_storage sa = {0};
    if (uv_ip4_addr(address, port, (struct sockaddr_in *)(void *)&sa) != 0 &&
        uv_ip6_addr(address, port, (struct sockaddr_in6 *)(void *)&sa) != 0)
        return gs_error_new(GS_EINVAL,
                            "\"%s\" is not a listen address; use a numeric one such as "
                            "127.0.0.1",
                            address);
    struct grpc_server_listener *l = add_listener(s, NULL);
    int rc = uv_tcp_bind(&l->io.tcp, (const struct sockaddr *)&sa, 0);
    if (rc == 0)
        rc = uv_listen(&l->io.stream, GRPC_BACKLOG, on_connection);
    if (rc == 0) {
        if (ret_port)
            *ret_port = port_of(&l->io.tcp);
        return NULL;
    }
    close_listener(l);
    if (rc == UV_EADDRINUSE)
        return gs_error_new(
            GS_EEXIST,
            "%s:%u: address already in use (stop the program that uses it, or choose another port)",
            address, port);
    return gs_error_new(GS_EIO, "%s:%u: listening: %s", address, port, uv_strerror(rc));
}

void grpc_server_drain(struct grpc_server *s)
{
    struct grpc_server_listener *l;
    while ((l = LIST_FIRST(&s->listeners)))
        close_listener(l);
}

void grpc_server_goaway(struct grpc_server *s)
{
    struct grpc_server_conn *c;
    LIST_FOREACH (c, &s->conns, all) {
        nghttp2_session *session = c->base.session;
        if (c->base.closing || !session)
            continue;
        nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(session), NGHTTP2_NO_ERROR,
                              NULL, 0);
        grpc_conn_flush_soon(&c->base);
    }
}

bool grpc_server_idle(const struct grpc_server *s)
{
    const struct grpc_server_conn *c;
    LIST_FOREACH (c, &s->conns, all)
        if (!LIST_EMPTY(&c->calls))
            return false;
    return true;
}

void grpc_server_free(struct grpc_server *s)
{
    if (!s)
        return;
    grpc_server_drain(s);
    struct grpc_server_conn *c;
    while ((c = LIST_FIRST(&s->conns))) {
        LIST_REMOVE(c, all);
        c->server = NULL;
        s->refs--;
        grpc_conn_close(&c->base, "the server stops");
        grpc_server_calls_end(c);
    }
    server_unref(s);
}
