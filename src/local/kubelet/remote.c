// SPDX-License-Identifier: Apache-2.0
// Streams of `kubectl exec`, `attach` and `run -i`: five channels over a WebSocket or SPDY, in all
// versions of the protocol. Source: Kubernetes' remotecommand package. The connection ends after
// four hours without traffic.
#include "local/kubelet/streaming.h"

#include "base/mem.h"
#include "kube/status.h"
#include "net/spdy/spdy.h"

// The first byte of a WebSocket message. SPDY has a stream for each.
enum {
    CHANNEL_STDIN,
    CHANNEL_STDOUT,
    CHANNEL_STDERR,
    CHANNEL_ERROR,
    CHANNEL_RESIZE,
    N_CHANNELS,
};
enum { CHANNEL_CLOSE = 255 };

enum { MAX_RESIZE = 256, MAX_PIECE = 32 * 1024 };

// From this version on the error channel has a Status, and a channel can be closed.
static const char *const websocket_protocols[] = {"v5.channel.k8s.io",        "v4.channel.k8s.io",
                                                  "v4.base64.channel.k8s.io", "channel.k8s.io",
                                                  "base64.channel.k8s.io",    NULL};

static const char *const spdy_protocols[] = {"v4.channel.k8s.io", NULL};

struct kubelet_remote {
    struct kubelet_remote_callbacks cb;
    void *arg;
    struct kubelet_remote_options options;
    unsigned version; // of the protocol
    struct gs_timer *idle, *opening;
    bool open;                       // on_open was called
    struct http_upgrade *connection; // NULL: closed
    struct websocket *websocket;     // NULL: SPDY
    struct spdy *spdy;
    struct spdy_stream *streams[N_CHANNELS]; // NULL: not there
    struct kubelet_channels channels;        // of the WebSocket
    struct gs_buf message;                   // of channels other than stdin
    bool stdin_ended, finished;
};

// --- parameters ---

struct gs_error *kubelet_remote_options(struct http_exchange *x, struct kubelet_remote_options *ret)
{
    struct kubelet_remote_options o = {
        .has_stdin = local_api_query_bool(x, "stdin"),
        .has_stdout = local_api_query_bool(x, "stdout"),
        .has_stderr = local_api_query_bool(x, "stderr"),
        .tty = local_api_query_bool(x, "tty"),
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
    if (r->channels.channel == CHANNEL_RESIZE)
        resize(r, message);
    else if (r->channels.channel == CHANNEL_CLOSE && r->version >= 5 && message.len == 1 &&
             *message.data == CHANNEL_STDIN)
        end_stdin(r);
}

static void on_message(void *arg, enum websocket_opcode opcode, struct gs_slice part, bool first,
                       bool last)
{
    struct kubelet_remote *r = arg;
    struct gs_slice bytes;
    if (first)
        gs_buf_clear(&r->message);
    if (!kubelet_channels_receive(&r->channels, part, first, &bytes))
        return;
    if (r->channels.channel == CHANNEL_STDIN) {
        if (bytes.len && !r->stdin_ended && r->options.has_stdin)
            r->cb.on_stdin(r->arg, bytes);
        return;
    }
    if (bytes.len <= MAX_RESIZE - r->message.len)
        gs_buf_add_slice(&r->message, bytes);
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

// --- the same over SPDY ---

static bool is_expected(const struct kubelet_remote *r, int channel)
{
    switch (channel) {
    case CHANNEL_STDIN:
        return r->options.has_stdin;
    case CHANNEL_STDOUT:
        return r->options.has_stdout;
    case CHANNEL_STDERR:
        return r->options.has_stderr;
    case CHANNEL_RESIZE:
        return r->options.tty;
    default:
        return true;
    }
}

static bool has_all_streams(const struct kubelet_remote *r)
{
    for (int i = 0; i < N_CHANNELS; i++)
        if (is_expected(r, i) && !r->streams[i])
            return false;
    return true;
}

static void on_opened(void *arg);

static void on_spdy_stream(void *arg, struct spdy_stream *s)
{
    static const char *const types[N_CHANNELS] = {"stdin", "stdout", "stderr", "error", "resize"};
    struct kubelet_remote *r = arg;
    const char *type = spdy_stream_header(s, "streamtype");
    for (int i = 0; i < N_CHANNELS; i++) {
        if (!gs_streq(type, types[i]) || !is_expected(r, i) || r->streams[i])
            continue;
        r->streams[i] = s;
        spdy_stream_accept(s);
        if (has_all_streams(r))
            on_opened(r);
        return;
    }
    spdy_stream_free(s); // resets it
}

static void take_resizes(struct kubelet_remote *r, struct gs_slice bytes)
{
    gs_buf_add_slice(&r->message, bytes);
    for (const char *end;
         r->message.len && (end = memchr(r->message.data, '\n', r->message.len));) {
        size_t n = (size_t)(end - r->message.data);
        resize(r, gs_slice_make(r->message.data, n));
        gs_buf_consume(&r->message, n + 1);
    }
    if (r->message.len > MAX_RESIZE)
        gs_buf_clear(&r->message);
}

static void on_spdy_data(void *arg, struct spdy_stream *s, struct gs_slice bytes)
{
    struct kubelet_remote *r = arg;
    spdy_stream_consumed(s, bytes.len);
    if (!r->open || r->finished)
        return; // a client waits for the replies to all of its streams
    if (s == r->streams[CHANNEL_STDIN] && !r->stdin_ended)
        r->cb.on_stdin(r->arg, bytes);
    else if (s == r->streams[CHANNEL_RESIZE])
        take_resizes(r, bytes);
}

static void on_spdy_fin(void *arg, struct spdy_stream *s)
{
    struct kubelet_remote *r = arg;
    if (s == r->streams[CHANNEL_STDIN])
        end_stdin(r);
}

static void on_spdy_output(void *arg, struct gs_slice bytes)
{
    struct kubelet_remote *r = arg;
    if (r->connection)
        http_upgrade_write(r->connection, bytes);
}

static void on_spdy_end(void *arg, const char *why)
{
    struct kubelet_remote *r = arg;
    http_upgrade_end(r->connection);
}

static const struct spdy_callbacks spdy_callbacks = {
    .on_stream = on_spdy_stream,
    .on_data = on_spdy_data,
    .on_fin = on_spdy_fin,
    .on_reset = on_spdy_fin,
    .on_output = on_spdy_output,
    .on_end = on_spdy_end,
};

static const struct websocket_callbacks websocket_callbacks = {
    .on_message = on_message,
    .on_output = on_websocket_output,
    .on_end = on_websocket_end,
};

// --- the connection ---

static void on_idle(void *arg)
{
    struct kubelet_remote *r = arg;
    if (r->websocket)
        websocket_close(r->websocket, WEBSOCKET_GOING_AWAY, "idle for 4 hours");
    else
        spdy_close(r->spdy);
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
    gs_timer_stop(r->opening);
    r->cb.on_open(r->arg);
}

static void on_bytes(void *arg, struct gs_slice bytes)
{
    struct kubelet_remote *r = arg;
    mark_busy(r);
    if (r->websocket) {
        on_opened(r);
        websocket_feed(r->websocket, bytes);
    } else {
        spdy_feed(r->spdy, bytes);
    }
}

static void on_connection_drained(void *arg)
{
    struct kubelet_remote *r = arg;
    if (!r->finished)
        r->cb.on_drained(r->arg);
}

static void remote_free(struct kubelet_remote *r)
{
    gs_timer_free(r->idle);
    gs_timer_free(r->opening);
    kubelet_channels_finish(&r->channels);
    websocket_free(r->websocket);
    spdy_free(r->spdy);
    gs_buf_finish(&r->message);
    free(r);
}

static void on_connection_closed(void *arg)
{
    struct kubelet_remote *r = arg;
    r->connection = NULL;
    r->cb.on_close(r->arg);
    remote_free(r);
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
               "v4.channel.k8s.io v4.base64.channel.k8s.io channel.k8s.io "
               "base64.channel.k8s.io]");
        return NULL;
    }
    http_add_header(x, "Sec-WebSocket-Accept", accept);
    if (protocol)
        http_add_header(x, "Sec-WebSocket-Protocol", protocol);
    r->version = protocol && *protocol == 'v' ? (unsigned)(protocol[1] - '0') : 1;
    r->websocket = websocket_new(&websocket_callbacks, r);
    kubelet_channels_init(&r->channels, r->websocket, protocol);
    r->connection = http_reply_upgrade(x, "websocket", &connection_callbacks, r);
    if (!r->connection)
        refuse(x, 501, "NotImplemented", "this connection cannot be upgraded");
    return r->connection ? r : NULL;
}

static void on_creation_timeout(void *arg)
{
    struct kubelet_remote *r = arg;
    spdy_close(r->spdy);
    http_upgrade_end(r->connection);
}

static struct kubelet_remote *open_spdy(struct kubelet_remote *r, struct http_exchange *x)
{
    const char *protocol;
    if (!kubelet_spdy_protocol(x, spdy_protocols, &protocol))
        return NULL;
    if (!protocol) {
        refuse(x, 403, "Forbidden",
               "unable to upgrade: unable to negotiate protocol: server accepts "
               "[v4.channel.k8s.io]");
        return NULL;
    }
    http_add_header(x, "X-Stream-Protocol-Version", protocol);
    r->version = 4;
    r->spdy = spdy_new(&spdy_callbacks, r);
    r->connection = http_reply_upgrade(x, "SPDY/3.1", &connection_callbacks, r);
    if (!r->connection)
        refuse(x, 501, "NotImplemented", "this connection cannot be upgraded");
    return r->connection ? r : NULL;
}

static void send_on(struct kubelet_remote *r, unsigned channel, struct gs_slice bytes)
{
    if (r->websocket)
        kubelet_channels_send(&r->channels, channel, bytes);
    else if (r->streams[channel])
        spdy_stream_write(r->streams[channel], bytes);
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
    if (websocket_requested(x) ? !open_websocket(r, x) : !open_spdy(r, x)) {
        remote_free(r);
        return NULL;
    }
    mark_busy(r);
    if (r->websocket) {
        greet(r);
        gs_timer_start(r->opening, on_opened, 0);
    } else {
        gs_timer_start(r->opening, on_creation_timeout, KUBELET_STREAM_CREATION_MS);
    }
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
    size_t held = 0;
    for (int i = 0; i < N_CHANNELS; i++)
        held += r->streams[i] ? spdy_stream_held(r->streams[i]) : 0;
    return http_upgrade_pending(r->connection) + held;
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
    if (r->websocket) {
        websocket_close(r->websocket, WEBSOCKET_NORMAL, NULL);
    } else {
        for (int i = 0; i < N_CHANNELS; i++)
            if (r->streams[i])
                spdy_stream_end(r->streams[i]);
        spdy_close(r->spdy);
    }
    http_upgrade_end(r->connection);
}
