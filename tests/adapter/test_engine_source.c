// SPDX-License-Identifier: Apache-2.0
// The engine as a source gives the same results as its HTTP API.
#include "adapter/sources.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "net/http/client.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>

enum { PODS = 300 };
#define FINE ((enum gs_code)0)

struct fixture {
    uv_loop_t loop;
    struct engine *engine;
    struct http_client *http;
    struct source *direct, *over_http;
    int64_t now_ms;
};

static void put(struct fixture *f, const char *metric, int pod, double v)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "pod-%d \"\\\xc3\xa9", pod);
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), gs_slice_of(metric)},
                                           {GS_SLICE("pod"), gs_slice_of(name)},
                                           {GS_SLICE("namespace"), GS_SLICE("ml")}};
    assert_ok(tsdb_append(engine_tsdb(f->engine), labels, pod % 2 ? 3 : 2, f->now_ms - 1000, v));
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    const struct engine_options o = {.config_text = "{}"};
    const struct source_options s = {.max_age_ms = 0};
    uv_loop_init(&f->loop);
    f->now_ms = gs_unix_ms();
    assert_ok(engine_new(&f->loop, &o, &f->engine));
    for (int i = 0; i < PODS; i++) {
        put(f, "gpu", i, i * 0.1);
        put(f, "other", i, i % 3 == 0 ? (double)NAN : i % 3 == 1 ? (double)INFINITY : -1e-300);
    }
    f->http = http_client_new_loopback(&f->loop, engine_handle, f->engine, NULL);
    f->direct = adapter_source_new_engine(&f->loop, f->engine, 0, 0);
    f->over_http = source_new_client(&f->loop, f->http, "", &s);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    source_free(f->direct);
    source_free(f->over_http);
    http_client_free(f->http);
    engine_free(f->engine);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

struct answer {
    bool done;
    struct source_result *result;
    struct source_shapes *shapes;
    enum gs_code code;
};

static void on_result(void *arg, struct source_result *r, struct gs_error *err)
{
    struct answer *a = arg;
    a->done = true;
    a->result = r ? source_result_ref(r) : NULL;
    a->code = err ? gs_error_code(err) : FINE;
    gs_error_free(err);
}

static void on_shapes(void *arg, struct source_shapes *shapes, struct gs_error *err)
{
    struct answer *a = arg;
    a->done = true;
    a->shapes = shapes;
    a->code = err ? gs_error_code(err) : FINE;
    gs_error_free(err);
}

static void wait_for(struct fixture *f, struct answer *a)
{
    assert_false(a->done); // never before the call returns
    while (!a->done)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static void same_sample(const struct source_sample *a, const struct source_sample *b)
{
    assert_int_equal(a->t_ms, b->t_ms);
    assert_true(a->value == b->value || (isnan(a->value) && isnan(b->value)));
    assert_int_equal(a->n_labels, b->n_labels);
    for (size_t i = 0; i < a->n_labels; i++) {
        assert_true(gs_slice_eq(a->labels[i].name, b->labels[i].name));
        assert_true(gs_slice_eq(a->labels[i].value, b->labels[i].value));
    }
}

static void test_queries(void **state)
{
    static const struct {
        const char *text;
        enum source_type type;
        size_t n;
        enum gs_code code;
    } queries[] = {
        {"gpu", SOURCE_VECTOR, PODS, FINE},
        {"other", SOURCE_VECTOR, PODS, FINE},
        {"sum by (namespace) (gpu)", SOURCE_VECTOR, 2, FINE},
        {"sum(gpu{pod=~\"pod-1.*|pod-2.*\"}) by (pod)", SOURCE_VECTOR, 222, FINE},
        {"nothing", SOURCE_VECTOR, 0, FINE},
        {"scalar(sum(gpu))", SOURCE_SCALAR, 1, FINE},
        {"gpu[5m]", SOURCE_MATRIX, 0, FINE},
        {"\"text\"", SOURCE_STRING, 0, FINE},
        {"sum(gpu", 0, 0, GS_EINVAL},
        {"gpu * on (namespace) other", 0, 0, GS_EIO},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(queries); i++) {
        struct answer a = {0}, b = {0};
        source_query(f->direct, queries[i].text, f->now_ms, on_result, &a);
        wait_for(f, &a);
        source_query(f->over_http, queries[i].text, f->now_ms, on_result, &b);
        wait_for(f, &b);
        assert_int_equal(a.result != NULL, queries[i].code == FINE);
        assert_int_equal(b.result != NULL, queries[i].code == FINE);
        if (queries[i].code == GS_EINVAL)
            assert_int_equal(a.code, GS_EINVAL);
        if (!a.result)
            continue;
        assert_int_equal(a.result->type, queries[i].type);
        assert_int_equal(b.result->type, queries[i].type);
        assert_int_equal(a.result->n, queries[i].n);
        assert_int_equal(b.result->n, queries[i].n);
        for (size_t k = 0; k < a.result->n; k++)
            same_sample(&a.result->samples[k], &b.result->samples[k]);
        source_result_unref(a.result);
        source_result_unref(b.result);
    }
}

static void test_series(void **state)
{
    struct fixture *f = *state;
    static const char *const selectors[] = {"gpu", "{namespace=\"ml\"}", "{__name__=~\".+\"}",
                                            "none"};
    for (size_t i = 0; i < GS_ARRAY_LEN(selectors); i++) {
        struct answer a = {0}, b = {0};
        source_series(f->direct, selectors[i], f->now_ms - 60000, on_shapes, &a);
        wait_for(f, &a);
        source_series(f->over_http, selectors[i], f->now_ms - 60000, on_shapes, &b);
        wait_for(f, &b);
        assert_int_equal(a.shapes->n, b.shapes->n);
        assert_int_equal(a.shapes->series, b.shapes->series);
        for (size_t k = 0; k < a.shapes->n; k++) {
            const struct source_shape *x = &a.shapes->items[k], *y = &b.shapes->items[k];
            assert_true(gs_slice_eq(x->name, y->name));
            assert_int_equal(x->series, y->series);
            assert_int_equal(x->last_seen, y->last_seen);
            assert_int_equal(x->n_labels, y->n_labels);
            for (size_t l = 0; l < x->n_labels; l++)
                assert_true(gs_slice_eq(x->labels[l], y->labels[l]));
        }
        source_shapes_free(a.shapes);
        source_shapes_free(b.shapes);
    }
    struct answer a = {0};
    source_series(f->direct, "{namespace=\"\"}", 0, on_shapes, &a);
    wait_for(f, &a);
    assert_int_equal(a.code, GS_EINVAL);
}

// Cancels in each state: waiting, in progress, answered but not delivered.
static void test_cancel(void **state)
{
    struct fixture *f = *state;
    struct answer a[40] = {0};
    struct source_op *ops[40];
    for (int round = 0; round < 8; round++) {
        for (size_t i = 0; i < GS_ARRAY_LEN(ops); i++) {
            GS_AUTO_FREE char *query =
                gs_format("count(max_over_time((gpu + %zu)[1h:100ms]))", i + (size_t)round * 100);
            a[i] = (struct answer){0};
            ops[i] = source_query(f->direct, i % 2 ? "gpu" : query, f->now_ms, on_result, &a[i]);
        }
        for (int turn = 0; turn < round; turn++)
            uv_run(&f->loop, UV_RUN_NOWAIT);
        for (size_t i = 0; i < GS_ARRAY_LEN(ops); i++)
            if (!a[i].done && i % 5)
                source_cancel(ops[i]);
        for (size_t i = 0; i < GS_ARRAY_LEN(ops); i += 5)
            while (!a[i].done)
                uv_run(&f->loop, UV_RUN_ONCE);
        for (size_t i = 0; i < GS_ARRAY_LEN(ops); i++)
            source_result_unref(a[i].result);
    }
}

// Frees the source while calls are in progress.
static void test_free_while_busy(void **state)
{
    struct fixture *f = *state;
    struct answer a[30] = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(a); i++) {
        GS_AUTO_FREE char *query = gs_format("count(max_over_time((gpu + %zu)[1h:100ms]))", i);
        source_query(f->direct, query, f->now_ms, on_result, &a[i]);
    }
    source_free(f->direct);
    f->direct = adapter_source_new_engine(&f->loop, f->engine, 0, 0);
    for (int turn = 0; turn < 10; turn++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < GS_ARRAY_LEN(a); i++)
        assert_false(a[i].done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queries),
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_free_while_busy),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
