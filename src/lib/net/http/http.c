// SPDX-License-Identifier: Apache-2.0
// An exchange: one request and its reply, independent of the carrier (libmicrohttpd, or the
// in-process loopback). Handlers use it on the loop's thread and reply exactly once, at any time.
// States: answered or not, and gone or not (the client has left). Each side holds a reference, so
// that a handler may reply after the client has left: the reply is dropped then. A stream is open
// until on_close, which runs exactly once.
#include "net/http/http.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timer.h"
#include "net/http/http_private.h"

#include <stdio.h>
#include <strings.h>

// --- percent decoding ---

// out has space for raw.len + 1 bytes.
static struct gs_error *percent_decode(struct gs_slice raw, bool plus_is_blank, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.data[i];
        if (c == '%') {
            bool whole = raw.len - i > 2;
            int high = whole ? gs_hex_digit(raw.data[i + 1]) : -1;
            int low = whole ? gs_hex_digit(raw.data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return gs_error_new(GS_EINVAL,
                                    "bad percent escape at byte %zu of \"" GS_SLICE_FMT "\"", i,
                                    GS_SLICE_ARG(raw));
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (c == '\0')
            return gs_error_new(GS_EINVAL, "NUL byte in a URL");
        out[n++] = c;
    }
    out[n] = '\0';
    return NULL;
}

static struct gs_error *decode_copy(struct gs_slice raw, bool form, char **ret)
{
    GS_AUTO_FREE char *out = gs_try_alloc(raw.len + 1);
    if (!out)
        return gs_error_new(GS_ELIMIT, "no memory for a text of %zu bytes", raw.len);
    struct gs_error *err = percent_decode(raw, form, out);
    if (err)
        return err;
    *ret = GS_TAKE(out);
    return NULL;
}

struct gs_error *http_decode_segment(struct gs_slice raw, char **ret)
{
    return decode_copy(raw, false, ret);
}

struct gs_error *http_decode_value(struct gs_slice raw, char **ret)
{
    return decode_copy(raw, true, ret);
}

// --- building a request (carrier side) ---

static void pairs_add(struct http_pairs *p, const char *name, const char *value)
{
    gs_grow(&p->items, &p->cap, p->len, sizeof(*p->items));
    p->items[p->len++] = (struct http_pair){name, value};
}

static const char *pairs_find(const struct http_pairs *p, const char *name)
{
    for (size_t i = 0; i < p->len; i++)
        if (strcasecmp(p->items[i].name, name) == 0)
            return p->items[i].value;
    return NULL;
}

void http_exchange_init(struct http_exchange *x, uv_loop_t *loop,
                        const struct http_carrier_ops *ops)
{
    *x = (struct http_exchange){.ops = ops,
                                .loop = loop,
                                .refs = 1,
                                .method = "GET",
                                .target = "/",
                                .path = "/",
                                .peer = ""};
}

void http_exchange_set_method(struct http_exchange *x, const char *method)
{
    x->is_head = gs_streq(method, "HEAD");
    x->method = gs_arena_strdup(&x->arena, x->is_head ? "GET" : method);
}

static struct gs_error *add_query_parameters(struct http_exchange *x, struct gs_slice query)
{
    while (query.data) {
        struct gs_slice value = gs_slice_cut(&query, '&');
        if (value.len == 0)
            continue;
        struct gs_slice name = gs_slice_cut(&value, '=');
        char *name_text = gs_arena_alloc(&x->arena, name.len + 1);
        char *value_text = gs_arena_alloc(&x->arena, value.len + 1);
        struct gs_error *err = percent_decode(name, true, name_text);
        if (!err)
            err = percent_decode(value, true, value_text);
        if (err)
            return err;
        pairs_add(&x->query, name_text, value_text);
    }
    return NULL;
}

void http_exchange_add_parameter(struct http_exchange *x, struct gs_slice name,
                                 struct gs_slice value)
{
    pairs_add(&x->query, gs_arena_strndup(&x->arena, name.data ? name.data : "", name.len),
              gs_arena_strndup(&x->arena, value.data ? value.data : "", value.len));
}

struct gs_error *http_read_form(struct http_exchange *x)
{
    static const char form[] = "application/x-www-form-urlencoded", parts[] = "multipart/form-data";
    const char *type = http_header(x, "Content-Type");
    bool multipart = type && strncasecmp(type, parts, sizeof(parts) - 1) == 0;
    if (!type || x->body.len == 0 || (!multipart && strncasecmp(type, form, sizeof(form) - 1) != 0))
        return NULL;
    // As in Go, those of the URL are after those of a form, but before those of a multipart form.
    if (multipart) {
        struct gs_error *wrong = http_read_multipart(x, type);
        return wrong ? gs_error_wrap(wrong, "form body") : NULL;
    }
    struct http_pairs url = x->query;
    x->query = (struct http_pairs){0};
    struct gs_error *err = add_query_parameters(x, gs_buf_slice(&x->body));
    for (size_t i = 0; i < url.len; i++)
        pairs_add(&x->query, url.items[i].name, url.items[i].value);
    free(url.items);
    return err ? gs_error_wrap(err, "form body") : NULL;
}

struct gs_error *http_exchange_set_target(struct http_exchange *x, struct gs_slice target)
{
    if (gs_slice_starts(target, "http://") || gs_slice_starts(target, "https://")) {
        const char *authority = (const char *)memchr(target.data, '/', target.len) + 2;
        size_t rest = target.len - (size_t)(authority - target.data);
        const char *path = memchr(authority, '/', rest);
        target =
            path ? gs_slice_make(path, target.len - (size_t)(path - target.data)) : GS_SLICE("/");
    }
    if (target.len == 0 || (target.data[0] != '/' && !gs_slice_eq_str(target, "*")))
        return gs_error_new(GS_EINVAL, "the request target must start with a slash");
    if (memchr(target.data, '\0', target.len))
        return gs_error_new(GS_EINVAL, "NUL byte in a URL");
    struct gs_slice query = target;
    struct gs_slice path = gs_slice_cut(&query, '?');
    struct gs_error *err = add_query_parameters(x, query);
    if (err)
        return gs_error_wrap(err, "query string");
    x->path = gs_arena_strndup(&x->arena, path.data, path.len);
    x->target = gs_arena_strndup(&x->arena, target.data, target.len);
    return NULL;
}

void http_identity_copy(struct gs_arena *arena, const struct http_identity *from,
                        struct http_identity *ret)
{
    *ret = (struct http_identity){0};
    if (!from || !from->user)
        return;
    ret->user = gs_arena_strdup(arena, from->user);
    const char **groups = gs_arena_alloc(arena, (from->n_groups + 1) * sizeof(*groups));
    for (size_t i = 0; i < from->n_groups; i++)
        groups[i] = gs_arena_strdup(arena, from->groups[i]);
    ret->groups = groups;
    ret->n_groups = from->n_groups;
}

void http_exchange_set_identity(struct http_exchange *x, const struct http_identity *identity)
{
    http_identity_copy(&x->arena, identity, &x->identity);
}

void http_exchange_set_peer(struct http_exchange *x, const char *peer)
{
    x->peer = gs_arena_strdup(&x->arena, peer);
}

void http_exchange_add_request_header(struct http_exchange *x, const char *name, const char *value)
{
    pairs_add(&x->headers, gs_arena_strdup(&x->arena, name),
              gs_arena_strndup(&x->arena, value ? value : "", value ? strlen(value) : 0));
}

void http_exchange_run(struct http_exchange *x, http_handler handler, void *ctx)
{
    x->refs++;
    handler(ctx, x);
}

void http_exchange_unref(struct http_exchange *x)
{
    gs_assert(x->refs > 0);
    if (--x->refs > 0)
        return;
    gs_arena_finish(&x->arena);
    free(x->query.items);
    free(x->headers.items);
    free(x->reply_headers.items);
    gs_buf_finish(&x->body);
    gs_buf_finish(&x->stream.queue);
    x->ops->release(x);
}

static void close_stream(struct http_exchange *x)
{
    x->stream.open = false;
    x->stream.on_close(x->stream.arg);
    http_exchange_unref(x);
}

void http_exchange_gone(struct http_exchange *x)
{
    x->gone = true;
    if (x->stream.open) {
        close_stream(x);
    } else if (!x->answered && x->on_abort) {
        x->answered = true;
        x->on_abort(x->abort_arg);
        http_exchange_unref(x);
    }
}

// --- the request, for handlers ---

const char *http_method(const struct http_exchange *x)
{
    return x->method;
}

bool http_is_head(const struct http_exchange *x)
{
    return x->is_head;
}

const char *http_path(const struct http_exchange *x)
{
    return x->path;
}

const char *http_target(const struct http_exchange *x)
{
    return x->target;
}

const char *http_query(const struct http_exchange *x, const char *name)
{
    for (size_t i = 0; i < x->query.len; i++)
        if (strcmp(x->query.items[i].name, name) == 0)
            return x->query.items[i].value;
    return NULL;
}

const char *http_query_nth(const struct http_exchange *x, size_t i, const char **ret_name)
{
    if (i >= x->query.len)
        return NULL;
    *ret_name = x->query.items[i].name;
    return x->query.items[i].value;
}

const char *http_header(const struct http_exchange *x, const char *name)
{
    return pairs_find(&x->headers, name);
}

const char *http_header_nth(const struct http_exchange *x, size_t i, const char **ret_name)
{
    if (i >= x->headers.len)
        return NULL;
    *ret_name = x->headers.items[i].name;
    return x->headers.items[i].value;
}

bool http_accepts_gzip(const struct http_exchange *x)
{
    struct gs_slice rest = gs_slice_of(http_header(x, "Accept-Encoding"));
    while (rest.data) {
        struct gs_slice item = gs_slice_cut(&rest, ',');
        struct gs_slice coding = gs_slice_trim(gs_slice_cut(&item, ';'));
        if (gs_slice_eq_str(coding, "gzip"))
            return !gs_slice_eq_str(gs_slice_trim(item), "q=0");
    }
    return false;
}

struct gs_slice http_body(const struct http_exchange *x)
{
    return gs_buf_slice(&x->body);
}

const struct http_identity *http_identity(const struct http_exchange *x)
{
    return &x->identity;
}

const struct gs_slice *http_peer_chain(const struct http_exchange *x, size_t *ret_n)
{
    *ret_n = x->n_peer_chain;
    return x->peer_chain;
}

const char *http_peer(const struct http_exchange *x)
{
    return x->peer;
}

// --- the reply ---

// False: the exchange was answered before, which is a bug of the handler.
static bool answer_once(struct http_exchange *x)
{
    if (x->answered) {
        gs_err("http", "second response to %s %s is dropped", x->method, x->path);
        return false;
    }
    x->answered = true;
    return true;
}

void http_add_header(struct http_exchange *x, const char *name, const char *value)
{
    pairs_add(&x->reply_headers, gs_arena_strdup(&x->arena, name),
              gs_arena_strdup(&x->arena, value));
}

size_t http_reply_headers_len(const struct http_exchange *x)
{
    size_t len = 0;
    for (size_t i = 0; i < x->reply_headers.len; i++)
        len += strlen(x->reply_headers.items[i].name) + strlen(x->reply_headers.items[i].value);
    return len;
}

void http_reply(struct http_exchange *x, int status, const char *content_type, struct gs_slice body)
{
    if (!answer_once(x))
        return;
    if (x->on_response)
        x->on_response(x->response_arg, status, content_type, body);
    if (!x->gone)
        x->ops->reply(x, status, content_type, body);
    http_exchange_unref(x);
}

void http_reply_head(struct http_exchange *x, int status, const char *content_type, int64_t length)
{
    x->has_body_length = true;
    x->body_length = length;
    http_reply(x, status, content_type, GS_SLICE(""));
}

struct http_bytes {
    unsigned refs;
    struct gs_buf text;
};

struct http_bytes *http_bytes_new(struct gs_buf *text)
{
    struct http_bytes *b = gs_alloc(sizeof(*b));
    b->refs = 1;
    b->text = *text;
    *text = (struct gs_buf){0};
    return b;
}

struct http_bytes *http_bytes_ref(struct http_bytes *b)
{
    b->refs++;
    return b;
}

void http_bytes_unref(struct http_bytes *b)
{
    if (!b || --b->refs > 0)
        return;
    gs_buf_finish(&b->text);
    free(b);
}

unsigned http_bytes_refs(const struct http_bytes *b)
{
    return b->refs;
}

struct gs_slice http_bytes_slice(const struct http_bytes *b)
{
    return gs_buf_slice(&b->text);
}

struct gs_buf *http_bytes_edit(struct http_bytes **b, size_t keep)
{
    struct http_bytes *old = *b;
    if (old->refs == 1) {
        old->text.len = old->text.len < keep ? old->text.len : keep;
        gs_buf_add(&old->text, "", 0); // the NUL at the end
        return &old->text;
    }
    struct gs_slice text = gs_buf_slice(&old->text);
    struct gs_buf copy = {0};
    gs_buf_add(&copy, text.data, text.len < keep ? text.len : keep);
    http_bytes_unref(old);
    *b = http_bytes_new(&copy);
    return &(*b)->text;
}

void http_reply_bytes(struct http_exchange *x, int status, const char *content_type,
                      struct http_bytes *body)
{
    x->shared = body;
    x->refs++; // the exchange may be freed after the reply
    http_reply(x, status, content_type, http_bytes_slice(body));
    x->shared = NULL;
    http_exchange_unref(x);
}

void http_reply_text(struct http_exchange *x, int status, const char *fmt, ...)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    http_reply(x, status, "text/plain; charset=utf-8", gs_buf_slice(&text));
}

struct http_upgrade *http_reply_upgrade(struct http_exchange *x, const char *protocol,
                                        const struct http_upgrade_callbacks *cb, void *arg)
{
    if (!x->ops->upgrade || x->gone || !answer_once(x))
        return NULL;
    if (x->on_response)
        x->on_response(x->response_arg, 101, NULL, (struct gs_slice){0});
    struct http_upgrade *u = x->ops->upgrade(x, protocol, cb, arg);
    http_exchange_unref(x);
    return u;
}

void http_on_abort(struct http_exchange *x, void (*cb)(void *arg), void *arg)
{
    x->on_abort = cb;
    x->abort_arg = arg;
}

void http_on_response(struct http_exchange *x,
                      void (*cb)(void *arg, int status, const char *content_type,
                                 struct gs_slice body),
                      void *arg)
{
    x->on_response = cb;
    x->response_arg = arg;
}

static void close_unwanted_stream(void *arg)
{
    struct http_exchange *x = arg;
    struct gs_timer *timer = x->close_timer;
    close_stream(x); // may free the exchange
    gs_timer_free(timer);
}

// on_close must not run before the handler has received the stream.
static void close_stream_later(struct http_exchange *x)
{
    x->close_timer = gs_timer_new(x->loop, x);
    gs_timer_start(x->close_timer, close_unwanted_stream, 0);
}

struct http_stream *http_reply_stream(struct http_exchange *x, int status, const char *content_type,
                                      void (*on_close)(void *arg), void *arg)
{
    if (!answer_once(x))
        return NULL;
    if (x->on_response)
        x->on_response(x->response_arg, status, content_type, (struct gs_slice){0});
    x->stream.open = true;
    x->stream.on_close = on_close;
    x->stream.arg = arg;
    if (x->gone) {
        x->stream.cut = true;
        close_stream_later(x);
    } else {
        x->ops->stream_begin(x, status, content_type);
    }
    return &x->stream;
}

static void stream_changed(struct http_stream *s)
{
    struct http_exchange *x = GS_CONTAINER_OF(s, struct http_exchange, stream);
    if (!x->gone)
        x->ops->stream_changed(x);
}

void http_stream_write(struct http_stream *s, struct gs_slice bytes)
{
    if (!s->open || s->ended || s->cut || bytes.len == 0)
        return;
    if (bytes.len > HTTP_STREAM_LIMIT - http_stream_pending(s)) {
        http_stream_cut(s);
        return;
    }
    gs_buf_add_slice(&s->queue, bytes);
    stream_changed(s);
}

void http_stream_cut(struct http_stream *s)
{
    s->cut = true;
    gs_buf_finish(&s->queue);
    s->sent = 0;
    stream_changed(s);
}

size_t http_stream_pending(const struct http_stream *s)
{
    return s->queue.len - s->sent;
}

void http_stream_end(struct http_stream *s)
{
    if (!s->open || s->ended)
        return;
    s->ended = true;
    stream_changed(s);
}

void http_stream_limit_stall(struct http_stream *s, unsigned ms)
{
    struct http_exchange *x = GS_CONTAINER_OF(s, struct http_exchange, stream);
    if (!x->gone && x->ops->stream_limit_stall)
        x->ops->stream_limit_stall(x, ms);
}

struct gs_slice http_stream_front(const struct http_stream *s)
{
    return gs_slice_make(s->queue.data ? s->queue.data + s->sent : NULL, s->queue.len - s->sent);
}

// Memory that a stream keeps when all its bytes are sent.
enum { KEPT_QUEUE = 64 * 1024 };

void http_stream_consume(struct http_stream *s, size_t n)
{
    s->sent += n;
    // The rest is moved to the front only if it is the smaller part, so that the total cost is
    // linear.
    if (s->sent * 2 < s->queue.len)
        return;
    gs_buf_consume(&s->queue, s->sent);
    s->sent = 0;
    // A peak is not kept for hours by a stream that is quiet afterwards.
    if (s->queue.len == 0 && s->queue.cap > KEPT_QUEUE)
        gs_buf_finish(&s->queue);
}
