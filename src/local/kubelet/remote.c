// SPDX-License-Identifier: Apache-2.0
#include "local/kubelet/streaming.h"

#include "base/mem.h"
#include "kube/status.h"
#include "net/websocket/websocket.h"

// The first byte of a message.
enum { CHANNEL_STDIN, CHANNEL_STDOUT, CHANNEL_STDERR, CHANNEL_ERROR, CHANNEL_RESIZE };
enum { CHANNEL_CLOSE = 255 };

enum { MAX_RESIZE = 256, MAX_PIECE = 32 * 1024 };

// From this version on the error channel has a Status, and a channel can be closed.
static const char *const websocket_protocols[] = {"v5.channel.k8s.io", "v4.channel.k8s.io",
                                                  "channel.k8s.io", NULL};

struct kubelet_remote {
    struct kubelet_remote_callbacks cb;
    void *arg;
    struct kubelet_remote_options options;
    unsigned version; // of the protocol
    struct gs_timer *idle, *opening;
    bool open;                       // on_open was called
    struct http_upgrade *connection; // NULL: closed
    struct websocket *websocket;
    unsigned channel;      // of the message that is arriving
    struct gs_buf message; // of channels other than stdin
    bool stdin_ended, finished;
};

// --- parameters ---

static bool is_true(const struct http_exchange *x, const char *name)
{
    const char *text = http_query(x, name);
    return gs_streq(text, "true") || gs_streq(text, "1");
}

struct gs_error *kubelet_remote_options(struct http_exchange *x, struct kubelet_remote_options *ret)
{
    struct kubelet_remote_options o = {
        .has_stdin = is_true(x, "stdin"),
        .has_stdout = is_true(x, "stdout"),
        .has_stderr = is_true(x, "stderr"),
        .tty = is_true(x, "tty"),
    };
    if (o.tty)
        o.has_stderr = false; // a terminal has one output
    if (!o.has_stdin && !o.has_stdout && !o.has_stderr)
        return gs_error_new(GS_EINVAL, "you must specify at least 1 of stdin, stdout, stderr");
    *ret = o;
    return NULL;
}

// --- from the client ---

static void end_stdin(struct kubelet_remote *r)
{
    if (r->stdin_ended || !r->options.has_stdin)
        return;
    r->stdin_ended = true;
    r->cb.on_stdin_end(r->arg);
}

static void resize(struct kubelet_remote *r, struct gs_slice text)
{
    CODEC_AUTO_JSON json_t *size = NULL;
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(text, false, &size);
    int64_t columns = err ? 0 : codec_json_int(size, 0, "Width", NULL);
    int64_t rows = err ? 0 : codec_json_int(size, 0, "Height", NULL);
    if (r->options.tty && columns > 0 && columns <= UINT16_MAX && rows > 0 && rows <= UINT16_MAX)
        r->cb.on_resize(r->arg, (uint16_t)columns, (uint16_t)rows);
}

// Other channels than stdin have short messages.
static void on_short_message(struct kubelet_remote *r, struct gs_slice message)
{
    if (r->channel == CHANNEL_RESIZE)
        resize(r, message);
    else if (r->channel == CHANNEL_CLOSE && r->version >= 5 && message.len == 1 &&
             *message.data == CHANNEL_STDIN)
        end_stdin(r);
}

static void on_message(void *arg, enum websocket_opcode opcode, struct gs_slice part, bool first,
                       bool last)
{
    struct kubelet_remote *r = arg;
    if (first) {
        r->channel = UINT16_MAX; // not known yet
        gs_buf_clear(&r->message);
    }
    if (r->channel == UINT16_MAX && part.len) {
        r->channel = (uint8_t)*part.data++;
        part.len--;
    }
    if (r->channel == CHANNEL_STDIN) {
        if (part.len && !r->stdin_ended && r->options.has_stdin)
            r->cb.on_stdin(r->arg, part);
        return;
    }
    if (part.len <= MAX_RESIZE - r->message.len)
        gs_buf_add_slice(&r->message, part);
    if (last)
        on_short_message(r, gs_buf_slice(&r->message));
}

static void on_websocket_output(void *arg, struct gs_slice bytes)
{
    struct kubelet_remote *r = arg;
    if (r->connection)
        http_upgrade_write(r->connection, bytes);
}

static void on_websocket_end(void *arg, unsigned code)
{
    struct kubelet_remote *r = arg;
    http_upgrade_end(r->connection);
}

static const struct websocket_callbacks websocket_callbacks = {
    .on_message = on_message,
    .on_output = on_websocket_output,
    .on_end = on_websocket_end,
};

// --- the connection ---

static void on_idle(void *arg)
{
    struct kubelet_remote *r = arg;
    websocket_close(r->websocket, WEBSOCKET_GOING_AWAY, "idle for 4 hours");
    http_upgrade_end(r->connection);
}

static void mark_busy(struct kubelet_remote *r)
{
    gs_timer_start(r->idle, on_idle, KUBELET_STREAM_IDLE_MS);
}

static void on_opened(void *arg)
{
    struct kubelet_remote *r = arg;
    if (r->open)
        return;
    r->open = true;
    r->cb.on_open(r->arg);
}

static void on_bytes(void *arg, struct gs_slice bytes)
{
    struct kubelet_remote *r = arg;
    mark_busy(r);
    on_opened(r);
    websocket_feed(r->websocket, bytes);
}

static void on_connection_drained(void *arg)
{
    struct kubelet_remote *r = arg;
    if (!r->finished)
        r->cb.on_drained(r->arg);
}

static void on_connection_closed(void *arg)
{
    struct kubelet_remote *r = arg;
    r->connection = NULL;
    r->cb.on_close(r->arg);
    gs_timer_free(r->idle);
    gs_timer_free(r->opening);
    websocket_free(r->websocket);
    gs_buf_finish(&r->message);
    free(r);
}

static const struct http_upgrade_callbacks connection_callbacks = {
    .on_data = on_bytes,
    .on_drained = on_connection_drained,
    .on_close = on_connection_closed,
};

static void refuse(struct http_exchange *x, int status, const char *reason, const char *text)
{
    kube_reply_failure(x, status, reason, "%s", text);
}

static struct kubelet_remote *open_websocket(struct kubelet_remote *r, struct http_exchange *x)
{
    GS_AUTO_FREE char *accept = NULL;
    bool offered = false;
    const char *fault = websocket_handshake(x, &accept);
    const char *protocol = websocket_protocol(x, websocket_protocols, &offered);
    if (fault) {
        refuse(x, 400, "BadRequest", fault);
        return NULL;
    }
    if (offered && !protocol) {
        refuse(x, 400, "BadRequest",
               "unable to negotiate protocol: the server accepts [v5.channel.k8s.io "
               "v4.channel.k8s.io channel.k8s.io]");
        return NULL;
    }
    http_add_header(x, "Sec-WebSocket-Accept", accept);
    if (protocol)
        http_add_header(x, "Sec-WebSocket-Protocol", protocol);
    r->version = gs_streq(protocol, websocket_protocols[0])   ? 5
                 : gs_streq(protocol, websocket_protocols[1]) ? 4
                                                              : 1;
    r->websocket = websocket_new(&websocket_callbacks, r);
    r->connection = http_reply_upgrade(x, "websocket", &connection_callbacks, r);
    if (!r->connection)
        refuse(x, 501, "NotImplemented", "this connection cannot be upgraded");
    return r->connection ? r : NULL;
}

static void send_on(struct kubelet_remote *r, unsigned channel, struct gs_slice bytes)
{
    const char head = (char)channel;
    websocket_send(r->websocket, WEBSOCKET_BINARY, gs_slice_make(&head, 1), bytes);
}

// What the kubelet sends first: a client may wait for it.
static void greet(struct kubelet_remote *r)
{
    send_on(r,
            r->options.has_stdout   ? CHANNEL_STDOUT
            : r->options.has_stderr ? CHANNEL_STDERR
                                    : CHANNEL_ERROR,
            (struct gs_slice){0});
}

struct kubelet_remote *kubelet_remote_open(uv_loop_t *loop, struct http_exchange *x,
                                           const struct kubelet_remote_options *options,
                                           const struct kubelet_remote_callbacks *cb, void *arg)
{
    struct kubelet_remote *r = gs_alloc(sizeof(*r));
    r->cb = *cb;
    r->arg = arg;
    r->options = *options;
    r->idle = gs_timer_new(loop, r);
    r->opening = gs_timer_new(loop, r);
    if (!websocket_requested(x))
        refuse(x, 400, "BadRequest", "Upgrade request required");
    if (!websocket_requested(x) || !open_websocket(r, x)) {
        websocket_free(r->websocket);
        gs_timer_free(r->idle);
        gs_timer_free(r->opening);
        free(r);
        return NULL;
    }
    mark_busy(r);
    greet(r);
    gs_timer_start(r->opening, on_opened, 0);
    return r;
}

// --- to the client ---

void kubelet_remote_write(struct kubelet_remote *r, enum kubelet_remote_stream stream,
                          struct gs_slice bytes)
{
    mark_busy(r);
    while (bytes.len) {
        struct gs_slice piece = bytes;
        if (piece.len > MAX_PIECE)
            piece.len = MAX_PIECE;
        send_on(r, stream == KUBELET_STDERR ? CHANNEL_STDERR : CHANNEL_STDOUT, piece);
        bytes.data += piece.len;
        bytes.len -= piece.len;
    }
}

size_t kubelet_remote_pending(const struct kubelet_remote *r)
{
    return http_upgrade_pending(r->connection);
}

void kubelet_remote_pause(struct kubelet_remote *r, bool pause)
{
    http_upgrade_pause(r->connection, pause);
}

static json_t *result_status(int exit_code, const char *failure)
{
    json_t *status = json_object();
    json_object_set_new(status, "metadata", json_object());
    codec_json_set_str(status, "status", failure || exit_code ? "Failure" : "Success");
    if (failure) {
        GS_AUTO_FREE char *text = gs_format("Internal error occurred: %s", failure);
        codec_json_set_str(status, "message", text);
        codec_json_set_str(status, "reason", "InternalError");
        codec_json_set(status, json_pack("{s:[{s:s}]}", "causes", "message", failure), "details",
                       NULL);
        codec_json_set_int(status, "code", 500);
    } else if (exit_code) {
        GS_AUTO_FREE char *text = gs_format("command terminated with non-zero exit code: command "
                                            "terminated with exit code %d",
                                            exit_code);
        GS_AUTO_FREE char *number = gs_format("%d", exit_code);
        codec_json_set_str(status, "message", text);
        codec_json_set_str(status, "reason", "NonZeroExitCode");
        codec_json_set(
            status,
            json_pack("{s:[{s:s, s:s}]}", "causes", "reason", "ExitCode", "message", number),
            "details", NULL);
    }
    return status;
}

// Before version 4 there is only the text of a failure.
static char *result_text(const struct kubelet_remote *r, int exit_code, const char *failure)
{
    CODEC_AUTO_JSON json_t *status = result_status(exit_code, failure);
    if (r->version >= 4)
        return codec_json_text(status);
    const char *message = codec_json_str(status, "message", NULL);
    return gs_strdup(message);
}

void kubelet_remote_finish(struct kubelet_remote *r, int exit_code, const char *failure)
{
    if (r->finished)
        return;
    r->finished = true;
    GS_AUTO_FREE char *text = result_text(r, exit_code, failure);
    if (text)
        send_on(r, CHANNEL_ERROR, gs_slice_of(text));
    websocket_close(r->websocket, WEBSOCKET_NORMAL, NULL);
    http_upgrade_end(r->connection);
}
