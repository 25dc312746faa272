// SPDX-License-Identifier: Apache-2.0
// In-process HTTP: the handler is called in a later turn of the loop, and its reply is delivered to
// the caller in a turn after that. Therefore neither side is called inside the other.
#include "base/clock.h"
#include "base/mem.h"
#include "base/timer.h"
#include "base/turn.h"
#include "net/http/client.h"
#include "net/http/http_private.h"

#include <sys/queue.h>

// What an iteration of the loop does not do in this time (base/turn.h) continues in the next, so
// that the sockets of the loop are served meanwhile. A few requests always start: a handler that
// queues long requests must receive the short ones after them.
#define TURNS 4
#define FEW   8

struct loopback_op;
TAILQ_HEAD(loopback_list, loopback_op);

struct loopback_client {
    struct http_client base;
    uv_loop_t *loop;
    http_handler handler;
    void *ctx;
    struct gs_arena arena; // of identity
    struct http_identity identity;
    uv_idle_t turn; // runs once in each turn of the loop; a timer could run twice
    uint64_t turn_number;
    struct loopback_list ops;   // all, by `all`
    struct loopback_list ready; // operations with work for a later turn
    bool closed;
};

struct loopback_exchange {
    struct http_exchange x;
    struct loopback_op *op; // NULL after the caller has cancelled
};

struct loopback_op {
    struct http_op base;
    TAILQ_ENTRY(loopback_op) all, queue;
    struct gs_timer *deadline;
    struct loopback_exchange *exchange;
    struct http_callbacks cb;
    void *arg;
    struct gs_error *failed; // found out while sending
    uint64_t queued_in;      // turn
    bool queued, started, replied, finished, cancelled;
    int status;
    char *content_type;
    struct gs_buf head, body;
    size_t max_reply;
    unsigned timeout_ms;
};

static struct loopback_client *client_of(struct loopback_op *op)
{
    return GS_CONTAINER_OF(op->base.client, struct loopback_client, base);
}

static void run_turn(uv_idle_t *t);

static void wake_loopback(struct loopback_op *op)
{
    struct loopback_client *c = client_of(op);
    if (op->queued || op->finished)
        return;
    op->queued = true;
    op->queued_in = c->turn_number;
    TAILQ_INSERT_TAIL(&c->ready, op, queue);
    uv_idle_start(&c->turn, run_turn);
}

// --- carrier side: what the handler does ---

static void carrier_reply(struct http_exchange *x, int status, const char *content_type,
                          struct gs_slice body)
{
    struct loopback_op *op = GS_CONTAINER_OF(x, struct loopback_exchange, x)->op;
    op->status = status;
    op->content_type = gs_strdup(content_type);
    for (size_t i = 0; i < x->reply_headers.len; i++)
        gs_buf_addf(&op->head, "%s: %s\r\n", x->reply_headers.items[i].name,
                    x->reply_headers.items[i].value);
    if (!x->is_head)
        gs_buf_add_slice(&op->body, body);
    op->replied = true;
    wake_loopback(op);
}

static void carrier_stream_begin(struct http_exchange *x, int status, const char *content_type)
{
    struct loopback_op *op = GS_CONTAINER_OF(x, struct loopback_exchange, x)->op;
    op->status = status;
    op->content_type = gs_strdup(content_type);
    op->replied = x->is_head; // a stream ends with its headers
    if (op->replied)
        wake_loopback(op);
}

static void carrier_stream_changed(struct http_exchange *x)
{
    wake_loopback(GS_CONTAINER_OF(x, struct loopback_exchange, x)->op);
}

static void carrier_release(struct http_exchange *x)
{
    free(GS_CONTAINER_OF(x, struct loopback_exchange, x));
}

static const struct http_carrier_ops carrier_ops = {
    .reply = carrier_reply,
    .stream_begin = carrier_stream_begin,
    .stream_changed = carrier_stream_changed,
    .release = carrier_release,
};

// --- caller side ---

static void op_closed(void *arg)
{
    struct loopback_op *op = arg;
    free(op->content_type);
    gs_buf_finish(&op->head);
    gs_buf_finish(&op->body);
    gs_error_free(op->failed);
    free(op);
}

// on_abort of the handler may be called from here.
static void let_go_of_exchange(struct loopback_op *op)
{
    struct loopback_exchange *e = GS_TAKE(op->exchange);
    if (!e)
        return;
    e->op = NULL;
    http_exchange_gone(&e->x);
    http_exchange_unref(&e->x);
}

// Removes the operation from the client. Its memory stays until the loop has closed the timer.
static void retire_loopback_op(struct loopback_op *op)
{
    struct loopback_client *c = client_of(op);
    op->finished = true;
    TAILQ_REMOVE(&c->ops, op, all);
    if (op->queued)
        TAILQ_REMOVE(&c->ready, op, queue);
    gs_timer_close(op->deadline, op_closed);
    let_go_of_exchange(op);
}

// Takes err.
static void finish_loopback_op(struct loopback_op *op, const struct http_response *response,
                               struct gs_error *err)
{
    retire_loopback_op(op);
    if (op->cancelled) // freed by the handler, in its on_abort or on_close
        gs_error_free(err);
    else
        op->cb.on_done(op->arg, response, err);
}

static void fail_loopback_op(struct loopback_op *op, struct gs_error *err)
{
    struct http_response none = {0};
    finish_loopback_op(op, &none, err);
}

static void complete_loopback_op(struct loopback_op *op)
{
    struct http_response response = {.status = op->status,
                                     .content_type = op->content_type,
                                     .body = gs_buf_slice(&op->body),
                                     .head = gs_buf_slice(&op->head)};
    finish_loopback_op(op, &response, NULL);
}

static struct gs_error *too_large(const struct loopback_op *op)
{
    return gs_error_new(GS_ELIMIT, "loopback: the reply is larger than the limit of %zu bytes",
                        op->max_reply);
}

static void deliver_stream(struct loopback_op *op)
{
    struct http_stream *s = &op->exchange->x.stream;
    if (s->cut) {
        fail_loopback_op(
            op, gs_error_new(GS_ELIMIT,
                             "loopback: the stream was closed: more than %u bytes were buffered",
                             HTTP_STREAM_LIMIT));
        return;
    }
    bool ended = s->ended;
    struct gs_buf bytes = s->queue;
    s->queue = (struct gs_buf){0};
    if (op->cb.on_data && op->status == 200) {
        if (bytes.len)
            op->cb.on_data(op->arg, gs_buf_slice(&bytes));
    } else if (bytes.len > op->max_reply - op->body.len) {
        fail_loopback_op(op, too_large(op));
    } else {
        gs_buf_add_slice(&op->body, gs_buf_slice(&bytes));
    }
    gs_buf_finish(&bytes);
    if (!op->finished && ended)
        complete_loopback_op(op);
}

static void deliver_reply(struct loopback_op *op)
{
    if (op->body.len > op->max_reply) {
        fail_loopback_op(op, too_large(op));
        return;
    }
    if (op->cb.on_data && op->status == 200) {
        struct gs_buf bytes = op->body;
        op->body = (struct gs_buf){0};
        if (bytes.len)
            op->cb.on_data(op->arg, gs_buf_slice(&bytes));
        gs_buf_finish(&bytes);
    }
    if (!op->finished)
        complete_loopback_op(op);
}

static void deliver_loopback(struct loopback_op *op)
{
    if (op->failed) {
        fail_loopback_op(op, GS_TAKE(op->failed));
    } else if (!op->started) {
        struct loopback_client *c = client_of(op);
        op->started = true;
        http_exchange_run(&op->exchange->x, c->handler, c->ctx);
    } else if (op->replied) {
        deliver_reply(op);
    } else {
        deliver_stream(op);
    }
}

static void run_turn(uv_idle_t *t)
{
    struct loopback_client *c = GS_CONTAINER_OF(t, struct loopback_client, turn);
    int64_t end_ns = gs_mono_ns() + TURNS * gs_turn_ns();
    c->turn_number++;
    struct loopback_op *op;
    size_t n = 0;
    while ((op = TAILQ_FIRST(&c->ready)) && op->queued_in < c->turn_number) {
        TAILQ_REMOVE(&c->ready, op, queue);
        op->queued = false;
        deliver_loopback(op);
        if (++n >= FEW && gs_mono_ns() > end_ns)
            break;
    }
    if (TAILQ_EMPTY(&c->ready) && !c->closed)
        uv_idle_stop(&c->turn);
}

static void on_loopback_deadline(void *arg)
{
    struct loopback_op *op = arg;
    fail_loopback_op(
        op, gs_error_new(GS_ETIMEOUT, "loopback: no complete reply within %u ms", op->timeout_ms));
}

static struct loopback_exchange *make_exchange(struct loopback_client *c, struct loopback_op *op,
                                               const struct http_request *request)
{
    struct loopback_exchange *e = gs_alloc(sizeof(*e));
    struct http_exchange *x = &e->x;
    e->op = op;
    http_exchange_init(x, c->loop, &carrier_ops);
    http_exchange_set_method(x, request->method ? request->method : "GET");
    http_exchange_set_identity(x, &c->identity);
    http_exchange_set_peer(x, "loopback");
    for (const struct http_header *h = request->headers; h && h->name; h++)
        http_exchange_add_request_header(x, h->name, h->value);
    if (request->content_type)
        http_exchange_add_request_header(x, "Content-Type", request->content_type);
    gs_buf_add_slice(&x->body, request->body);
    op->failed = http_exchange_set_target(x, gs_slice_of(request->path));
    return e;
}

static struct http_op *loopback_send(struct http_client *base, const struct http_request *request,
                                     const struct http_callbacks *cb, void *arg)
{
    struct loopback_client *c = GS_CONTAINER_OF(base, struct loopback_client, base);
    struct loopback_op *op = gs_alloc(sizeof(*op));
    op->base.client = base;
    op->cb = *cb;
    op->arg = arg;
    op->max_reply = request->max_reply ? request->max_reply : HTTP_DEFAULT_MAX_REPLY;
    op->timeout_ms = http_request_timeout_ms(request);
    op->deadline = gs_timer_new(c->loop, op);
    uv_update_time(c->loop); // the timeout starts now
    if (op->timeout_ms != UINT_MAX)
        gs_timer_start(op->deadline, on_loopback_deadline, op->timeout_ms);
    op->exchange = make_exchange(c, op, request);
    TAILQ_INSERT_TAIL(&c->ops, op, all);
    wake_loopback(op);
    return &op->base;
}

static void loopback_cancel(struct http_op *base)
{
    struct loopback_op *op = GS_CONTAINER_OF(base, struct loopback_op, base);
    op->cancelled = true;
    if (!op->finished)
        retire_loopback_op(op);
}

static void client_closed(uv_handle_t *h)
{
    struct loopback_client *c = GS_CONTAINER_OF(h, struct loopback_client, turn);
    gs_arena_finish(&c->arena);
    free(c);
}

static void loopback_free(struct http_client *base)
{
    struct loopback_client *c = GS_CONTAINER_OF(base, struct loopback_client, base);
    c->closed = true;
    struct loopback_op *op;
    while ((op = TAILQ_FIRST(&c->ops)))
        retire_loopback_op(op);
    uv_close((uv_handle_t *)&c->turn, client_closed);
}

static const struct http_client_ops loopback_ops = {
    .send = loopback_send,
    .cancel = loopback_cancel,
    .free = loopback_free,
};

struct http_client *http_client_new_loopback(uv_loop_t *loop, http_handler handler, void *ctx,
                                             const struct http_identity *identity)
{
    struct loopback_client *c = gs_alloc(sizeof(*c));
    c->base.ops = &loopback_ops;
    c->loop = loop;
    c->handler = handler;
    c->ctx = ctx;
    http_identity_copy(&c->arena, identity, &c->identity);
    TAILQ_INIT(&c->ops);
    TAILQ_INIT(&c->ready);
    uv_idle_init(loop, &c->turn);
    return &c->base;
}
