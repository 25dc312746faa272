// SPDX-License-Identifier: Apache-2.0
// gRPC calls to one target. A connection is opened for the first call, and for the next call after
// it was lost or the peer has started to close it.
#include "net/grpc/grpc.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/timer.h"
#include "net/grpc/grpc_private.h"

#include <stdio.h>
#include <sys/queue.h>
#include <sys/un.h>

enum { DEFAULT_TIMEOUT_MS = 30000, MAX_MESSAGE_TEXT = 4096 };

struct grpc_pending;
struct client_conn;
TAILQ_HEAD(pending_list, grpc_pending);
LIST_HEAD(client_conns, client_conn);

struct grpc_client {
    uv_loop_t *loop;
    char *target;    // for messages
    char *unix_path; // NULL: TCP
    struct sockaddr_storage address;
    struct grpc_tls_credentials *tls; // NULL: cleartext
    size_t max_message;               // bytes
    struct client_conn *current;      // takes new calls; NULL: none
    struct client_conns conns;        // including connections that only finish their calls
    struct pending_list calls;
};

struct client_conn {
    struct grpc_conn base;
    LIST_ENTRY(client_conn) all;
    struct grpc_client *client; // NULL after the client is freed
    uv_connect_t connect;
};

struct grpc_pending {
    TAILQ_ENTRY(grpc_pending) all;
    struct grpc_client *client;
    struct client_conn *conn;
    int32_t stream_id; // 0: waits for the connection
    char *path;
    struct gs_buf request; // including its prefix
    size_t request_sent;
    unsigned timeout_ms;
    struct gs_timer *deadline;
    grpc_message_fn on_message; // NULL: unary
    grpc_reply_fn cb;
    void *arg;
    struct grpc_reader reader;
    struct gs_buf body; // of the unary reply
    bool has_body, has_status, failed, ended;
    int http_status;
    enum grpc_status status;
    struct gs_buf message;
};

// --- ends of calls ---

static void deadline_closed(void *arg)
{
    struct grpc_pending *p = arg;
    free(p->path);
    gs_buf_finish(&p->request);
    gs_buf_finish(&p->body);
    gs_buf_finish(&p->message);
    grpc_reader_finish(&p->reader);
    free(p);
}

// Removes the call from the client and its stream. The memory stays until the loop has closed the
// timer.
static void retire_pending(struct grpc_pending *p)
{
    p->ended = true;
    TAILQ_REMOVE(&p->client->calls, p, all);
    if (p->stream_id)
        nghttp2_session_set_stream_user_data(p->conn->base.session, p->stream_id, NULL);
    gs_timer_close(p->deadline, deadline_closed);
}

static void reset_stream(struct grpc_pending *p)
{
    if (!p->stream_id)
        return;
    nghttp2_submit_rst_stream(p->conn->base.session, NGHTTP2_FLAG_NONE, p->stream_id,
                              NGHTTP2_CANCEL);
    grpc_conn_flush_soon(&p->conn->base);
}

static void finish_pending(struct grpc_pending *p, enum grpc_status status, const char *message)
{
    struct grpc_reply reply = {.status = status, .message = message};
    if (status == GRPC_OK)
        reply.body = gs_buf_slice(&p->body);
    retire_pending(p);
    p->cb(p->arg, &reply);
}

// Stores the first problem of the reply and resets the stream.
static void fail_reply(struct grpc_pending *p, enum grpc_status status, const char *why)
{
    if (p->failed)
        return;
    p->failed = true;
    p->status = status;
    gs_buf_clear(&p->message);
    gs_buf_add_str(&p->message, why);
    reset_stream(p);
}

void grpc_pending_cancel(struct grpc_pending *p)
{
    if (!p || p->ended)
        return;
    reset_stream(p);
    retire_pending(p);
}

static void on_fail_timer(void *arg)
{
    struct grpc_pending *p = arg;
    GS_AUTO_FREE char *text = gs_strndup(p->message.data, p->message.len);
    finish_pending(p, p->status, text);
}

// Ends a call that has no stream.
static void fail_later(struct grpc_pending *p, enum grpc_status status, const char *why)
{
    p->status = status;
    gs_buf_add_str(&p->message, why);
    gs_timer_start(p->deadline, on_fail_timer, 0);
}

static void on_pending_deadline(void *arg)
{
    struct grpc_pending *p = arg;
    GS_AUTO_FREE char *text = gs_format("%s: no complete reply to %s within %u ms",
                                        p->client->target, p->path, p->timeout_ms);
    reset_stream(p);
    finish_pending(p, GRPC_DEADLINE_EXCEEDED, text);
}

// https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md
static enum grpc_status status_of_http(int http_status)
{
    switch (http_status) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

// "HTTP2 Transport Mapping: Errors" in the specification "gRPC over HTTP/2".
static enum grpc_status status_of_reset(uint32_t code)
{
    switch (code) {
    case NGHTTP2_REFUSED_STREAM:
        return GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return GRPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return GRPC_PERMISSION_DENIED;
    default:
        return GRPC_INTERNAL;
    }
}

static void stream_ended(struct grpc_pending *p, uint32_t code)
{
    GS_AUTO_FREE char *text = NULL;
    if (p->failed || (p->has_status && p->status != GRPC_OK)) {
        text = gs_strndup(p->message.data, p->message.len);
        finish_pending(p, p->status, text);
    } else if (p->has_status && p->reader.n_prefix) {
        finish_pending(p, GRPC_INTERNAL, "the reply ended inside a message");
    } else if (p->has_status && !p->on_message && !p->has_body) {
        finish_pending(p, GRPC_INTERNAL, "the reply has no message");
    } else if (p->has_status) {
        finish_pending(p, GRPC_OK, "");
    } else if (p->http_status && p->http_status != 200) {
        text = gs_format("%s answered with HTTP status %d", p->client->target, p->http_status);
        finish_pending(p, status_of_http(p->http_status), text);
    } else {
        text = gs_format("%s ended the stream without a status (HTTP/2 error %s)",
                         p->client->target, nghttp2_http2_strerror(code));
        finish_pending(p, status_of_reset(code), text);
    }
}

// --- nghttp2's callbacks ---

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    struct grpc_pending *p = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    struct gs_slice n = gs_slice_make(name, name_len), v = gs_slice_make(value, value_len);
    uint64_t number = 0;
    if (!p || p->failed)
        return 0;
    if (gs_slice_eq_str(n, ":status")) {
        gs_error_free(gs_parse_u64(v, 999, &number));
        p->http_status = (int)number;
    } else if (gs_slice_eq_str(n, "grpc-status")) {
        GS_AUTO_ERROR struct gs_error *err = gs_parse_u64(v, GRPC_UNAUTHENTICATED, &number);
        p->has_status = true;
        p->status = err ? GRPC_UNKNOWN : (enum grpc_status)number;
    } else if (gs_slice_eq_str(n, "grpc-message") && value_len <= MAX_MESSAGE_TEXT) {
        gs_buf_clear(&p->message);
        grpc_decode_message(v, &p->message);
    }
    return 0;
}

static void message_complete(struct grpc_pending *p)
{
    if (p->on_message) {
        struct gs_buf message = p->reader.body;
        p->reader.body = (struct gs_buf){0};
        grpc_reader_next(&p->reader);
        p->on_message(p->arg, gs_buf_slice(&message));
        gs_buf_finish(&message);
    } else if (p->has_body) {
        fail_reply(p, GRPC_INTERNAL, "more than one reply message to a unary call");
    } else {
        p->has_body = true;
        p->body = p->reader.body;
        p->reader.body = (struct gs_buf){0};
        grpc_reader_next(&p->reader);
    }
}

static int on_reply_data(nghttp2_session *session, uint8_t flags, int32_t stream_id,
                         const uint8_t *data, size_t len, void *arg)
{
    struct grpc_pending *p = nghttp2_session_get_stream_user_data(session, stream_id);
    struct gs_slice in = gs_slice_make(data, len);
    // The body of a response that is not gRPC has no message frames.
    while (p && !p->ended && !p->failed && p->http_status == 200 && in.len) {
        bool complete = false;
        enum grpc_status status =
            grpc_reader_feed(&p->reader, p->client->max_message, &in, &complete);
        if (status != GRPC_OK)
            fail_reply(p, status, p->reader.why);
        else if (complete)
            message_complete(p);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *arg)
{
    struct grpc_pending *p = nghttp2_session_get_stream_user_data(session, stream_id);
    if (p)
        stream_ended(p, code);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct client_conn *c = arg;
    if (frame->hd.type == NGHTTP2_GOAWAY && c->client && c->client->current == c)
        c->client->current = NULL;
    return 0;
}

static ssize_t read_request(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t max,
                            uint32_t *flags, nghttp2_data_source *source, void *user_data)
{
    struct grpc_pending *p = nghttp2_session_get_stream_user_data(session, stream_id);
    if (!p)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t n = grpc_take_queued(&p->request, &p->request_sent, out, max);
    if (p->request.len == p->request_sent)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int new_session(struct client_conn *c)
{
    nghttp2_session_callbacks *cb = NULL;
    int rc = nghttp2_session_callbacks_new(&cb);
    if (rc != 0)
        return rc;
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_reply_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    rc = nghttp2_session_client_new(&c->base.session, cb, c);
    nghttp2_session_callbacks_del(cb);
    return rc;
}

// --- connecting and submitting ---

static void submit_request(struct grpc_pending *p)
{
    struct grpc_client *client = p->client;
    char timeout[GRPC_TIMEOUT_SIZE] = "";
    nghttp2_nv nv[8] = {
        grpc_nv(":method", "POST"),
        grpc_nv(":scheme", client->tls ? "https" : "http"),
        grpc_nv(":path", p->path),
        grpc_nv(":authority", client->unix_path ? "localhost" : client->target),
        grpc_nv("te", "trailers"),
        grpc_nv("content-type", "application/grpc"),
        grpc_nv("user-agent", "gpuscale/" GPUSCALE_VERSION),
    };
    size_t n = 7;
    if (p->timeout_ms != UINT32_MAX) {
        grpc_format_timeout(p->timeout_ms, timeout);
        nv[n++] = grpc_nv("grpc-timeout", timeout);
    }
    const nghttp2_data_provider provider = {.read_callback = read_request};
    int32_t id = nghttp2_submit_request(p->conn->base.session, NULL, nv, n, &provider, p);
    if (id > 0) {
        p->stream_id = id;
        grpc_conn_flush_soon(&p->conn->base);
    } else { // stream ids are used up: the next call gets a new connection
        client->current = NULL;
        p->conn = NULL;
        fail_later(p, GRPC_UNAVAILABLE, nghttp2_strerror(id));
    }
}

static struct grpc_pending *first_call_of(struct client_conn *c, bool waiting)
{
    struct grpc_pending *p;
    TAILQ_FOREACH (p, &c->client->calls, all)
        if (p->conn == c && (!waiting || !p->stream_id))
            return p;
    return NULL;
}

static void conn_closed(struct grpc_conn *base)
{
    struct client_conn *c = GS_CONTAINER_OF(base, struct client_conn, base);
    struct grpc_pending *p;
    if (c->client && c->client->current == c)
        c->client->current = NULL;
    while (c->client && (p = first_call_of(c, false))) {
        GS_AUTO_FREE char *text = gs_format("%s: %s", c->client->target, base->reason);
        p->stream_id = 0; // closed with the session
        finish_pending(p, GRPC_UNAVAILABLE, text);
    }
    if (c->client)
        LIST_REMOVE(c, all);
    free(c);
}

static void start_calls(struct grpc_conn *base)
{
    struct client_conn *c = GS_CONTAINER_OF(base, struct client_conn, base);
    struct grpc_pending *p;
    if (new_session(c) != 0) {
        grpc_conn_close(base, "no memory for an HTTP/2 session");
        return;
    }
    grpc_conn_start(base);
    while ((p = first_call_of(c, true)))
        submit_request(p); // starts a stream, or removes the call from the connection
}

static void on_connected(uv_connect_t *req, int status)
{
    struct client_conn *c = req->data;
    char why[100];
    if (c->base.closing)
        return;
    if (status < 0) {
        snprintf(why, sizeof(why), "cannot connect: %s", uv_strerror(status));
        grpc_conn_close(&c->base, why);
        return;
    }
    if (!c->client->unix_path)
        uv_tcp_nodelay(&c->base.io.tcp, 1);
    if (c->client->tls && !grpc_tls_start(&c->base, c->client->tls))
        return;
    if (!c->client->tls)
        start_calls(&c->base);
    if (!c->base.closing)
        grpc_conn_start_reading(&c->base);
}

static struct client_conn *add_conn(struct grpc_client *client, bool detached)
{
    struct client_conn *c = gs_alloc(sizeof(*c));
    c->base.detached = detached;
    c->base.on_secured = start_calls;
    c->client = client;
    c->connect.data = c;
    LIST_INSERT_HEAD(&client->conns, c, all);
    client->current = c;
    return c;
}

static void connect_target(struct grpc_client *client)
{
    struct client_conn *c = add_conn(client, false);
    int rc = 0;
    if (client->unix_path)
        uv_pipe_init(client->loop, &c->base.io.pipe, 0);
    else
        uv_tcp_init(client->loop, &c->base.io.tcp);
    grpc_conn_init(&c->base, client->loop, conn_closed);
    if (client->unix_path)
        uv_pipe_connect(&c->connect, &c->base.io.pipe, client->unix_path, on_connected);
    else
        rc = uv_tcp_connect(&c->connect, &c->base.io.tcp, (const struct sockaddr *)&client->address,
                            on_connected);
    if (rc < 0)
        on_connected(&c->connect, rc);
}

struct grpc_conn *grpc_client_detached_conn(struct grpc_client *client)
{
    struct client_conn *c = add_conn(client, true);
    grpc_conn_init(&c->base, client->loop, conn_closed);
    if (new_session(c) == 0)
        grpc_conn_start(&c->base);
    return &c->base;
}

// --- the client ---

struct grpc_pending *grpc_client_call_stream(struct grpc_client *c, const char *path,
                                             struct gs_slice request, unsigned timeout_ms,
                                             grpc_message_fn on_message, grpc_reply_fn cb,
                                             void *arg)
{
    struct grpc_pending *p = gs_alloc(sizeof(*p));
    p->client = c;
    p->path = gs_strdup(path);
    p->timeout_ms = timeout_ms ? timeout_ms : DEFAULT_TIMEOUT_MS;
    p->on_message = on_message;
    p->cb = cb;
    p->arg = arg;
    p->deadline = gs_timer_new(c->loop, p);
    TAILQ_INSERT_TAIL(&c->calls, p, all);
    char why[GRPC_LIMIT_TEXT];
    if (request.len > c->max_message) {
        fail_later(p, GRPC_RESOURCE_EXHAUSTED, grpc_limit_text("request", c->max_message, why));
        return p;
    }
    grpc_add_message(&p->request, request);
    uv_update_time(c->loop); // the timeout starts now
    if (p->timeout_ms != UINT32_MAX)
        gs_timer_start(p->deadline, on_pending_deadline, p->timeout_ms);
    if (!c->current || c->current->base.closing)
        connect_target(c);
    p->conn = c->current;
    if (p->conn->base.connected)
        submit_request(p);
    return p;
}

struct grpc_pending *grpc_client_call(struct grpc_client *c, const char *path,
                                      struct gs_slice request, unsigned timeout_ms,
                                      grpc_reply_fn cb, void *arg)
{
    return grpc_client_call_stream(c, path, request, timeout_ms, NULL, cb, arg);
}

static struct gs_error *parse_tcp(const char *target, struct sockaddr_storage *ret)
{
    const char *colon = strrchr(target, ':');
    uint64_t port = 0;
    struct gs_error *err = NULL;
    if (colon)
        err = gs_parse_u64(gs_slice_of(colon + 1), 65535, &port);
    size_t len = colon ? (size_t)(colon - target) : 0;
    bool bracketed = len > 2 && target[0] == '[' && target[len - 1] == ']';
    GS_AUTO_FREE char *host = bracketed ? gs_strndup(target + 1, len - 2) : gs_strndup(target, len);
    if (!err && port &&
        (uv_ip4_addr(host, (int)port, (struct sockaddr_in *)(void *)ret) == 0 ||
         (bracketed && uv_ip6_addr(host, (int)port, (struct sockaddr_in6 *)(void *)ret) == 0)))
        return NULL;
    gs_error_free(err);
    return gs_error_new(GS_EINVAL,
                        "gRPC target \"%s\": expected unix:/path/to.sock, 127.0.0.1:50051 or "
                        "[::1]:50051",
                        target);
}

struct gs_error *grpc_client_new(uv_loop_t *loop, const char *target, struct grpc_client **ret)
{
    const char *path = NULL;
    struct sockaddr_storage address = {0};
    if (gs_starts(target, "unix:")) {
        path = target + strlen("unix:");
        if (gs_starts(path, "//"))
            path += 2;
        if (!*path || strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
            return gs_error_new(GS_EINVAL,
                                "gRPC target \"%s\": the socket path must have 1 to %zu "
                                "bytes",
                                target, sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
    } else {
        struct gs_error *err = parse_tcp(target, &address);
        if (err)
            return err;
    }
    struct grpc_client *c = gs_alloc(sizeof(*c));
    c->loop = loop;
    c->target = gs_strdup(target);
    c->unix_path = gs_strdup(path);
    c->address = address;
    c->max_message = GRPC_MAX_MESSAGE;
    TAILQ_INIT(&c->calls);
    *ret = c;
    return NULL;
}

struct gs_error *grpc_client_set_tls(struct grpc_client *c, const struct grpc_tls *tls)
{
    struct grpc_tls_credentials *new = NULL;
    struct gs_error *err = grpc_tls_credentials_new(tls, false, &new);
    if (err)
        return gs_error_wrap(err, "the gRPC client");
    grpc_tls_credentials_unref(c->tls);
    c->tls = new;
    return NULL;
}

void grpc_client_set_max_message(struct grpc_client *c, size_t bytes)
{
    c->max_message = bytes;
}

void grpc_client_free(struct grpc_client *c)
{
    if (!c)
        return;
    struct grpc_pending *p;
    while ((p = TAILQ_FIRST(&c->calls)))
        retire_pending(p);
    struct client_conn *conn;
    while ((conn = LIST_FIRST(&c->conns))) {
        LIST_REMOVE(conn, all);
        conn->client = NULL;
        grpc_conn_close(&conn->base, "the client is freed");
    }
    grpc_tls_credentials_unref(c->tls);
    free(c->target);
    free(c->unix_path);
    free(c);
}
