// SPDX-License-Identifier: Apache-2.0
// Shares calls: equal queries at the same time are sent once, and a response is shared for
// max_age_ms, so that many autoscalers in one sync period need one query.
#include "adapter/source/source_private.h"
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"

#include <sys/queue.h>

enum { MAX_CACHED = 4096 };

struct fetch;

// One caller.
struct source_op {
    TAILQ_ENTRY(source_op) peers;
    struct fetch *fetch;          // pending; NULL: ready
    struct source *source;        // of a ready call
    struct source_result *result; // of a ready one
    source_vector_fn on_vector;
    source_shapes_fn on_shapes;
    source_type_fn on_type;
    void *arg;
};
TAILQ_HEAD(op_list, source_op);

// One call to the backend and its cached response.
struct fetch {
    struct source *source;
    TAILQ_ENTRY(fetch) all;
    char *key;      // the query text; NULL: not shared (series, or another time than now)
    char *selector; // of a list, as requested, if aliases are added to it; NULL: not
    void *call;     // of the backend; NULL: answered
    struct op_list ops;
    struct source_result *result;
    int64_t started_ns, done_ns;
};
TAILQ_HEAD(fetch_list, fetch);

struct source {
    uv_loop_t *loop;
    struct source_backend *backend;
    int64_t max_age_ns;
    struct fetch_list fetches;
    struct gs_hmap *shared; // key -> struct fetch
    struct op_list ready;   // served from the cache, delivered in the next turn
    size_t n_ready;
    uv_idle_t *idle;
    struct source_stats stats;
    char *last_error;
    struct source_aliases *aliases; // NULL: not wanted
};

// --- delivery ---

static void fetch_free(struct fetch *f)
{
    if (f->key && gs_hmap_get_str(f->source->shared, f->key) == f)
        gs_hmap_remove_str(f->source->shared, f->key);
    if (f->call)
        f->source->backend->ops->cancel(f->source->backend, f->call);
    source_result_unref(f->result);
    free(f->key);
    free(f->selector);
    free(f);
}

static struct gs_error *copy_error(const struct gs_error *err)
{
    return err ? gs_error_new(gs_error_code(err), "%s", gs_error_message(err)) : NULL;
}

// Delivers to all callers. Their callbacks may start new calls.
static void deliver_fetch(struct fetch *f, struct gs_error *err)
{
    struct source_op *op;
    while ((op = TAILQ_FIRST(&f->ops))) {
        TAILQ_REMOVE(&f->ops, op, peers);
        if (op->on_vector)
            op->on_vector(op->arg, f->result, copy_error(err));
        free(op);
    }
}

static void count_response(struct source *s, const struct fetch *f, const struct gs_error *err)
{
    s->stats.queries++;
    s->stats.seconds += (double)(gs_mono_ns() - f->started_ns) / 1e9;
    if (err) {
        s->stats.failures++;
    } else {
        s->stats.last_ok_ms = gs_unix_ms();
        s->stats.last_ok_ns = gs_mono_ns();
    }
    free(s->last_error);
    s->last_error = err ? gs_strdup(gs_error_message(err)) : NULL;
    s->stats.last_error = s->last_error;
}

// Ends a call that is not shared. Returns its caller, which is freed by the caller of this
// function. NULL: it was cancelled.
static struct source_op *end_single(struct fetch *f, const struct gs_error *err)
{
    struct source_op *op = TAILQ_FIRST(&f->ops);
    f->call = NULL;
    count_response(f->source, f, err);
    TAILQ_REMOVE(&f->source->fetches, f, all);
    if (op)
        TAILQ_REMOVE(&f->ops, op, peers);
    return op;
}

static void on_type(void *arg, const char *type, struct gs_error *err)
{
    struct fetch *f = arg;
    struct source_op *op = end_single(f, err);
    if (op)
        op->on_type(op->arg, type, err);
    else
        gs_error_free(err);
    free(op);
    fetch_free(f);
}

static void on_series(void *arg, struct source_shapes *shapes, struct gs_error *err)
{
    struct fetch *f = arg;
    struct source_op *op = end_single(f, err);
    if (shapes && f->selector)
        source_aliases_complete(f->source->aliases, f->selector, shapes);
    if (op) {
        op->on_shapes(op->arg, shapes, err);
        free(op);
    } else {
        source_shapes_free(shapes);
        gs_error_free(err);
    }
    fetch_free(f);
}

// Frees expired responses. The list is in the order of the calls, so expired ones are at its front.
// A pending call at the front delays them by its timeout at most.
static void drop_old(struct source *s)
{
    int64_t now = gs_mono_ns();
    for (struct fetch *f = TAILQ_FIRST(&s->fetches), *next; f; f = next) {
        bool over = now - f->done_ns > s->max_age_ns || gs_hmap_len(s->shared) > MAX_CACHED;
        if (!f->done_ns || !TAILQ_EMPTY(&f->ops) || !over)
            return;
        next = TAILQ_NEXT(f, all);
        TAILQ_REMOVE(&s->fetches, f, all);
        fetch_free(f);
    }
}

static void on_query_result(void *arg, struct source_result *r, struct gs_error *err)
{
    struct fetch *f = arg;
    struct source *s = f->source;
    f->call = NULL;
    f->result = r;
    count_response(s, f, err);
    f->done_ns = gs_mono_ns();
    bool stays = !err && f->key && s->max_age_ns > 0;
    if (stays)
        f->result->until_ns = f->done_ns + s->max_age_ns;
    if (!stays) {
        TAILQ_REMOVE(&s->fetches, f, all);
        if (f->key)
            gs_hmap_remove_str(s->shared, f->key);
    }
    deliver_fetch(f, err);
    gs_error_free(err);
    if (!stays) {
        free(GS_TAKE(f->key));
        fetch_free(f);
    }
    drop_old(s);
}

// --- calls ---

static struct fetch *fetch_new(struct source *s)
{
    struct fetch *f = gs_alloc(sizeof(*f));
    f->source = s;
    TAILQ_INIT(&f->ops);
    TAILQ_INSERT_TAIL(&s->fetches, f, all);
    return f;
}

static void on_idle(uv_idle_t *h)
{
    struct source *s = h->data;
    uv_idle_stop(h);
    for (size_t n = s->n_ready; n && s->n_ready; n--) {
        struct source_op *op = TAILQ_FIRST(&s->ready);
        TAILQ_REMOVE(&s->ready, op, peers);
        s->n_ready--;
        op->on_vector(op->arg, op->result, NULL);
        source_result_unref(op->result);
        free(op);
    }
    if (s->n_ready)
        uv_idle_start(h, on_idle);
}

// Schedules a cached response for delivery in the next turn of the loop.
static struct source_op *take_ready(struct source *s, struct fetch *f, source_vector_fn cb,
                                    void *arg)
{
    struct source_op *op = gs_alloc(sizeof(*op));
    op->source = s;
    op->result = source_result_ref(f->result);
    op->on_vector = cb;
    op->arg = arg;
    TAILQ_INSERT_TAIL(&s->ready, op, peers);
    s->n_ready++;
    uv_idle_start(s->idle, on_idle);
    return op;
}

static struct source_op *add_source_op(struct fetch *f, source_vector_fn cb, void *arg)
{
    struct source_op *op = gs_alloc(sizeof(*op));
    op->fetch = f;
    op->on_vector = cb;
    op->arg = arg;
    TAILQ_INSERT_TAIL(&f->ops, op, peers);
    return op;
}

static struct source_op *query_as_written(struct source *s, const char *promql, int64_t time_ms,
                                          source_vector_fn cb, void *arg)
{
    struct fetch *f = time_ms ? NULL : gs_hmap_get_str(s->shared, promql);
    if (f && f->done_ns && gs_mono_ns() - f->done_ns > s->max_age_ns && TAILQ_EMPTY(&f->ops)) {
        TAILQ_REMOVE(&s->fetches, f, all);
        fetch_free(f);
        f = NULL;
    }
    if (f) {
        s->stats.shared++;
        return f->done_ns ? take_ready(s, f, cb, arg) : add_source_op(f, cb, arg);
    }
    f = fetch_new(s);
    if (!time_ms) {
        f->key = gs_strdup(promql);
        gs_hmap_put_str(s->shared, promql, f);
    }
    struct source_op *op = add_source_op(f, cb, arg);
    f->started_ns = gs_mono_ns();
    f->call = s->backend->ops->query(s->backend, promql, time_ms ? time_ms : gs_unix_ms(),
                                     on_query_result, f);
    return op;
}

struct source_op *source_query(struct source *s, const char *promql, int64_t time_ms,
                               source_vector_fn cb, void *arg)
{
    GS_AUTO_BUF struct gs_buf aliased = {0};
    source_aliases_query(s->aliases, promql, &aliased, NULL);
    return query_as_written(s, aliased.len ? aliased.data : promql, time_ms, cb, arg);
}

static struct source_op *add_list(struct source *s, source_shapes_fn cb, void *arg,
                                  struct fetch **ret)
{
    struct fetch *f = fetch_new(s);
    struct source_op *op = add_source_op(f, NULL, arg);
    op->on_shapes = cb;
    f->started_ns = gs_mono_ns();
    *ret = f;
    return op;
}

struct source_op *source_series(struct source *s, const char *selector, int64_t start_ms,
                                source_shapes_fn cb, void *arg)
{
    struct fetch *f;
    struct source_op *op = add_list(s, cb, arg, &f);
    GS_AUTO_BUF struct gs_buf wide = {0};
    source_aliases_selector(s->aliases, selector, &wide);
    f->selector = s->aliases ? gs_strdup(selector) : NULL;
    f->call = s->backend->ops->series(s->backend, wide.len ? wide.data : selector, start_ms,
                                      on_series, f);
    return op;
}

struct source_op *source_names(struct source *s, const char *selector, int64_t start_ms,
                               source_shapes_fn cb, void *arg)
{
    struct fetch *f;
    struct source_op *op = add_list(s, cb, arg, &f);
    f->call = s->backend->ops->names(s->backend, selector, start_ms, on_series, f);
    return op;
}

struct source_op *source_type_of(struct source *s, const char *metric, source_type_fn cb, void *arg)
{
    struct fetch *f = fetch_new(s);
    struct source_op *op = add_source_op(f, NULL, arg);
    op->on_type = cb;
    f->started_ns = gs_mono_ns();
    f->call = s->backend->ops->type(s->backend, metric, on_type, f);
    return op;
}

void source_cancel(struct source_op *op)
{
    if (!op)
        return;
    struct fetch *f = op->fetch;
    if (f) {
        TAILQ_REMOVE(&f->ops, op, peers);
    } else {
        TAILQ_REMOVE(&op->source->ready, op, peers);
        op->source->n_ready--;
        source_result_unref(op->result);
    }
    if (f && TAILQ_EMPTY(&f->ops) && f->call) {
        TAILQ_REMOVE(&f->source->fetches, f, all);
        fetch_free(f);
    }
    free(op);
}

// --- setup ---

static void idle_closed(uv_handle_t *h)
{
    free(h);
}

struct source *source_new(uv_loop_t *loop, struct source_backend *backend, int64_t max_age_ms)
{
    struct source *s = gs_alloc(sizeof(*s));
    s->loop = loop;
    s->backend = backend;
    s->max_age_ns = max_age_ms * GS_NS_PER_MS;
    s->shared = gs_hmap_new(NULL);
    s->idle = gs_alloc(sizeof(*s->idle));
    uv_idle_init(loop, s->idle);
    s->idle->data = s;
    TAILQ_INIT(&s->fetches);
    TAILQ_INIT(&s->ready);
    return s;
}

void source_set_aliases(struct source *s, bool wanted)
{
    if (wanted && !s->aliases)
        s->aliases = source_aliases_new();
    else if (!wanted)
        source_aliases_free(GS_TAKE(s->aliases));
}

void source_aliased_query(const struct source *s, const char *promql, struct gs_buf *ret_query,
                          struct gs_buf *ret_notes)
{
    source_aliases_query(s->aliases, promql, ret_query, ret_notes);
}

void source_forget_old(struct source *s)
{
    drop_old(s);
}

void source_expire(struct source *s)
{
    for (struct fetch *f = TAILQ_FIRST(&s->fetches), *next; f; f = next) {
        next = TAILQ_NEXT(f, all);
        if (!f->done_ns || !TAILQ_EMPTY(&f->ops))
            continue;
        TAILQ_REMOVE(&s->fetches, f, all);
        fetch_free(f);
    }
}

void source_free(struct source *s)
{
    if (!s)
        return;
    struct fetch *f;
    struct source_op *op;
    while ((f = TAILQ_FIRST(&s->fetches))) {
        while ((op = TAILQ_FIRST(&f->ops))) {
            TAILQ_REMOVE(&f->ops, op, peers);
            free(op);
        }
        TAILQ_REMOVE(&s->fetches, f, all);
        fetch_free(f);
    }
    while ((op = TAILQ_FIRST(&s->ready))) {
        TAILQ_REMOVE(&s->ready, op, peers);
        source_result_unref(op->result);
        free(op);
    }
    s->backend->ops->free(s->backend);
    source_aliases_free(s->aliases);
    gs_hmap_free(s->shared);
    uv_close((uv_handle_t *)s->idle, idle_closed);
    free(s->last_error);
    free(s);
}

uint64_t source_series_version(const struct source *s)
{
    const struct source_backend *b = s->backend;
    return b->ops->series_version ? b->ops->series_version(b) : 0;
}

bool source_is_near(const struct source *s)
{
    return s->backend->near;
}

const char *source_name(const struct source *s)
{
    return s->backend->ops->name(s->backend);
}

void source_stats(const struct source *s, struct source_stats *ret)
{
    *ret = s->stats;
}
