// SPDX-License-Identifier: Apache-2.0
// The server side of SPDY/3.1, for `kubectl exec`, `attach` and `port-forward` of clients that do
// not use WebSocket. Source: the specification "SPDY Protocol - Draft 3.1". There is no I/O here:
// the caller feeds bytes and sends what the callbacks return.
// A stream: open -> accepted -> its two directions end independently (peer_fin, fin_sent), or a
// reset ends both.
// Flow control towards a peer begins when the peer sets its windows: Kubernetes' clients do not.
#include "net/spdy/spdy.h"

#include "base/arena.h"
#include "base/mem.h"
#include "net/spdy/spdy_private.h"

#include <stdlib.h>
#include <sys/queue.h>

// Section 2.6 and 2.8.
enum frame_type {
    SYN_STREAM = 1,
    SYN_REPLY = 2,
    RST_STREAM = 3,
    SETTINGS = 4,
    PING = 6,
    GOAWAY = 7,
    HEADERS = 8,
    WINDOW_UPDATE = 9,
};
enum { FLAG_FIN = 1 };
enum {
    RST_PROTOCOL_ERROR = 1,
    RST_INVALID_STREAM = 2,
    RST_REFUSED = 3,
    RST_CANCEL = 5,
    RST_FLOW_CONTROL = 7,
};
enum { SETTINGS_INITIAL_WINDOW = 7, GOAWAY_PROTOCOL_ERROR = 1 };

enum {
    HEAD = 8,
    MAX_CONTROL = 64 * 1024, // payload of a control frame
    MAX_PAIRS = 64,
    MAX_DATA = 32 * 1024, // payload of a frame of ours
    INITIAL_WINDOW = 64 * 1024,
    UPDATE_AT = INITIAL_WINDOW / 2,
    MAX_PINGS_IN_A_ROW = 1000,
};

struct header {
    const char *name, *value;
};

struct spdy_stream {
    struct spdy *session; // NULL: the session has ended
    TAILQ_ENTRY(spdy_stream) link;
    uint32_t id;
    struct gs_arena arena;
    struct header headers[MAX_PAIRS];
    size_t n_headers;
    void *data;
    bool accepted, reset;
    bool peer_fin, end_asked, fin_sent;
    int64_t window;      // what we may send
    uint32_t unreported; // consumed bytes of which the peer has not been told
    struct gs_buf held;
};

struct spdy {
    struct spdy_callbacks cb;
    void *arg;
    struct spdy_headers headers;
    TAILQ_HEAD(, spdy_stream) streams;
    size_t n_streams;
    uint32_t last_id;
    uint8_t head[HEAD];
    size_t head_len;
    bool in_frame;
    uint32_t left; // bytes of the frame's payload that are missing
    struct gs_buf control;
    bool has_windows; // the peer sets them
    int64_t initial_window;
    unsigned pings;
    bool ended, closed;
};

static uint32_t get32(const void *at)
{
    const uint8_t *b = at;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void put32(void *at, uint32_t v)
{
    uint8_t *b = at;
    b[0] = (uint8_t)(v >> 24);
    b[1] = (uint8_t)(v >> 16);
    b[2] = (uint8_t)(v >> 8);
    b[3] = (uint8_t)v;
}

// --- sending ---

static void send_control(struct spdy *s, enum frame_type type, unsigned flags,
                         struct gs_slice payload)
{
    uint8_t head[HEAD] = {0x80, 3, 0, (uint8_t)type};
    if (s->closed)
        return;
    put32(head + 4, (uint32_t)(flags << 24 | payload.len));
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_add(&out, head, HEAD);
    gs_buf_add_slice(&out, payload);
    s->cb.on_output(s->arg, gs_buf_slice(&out));
}

static void send_pair(struct spdy *s, enum frame_type type, uint32_t a, uint32_t b)
{
    uint8_t payload[8];
    put32(payload, a);
    put32(payload + 4, b);
    send_control(s, type, 0, gs_slice_make(payload, sizeof(payload)));
}

static void send_data(struct spdy_stream *t, struct gs_slice bytes, unsigned flags)
{
    struct spdy *s = t->session;
    uint8_t head[HEAD];
    if (s->closed)
        return;
    put32(head, t->id);
    put32(head + 4, (uint32_t)(flags << 24 | bytes.len));
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_add(&out, head, HEAD);
    gs_buf_add_slice(&out, bytes);
    s->cb.on_output(s->arg, gs_buf_slice(&out));
}

// As much as the window allows.
static void send_held(struct spdy_stream *t)
{
    while (t->held.len && !t->reset && (!t->session->has_windows || t->window > 0)) {
        size_t n = t->held.len < MAX_DATA ? t->held.len : MAX_DATA;
        if (t->session->has_windows && (int64_t)n > t->window)
            n = (size_t)t->window;
        send_data(t, gs_slice_make(t->held.data, n), 0);
        t->window -= (int64_t)n;
        gs_buf_consume(&t->held, n);
    }
    if (t->end_asked && !t->fin_sent && !t->held.len && !t->reset) {
        t->fin_sent = true;
        send_data(t, (struct gs_slice){0}, FLAG_FIN);
    }
}

void spdy_stream_accept(struct spdy_stream *t)
{
    uint8_t id[4];
    if (!t->session || t->accepted || t->reset)
        return;
    t->accepted = true;
    put32(id, t->id);
    GS_AUTO_BUF struct gs_buf payload = {0};
    gs_buf_add(&payload, id, sizeof(id));
    spdy_headers_empty(&t->session->headers, &payload);
    send_control(t->session, SYN_REPLY, 0, gs_buf_slice(&payload));
}

void spdy_stream_write(struct spdy_stream *t, struct gs_slice bytes)
{
    if (!t->session || t->end_asked || t->reset)
        return;
    gs_buf_add_slice(&t->held, bytes);
    send_held(t);
}

size_t spdy_stream_held(const struct spdy_stream *t)
{
    return t->held.len;
}

void spdy_stream_end(struct spdy_stream *t)
{
    if (!t->session || t->end_asked)
        return;
    t->end_asked = true;
    send_held(t);
}

void spdy_stream_consumed(struct spdy_stream *t, size_t n)
{
    if (!t->session || t->peer_fin || t->reset)
        return;
    t->unreported += (uint32_t)n;
    if (t->unreported < UPDATE_AT)
        return;
    send_pair(t->session, WINDOW_UPDATE, t->id, t->unreported);
    t->unreported = 0;
}

void spdy_stream_free(struct spdy_stream *t)
{
    if (!t)
        return;
    struct spdy *s = t->session;
    if (s) {
        if (!t->reset && !(t->peer_fin && t->fin_sent))
            send_pair(s, RST_STREAM, t->id, RST_CANCEL);
        TAILQ_REMOVE(&s->streams, t, link);
        s->n_streams--;
    }
    gs_buf_finish(&t->held);
    gs_arena_finish(&t->arena);
    free(t);
}

static void say_goodbye(struct spdy *s, uint32_t status)
{
    send_pair(s, GOAWAY, s->last_id, status);
    s->closed = true;
}

void spdy_close(struct spdy *s)
{
    say_goodbye(s, 0);
}

// --- streams ---

const char *spdy_stream_header(const struct spdy_stream *t, const char *name)
{
    for (size_t i = 0; i < t->n_headers; i++)
        if (strcmp(t->headers[i].name, name) == 0)
            return t->headers[i].value;
    return NULL;
}

uint32_t spdy_stream_id(const struct spdy_stream *t)
{
    return t->id;
}

void spdy_stream_set_data(struct spdy_stream *t, void *data)
{
    t->data = data;
}

void *spdy_stream_data(const struct spdy_stream *t)
{
    return t->data;
}

static struct spdy_stream *find_stream(const struct spdy *s, uint32_t id)
{
    struct spdy_stream *t;
    TAILQ_FOREACH (t, &s->streams, link)
        if (t->id == id)
            return t;
    return NULL;
}

// --- header blocks ---

static bool take32(struct gs_slice *from, uint32_t *ret)
{
    if (from->len < 4)
        return false;
    *ret = get32(from->data);
    from->data += 4;
    from->len -= 4;
    return true;
}

static bool take_text(struct gs_slice *from, struct gs_slice *ret)
{
    uint32_t n;
    if (!take32(from, &n) || n > from->len)
        return false;
    *ret = gs_slice_make(from->data, n);
    from->data += n;
    from->len -= n;
    return true;
}

static bool parse_headers(struct spdy_stream *t, struct gs_slice block)
{
    uint32_t n;
    if (!take32(&block, &n) || n > MAX_PAIRS)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        struct gs_slice name, value;
        if (!take_text(&block, &name) || !take_text(&block, &value) || !name.len)
            return false;
        // Values of one name are separated by NUL: the copies end at the first.
        t->headers[t->n_headers++] =
            (struct header){gs_arena_strndup(&t->arena, name.data, name.len),
                            gs_arena_strndup(&t->arena, value.data, value.len)};
    }
    return block.len == 0;
}

// --- receiving ---

static void end_session(struct spdy *s, const char *why)
{
    if (s->ended)
        return;
    s->ended = true;
    if (why)
        say_goodbye(s, GOAWAY_PROTOCOL_ERROR);
    s->cb.on_end(s->arg, why);
}

static void refuse_stream(struct spdy *s, uint32_t id, uint32_t status)
{
    send_pair(s, RST_STREAM, id, status);
}

static void end_of_peer(struct spdy_stream *t)
{
    if (t->peer_fin || t->reset)
        return;
    t->peer_fin = true;
    t->session->cb.on_fin(t->session->arg, t);
}

static void on_syn_stream(struct spdy *s, unsigned flags, struct gs_slice payload)
{
    GS_AUTO_BUF struct gs_buf block = {0};
    if (payload.len < 10) {
        end_session(s, "a SYN_STREAM frame is too short");
        return;
    }
    uint32_t id = get32(payload.data) & 0x7fffffff;
    // Also for a stream that is refused: the state of the compression depends on it.
    if (!spdy_headers_inflate(&s->headers, gs_slice_make(payload.data + 10, payload.len - 10),
                              &block)) {
        end_session(s, "the headers of a stream are malformed or too large");
        return;
    }
    if (id % 2 == 0 || id <= s->last_id) {
        end_session(s, "the identifier of a stream is not larger than the last one");
        return;
    }
    s->last_id = id;
    if (s->n_streams >= SPDY_MAX_STREAMS) {
        refuse_stream(s, id, RST_REFUSED);
        return;
    }
    struct spdy_stream *t = gs_alloc(sizeof(*t));
    t->id = id;
    t->window = s->initial_window;
    if (!parse_headers(t, gs_buf_slice(&block))) {
        spdy_stream_free(t); // it is not in the session yet
        refuse_stream(s, id, RST_PROTOCOL_ERROR);
        return;
    }
    t->session = s;
    TAILQ_INSERT_HEAD(&s->streams, t, link);
    s->n_streams++;
    s->cb.on_stream(s->arg, t);
    t = find_stream(s, id);
    if (t && (flags & FLAG_FIN))
        end_of_peer(t);
}

// Headers that follow, or that answer a stream of ours, which does not exist: only the state of the
// compression counts.
static void on_more_headers(struct spdy *s, size_t skip, struct gs_slice payload)
{
    GS_AUTO_BUF struct gs_buf block = {0};
    if (payload.len < skip ||
        !spdy_headers_inflate(&s->headers, gs_slice_make(payload.data + skip, payload.len - skip),
                              &block))
        end_session(s, "the headers of a stream are malformed or too large");
}

static void on_rst_stream(struct spdy *s, struct gs_slice payload)
{
    struct spdy_stream *t =
        payload.len == 8 ? find_stream(s, get32(payload.data) & 0x7fffffff) : NULL;
    if (payload.len != 8)
        end_session(s, "a RST_STREAM frame has a wrong length");
    if (!t || t->reset)
        return;
    t->reset = true;
    s->cb.on_reset(s->arg, t);
}

static void on_settings(struct spdy *s, struct gs_slice payload)
{
    uint32_t n = 0;
    if (!take32(&payload, &n) || payload.len / 8 != n || payload.len % 8) {
        end_session(s, "a SETTINGS frame has a wrong length");
        return;
    }
    for (; n; n--, payload.data += 8) {
        if ((get32(payload.data) & 0xffffff) != SETTINGS_INITIAL_WINDOW)
            continue;
        int64_t window = get32(payload.data + 4);
        if (window > INT32_MAX) {
            end_session(s, "the initial window is too large");
            return;
        }
        struct spdy_stream *t;
        TAILQ_FOREACH (t, &s->streams, link)
            t->window += window - s->initial_window;
        s->initial_window = window;
        s->has_windows = true;
    }
}

static void on_ping(struct spdy *s, struct gs_slice payload)
{
    if (payload.len != 4)
        end_session(s, "a PING frame has a wrong length");
    else if (get32(payload.data) % 2 == 0)
        return; // answers a server's, and we send none
    else if (++s->pings > MAX_PINGS_IN_A_ROW)
        end_session(s, "too many PING frames");
    else
        send_control(s, PING, 0, payload);
}

static void on_window_update(struct spdy *s, struct gs_slice payload)
{
    if (payload.len != 8) {
        end_session(s, "a WINDOW_UPDATE frame has a wrong length");
        return;
    }
    struct spdy_stream *t = find_stream(s, get32(payload.data) & 0x7fffffff);
    s->has_windows = true;
    if (!t || t->reset)
        return;
    t->window += get32(payload.data + 4) & 0x7fffffff;
    if (t->window <= INT32_MAX) {
        send_held(t);
        return;
    }
    refuse_stream(s, t->id, RST_FLOW_CONTROL);
    t->reset = true;
    s->cb.on_reset(s->arg, t);
}

static void on_control(struct spdy *s)
{
    unsigned version = (unsigned)(s->head[0] & 0x7f) << 8 | s->head[1];
    unsigned type = (unsigned)s->head[2] << 8 | s->head[3];
    struct gs_slice payload = gs_buf_slice(&s->control);
    if (type != PING)
        s->pings = 0;
    if (version != 3)
        end_session(s, "the version of a frame is not 3");
    else if (type == SYN_STREAM)
        on_syn_stream(s, s->head[4], payload);
    else if (type == SYN_REPLY || type == HEADERS)
        on_more_headers(s, 4, payload);
    else if (type == RST_STREAM)
        on_rst_stream(s, payload);
    else if (type == SETTINGS)
        on_settings(s, payload);
    else if (type == PING)
        on_ping(s, payload);
    else if (type == GOAWAY)
        end_session(s, NULL);
    else if (type == WINDOW_UPDATE)
        on_window_update(s, payload);
}

static bool is_control(const struct spdy *s)
{
    return s->head[0] & 0x80;
}

static void take_data(struct spdy *s, struct gs_slice *rest)
{
    size_t n = rest->len < s->left ? rest->len : s->left;
    uint32_t id = get32(s->head);
    struct gs_slice part = gs_slice_make(rest->data, n);
    rest->data += n;
    rest->len -= n;
    s->left -= (uint32_t)n;
    s->in_frame = s->left > 0;
    struct spdy_stream *t = find_stream(s, id);
    s->pings = 0;
    if (!t && id > s->last_id && !s->in_frame)
        refuse_stream(s, id, RST_INVALID_STREAM);
    if (!t || t->reset || t->peer_fin)
        return; // of a stream that we have given up
    if (n)
        s->cb.on_data(s->arg, t, part);
    t = !s->in_frame && (s->head[4] & FLAG_FIN) ? find_stream(s, id) : NULL;
    if (t)
        end_of_peer(t);
}

static void take_control(struct spdy *s, struct gs_slice *rest)
{
    size_t n = rest->len < s->left ? rest->len : s->left;
    gs_buf_add(&s->control, rest->data, n);
    rest->data += n;
    rest->len -= n;
    s->left -= (uint32_t)n;
    s->in_frame = s->left > 0;
    if (!s->in_frame)
        on_control(s);
}

static void take_head(struct spdy *s, struct gs_slice *rest)
{
    size_t n = HEAD - s->head_len < rest->len ? HEAD - s->head_len : rest->len;
    memcpy(s->head + s->head_len, rest->data, n);
    s->head_len += n;
    rest->data += n;
    rest->len -= n;
    if (s->head_len < HEAD)
        return;
    s->head_len = 0;
    s->left = get32(s->head + 4) & 0xffffff;
    s->in_frame = true;
    gs_buf_clear(&s->control);
    if (is_control(s) && s->left > MAX_CONTROL)
        end_session(s, "a control frame is larger than 64 KiB");
}

void spdy_feed(struct spdy *s, struct gs_slice rest)
{
    while (!s->ended && (rest.len || (s->in_frame && !s->left))) {
        if (!s->in_frame)
            take_head(s, &rest);
        else if (is_control(s))
            take_control(s, &rest);
        else
            take_data(s, &rest);
    }
}

// --- the session ---

struct spdy *spdy_new(const struct spdy_callbacks *cb, void *arg)
{
    struct spdy *s = gs_alloc(sizeof(*s));
    s->cb = *cb;
    s->arg = arg;
    s->initial_window = INITIAL_WINDOW;
    TAILQ_INIT(&s->streams);
    if (!spdy_headers_init(&s->headers))
        abort(); // out of memory
    return s;
}

void spdy_free(struct spdy *s)
{
    struct spdy_stream *t;
    if (!s)
        return;
    s->closed = true;
    while ((t = TAILQ_FIRST(&s->streams)))
        spdy_stream_free(t); // NOLINT(clang-analyzer-unix.Malloc): freed ones are not in the list
    spdy_headers_finish(&s->headers);
    gs_buf_finish(&s->control);
    free(s);
}
