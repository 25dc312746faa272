// SPDX-License-Identifier: Apache-2.0
// A connection to a host engine: one request at a time, each with its own time limit. A peer that
// is silent, slow or wrong costs the connection, and nothing else.
#include "dcgm_source/wire_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "dcgm/code.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECT_NS INT64_C(500000000)
#define REPLY_NS   INT64_C(2000000000)
// A whole frame, and what may follow it.
enum { PIECE = 16384, IN_LIMIT = DCGM_WIRE_HEADER_SIZE + DCGM_WIRE_MAX_BODY + 2 * PIECE };

// Waits until the socket is ready. An error if it is not in time, or if the client has to return.
static struct gs_error *wait_ready(struct dcgm_source_wire *w, int fd, short events,
                                   int64_t deadline_ns)
{
    struct pollfd fds[] = {{fd, events, 0}, {dcgm_source_wake_fd(w->source), POLLIN, 0}};
    for (;;) {
        int64_t left = deadline_ns - gs_mono_ns();
        if (left <= 0)
            return gs_error_new(GS_ETIMEOUT, "the DCGM host engine does not answer");
        int n = poll(fds, 2, (int)(left / GS_NS_PER_MS) + 1);
        if (n < 0 && errno != EINTR)
            return gs_error_errno(errno, "waiting for the DCGM host engine");
        if (dcgm_source_must_return(w->source)) {
            w->returning = true;
            return gs_error_new(GS_EUNAVAIL, "the connection to the DCGM host engine is closed");
        }
        if (n > 0 && fds[0].revents)
            return NULL;
    }
}

// --- connecting ---

static struct gs_error *connect_address(struct dcgm_source_wire *w, const struct sockaddr *a,
                                        socklen_t len)
{
    int fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return gs_error_errno(errno, "creating a socket");
    struct gs_error *err = NULL;
    int rc = connect(fd, a, len) < 0 ? errno : 0;
    if (rc == EINPROGRESS) {
        socklen_t size = sizeof(rc);
        err = wait_ready(w, fd, POLLOUT, gs_mono_ns() + CONNECT_NS);
        if (!err)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &rc, &size);
    }
    if (!err && rc)
        err = gs_error_errno(rc, "connecting to the DCGM host engine");
    if (err) {
        close(fd);
        return err;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); // not for Unix sockets
    w->fd = fd;
    return NULL;
}

static struct gs_error *connect_unix(struct dcgm_source_wire *w, const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(a.sun_path))
        return gs_error_new(GS_EINVAL, "the path has more than %zu bytes", sizeof(a.sun_path) - 1);
    memcpy(a.sun_path, path, strlen(path));
    return connect_address(w, (const struct sockaddr *)&a, sizeof(a));
}

// Splits "HOST:PORT" and "[IPV6]:PORT".
static bool split_address(const char *text, char host[static 256], const char **ret_port)
{
    const char *colon = strrchr(text, ':');
    if (!colon || (size_t)(colon - text) >= 256)
        return false;
    bool bracketed = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
    snprintf(host, 256, "%.*s", (int)(colon - text) - 2 * bracketed, text + bracketed);
    *ret_port = colon + 1;
    return true;
}

static struct gs_error *connect_tcp(struct dcgm_source_wire *w, const char *address)
{
    char host[256];
    const char *port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
    if (!split_address(address, host, &port))
        return gs_error_new(GS_EINVAL, "want HOST:PORT");
    int rc = getaddrinfo(host, port, &hints, &list);
    if (rc)
        return gs_error_new(GS_EUNAVAIL, "looking up \"%s\": %s", host, gai_strerror(rc));
    struct gs_error *err = gs_error_new(GS_EUNAVAIL, "\"%s\" has no address", host);
    for (const struct addrinfo *a = list; a && err && !w->returning; a = a->ai_next) {
        gs_error_free(err);
        err = connect_address(w, a->ai_addr, a->ai_addrlen);
    }
    freeaddrinfo(list);
    return err;
}

// --- exchanges ---

static struct gs_error *send_all(struct dcgm_source_wire *w, int64_t deadline_ns)
{
    struct gs_slice rest = gs_buf_slice(&w->out);
    while (rest.len) {
        ssize_t n = send(w->fd, rest.data, rest.len, MSG_NOSIGNAL);
        if (n > 0)
            rest = gs_slice_make(rest.data + n, rest.len - (size_t)n);
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
            return gs_error_errno(errno, "sending to the DCGM host engine");
        struct gs_error *err = rest.len ? wait_ready(w, w->fd, POLLOUT, deadline_ns) : NULL;
        if (err)
            return err;
    }
    return NULL;
}

static struct gs_error *receive_some(struct dcgm_source_wire *w, int64_t deadline_ns)
{
    struct gs_error *err = wait_ready(w, w->fd, POLLIN, deadline_ns);
    if (err)
        return err;
    char *at = gs_buf_room(&w->in, PIECE);
    if (!at)
        return gs_error_new(GS_ELIMIT, "the DCGM host engine sends more than was requested");
    ssize_t n = recv(w->fd, at, PIECE, 0);
    if (n == 0)
        return gs_error_new(GS_EUNAVAIL, "the DCGM host engine closed the connection");
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return gs_error_errno(errno, "reading from the DCGM host engine");
    w->in.len += n > 0 ? (size_t)n : 0;
    at[n > 0 ? n : 0] = 0;
    return NULL;
}

// The frame that answers the request. Others are notices, which nobody requested. The body stays in
// w->in.
static struct gs_error *receive_reply(struct dcgm_source_wire *w, int64_t deadline_ns,
                                      struct dcgm_wire_frame *ret)
{
    for (;;) {
        bool complete = false;
        struct gs_slice stream = gs_buf_slice(&w->in);
        struct gs_error *err = dcgm_wire_cut(&stream, ret, &complete);
        if (!err && complete && ret->type == DCGM_WIRE_COMMAND && ret->request == w->request)
            return NULL;
        if (!err && complete)
            gs_buf_consume(&w->in, w->in.len - stream.len);
        else if (!err)
            err = receive_some(w, deadline_ns);
        if (err)
            return err;
    }
}

union dcgm_wire_message *dcgm_source_wire_message(struct dcgm_source_wire *w)
{
    memset(w->message, 0, sizeof(*w->message));
    return w->message;
}

struct gs_error *dcgm_source_wire_exchange(struct dcgm_source_wire *w, enum dcgm_wire_kind kind,
                                           int *ret_code, struct gs_slice *ret_values)
{
    int64_t deadline = gs_mono_ns() + REPLY_NS;
    struct dcgm_wire_frame reply;
    gs_buf_clear(&w->in); // the engine answers one request at a time
    gs_buf_clear(&w->out);
    dcgm_wire_add(&w->out, kind, ++w->request, DCGM_OK, w->message, (struct gs_slice){0});
    struct gs_error *err = send_all(w, deadline);
    err = err ? err : receive_reply(w, deadline, &reply);
    if (!err && reply.status != DCGM_OK) {
        *ret_code = reply.status;
        if (ret_values)
            *ret_values = (struct gs_slice){0};
        return NULL;
    }
    err = err ? err : dcgm_wire_take(reply.body, kind, w->message, ret_values);
    if (err)
        return gs_error_wrap(err, "%s", dcgm_wire_kind_name(kind));
    *ret_code = dcgm_wire_result(kind, w->message);
    return NULL;
}

void dcgm_source_wire_trim(struct dcgm_source_wire *w)
{
    gs_buf_finish(&w->in);
    gs_buf_finish(&w->out);
    w->in.limit = IN_LIMIT;
}

static struct gs_error *log_in(struct dcgm_source_wire *w, int *ret_code)
{
    dcgm_source_wire_message(w);
    struct gs_error *err = dcgm_source_wire_exchange(w, DCGM_WIRE_LOGIN, ret_code, NULL);
    if (!err && *ret_code == DCGM_VERSION_MISMATCH)
        return gs_error_new(GS_EINVAL, "the DCGM host engine speaks another version of the "
                                       "protocol; use --dcgm-library");
    if (!err && *ret_code)
        err = gs_error_new(GS_EUNAVAIL, "the DCGM host engine refused the login: %s",
                           dcgm_code_text(*ret_code));
    return err;
}

struct gs_error *dcgm_source_wire_open(struct dcgm_source *s, const struct dcgm_source_target *t,
                                       struct dcgm_source_wire *ret, int *ret_code)
{
    *ret = (struct dcgm_source_wire){.source = s, .fd = -1};
    ret->message = gs_alloc(sizeof(*ret->message));
    ret->in.limit = IN_LIMIT;
    struct gs_error *err =
        t->is_unix ? connect_unix(ret, t->address) : connect_tcp(ret, t->address);
    return err ? err : log_in(ret, ret_code);
}

void dcgm_source_wire_close(struct dcgm_source_wire *w)
{
    if (w->fd >= 0)
        close(w->fd);
    gs_buf_finish(&w->in);
    gs_buf_finish(&w->out);
    free(w->message);
    *w = (struct dcgm_source_wire){.fd = -1};
}
