// SPDX-License-Identifier: Apache-2.0
// Long queries wait for each other and pause. Queries of disconnected clients are removed. Turns
// have no length: a query pauses wherever it can, however fast the machine is.
#include "harness.h"

#include "base/turn.h"

// Reads ten million values, and pauses about 600 times.
#define LONG_QUERY                                                                                 \
    "/api/v1/query_range?query=stddev_over_time(vector(time())%5B10000s:1s%5D)&start=100000"       \
    "&end=101000&step=1"
#define SHORT_QUERY "/api/v1/query?query=1"

static int set_up(void **state)
{
    gs_turn_set_ns(0);
    return setup(state);
}

struct caller {
    int status;
    struct http_op *op;
};

static void on_answer(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct caller *c = arg;
    c->status = response->status;
    c->op = NULL;
    gs_error_free(err);
}

static void call(struct harness *h, struct caller *c, const char *path)
{
    static const struct http_callbacks callbacks = {.on_done = on_answer};
    *c = (struct caller){0};
    c->op = http_send(h->client, &(struct http_request){.path = path}, &callbacks, c);
}

static void turn(struct harness *h, int n)
{
    for (int i = 0; i < n; i++)
        uv_run(&h->loop, UV_RUN_NOWAIT);
}

static void finish(struct harness *h, struct caller *c)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; !c->status && gs_mono_ns() < end;)
        turn(h, 1);
    assert_int_equal(c->status, 200);
}

// The queries take turns, a short request does not wait for them, and all get a response.
static void test_waiting(void **state)
{
    struct harness *h = *state;
    struct caller c[4], health;
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++)
        call(h, &c[i], LONG_QUERY);
    call(h, &health, "/-/healthy");
    finish(h, &health);
    assert_int_equal(c[3].status, 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++)
        finish(h, &c[i]);
}

static void test_caller_leaves(void **state)
{
    struct harness *h = *state;
    struct caller c[3];
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++)
        call(h, &c[i], LONG_QUERY);
    turn(h, 2);
    assert_int_equal(c[2].status, 0);
    http_op_cancel(c[2].op);
    finish(h, &c[0]);
    finish(h, &c[1]);
    turn(h, 10);
    assert_int_equal(c[2].status, 0);
}

// The client and the API are freed while requests wait. The teardown checks that nothing remains.
static void test_end_while_waiting(void **state)
{
    struct harness *h = *state;
    struct caller c[3];
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++)
        call(h, &c[i], LONG_QUERY);
    turn(h, 2);
    assert_int_equal(c[2].status, 0);
}

// A short query that comes during the long request gets its response first.
static void check_pauses(struct harness *h, const char *path)
{
    struct caller slow, fast;
    call(h, &slow, path);
    turn(h, 2);
    assert_int_equal(slow.status, 0);
    call(h, &fast, SHORT_QUERY);
    turn(h, 3);
    assert_int_equal(fast.status, 200);
    assert_int_equal(slow.status, 0);
    finish(h, &slow);
}

static void test_pausing(void **state)
{
    check_pauses(*state, LONG_QUERY);
}

static void test_caller_leaves_in_pause(void **state)
{
    struct harness *h = *state;
    struct caller slow, fast;
    call(h, &slow, LONG_QUERY);
    turn(h, 2);
    assert_int_equal(slow.status, 0);
    http_op_cancel(slow.op);
    call(h, &fast, SHORT_QUERY);
    finish(h, &fast);
    assert_int_equal(slow.status, 0);
}

static void test_end_in_pause(void **state)
{
    struct harness *h = *state;
    struct caller c[2];
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++)
        call(h, &c[i], LONG_QUERY);
    turn(h, 4);
    assert_int_equal(c[0].status, 0);
}

// All of the 20 concurrent queries get time slices; one more waits.
static void test_as_many_as_allowed(void **state)
{
    struct harness *h = *state;
    struct caller c[20], fast;
    for (size_t i = 0; i < 19; i++)
        call(h, &c[i], LONG_QUERY);
    turn(h, 30); // one begins in each
    call(h, &fast, SHORT_QUERY);
    turn(h, 3);
    assert_int_equal(fast.status, 200);
    call(h, &c[19], LONG_QUERY);
    turn(h, 3);
    call(h, &fast, SHORT_QUERY);
    turn(h, 3);
    assert_int_equal(fast.status, 0);
    http_op_cancel(c[0].op);
    finish(h, &fast);
    assert_int_equal(c[1].status, 0);
    assert_int_equal(c[19].status, 0);
}

// The deepest expressions fit on the stack of a fiber.
static void test_deep(void **state)
{
    static const char *const opens[] = {"abs(", "sum(", "-(", "1%2B(", "sum_over_time("};
    static const char *const closes[] = {")", ")", ")", ")", "[1m:1s])"};
    struct harness *h = *state;
    for (size_t k = 0; k < GS_ARRAY_LEN(opens); k++) {
        GS_AUTO_BUF struct gs_buf path = {0};
        struct caller c;
        gs_buf_add_str(&path, "/api/v1/query?query=");
        size_t depth = k == 4 ? 3 : 95;
        for (size_t i = 0; i < depth; i++)
            gs_buf_add_str(&path, opens[k]);
        gs_buf_add_str(&path, "vector(1)");
        for (size_t i = 0; i < depth; i++)
            gs_buf_add_str(&path, closes[k]);
        call(h, &c, path.data);
        finish(h, &c);
    }
}

// A regular expression that is evaluated for four values between two pauses.
#define SLOW_SELECTOR "%7Bv%3D~%22(a%7Caa%7Caaa)%2B-%5B0-9%5D*%5Bxyz%5D%22,job%3D%22slow%22%7D"

static void add_slow_series(struct harness *h, unsigned from, unsigned until)
{
    for (unsigned i = from; i < until; i++) {
        char text[64];
        snprintf(text, sizeof(text), "aaaaaaaa-%u", i);
        const struct metrics_label labels[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                               {GS_SLICE("job"), GS_SLICE("slow")},
                                               {GS_SLICE("v"), gs_slice_of(text)}};
        assert_ok(tsdb_append(h->db, labels, 3, gs_unix_ms(), 1));
    }
}

static void test_slow_searches_pause(void **state)
{
    static const char *const paths[] = {
        "/api/v1/query?query=count(" SLOW_SELECTOR ")%20or%20vector(1)",
        "/api/v1/series?match%5B%5D=" SLOW_SELECTOR,
        "/api/v1/series?match%5B%5D=" SLOW_SELECTOR "&match%5B%5D=" SLOW_SELECTOR,
        "/api/v1/labels?match%5B%5D=" SLOW_SELECTOR,
        "/api/v1/label/v/values?match%5B%5D=" SLOW_SELECTOR,
        "/federate?match%5B%5D=" SLOW_SELECTOR,
    };
    struct harness *h = *state;
    add_slow_series(h, 0, 200);
    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++)
        check_pauses(h, paths[i]);
}

// The list of a cached selector follows births, for which its expression is evaluated.
static void test_slow_selectors_follow_births_with_pauses(void **state)
{
    const char *path = "/api/v1/query?query=count(" SLOW_SELECTOR ")%20or%20vector(1)";
    struct harness *h = *state;
    add_slow_series(h, 0, 300);
    check_pauses(h, path);
    add_slow_series(h, 300, 500);
    check_pauses(h, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_waiting, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_caller_leaves, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_end_while_waiting, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_pausing, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_caller_leaves_in_pause, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_end_in_pause, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_as_many_as_allowed, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_deep, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_slow_searches_pause, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_slow_selectors_follow_births_with_pauses, set_up,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
