// SPDX-License-Identifier: Apache-2.0
// What both sides of gRPC share: one connection (HTTP/2 by nghttp2, with or without TLS), the
// prefix of five bytes of messages, and header texts. Source: the "gRPC over HTTP/2"
// specification.
// At most one write is in progress. Meanwhile, frames stay in nghttp2's session, where flow
// control limits them. grpc_conn_close() only begins: on_closed runs when all handles are closed.
#include "net/grpc/grpc_private.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdio.h>

enum { READ_BLOCK = 64 * 1024, WRITE_BLOCK = 64 * 1024 };

// --- connection ---

static void flush_session(struct grpc_conn *c);

static void conn_gone(struct grpc_conn *c)
{
    nghttp2_session_del(c->session);
    c->session = NULL;
    grpc_tls_free(GS_TAKE(c->tls));
    gs_buf_finish(&c->out);
    free(c->in);
    c->in = NULL;
    c->on_closed(c);
}

static void conn_handle_closed(uv_handle_t *h)
{
    struct grpc_conn *c = h->data;
    if (--c->open_handles == 0)
        conn_gone(c);
}

void grpc_conn_close(struct grpc_conn *c, const char *reason)
{
    if (c->closing)
        return;
    c->closing = true;
    snprintf(c->reason, sizeof(c->reason), "%s", reason);
    if (c->tls) {
        grpc_tls_end(c->tls);
        grpc_conn_send_last(c, grpc_tls_out(c->tls));
    }
    if (!c->detached)
        uv_close(&c->io.handle, conn_handle_closed);
    uv_close((uv_handle_t *)&c->flusher, conn_handle_closed);
}

static void on_written(uv_write_t *w, int status)
{
    struct grpc_conn *c = w->data;
    c->writing = false;
    gs_buf_clear(&c->out);
    if (status < 0)
        grpc_conn_close(c, uv_strerror(status));
    else
        flush_session(c);
}

void grpc_conn_send_last(struct grpc_conn *c, struct gs_buf *bytes)
{
    uv_buf_t b = uv_buf_init(bytes->data, (unsigned)bytes->len);
    if (!c->writing && !c->detached && bytes->len)
        uv_try_write(&c->io.stream, &b, 1);
    gs_buf_clear(bytes);
}

static void write_out(struct grpc_conn *c)
{
    if (c->detached) {
        gs_buf_clear(&c->out);
        return;
    }
    uv_buf_t b = uv_buf_init(c->out.data, (unsigned)c->out.len);
    c->write.data = c;
    int rc = uv_write(&c->write, &c->io.stream, &b, 1, on_written);
    if (rc < 0)
        grpc_conn_close(c, uv_strerror(rc));
    else
        c->writing = true;
}

// Fills c->out from the session. Negative: an error of nghttp2.
static ssize_t take_frames(struct grpc_conn *c)
{
    const uint8_t *data;
    ssize_t n = 0;
    while (c->session && c->out.len < WRITE_BLOCK &&
           (n = nghttp2_session_mem_send(c->session, &data)) > 0)
        gs_buf_add(&c->out, data, (size_t)n);
    return n;
}

// What is in c->out becomes what TLS wants to send: its own messages, and these bytes encrypted.
static bool encrypt_out(struct grpc_conn *c)
{
    struct gs_buf *encrypted = grpc_tls_out(c->tls), plain = c->out;
    bool ok = grpc_tls_encrypt(c->tls, gs_buf_slice(&plain));
    gs_buf_clear(&plain);
    c->out = *encrypted;
    *encrypted = plain;
    return ok;
}

// One write at a time: data that the peer does not accept stays in the session, because of flow
// control.
static void flush_session(struct grpc_conn *c)
{
    while (!c->closing && !c->writing) {
        ssize_t n = take_frames(c);
        if (n < 0)
            grpc_conn_close(c, nghttp2_strerror((int)n));
        else if (c->tls && !encrypt_out(c))
            grpc_conn_close(c, "TLS: the session cannot encrypt");
        else if (c->out.len)
            write_out(c);
        else
            break;
    }
    if (!c->closing && !c->writing && c->session && !nghttp2_session_want_read(c->session) &&
        !nghttp2_session_want_write(c->session))
        grpc_conn_close(c, "the HTTP/2 session has ended");
}

static void on_flusher(uv_idle_t *h)
{
    uv_idle_stop(h);
    flush_session(h->data);
}

void grpc_conn_flush_soon(struct grpc_conn *c)
{
    if (c->connected && !c->closing)
        uv_idle_start(&c->flusher, on_flusher);
}

void grpc_conn_feed(struct grpc_conn *c, struct gs_slice bytes)
{
    ssize_t n = nghttp2_session_mem_recv(c->session, (const uint8_t *)bytes.data, bytes.len);
    if (c->closing)
        return;
    flush_session(c);
    if (n < 0)
        grpc_conn_close(c, nghttp2_strerror((int)n));
}

static void give_read_buffer(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
    struct grpc_conn *c = h->data;
    *ret = uv_buf_init(c->in, READ_BLOCK);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct grpc_conn *c = stream->data;
    if (n < 0)
        grpc_conn_close(c, n == UV_EOF ? "the peer closed the connection" : uv_strerror((int)n));
    else if (n > 0 && !c->tls)
        grpc_conn_feed(c, gs_slice_make(b->base, (size_t)n));
    else if (n > 0)
        grpc_tls_feed(c->tls, gs_slice_make(b->base, (size_t)n));
    if (n > 0 && c->tls)
        flush_session(c); // messages of TLS itself
}

void grpc_conn_start_reading(struct grpc_conn *c)
{
    c->in = gs_alloc(READ_BLOCK);
    uv_read_start(&c->io.stream, give_read_buffer, on_read);
    if (!c->tls)
        return;
    grpc_tls_shake(c->tls);
    flush_session(c);
}

void grpc_conn_init(struct grpc_conn *c, uv_loop_t *loop, void (*on_closed)(struct grpc_conn *c))
{
    c->loop = loop;
    c->on_closed = on_closed;
    uv_idle_init(loop, &c->flusher);
    c->flusher.data = c;
    c->open_handles = 1;
    if (c->detached)
        return;
    c->io.handle.data = c;
    c->open_handles = 2;
}

void grpc_conn_start(struct grpc_conn *c)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
         c->max_streams ? c->max_streams : GRPC_MAX_STREAMS},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, GRPC_STREAM_WINDOW},
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, // last: only clients send it
    };
    size_t n = GS_ARRAY_LEN(settings) - (nghttp2_session_check_server_session(c->session) ? 1 : 0);
    c->connected = true;
    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, n);
    nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, GRPC_CONN_WINDOW);
    grpc_conn_flush_soon(c);
}

// --- messages ---

static enum grpc_status reject(struct grpc_reader *r, enum grpc_status status, const char *why)
{
    snprintf(r->why, sizeof(r->why), "%s", why);
    return status;
}

enum grpc_status grpc_reader_feed(struct grpc_reader *r, size_t max, struct gs_slice *in,
                                  bool *ret_complete)
{
    *ret_complete = false;
    while (r->n_prefix < GRPC_PREFIX) {
        if (in->len == 0)
            return GRPC_OK;
        r->prefix[r->n_prefix++] = (uint8_t)in->data[0];
        *in = gs_slice_make(in->data + 1, in->len - 1);
        if (r->n_prefix < GRPC_PREFIX)
            continue;
        r->len = (uint32_t)r->prefix[1] << 24 | (uint32_t)r->prefix[2] << 16 |
                 (uint32_t)r->prefix[3] << 8 | r->prefix[4];
        if (r->prefix[0] == 1)
            return reject(r, GRPC_UNIMPLEMENTED, "compressed messages are not supported");
        if (r->prefix[0] != 0)
            return reject(r, GRPC_INTERNAL,
                          "broken message: its compressed flag is neither 0 nor 1");
        if (r->len > max) {
            char why[GRPC_LIMIT_TEXT];
            return reject(r, GRPC_RESOURCE_EXHAUSTED, grpc_limit_text("message", max, why));
        }
    }
    size_t missing = r->len - r->body.len;
    size_t n = in->len < missing ? in->len : missing;
    gs_buf_add(&r->body, in->data, n);
    *in = gs_slice_make(in->data + n, in->len - n);
    *ret_complete = r->body.len == r->len;
    return GRPC_OK;
}

const char *grpc_limit_text(const char *what, size_t max, char out[GRPC_LIMIT_TEXT])
{
    snprintf(out, GRPC_LIMIT_TEXT, "the %s is larger than the limit of %zu MiB", what,
             max / (1024 * 1024));
    return out;
}

void grpc_reader_next(struct grpc_reader *r)
{
    r->n_prefix = 0;
    r->len = 0;
    gs_buf_clear(&r->body);
}

void grpc_reader_finish(struct grpc_reader *r)
{
    gs_buf_finish(&r->body);
    r->n_prefix = 0;
    r->len = 0;
}

void grpc_add_message(struct gs_buf *out, struct gs_slice message)
{
    uint32_t len = (uint32_t)message.len;
    const uint8_t prefix[GRPC_PREFIX] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
                                         (uint8_t)(len >> 8), (uint8_t)len};
    gs_buf_add(out, prefix, sizeof(prefix));
    gs_buf_add_slice(out, message);
}

size_t grpc_take_queued(struct gs_buf *queue, size_t *sent, uint8_t *out, size_t max)
{
    size_t n = queue->len - *sent < max ? queue->len - *sent : max;
    if (n)
        memcpy(out, queue->data + *sent, n);
    *sent += n;
    // The rest is moved to the front only if it is the smaller part, so that the total cost is
    // linear.
    if (*sent * 2 >= queue->len) {
        gs_buf_consume(queue, *sent);
        *sent = 0;
    }
    return n;
}

// --- header texts ---

nghttp2_nv grpc_nv(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value),
                        .flags = NGHTTP2_NV_FLAG_NONE};
}

void grpc_encode_message(const char *text, struct gs_buf *out)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p >= 0x20 && *p <= 0x7e && *p != '%')
            gs_buf_add_char(out, (char)*p);
        else
            gs_buf_addf(out, "%%%02X", *p);
    }
}

void grpc_decode_message(struct gs_slice raw, struct gs_buf *out)
{
    for (size_t i = 0; i < raw.len; i++) {
        int high = raw.data[i] == '%' && raw.len - i > 2 ? gs_hex_digit(raw.data[i + 1]) : -1;
        int low = high >= 0 ? gs_hex_digit(raw.data[i + 2]) : -1;
        char c = raw.data[i];
        if (low >= 0) {
            c = (char)(high * 16 + low);
            i += 2;
        }
        gs_buf_add_char(out, (char)(c ? c : ' '));
    }
}

bool grpc_parse_timeout(struct gs_slice s, uint64_t *ret_ms)
{
    static const struct {
        char unit;
        uint64_t ns;
    } units[] = {{'H', UINT64_C(3600000000000)}, {'M', UINT64_C(60000000000)},
                 {'S', UINT64_C(1000000000)},    {'m', UINT64_C(1000000)},
                 {'u', UINT64_C(1000)},          {'n', UINT64_C(1)}};
    uint64_t value = 0;
    if (s.len < 2 || s.len > 9) // at most 8 digits
        return false;
    for (size_t i = 0; i + 1 < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(s.data[i] - '0');
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(units); i++)
        if (units[i].unit == s.data[s.len - 1]) {
            // In two steps, because 99999999 hours in nanoseconds overflow.
            *ret_ms = units[i].ns >= 1000000 ? value * (units[i].ns / 1000000)
                                             : (value * units[i].ns + 999999) / 1000000;
            return true;
        }
    return false;
}

void grpc_format_timeout(uint64_t ms, char out[GRPC_TIMEOUT_SIZE])
{
    if (ms <= 99999999)
        snprintf(out, GRPC_TIMEOUT_SIZE, "%um", (unsigned)ms);
    else
        snprintf(out, GRPC_TIMEOUT_SIZE, "%uS", (unsigned)(ms / 1000 % 100000000));
}
