// SPDX-License-Identifier: Apache-2.0
// Carries exchanges over libmicrohttpd. A connection is suspended while its handler or stream has
// nothing to send, and resumed when it has.
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "net/http/server_private.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

enum {
    STREAM_BLOCK = 16 * 1024,
    MAX_REPLY_HEADERS = 8 * 1024,
    N_BODIES = 16, // of the largest size, at the same time
};

static struct http_server_request *request_of(struct http_exchange *x)
{
    return GS_CONTAINER_OF(x, struct http_server_request, x);
}

// --- suspending and resuming ---

static void suspend_connection(struct http_server_request *r)
{
    MHD_suspend_connection(r->connection);
    r->suspended = true;
    if (r->on->peer_closed)
        http_server_connection_ended(r->on);
}

static void resume_connection(struct http_server_request *r)
{
    if (!r->suspended)
        return;
    r->suspended = false;
    MHD_resume_connection(r->connection);
    http_server_run_soon(r->server);
}

// --- what the handler does ---

static void add_reply_headers(struct http_server_request *r, struct MHD_Response *response)
{
    size_t left = MAX_REPLY_HEADERS;
    for (size_t i = 0; i < r->x.reply_headers.len; i++) {
        const struct http_pair *h = &r->x.reply_headers.items[i];
        size_t len = strlen(h->name) + strlen(h->value) + sizeof(": \r\n");
        if (len > left) {
            gs_warn("http", "the header %s of a reply is left out: all are larger than %d bytes",
                    h->name, MAX_REPLY_HEADERS);
            continue;
        }
        left -= len;
        MHD_add_response_header(response, h->name, h->value);
    }
}

static void prepare_response(struct http_server_request *r, struct MHD_Response *response,
                             int status, const char *content_type)
{
    if (content_type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    add_reply_headers(r, response);
    // libmicrohttpd reads chunks less strictly than proxies may: what follows is no request.
    bool chunked = http_header(&r->x, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;
    if (r->server->stopping || r->server->draining || chunked)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    r->response = response;
    r->status = status;
}

static void drop_bytes(void *bytes)
{
    http_bytes_unref(bytes);
}

// Of a HEAD request.
static ssize_t read_no_body(void *arg, uint64_t pos, char *out, size_t max)
{
    return MHD_CONTENT_READER_END_OF_STREAM;
}

// Counts the reply until the peer has taken it. A body that several peers get is counted once or
// twice, since it is in memory once. False: there is no room for it.
static bool count_unsent(struct http_server_request *r, size_t len)
{
    struct http_server *s = r->server;
    if (r->x.shared && http_bytes_refs(r->x.shared) > 2) // more than this one and a cache
        return true;
    if (s->unsent && (s->unsent > s->max_unsent || len > s->max_unsent - s->unsent))
        return false;
    r->unsent = len;
    s->unsent += len;
    return true;
}

static void carrier_reply(struct http_exchange *x, int status, const char *content_type,
                          struct gs_slice body)
{
    static const char full[] =
        "the server has too many replies that clients have not read yet; try again\n";
    struct http_server_request *r = request_of(x);
    if (body.len > sizeof(full) && !count_unsent(r, body.len)) {
        status = MHD_HTTP_SERVICE_UNAVAILABLE;
        content_type = "text/plain; charset=utf-8";
        body = GS_SLICE(full);
        x->shared = NULL;
        x->reply_headers.len = 0; // such as Content-Encoding
        http_add_header(x, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    }
    void *data = body.len ? (void *)(uintptr_t)body.data : (void *)(uintptr_t) "";
    struct MHD_Response *response;
    if (x->is_head && x->has_body_length)
        response = MHD_create_response_from_callback(x->body_length < 0 ? MHD_SIZE_UNKNOWN
                                                                        : (uint64_t)x->body_length,
                                                     STREAM_BLOCK, read_no_body, NULL, NULL);
    else if (x->shared && body.len)
        response = MHD_create_response_from_buffer_with_free_callback_cls(
            body.len, data, drop_bytes, http_bytes_ref(x->shared));
    else
        response = MHD_create_response_from_buffer(body.len, data, MHD_RESPMEM_MUST_COPY);
    prepare_response(r, response, status, content_type);
    resume_connection(r);
}

// Counts the bytes that wait in its stream now.
static void count_queued(struct http_server_request *r, size_t pending)
{
    r->server->queued += pending - r->queued;
    r->queued = pending;
}

// Many slow readers together must not fill the memory: the one with the most bytes is cut.
static void cut_slowest(const struct http_server *s)
{
    struct http_server_request *r, *slowest = NULL;
    TAILQ_FOREACH (r, &s->requests, all)
        if (!slowest || r->queued > slowest->queued)
            slowest = r;
    assert(slowest); // bytes wait for a request
    gs_warn("http",
            "closing %s %.200s of %s, which does not read: the replies of all such clients exceed "
            "%u MiB",
            slowest->x.method, slowest->x.path, slowest->x.peer, HTTP_STREAMS_LIMIT >> 20);
    http_stream_cut(&slowest->x.stream);
}

static ssize_t read_stream(void *arg, uint64_t pos, char *out, size_t max)
{
    struct http_server_request *r = arg;
    struct http_stream *s = &r->x.stream;
    if (s->cut || r->x.gone)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    struct gs_slice front = http_stream_front(s);
    if (front.len == 0) {
        if (s->ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        suspend_connection(r);
        return 0;
    }
    size_t n = front.len < max ? front.len : max;
    memcpy(out, front.data, n);
    http_stream_consume(s, n);
    count_queued(r, http_stream_pending(s));
    return (ssize_t)n;
}

static void carrier_stream_begin(struct http_exchange *x, int status, const char *content_type)
{
    struct http_server_request *r = request_of(x);
    prepare_response(
        r, MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, r, NULL),
        status, content_type);
    resume_connection(r);
}

static void carrier_stream_changed(struct http_exchange *x)
{
    struct http_server_request *r = request_of(x);
    // MHD may be waiting for a slow peer: shutting down the socket ends this.
    if (x->stream.cut)
        shutdown(r->fd, SHUT_RDWR);
    resume_connection(r);
    count_queued(r, http_stream_pending(&x->stream));
    if (r->server->queued > HTTP_STREAMS_LIMIT)
        cut_slowest(r->server); // calls this function for another request, below the limit
}

static void carrier_stream_limit_stall(struct http_exchange *x, unsigned ms)
{
    (void)setsockopt(request_of(x)->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

static struct http_upgrade *carrier_upgrade(struct http_exchange *x, const char *protocol,
                                            const struct http_upgrade_callbacks *cb, void *arg)
{
    struct http_server_request *r = request_of(x);
    return http_server_upgrade(r, protocol, cb, arg);
}

static void carrier_release(struct http_exchange *x)
{
    free(request_of(x));
}

static const struct http_carrier_ops carrier_ops = {
    .reply = carrier_reply,
    .stream_begin = carrier_stream_begin,
    .stream_changed = carrier_stream_changed,
    .stream_limit_stall = carrier_stream_limit_stall,
    .upgrade = carrier_upgrade,
    .release = carrier_release,
};

// --- what MHD does ---

// The parameters have been read. libmicrohttpd would make an entry for each in the memory of the
// connection, which is then too small for long lists of match[]. The text is in that memory.
static void forget_parameters(const char *uri)
{
    const char *query = strchr(uri, '?');
    if (query && query[1])
        ((char *)(uintptr_t)query)[1] = '\0';
}

void *http_server_request_open(void *server, const char *uri, struct MHD_Connection *connection)
{
    struct http_server *s = server;
    struct http_server_request *r = gs_alloc(sizeof(*r));
    r->server = s;
    r->connection = connection;
    r->on = http_server_connection_of(connection);
    r->on->request = r;
    r->fd = r->on->fd;
    if (r->on->state == HTTP_CONNECTION_IDLE)
        http_server_connection_enter(r->on, HTTP_CONNECTION_HEAD);
    http_exchange_init(&r->x, s->loop, &carrier_ops);
    r->target_len = strlen(uri);
    r->bad_target = http_exchange_set_target(&r->x, gs_slice_of(uri));
    forget_parameters(uri);
    TAILQ_INSERT_TAIL(&s->requests, r, all);
    return r;
}

static enum MHD_Result queue_response(struct http_server_request *r)
{
    struct MHD_Response *response = GS_TAKE(r->response);
    http_server_connection_enter(r->on,
                                 r->x.stream.open ? HTTP_CONNECTION_STREAM : HTTP_CONNECTION_REPLY);
    enum MHD_Result result = MHD_queue_response(r->connection, (unsigned)r->status, response);
    MHD_destroy_response(response);
    return result;
}

// A reply of the server itself; the handler is not called.
static enum MHD_Result refuse_request(struct http_server_request *r, int status,
                                      const char *content_type, const char *text)
{
    r->handed_over = r->x.answered = true;
    carrier_reply(&r->x, status, content_type, gs_slice_of(text));
    return queue_response(r);
}

static enum MHD_Result refuse_large_body(struct http_server_request *r)
{
    GS_AUTO_FREE char *text =
        gs_format("the request body is larger than the limit of %zu bytes\n", r->server->max_body);
    return refuse_request(r, MHD_HTTP_CONTENT_TOO_LARGE, "text/plain; charset=utf-8", text);
}

static enum MHD_Result refuse_for_room(struct http_server_request *r)
{
    http_add_header(&r->x, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    return refuse_request(r, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain; charset=utf-8",
                          "the server reads too many large requests; try again\n");
}

static enum MHD_Result refuse_stopping(struct http_server_request *r)
{
    return refuse_request(r, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain; charset=utf-8",
                          "the server is stopping\n");
}

static enum MHD_Result add_mhd_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    http_exchange_add_request_header(arg, name, value);
    return MHD_YES;
}

static enum MHD_Result refuse_surplus(struct http_server_request *r)
{
    GS_AUTO_FREE char *text = gs_format("all %u connections of the server are in use; try again\n",
                                        r->server->max_connections);
    http_add_header(&r->x, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    http_add_header(&r->x, MHD_HTTP_HEADER_CONNECTION, "close");
    return refuse_request(r, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", text);
}

static enum MHD_Result refuse_head(struct http_server_request *r, int status, const char *fault)
{
    http_add_header(&r->x, MHD_HTTP_HEADER_CONNECTION, "close");
    return refuse_request(r, status, "text/plain; charset=utf-8", fault);
}

static enum MHD_Result refuse_large_head(struct http_server_request *r)
{
    GS_AUTO_FREE char *text =
        gs_format("the head of the request is larger than %zu KiB\n", r->server->max_head / 1024);
    return refuse_head(r, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, text);
}

// Called after the headers have arrived, before a body is read.
static enum MHD_Result begin_request(struct http_server_request *r, const char *method,
                                     const char *version)
{
    static const char unauthorized[] =
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
        "\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n";
    int status = 0;
    r->begun = true;
    http_server_connection_enter(r->on, HTTP_CONNECTION_BODY);
    if (r->bad_target)
        return refuse_request(r, MHD_HTTP_BAD_REQUEST, "text/plain; charset=utf-8",
                              gs_error_message(r->bad_target));
    http_exchange_set_method(&r->x, method);
    http_exchange_set_peer(&r->x, r->on->peer);
    MHD_get_connection_values(r->connection, MHD_HEADER_KIND, add_mhd_header, &r->x);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (info && info->header_size > r->server->max_head)
        return refuse_large_head(r);
    const char *fault = http_server_head_fault(&r->x, version, &status);
    if (!fault && (fault = http_server_raw_head_fault(r, method, version)))
        status = MHD_HTTP_BAD_REQUEST;
    if (fault)
        return refuse_head(r, status, fault);
    if (r->server->stopping)
        return refuse_stopping(r);
    if (!http_server_connection_admits(r->on, r->x.path))
        return refuse_surplus(r);
    if (!http_server_authenticate(r)) {
        http_add_header(&r->x, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
        return refuse_request(r, MHD_HTTP_UNAUTHORIZED, "application/json", unauthorized);
    }
    const char *length = http_header(&r->x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t n = 0;
    GS_AUTO_ERROR struct gs_error *err =
        length ? gs_parse_u64(gs_slice_of(length), UINT64_MAX, &n) : NULL;
    if (err || n > r->server->max_body)
        return refuse_large_body(r);
    return MHD_YES;
}

static void release_body(struct http_server_request *r)
{
    gs_buf_finish(&r->x.body);
    r->server->bodies -= r->counted;
    r->counted = 0;
}

// A body that is refused is read to its end, so that the peer receives the reply. If it does not
// end, the connection is closed.
static enum MHD_Result take_body(struct http_server_request *r, const char *data, size_t len)
{
    struct http_server *s = r->server;
    r->too_large = r->too_large || len > s->max_body - r->x.body.len;
    r->no_room = r->no_room || len > N_BODIES * s->max_body - s->bodies;
    if (!r->too_large && !r->no_room) {
        gs_buf_add(&r->x.body, data, len);
        r->counted += len;
        s->bodies += len;
        return MHD_YES;
    }
    release_body(r);
    r->discarded += len;
    return r->discarded <= 4 * s->max_body ? MHD_YES : MHD_NO;
}

enum MHD_Result http_server_request_access(void *server, struct MHD_Connection *connection,
                                           const char *url, const char *method, const char *version,
                                           const char *upload, size_t *upload_size, void **request)
{
    struct http_server_request *r = *request;
    if (!r->begun)
        return begin_request(r, method, version);
    if (*upload_size) {
        size_t n = *upload_size;
        *upload_size = 0;
        return take_body(r, upload, n);
    }
    if (!r->handed_over) {
        if (r->too_large)
            return refuse_large_body(r);
        if (r->no_room)
            return refuse_for_room(r);
        if (r->server->stopping)
            return refuse_stopping(r);
        r->handed_over = true;
        http_server_connection_enter(r->on, HTTP_CONNECTION_HANDLER);
        http_exchange_run(&r->x, r->server->handler, r->server->ctx);
    }
    if (r->response)
        return queue_response(r);
    if (r->x.gone || r->over)
        return MHD_NO;
    suspend_connection(r);
    return MHD_YES;
}

void http_server_request_completed(void *server, struct MHD_Connection *connection, void **request,
                                   enum MHD_RequestTerminationCode code)
{
    struct http_server_request *r = *request;
    if (!r)
        return;
    *request = NULL;
    TAILQ_REMOVE(&r->server->requests, r, all);
    r->server->bodies -= r->counted;
    r->counted = 0;
    count_queued(r, 0);
    r->server->unsent -= r->unsent;
    r->unsent = 0;
    r->suspended = false;
    r->connection = NULL;
    r->on->request = NULL;
    if (r->upgrade)
        http_server_upgrade_forget(r->upgrade);
    http_server_connection_enter(r->on, HTTP_CONNECTION_IDLE);
    if (r->response)
        MHD_destroy_response(r->response);
    gs_error_free(r->bad_target);
    http_exchange_gone(&r->x);
    http_exchange_unref(&r->x);
}

void http_server_request_over(struct http_server_request *r)
{
    r->over = true;
    resume_connection(r);
}

void http_server_request_abandon(struct http_server_request *r)
{
    bool streaming = r->x.stream.open;
    if (r->upgrade) {
        http_server_upgrade_cut(r->upgrade);
        return;
    }
    bool unanswered = r->handed_over && !r->x.answered;
    r->x.refs++; // the callbacks may call the server
    http_exchange_gone(&r->x);
    if (streaming)
        shutdown(r->fd, SHUT_RDWR);
    else if (unanswered && r->server->stopping)
        carrier_reply(&r->x, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain; charset=utf-8",
                      GS_SLICE("the server is stopping\n"));
    resume_connection(r);
    http_exchange_unref(&r->x);
}
