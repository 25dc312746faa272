// SPDX-License-Identifier: Apache-2.0
// The server's daemon, its listening socket and its handles on the event loop.
#include "net/http/server.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "net/http/server_private.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    DEFAULT_MAX_BODY = 3 * 1024 * 1024,
    DEFAULT_MAX_UNSENT = 256 * 1024 * 1024,
    // MHD's memory of a connection has both heads. If they do not fit, MHD ends the connection
    // without a reply.
    DEFAULT_HEAD_MEMORY = 32 * 1024,
    REPLY_HEAD_MEMORY = 12 * 1024,
    DEFAULT_CONNECTIONS = 512,
    DEFAULT_IDLE_S = 90,
    DEFAULT_HEAD_S = 10,
    DEFAULT_BODY_S = 60,
    STOP_GRACE_MS = 1000,
    BACKLOG = 512,
};

// Authenticated encryption and forward secrecy only: no CBC, CCM or static RSA suites.
#define TLS_PRIORITIES                                                                             \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:"       \
    "+CHACHA20-POLY1305"

// --- the event loop's side ---

static void run_daemon(struct http_server *s);

static void server_handle_closed(uv_handle_t *h)
{
    struct http_server *s = h->data;
    if (--s->open_handles > 0)
        return;
    if (s->hangup_fd >= 0)
        close(s->hangup_fd);
    http_server_certificates_finish(s);
    gs_arena_finish(&s->arena);
    free(s);
}

static void close_all(struct http_server *s)
{
    s->closed = true;
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
    uv_close((uv_handle_t *)&s->io, server_handle_closed);
    uv_close((uv_handle_t *)&s->hangup, server_handle_closed);
    uv_close((uv_handle_t *)&s->timer, server_handle_closed);
    uv_close((uv_handle_t *)&s->sweep, server_handle_closed);
    uv_close((uv_handle_t *)&s->grace, server_handle_closed);
    uv_close((uv_handle_t *)&s->again, server_handle_closed);
}

static void on_server_timer(uv_timer_t *t)
{
    run_daemon(t->data);
}

static void on_again(uv_idle_t *h)
{
    run_daemon(h->data);
}

void http_server_run_soon(struct http_server *s)
{
    if (!s->closed)
        uv_idle_start(&s->again, on_again);
}

static void on_io(uv_poll_t *p, int status, int events)
{
    run_daemon(p->data);
}

static void on_grace(uv_timer_t *t)
{
    close_all(t->data);
}

static void run_daemon(struct http_server *s)
{
    s->connection_closed = false;
    uv_idle_stop(&s->again); // before the run, because handlers may request another run
    s->running++;
    MHD_run(s->daemon);
    http_server_connections_check(s);
    s->running--;
    if (s->stopping && TAILQ_EMPTY(&s->requests)) {
        close_all(s);
        return;
    }
    MHD_UNSIGNED_LONG_LONG ms = 0;
    bool timed = MHD_get_timeout(s->daemon, &ms) == MHD_YES;
    // At its limit, and if file descriptors have run out, MHD stops accepting until a connection is
    // closed. Only its next run accepts the waiting connections.
    if (s->connection_closed) {
        timed = true;
        ms = 0;
    }
    // A timer of 0 ms would run again in the same loop turn, before any other event.
    if (timed && ms == 0)
        uv_idle_start(&s->again, on_again);
    if (timed && ms > 0)
        uv_timer_start(&s->timer, on_server_timer, ms, 0);
    else
        uv_timer_stop(&s->timer);
}

static void on_hangup(uv_poll_t *p, int status, int poll_events)
{
    struct http_server *s = p->data;
    struct epoll_event event;
    // One at a time, because a callback of a handler may end other requests.
    while (!s->closed && epoll_wait(s->hangup_fd, &event, 1, 0) == 1)
        http_server_connection_ended(event.data.ptr);
}

// --- the listening socket ---

char *http_server_address_text(const char *host, uint16_t port)
{
    bool six = strchr(host, ':') != NULL;
    return gs_format("%s%s%s:%u", six ? "[" : "", host, six ? "]" : "", port);
}

static struct gs_error *listen_error(int errno_value, const char *address, uint16_t port)
{
    GS_AUTO_FREE char *text = http_server_address_text(address, port);
    if (errno_value == EADDRINUSE)
        return gs_error_new(GS_EEXIST,
                            "%s: address already in use (stop the program that uses it, or choose "
                            "another port)",
                            text);
    return gs_error_errno(errno_value, "listening on %s", text);
}

static struct gs_error *open_socket(const struct sockaddr_storage *sa, const char *address,
                                    uint16_t port, int *ret_fd)
{
    socklen_t len =
        sa->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return listen_error(errno, address, port);
    int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (sa->ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, (const struct sockaddr *)sa, len) < 0 || listen(fd, BACKLOG) < 0) {
        struct gs_error *err = listen_error(errno, address, port);
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return NULL;
}

static struct gs_error *open_any(uint16_t port, int *ret_fd)
{
    struct sockaddr_storage sa = {0};
    uv_ip6_addr("::", port, (struct sockaddr_in6 *)(void *)&sa);
    struct gs_error *err = open_socket(&sa, "::", port, ret_fd);
    if (!err || gs_error_code(err) == GS_EEXIST)
        return err;
    gs_error_free(err); // a machine without IPv6
    sa = (struct sockaddr_storage){0};
    uv_ip4_addr("0.0.0.0", port, (struct sockaddr_in *)(void *)&sa);
    return open_socket(&sa, "0.0.0.0", port, ret_fd);
}

static struct gs_error *open_listener(const char *address, uint16_t port, int *ret_fd)
{
    struct sockaddr_storage sa = {0};
    if (!address || !*address)
        return open_any(port, ret_fd);
    if (uv_ip4_addr(address, port, (struct sockaddr_in *)(void *)&sa) != 0 &&
        uv_ip6_addr(address, port, (struct sockaddr_in6 *)(void *)&sa) != 0)
        return gs_error_new(GS_EINVAL,
                            "\"%s\" is not a listen address; use a numeric one such as "
                            "127.0.0.1 or ::",
                            address);
    return open_socket(&sa, address, port, ret_fd);
}

// A socket of the parent process.
static struct gs_error *take_listener(int fd, int *ret_fd)
{
    int listens = 0;
    socklen_t len = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0)
        return gs_error_errno(errno, "file descriptor %d", fd);
    if (!listens)
        return gs_error_new(GS_EINVAL, "file descriptor %d is a socket that does not listen", fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    *ret_fd = fd;
    return NULL;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof(sa);
    getsockname(fd, (struct sockaddr *)&sa, &len);
    if (sa.ss_family == AF_UNIX)
        return 0;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    memcpy(&v4, &sa, sizeof(v4));
    memcpy(&v6, &sa, sizeof(v6));
    return ntohs(sa.ss_family == AF_INET6 ? v6.sin6_port : v4.sin_port);
}

// --- start and stop ---

// A quarter of the files that the process may open, so that other servers and clients have some.
static unsigned within_file_limit(unsigned connections)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
        return connections;
    rlim_t quarter = files.rlim_cur / 4;
    rlim_t most =
        quarter > 2 * HTTP_SERVER_SURPLUS ? quarter - HTTP_SERVER_SURPLUS : HTTP_SERVER_SURPLUS;
    return connections < most ? connections : (unsigned)most;
}

static void copy_server_config(struct http_server *s, const struct http_server_config *cfg)
{
    size_t n = 0;
    while (cfg->public_paths && cfg->public_paths[n])
        n++;
    s->public_paths = gs_arena_alloc(&s->arena, (n + 1) * sizeof(*s->public_paths));
    for (size_t i = 0; i < n; i++)
        s->public_paths[i] = gs_arena_strdup(&s->arena, cfg->public_paths[i]);
    s->bearer_token = gs_arena_strdup(&s->arena, cfg->bearer_token);
    s->check_token = cfg->check_token;
    s->check_token_arg = cfg->check_token_arg;
    s->client_ca_pem = gs_arena_strdup(&s->arena, cfg->client_ca_pem);
    s->tls = cfg->cert_pem && cfg->key_pem;
    s->request_client_cert = cfg->request_client_cert;
    s->require_identity = cfg->require_identity;
    s->max_body = cfg->max_body ? cfg->max_body : DEFAULT_MAX_BODY;
    s->max_unsent = cfg->max_unsent ? cfg->max_unsent : DEFAULT_MAX_UNSENT;
    s->head_memory = cfg->head_memory ? cfg->head_memory : DEFAULT_HEAD_MEMORY;
    s->max_head = s->head_memory - REPLY_HEAD_MEMORY;
    s->idle_timeout_s = cfg->idle_timeout_s ? cfg->idle_timeout_s : DEFAULT_IDLE_S;
    s->head_timeout_s = cfg->head_timeout_s ? cfg->head_timeout_s : DEFAULT_HEAD_S;
    s->body_timeout_s = cfg->body_timeout_s ? cfg->body_timeout_s : DEFAULT_BODY_S;
    s->max_connections =
        within_file_limit(cfg->max_connections ? cfg->max_connections : DEFAULT_CONNECTIONS);
}

// The request target is decoded by the exchange, which needs it as it was sent.
static size_t leave_escapes(void *cls, struct MHD_Connection *connection, char *text)
{
    return strlen(text);
}

static GS_PRINTF(2, 0) void log_daemon(void *cls, const char *fmt, va_list ap)
{
    if (gs_log_level() > GS_LOG_DEBUG)
        return;
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    size_t len = strlen(text);
    if (len && text[len - 1] == '\n')
        text[len - 1] = '\0';
    gs_debug("http", "%s", text);
}

static struct gs_error *start_daemon(struct http_server *s, int fd)
{
    struct MHD_OptionItem options[16];
    size_t n = 0;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    // The logger is the first option, so that it reports errors of the later options.
    options[n++] = (struct MHD_OptionItem){MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)log_daemon, NULL};
    options[n++] = (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, fd, NULL};
    options[n++] = (struct MHD_OptionItem){MHD_OPTION_CONNECTION_LIMIT,
                                           s->max_connections + HTTP_SERVER_SURPLUS, NULL};
#if MHD_VERSION >= 0x00097701
    // Older versions close the connection without a reply; http_server_head_fault() replies for
    // them.
    options[n++] = (struct MHD_OptionItem){MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL};
#endif
    options[n++] = (struct MHD_OptionItem){MHD_OPTION_CONNECTION_TIMEOUT, s->idle_timeout_s, NULL};
    options[n++] =
        (struct MHD_OptionItem){MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)s->head_memory, NULL};
    options[n++] = (struct MHD_OptionItem){MHD_OPTION_NOTIFY_COMPLETED,
                                           (intptr_t)http_server_request_completed, s};
    options[n++] = (struct MHD_OptionItem){MHD_OPTION_NOTIFY_CONNECTION,
                                           (intptr_t)http_server_connection_event, s};
    options[n++] =
        (struct MHD_OptionItem){MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)http_server_request_open, s};
    options[n++] =
        (struct MHD_OptionItem){MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escapes, NULL};
    if (s->tls) {
        flags |= MHD_USE_TLS;
        void *priorities = (void *)(uintptr_t)TLS_PRIORITIES;
        // The options for a single certificate are not used: with them the callback is never
        // called.
        options[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, priorities};
        options[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0,
                                               (void *)(uintptr_t)http_server_pick_certificate};
        if (s->client_ca_pem)
            options[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0,
                                                   (void *)(uintptr_t)s->client_ca_pem};
    }
    options[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    s->daemon = MHD_start_daemon(flags, 0, NULL, NULL, http_server_request_access, s,
                                 MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    if (s->daemon)
        return NULL;
    close(fd);
    return gs_error_new(GS_EINVAL, "the HTTP server did not start on port %u%s", s->port,
                        s->tls ? ": check that certificate, key and client CA are valid PEM and "
                                 "that the key is the certificate's"
                               : "");
}

static void start_handles(struct http_server *s)
{
    int fd = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    uv_poll_init(s->loop, &s->io, fd);
    uv_poll_init(s->loop, &s->hangup, s->hangup_fd);
    uv_timer_init(s->loop, &s->timer);
    uv_timer_init(s->loop, &s->sweep);
    uv_timer_init(s->loop, &s->grace);
    uv_idle_init(s->loop, &s->again);
    s->io.data = s->hangup.data = s->timer.data = s->sweep.data = s->grace.data = s->again.data = s;
    s->open_handles = 6;
    uv_poll_start(&s->io, UV_READABLE, on_io);
    uv_poll_start(&s->hangup, UV_READABLE, on_hangup);
}

struct gs_error *http_server_parse_address(const char *flag, const char *text, char **ret_host,
                                           uint16_t *ret_port)
{
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;
    struct gs_error *err = colon ? gs_parse_u64(gs_slice_of(colon + 1), 65535, &port) : NULL;
    struct gs_slice host = gs_slice_make(text, colon ? (size_t)(colon - text) : 0);
    bool bracketed = host.len > 1 && host.data[0] == '[' && host.data[host.len - 1] == ']';
    if (!colon || err || (!bracketed && host.len && memchr(host.data, ':', host.len))) {
        gs_error_free(err);
        return gs_error_new(GS_EINVAL,
                            "%s \"%s\": want HOST:PORT, :PORT or [IPV6]:PORT, port 0 to 65535",
                            flag, text);
    }
    if (bracketed)
        host = gs_slice_make(host.data + 1, host.len - 2);
    *ret_host = gs_slice_eq_str(host, "localhost") ? gs_strdup("127.0.0.1") : gs_slice_dup(host);
    *ret_port = (uint16_t)port;
    return NULL;
}

struct gs_error *http_server_start(uv_loop_t *loop, const struct http_server_config *cfg,
                                   http_handler handler, void *ctx, struct http_server **ret)
{
    int fd = -1;
    struct gs_error *err = cfg->listen_fd ? take_listener(cfg->listen_fd, &fd)
                                          : open_listener(cfg->address, cfg->port, &fd);
    if (err)
        return err;
    struct http_server *s = gs_alloc(sizeof(*s));
    s->loop = loop;
    s->handler = handler;
    s->ctx = ctx;
    s->port = port_of(fd);
    TAILQ_INIT(&s->requests);
    http_server_connections_init(s);
    copy_server_config(s, cfg);
    s->hangup_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->hangup_fd < 0) {
        err = gs_error_errno(errno, "epoll for port %u", s->port);
        close(fd);
    } else {
        err = s->tls ? http_server_set_certificate(s, cfg->cert_pem, cfg->key_pem) : NULL;
        if (err)
            close(fd);
        else
            err = start_daemon(s, fd);
    }
    if (err) {
        if (s->hangup_fd >= 0)
            close(s->hangup_fd);
        http_server_certificates_finish(s);
        gs_arena_finish(&s->arena);
        free(s);
        return err;
    }
    start_handles(s);
    *ret = s;
    return NULL;
}

uint16_t http_server_port(const struct http_server *s)
{
    return s->port;
}

static void abandon_all(struct http_server *s)
{
    struct http_server_request *r, *next;
    // The list does not change meanwhile: MHD removes from it only while it runs.
    for (r = TAILQ_FIRST(&s->requests); r; r = next) {
        next = TAILQ_NEXT(r, all);
        http_server_request_abandon(r);
    }
}

void http_server_drain(struct http_server *s)
{
    if (!s || s->draining)
        return;
    s->draining = true;
    int fd = MHD_quiesce_daemon(s->daemon);
    if (fd >= 0)
        close(fd);
}

bool http_server_idle(const struct http_server *s)
{
    const struct http_server_request *r;
    TAILQ_FOREACH (r, &s->requests, all)
        if (r->on->state != HTTP_CONNECTION_STREAM && r->on->state != HTTP_CONNECTION_UPGRADED)
            return false;
    return true;
}

void http_server_stop(struct http_server *s)
{
    if (!s || s->stopping)
        return;
    http_server_drain(s);
    s->stopping = true;
    abandon_all(s);
    if (TAILQ_EMPTY(&s->requests) && !s->running) {
        close_all(s);
        return;
    }
    uv_timer_start(&s->grace, on_grace, STOP_GRACE_MS, 0);
    uv_idle_start(&s->again, on_again);
}
