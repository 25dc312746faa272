// SPDX-License-Identifier: Apache-2.0
// The engine of this process as a source. It calls back in the middle of its evaluation, so
// results are copied and delivered in the next turn of the loop: callers must be able to cancel,
// and the store frees labels of series that end.
#include "adapter/sources.h"

#include "adapter/source/source.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "engine/api/api.h"
#include "engine/engine.h"

#include <sys/queue.h>

enum { DEFAULT_TIMEOUT_MS = 30000 };
#define MAX_RESULT ((size_t)256 * 1024 * 1024)
#define NAME       "the engine"

// One call, until its result is delivered. The engine calls back in the middle of its work, so the
// result is delivered in the next turn of the loop.
struct engine_call {
    TAILQ_ENTRY(engine_call) answered;
    struct engine_backend *backend;
    struct engine_api_local_query *query; // NULL: answered
    bool names;                           // of series, not their labels
    struct source_result *result;
    struct source_shapes *shapes;
    struct gs_error *err;
    source_backend_result_fn on_result;
    source_shapes_fn on_shapes;
    void *arg;
};
TAILQ_HEAD(engine_calls, engine_call);

struct engine_backend {
    struct source_backend base;
    struct engine_api *api;
    const struct tsdb *db;
    int64_t timeout_ms;
    struct engine_calls answered;
    size_t n_answered;
    uv_idle_t *idle;
};

static void engine_call_free(struct engine_call *c)
{
    source_result_unref(c->result);
    source_shapes_free(c->shapes);
    gs_error_free(c->err);
    free(c);
}

static void deliver_call(struct engine_call *c)
{
    struct source_result *result = GS_TAKE(c->result);
    struct source_shapes *shapes = GS_TAKE(c->shapes);
    struct gs_error *err = GS_TAKE(c->err);
    source_backend_result_fn on_result = c->on_result;
    source_shapes_fn on_shapes = c->on_shapes;
    void *arg = c->arg;
    engine_call_free(c);
    if (on_result)
        on_result(arg, result, err);
    else
        on_shapes(arg, shapes, err);
}

static void on_idle(uv_idle_t *h)
{
    struct engine_backend *b = h->data;
    struct engine_call *c;
    uv_idle_stop(h);
    // Calls that the callbacks start are delivered in the next turn.
    for (size_t n = b->n_answered; n && (c = TAILQ_FIRST(&b->answered)); n--) {
        TAILQ_REMOVE(&b->answered, c, answered);
        b->n_answered--;
        deliver_call(c);
    }
}

// --- results ---

static struct gs_slice copy_text(struct gs_arena *a, struct gs_slice s, bool *ok)
{
    const char *copy = gs_arena_strndup(a, s.data, s.len);
    *ok = *ok && copy;
    return gs_slice_make(copy, copy ? s.len : 0);
}

// Copies the texts: the store frees them when their series ends.
static bool copy_labels(const struct promql_result *r, struct tsdb_labels l, struct gs_arena *a,
                        struct source_sample *s)
{
    bool ok = true;
    size_t n = tsdb_labels_len(l);
    struct metrics_label *labels = gs_arena_alloc(a, (n + 1) * sizeof(*labels));
    for (size_t i = 0; labels && i < n; i++) {
        struct metrics_label label = promql_label_at(r, l, i);
        labels[i].name = copy_text(a, label.name, &ok);
        labels[i].value = copy_text(a, label.value, &ok);
    }
    s->labels = labels;
    s->n_labels = n;
    return ok && labels;
}

static bool copy_vector(const struct promql_result *r, struct source_result *to)
{
    size_t n = r->is_raw ? 0 : r->matrix.n;
    struct source_sample *samples = gs_arena_alloc(&to->arena, (n + 1) * sizeof(*samples));
    bool ok = samples != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        samples[i].value = r->matrix.series[i].v[0];
        samples[i].t_ms = r->start_ms;
        ok = copy_labels(r, r->matrix.series[i].labels, &to->arena, &samples[i]);
    }
    to->samples = samples;
    to->n = n;
    return ok;
}

static struct gs_error *copy_result(const struct promql_result *r, struct source_result **ret)
{
    static const enum source_type types[] = {
        [PROMQL_RESULT_SCALAR] = SOURCE_SCALAR,
        [PROMQL_RESULT_VECTOR] = SOURCE_VECTOR,
        [PROMQL_RESULT_MATRIX] = SOURCE_MATRIX,
        [PROMQL_RESULT_STRING] = SOURCE_STRING,
    };
    struct source_result *to = gs_alloc(sizeof(*to));
    to->refs = 1;
    to->arena.limit = MAX_RESULT;
    to->type = types[r->type];
    bool has_values = to->type == SOURCE_VECTOR || to->type == SOURCE_SCALAR;
    if (has_values && !copy_vector(r, to)) {
        source_result_unref(to);
        return gs_error_new(GS_ELIMIT, "the result is larger than %zu bytes", MAX_RESULT);
    }
    *ret = to;
    return NULL;
}

// --- lists of series ---

struct shapes {
    struct source_shapes *out;
    bool names;            // without labels
    struct gs_hmap *index; // name and label names (symbols) -> index + 1
    size_t cap;
    struct gs_buf key;
};

static bool add_shape(struct shapes *s, const struct tsdb_symbols *symbols, struct tsdb_labels l)
{
    struct source_shapes *o = s->out;
    bool ok = true;
    gs_grow(&o->items, &s->cap, o->n, sizeof(*o->items));
    struct source_shape *shape = &o->items[o->n];
    size_t n = s->names ? 0 : l.n;
    struct gs_slice *names = gs_arena_alloc(&o->arena, (n + 1) * sizeof(*names));
    *shape = (struct source_shape){.labels = names};
    shape->name = copy_text(&o->arena, tsdb_symbol_text(symbols, l.metric), &ok);
    for (size_t i = 0; names && i < n; i++)
        names[shape->n_labels++] =
            copy_text(&o->arena, tsdb_symbol_text(symbols, l.pairs[i].name), &ok);
    o->n++;
    gs_hmap_put(s->index, gs_buf_slice(&s->key), (void *)(uintptr_t)o->n);
    return ok && names;
}

static bool count_series(struct shapes *s, const struct tsdb_symbols *symbols, struct tsdb_labels l)
{
    gs_buf_clear(&s->key);
    gs_buf_add(&s->key, &l.metric, sizeof(l.metric));
    for (size_t i = 0; !s->names && i < l.n; i++)
        gs_buf_add(&s->key, &l.pairs[i].name, sizeof(l.pairs[i].name));
    size_t at = (size_t)(uintptr_t)gs_hmap_get(s->index, gs_buf_slice(&s->key));
    if (!at && !add_shape(s, symbols, l))
        return false;
    struct source_shape *shape = &s->out->items[at ? at - 1 : s->out->n - 1];
    shape->series++;
    shape->last_seen = ++s->out->series;
    return true;
}

static struct gs_error *copy_shapes(const struct engine_api_local_result *t, bool names,
                                    struct source_shapes **ret)
{
    struct shapes s = {.out = gs_alloc(sizeof(*s.out)), .names = names, .index = gs_hmap_new(NULL)};
    s.out->arena.limit = MAX_RESULT;
    bool ok = true;
    for (size_t i = 0; ok && i < t->refs->len; i++)
        ok = count_series(&s, tsdb_symbols(t->db), tsdb_series_labels(t->db, t->refs->items[i]));
    gs_hmap_free(s.index);
    gs_buf_finish(&s.key);
    if (ok) {
        if (names)
            source_shapes_sort(s.out);
        *ret = s.out;
        return NULL;
    }
    source_shapes_free(s.out);
    return gs_error_new(GS_ELIMIT, "the list of series is larger than %zu bytes", MAX_RESULT);
}

// --- calls ---

static void on_engine_result(void *arg, const struct engine_api_local_result *t,
                             struct gs_error *err)
{
    struct engine_call *c = arg;
    c->query = NULL;
    if (!err)
        err = t->result ? copy_result(t->result, &c->result) : copy_shapes(t, c->names, &c->shapes);
    c->err = err ? gs_error_wrap(err, NAME) : NULL;
    TAILQ_INSERT_TAIL(&c->backend->answered, c, answered);
    c->backend->n_answered++;
    uv_idle_start(c->backend->idle, on_idle);
}

static struct engine_call *call_new(struct source_backend *b, void *arg)
{
    struct engine_call *c = gs_alloc(sizeof(*c));
    c->backend = GS_CONTAINER_OF(b, struct engine_backend, base);
    c->arg = arg;
    return c;
}

static void *engine_query(struct source_backend *b, const char *promql, int64_t time_ms,
                          source_backend_result_fn done, void *arg)
{
    struct engine_call *c = call_new(b, arg);
    c->on_result = done;
    struct engine_backend *e = c->backend;
    // If the engine has called back already, the call is in the list.
    struct engine_api_local_query *query =
        engine_api_local_instant(e->api, promql, time_ms, e->timeout_ms, on_engine_result, c);
    if (query)
        c->query = query;
    return c;
}

static void *list_series(struct source_backend *b, const char *selector, int64_t start_ms,
                         bool names, source_shapes_fn done, void *arg)
{
    struct engine_call *c = call_new(b, arg);
    c->on_shapes = done;
    c->names = names;
    struct engine_api_local_query *query =
        engine_api_local_series(c->backend->api, selector, start_ms, on_engine_result, c);
    if (query)
        c->query = query;
    return c;
}

static void *engine_series(struct source_backend *b, const char *selector, int64_t start_ms,
                           source_shapes_fn done, void *arg)
{
    return list_series(b, selector, start_ms, false, done, arg);
}

static void *engine_names(struct source_backend *b, const char *selector, int64_t start_ms,
                          source_shapes_fn done, void *arg)
{
    return list_series(b, selector, start_ms, true, done, arg);
}

static void engine_cancel(struct source_backend *b, void *call)
{
    struct engine_call *c = call;
    (void)b;
    if (c->query) {
        engine_api_local_query_cancel(c->query);
    } else {
        TAILQ_REMOVE(&c->backend->answered, c, answered);
        c->backend->n_answered--;
    }
    engine_call_free(c);
}

// --- setup ---

static const char *engine_name(const struct source_backend *b)
{
    (void)b;
    return NAME;
}

// Misses a series that replaces another; the next periodic list finds it.
static uint64_t engine_series_version(const struct source_backend *b)
{
    return tsdb_series_count(GS_CONTAINER_OF(b, const struct engine_backend, base)->db) + 1;
}

static void idle_closed(uv_handle_t *h)
{
    free(h);
}

static void backend_free(struct source_backend *b)
{
    struct engine_backend *e = GS_CONTAINER_OF(b, struct engine_backend, base);
    uv_close((uv_handle_t *)e->idle, idle_closed);
    free(e);
}

struct source *adapter_source_new_engine(uv_loop_t *loop, struct engine *engine, int64_t timeout_ms,
                                         int64_t max_age_ms)
{
    static const struct source_backend_ops ops = {.name = engine_name,
                                                  .query = engine_query,
                                                  .series = engine_series,
                                                  .names = engine_names,
                                                  .cancel = engine_cancel,
                                                  .free = backend_free,
                                                  .series_version = engine_series_version};
    struct engine_backend *e = gs_alloc(sizeof(*e));
    e->base.ops = &ops;
    e->api = engine_http_api(engine);
    e->db = engine_tsdb(engine);
    e->timeout_ms = timeout_ms ? timeout_ms : DEFAULT_TIMEOUT_MS;
    TAILQ_INIT(&e->answered);
    e->idle = gs_alloc(sizeof(*e->idle));
    uv_idle_init(loop, e->idle);
    e->idle->data = e;
    return source_new(loop, &e->base, max_age_ms);
}
