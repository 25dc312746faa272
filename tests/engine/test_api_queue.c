// SPDX-License-Identifier: Apache-2.0
// Queries wait for each other when they take long; who leaves is forgotten.
#include "api_harness.h"

// Takes longer than a turn of the loop may.
#define LONG_QUERY                                                                                 \
    "/api/v1/query?query=count_over_time(vector(time())%5B86400s:20ms%5D)&time=100000"

struct caller {
    int status;
    struct http_op *op;
};

static void on_answer(void *arg, const struct http_answer *answer, struct gs_error *err)
{
    struct caller *c = arg;
    c->status = answer->status;
    c->op = NULL;
    gs_error_free(err);
}

static void call(struct harness *h, struct caller *c, const char *path)
{
    static const struct http_callbacks callbacks = {.on_done = on_answer};
    *c = (struct caller){0};
    c->op = http_send(h->client, &(struct http_call){.path = path}, &callbacks, c);
}

static void turn(struct harness *h, int n)
{
    for (int i = 0; i < n; i++)
        uv_run(&h->loop, UV_RUN_NOWAIT);
}

// The second waits, a short request goes by, in the end all are answered.
static void test_waiting(void **state)
{
    struct harness *h = *state;
    struct caller c[4], health;
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++)
        call(h, &c[i], LONG_QUERY);
    call(h, &health, "/-/healthy");
    turn(h, 2);
    assert_int_equal(health.status, 200);
    assert_int_equal(c[0].status, 200);
    assert_int_equal(c[3].status, 0);
    turn(h, 50);
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++)
        assert_int_equal(c[i].status, 200);
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
    turn(h, 50);
    assert_int_equal(c[1].status, 200);
    assert_int_equal(c[2].status, 0);
}

// The client and the API end while requests wait: teardown finds nothing left.
static void test_end_while_waiting(void **state)
{
    struct harness *h = *state;
    struct caller c[3];
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++)
        call(h, &c[i], LONG_QUERY);
    turn(h, 2);
    assert_int_equal(c[2].status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_waiting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_caller_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_while_waiting, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
