// SPDX-License-Identifier: Apache-2.0
// The server's calls. A call lives until its HTTP/2 stream is closed and its handler has finished.
#include "base/assert.h"
#include "base/mem.h"
#include "base/timer.h"
#include "net/grpc/grpc_private.h"

#include <stdio.h>

enum { CONN_BUFFERED = 64 * 1024 * 1024, SERVER_BUFFERED = 512 * 1024 * 1024 };
enum { MAX_FIELD = 1024 };                  // bytes that are kept of a header
enum { LEAST_RESETS = 1000, RESET_S = 30 }; // cancelled calls of a connection at once

struct grpc_call {
    LIST_ENTRY(grpc_call) all;
    struct grpc_server_conn *conn; // NULL: the stream is closed
    int32_t stream_id;
    char *method, *path, *content_type, *timeout;
    struct grpc_reader reader;
    size_t counted; // bytes of the reader in conn->buffered
    bool requested; // a complete request message has arrived
    bool refused;   // answered before the request was complete
    bool handling;  // the handler was called
    bool headers_sent, finished;
    struct gs_buf out;
    size_t out_sent;
    enum grpc_status status;
    char *message;
    void (*on_cancel)(void *arg);
    void *cancel_arg;
    struct gs_timer *deadline;
    bool has_deadline;
};

// --- life ---

static void free_call(struct grpc_call *call)
{
    char *strings[] = {call->method, call->path, call->content_type, call->timeout, call->message};
    for (size_t i = 0; i < GS_ARRAY_LEN(strings); i++)
        free(strings[i]);
    grpc_reader_finish(&call->reader);
    gs_buf_finish(&call->out);
    free(call);
}

static void deadline_closed(void *arg)
{
    free_call(arg);
}

static void free_when_unused(struct grpc_call *call)
{
    if (call->conn || call->handling)
        return;
    if (call->has_deadline)
        gs_timer_close(call->deadline, deadline_closed);
    else
        free_call(call);
}

// A handler without on_cancel keeps the call. Its response is discarded.
static void cancel_handler(struct grpc_call *call)
{
    if (!call->handling || !call->on_cancel)
        return;
    call->handling = false;
    call->on_cancel(call->cancel_arg);
}

static void uncount_request_bytes(struct grpc_call *call)
{
    // A call in a connection's list has the connection; the analyzer takes it for the one detached.
    gs_assert(call->conn->buffered >= call->counted); // NOLINT(clang-analyzer-core.NullDereference)
    call->conn->buffered -= call->counted;            // NOLINT(clang-analyzer-core.NullDereference)
    if (call->conn->server)
        call->conn->server->buffered -= call->counted;
    call->counted = 0;
}

static void detach_call(struct grpc_call *call)
{
    uncount_request_bytes(call);
    LIST_REMOVE(call, all);
    call->conn = NULL;
    if (call->has_deadline)
        gs_timer_stop(call->deadline);
    cancel_handler(call);
    free_when_unused(call);
}

void grpc_server_calls_end(struct grpc_server_conn *c)
{
    struct grpc_call *call;
    while ((call = LIST_FIRST(&c->calls))) {
        if (c->base.session)
            nghttp2_session_set_stream_user_data(c->base.session, call->stream_id, NULL);
        detach_call(call);
    }
}

// --- answers ---

static size_t status_headers(struct grpc_call *call, nghttp2_nv *nv, char code[8],
                             struct gs_buf *message)
{
    snprintf(code, 8, "%u", (unsigned)call->status);
    grpc_encode_message(call->message, message);
    nv[0] = grpc_nv("grpc-status", code);
    if (!message->len)
        return 1;
    nv[1] = grpc_nv("grpc-message", message->data);
    return 2;
}

static ssize_t read_messages(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t max,
                             uint32_t *flags, nghttp2_data_source *source, void *user_data)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    if (!call)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t n = grpc_take_queued(&call->out, &call->out_sent, out, max);
    if (call->out.len == call->out_sent && call->finished) {
        GS_AUTO_BUF struct gs_buf message = {0};
        nghttp2_nv nv[2];
        char code[8];
        size_t n_nv = status_headers(call, nv, code, &message);
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session, stream_id, nv, n_nv);
        return (ssize_t)n;
    }
    return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

static void submit_response(struct grpc_call *call)
{
    nghttp2_session *session = call->conn->base.session;
    if (call->headers_sent) {
        nghttp2_session_resume_data(session, call->stream_id);
    } else if (call->finished && call->out.len == 0) { // an error: trailers only
        GS_AUTO_BUF struct gs_buf message = {0};
        nghttp2_nv nv[4] = {grpc_nv(":status", "200"), grpc_nv("content-type", "application/grpc")};
        char code[8];
        size_t n = status_headers(call, nv + 2, code, &message);
        nghttp2_submit_response(session, call->stream_id, nv, 2 + n, NULL);
    } else {
        const nghttp2_nv nv[] = {grpc_nv(":status", "200"),
                                 grpc_nv("content-type", "application/grpc")};
        const nghttp2_data_provider provider = {.read_callback = read_messages};
        nghttp2_submit_response(session, call->stream_id, nv, GS_ARRAY_LEN(nv), &provider);
    }
    call->headers_sent = true;
    grpc_conn_flush_soon(&call->conn->base);
}

static void set_status(struct grpc_call *call, enum grpc_status status, const char *message)
{
    call->finished = true;
    call->status = status;
    call->message = gs_strdup(message ? message : "");
    if (call->has_deadline)
        gs_timer_stop(call->deadline);
    submit_response(call);
}

void grpc_call_send(struct grpc_call *call, struct gs_slice message)
{
    if (!call->conn || call->finished)
        return;
    size_t max = call->conn->base.max_message;
    char why[GRPC_LIMIT_TEXT];
    if (message.len > max) {
        set_status(call, GRPC_RESOURCE_EXHAUSTED, grpc_limit_text("reply message", max, why));
    } else if (call->out.len - call->out_sent + message.len > 2 * max) {
        gs_buf_clear(&call->out);
        call->out_sent = 0;
        nghttp2_submit_rst_stream(call->conn->base.session, NGHTTP2_FLAG_NONE, call->stream_id,
                                  NGHTTP2_ENHANCE_YOUR_CALM);
        grpc_conn_flush_soon(&call->conn->base);
    } else {
        grpc_add_message(&call->out, message);
        submit_response(call);
    }
}

void grpc_call_finish(struct grpc_call *call, enum grpc_status status, const char *message)
{
    call->handling = false;
    if (call->conn && !call->finished)
        set_status(call, status, message);
    else
        free_when_unused(call);
}

void grpc_call_on_cancel(struct grpc_call *call, void (*cb)(void *arg), void *arg)
{
    call->on_cancel = cb;
    call->cancel_arg = arg;
}

static void refuse_call(struct grpc_call *call, enum grpc_status status, const char *message)
{
    call->refused = true;
    uncount_request_bytes(call);
    grpc_reader_finish(&call->reader);
    set_status(call, status, message);
}

static void refuse_http(struct grpc_call *call, const char *http_status)
{
    const nghttp2_nv nv[] = {grpc_nv(":status", http_status)};
    call->refused = call->finished = call->headers_sent = true;
    nghttp2_submit_response(call->conn->base.session, call->stream_id, nv, GS_ARRAY_LEN(nv), NULL);
}

static void on_call_deadline(void *arg)
{
    struct grpc_call *call = arg;
    if (call->finished)
        return;
    call->refused = true;
    set_status(call, GRPC_DEADLINE_EXCEEDED, "deadline exceeded");
    cancel_handler(call);
}

// --- requests ---

static void start_deadline(struct grpc_call *call)
{
    uint64_t ms;
    if (!grpc_parse_timeout(gs_slice_of(call->timeout), &ms)) {
        refuse_call(call, GRPC_INTERNAL, "malformed grpc-timeout header");
        return;
    }
    call->has_deadline = true;
    call->deadline = gs_timer_new(call->conn->base.loop, call);
    gs_timer_start(call->deadline, on_call_deadline, ms);
}

static void check_headers(struct grpc_call *call)
{
    if (!gs_streq(call->method, "POST")) {
        refuse_http(call, "405");
    } else if (!call->content_type || !gs_starts(call->content_type, "application/grpc")) {
        refuse_http(call, "415");
    } else if (!call->path || !gs_hmap_get_str(call->conn->server->methods, call->path)) {
        GS_AUTO_FREE char *text =
            gs_format("unknown method %.200s", call->path ? call->path : "(no path)");
        refuse_call(call, GRPC_UNIMPLEMENTED, text);
    } else if (call->timeout) {
        start_deadline(call);
    }
}

static void count_request_bytes(struct grpc_call *call)
{
    size_t more = call->reader.body.len - call->counted;
    call->counted += more;
    call->conn->buffered += more;
    if (call->conn->server)
        call->conn->server->buffered += more;
}

static void take_data(struct grpc_call *call, struct gs_slice bytes)
{
    struct grpc_server_conn *c = call->conn;
    bool complete = false;
    size_t max = c->base.max_message;
    char why[sizeof(call->reader.why)];
    if (call->requested && bytes.len) {
        refuse_call(call, GRPC_INTERNAL, "more than one request message");
        return;
    }
    enum grpc_status status = grpc_reader_feed(&call->reader, max, &bytes, &complete);
    memcpy(why, call->reader.why, sizeof(why));
    count_request_bytes(call);
    if (status == GRPC_OK && c->buffered > (max > CONN_BUFFERED ? max : CONN_BUFFERED)) {
        status = GRPC_RESOURCE_EXHAUSTED;
        snprintf(why, sizeof(why), "too many request bytes are under way on this connection");
    } else if (status == GRPC_OK && c->server && c->server->buffered > SERVER_BUFFERED) {
        status = GRPC_RESOURCE_EXHAUSTED;
        snprintf(why, sizeof(why), "too many request bytes are under way on this server");
    } else if (status == GRPC_OK && complete && bytes.len) {
        status = GRPC_INTERNAL;
        snprintf(why, sizeof(why), "more than one request message");
    }
    call->requested = complete;
    if (status != GRPC_OK)
        refuse_call(call, status, why);
}

static void run_method(struct grpc_call *call)
{
    struct grpc_method *m = gs_hmap_get_str(call->conn->server->methods, call->path);
    if (!call->requested) {
        refuse_call(call, GRPC_INTERNAL, "the request ended before its message was complete");
        return;
    }
    // The handler may close the connection and the server; the message lives until this function
    // returns.
    struct gs_buf request = call->reader.body;
    call->reader.body = (struct gs_buf){0};
    uncount_request_bytes(call);
    call->handling = true;
    m->fn(m->ctx, call, gs_buf_slice(&request));
    gs_buf_finish(&request);
}

// --- nghttp2's callbacks ---

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_server_conn *c = arg;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST ||
        !c->server)
        return 0;
    struct grpc_call *call = gs_alloc(sizeof(*call));
    call->conn = c;
    call->stream_id = frame->hd.stream_id;
    LIST_INSERT_HEAD(&c->calls, call, all);
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    struct gs_slice n = gs_slice_make(name, name_len);
    if (!call || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    char **field = gs_slice_eq_str(n, ":method")        ? &call->method
                   : gs_slice_eq_str(n, ":path")        ? &call->path
                   : gs_slice_eq_str(n, "content-type") ? &call->content_type
                   : gs_slice_eq_str(n, "grpc-timeout") ? &call->timeout
                                                        : NULL;
    if (field && !*field)
        *field = gs_strndup((const char *)value, value_len < MAX_FIELD ? value_len : MAX_FIELD);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    bool is_request =
        frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    if (!call || (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS))
        return 0;
    if (is_request)
        check_headers(call);
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && !call->refused && !call->handling &&
        !call->finished)
        run_method(call);
    return 0;
}

static int on_request_data(nghttp2_session *session, uint8_t flags, int32_t stream_id,
                           const uint8_t *data, size_t len, void *arg)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    if (call && !call->refused)
        take_data(call, gs_slice_make(data, len));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *arg)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    if (call)
        detach_call(call);
    return 0;
}

// A response before the end of the request tells the client to stop sending.
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
        nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                  NGHTTP2_NO_ERROR);
    return 0;
}

// nghttp2 ends a connection whose client cancels more calls at once than it may have open.
static int make_session(struct grpc_server_conn *c, const nghttp2_session_callbacks *cb)
{
    nghttp2_option *option = NULL;
    uint32_t burst = c->base.max_streams > LEAST_RESETS ? c->base.max_streams : LEAST_RESETS;
    int rc = nghttp2_option_new(&option);
    if (rc != 0)
        return rc;
    nghttp2_option_set_stream_reset_rate_limit(option, burst, burst / RESET_S);
    rc = nghttp2_session_server_new2(&c->base.session, cb, c, option);
    nghttp2_option_del(option);
    return rc;
}

struct gs_error *grpc_server_session_new(struct grpc_server_conn *c)
{
    nghttp2_session_callbacks *cb = NULL;
    if (nghttp2_session_callbacks_new(&cb) != 0)
        return gs_error_new(GS_ELIMIT, "no memory for an HTTP/2 session");
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_request_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
    int rc = make_session(c, cb);
    nghttp2_session_callbacks_del(cb);
    if (rc != 0)
        return gs_error_new(GS_ELIMIT, "an HTTP/2 session: %s", nghttp2_strerror(rc));
    return NULL;
}
