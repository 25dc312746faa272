// SPDX-License-Identifier: Apache-2.0
// Large responses are written in turns, and have limits. Turns have no length: a response pauses
// wherever it can, however fast the machine is.
#include "harness.h"

#include "base/turn.h"

enum { SERIES = 300, MAX_REPLY = 100000 };

#define ALL "%7B__name__%3D~%22many.*%22%7D"
static const char *const large[] = {
    "/api/v1/query?time=100&query=" ALL,
    "/api/v1/query?time=100&query=" ALL "%5B5m%5D",
    "/api/v1/query_range?start=100&end=101&step=1&query=" ALL,
    "/api/v1/series?match[]=" ALL,
    "/api/v1/label/value/values",
    "/api/v1/labels",
    "/federate?match[]=" ALL,
};

static void fill(struct harness *h)
{
    char filler[400], value[sizeof(filler) + 8], name[32];
    memset(filler, 'x', sizeof(filler) - 1);
    filler[sizeof(filler) - 1] = '\0';
    for (int i = 0; i < SERIES; i++) {
        snprintf(value, sizeof(value), "%d%s", i, filler);
        snprintf(name, sizeof(name), "label_%d", i);
        const struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("many")},
                                          {gs_slice_of(name), gs_slice_of(value)},
                                          {GS_SLICE("value"), gs_slice_of(value)}};
        assert_ok(tsdb_append(h->db, l, 3, gs_unix_ms(), i));
        assert_ok(tsdb_append(h->db, l + 1, 2, 0, i)); // without a name
    }
    // At the time of the queries, too.
    for (int i = 0; i < SERIES; i++) {
        snprintf(value, sizeof(value), "%d%s", i, filler);
        const struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("many_older")},
                                          {GS_SLICE("value"), gs_slice_of(value)},
                                          {GS_SLICE("value2"), gs_slice_of(value)}};
        assert_ok(tsdb_append(h->db, l, 3, 100000, i));
    }
}

static int set_up(void **state)
{
    setup(state);
    fill(*state);
    gs_turn_set_ns(0);
    return 0;
}

static int set_up_limited(void **state)
{
    setup_with(state, &(struct engine_api_config){.max_reply = MAX_REPLY});
    fill(*state);
    gs_turn_set_ns(0);
    return 0;
}

struct caller {
    int status;
    struct gs_buf body;
    struct http_op *op;
};

static void on_answer(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct caller *c = arg;
    c->status = response->status;
    gs_buf_add_slice(&c->body, response->body);
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
}

static void test_others_are_answered_between_parts(void **state)
{
    struct harness *h = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(large); i++) {
        struct caller slow, fast;
        call(h, &slow, large[i]);
        turn(h, 4);
        assert_int_equal(slow.status, 0);
        call(h, &fast, "/api/v1/query?query=1");
        finish(h, &fast);
        assert_int_equal(fast.status, 200);
        if (slow.status)
            fail_msg("%s is one step", large[i]);
        finish(h, &slow);
        assert_int_equal(slow.status, 200);
        assert_true(slow.body.len > SERIES);
        gs_buf_finish(&slow.body);
        gs_buf_finish(&fast.body);
    }
}

// Two large responses at the same time do not share memory.
static void test_responses_at_the_same_time(void **state)
{
    struct harness *h = *state;
    struct caller one, two, again;
    call(h, &one, large[0]);
    call(h, &two, large[3]);
    finish(h, &one);
    finish(h, &two);
    call(h, &again, large[3]);
    finish(h, &again);
    json_t *j;
    assert_ok(codec_json_parse(gs_buf_slice(&one.body), true, &j));
    assert_int_equal(json_array_size(codec_json_get(j, "data", "result", NULL)), SERIES);
    json_decref(j);
    assert_ok(codec_json_parse(gs_buf_slice(&two.body), true, &j));
    assert_int_equal(json_array_size(json_object_get(j, "data")), 2 * SERIES);
    json_decref(j);
    assert_string_equal(two.body.data, again.body.data);
    gs_buf_finish(&one.body);
    gs_buf_finish(&two.body);
    gs_buf_finish(&again.body);
}

static void test_caller_leaves_between_parts(void **state)
{
    struct harness *h = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(large); i++) {
        struct caller slow;
        call(h, &slow, large[i]);
        turn(h, 4);
        assert_int_equal(slow.status, 0);
        http_op_cancel(slow.op);
        get(h, "/api/v1/query?query=1");
        assert_int_equal(h->status, 200);
    }
}

static void test_response_is_too_large(void **state)
{
    struct harness *h = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(large); i++) {
        get(h, large[i]);
        if (gs_ends(large[i], "/labels")) // the names alone
            assert_int_equal(h->status, 200);
        else if (h->status != 422)
            fail_msg("%s: %d", large[i], h->status);
        else
            assert_failed(h, 422, "execution",
                          "larger than 100000 bytes, the limit of --query.max-reply-size");
    }
    get(h, "/api/v1/query?time=100&limit=50&query=" ALL);
    if (h->status != 200)
        fail_msg("%s", h->body.data);
}

// Each response is below the limit, all together are not.
static void test_responses_are_too_large_together(void **state)
{
    struct harness *h = *state;
    struct caller c[6];
    int answered = 0, refused = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++)
        call(h, &c[i], "/api/v1/series?limit=90&match[]=" ALL);
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++) {
        finish(h, &c[i]);
        answered += c[i].status == 200;
        refused += c[i].status == 503 && strstr(c[i].body.data, "try again later");
        gs_buf_finish(&c[i].body);
    }
    assert_true(answered >= 1 && refused >= 1);
    assert_int_equal(answered + refused, GS_ARRAY_LEN(c));
    get(h, "/api/v1/series?limit=90&match[]=" ALL);
    assert_int_equal(h->status, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_others_are_answered_between_parts, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_responses_at_the_same_time, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_caller_leaves_between_parts, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_response_is_too_large, set_up_limited, teardown),
        cmocka_unit_test_setup_teardown(test_responses_are_too_large_together, set_up_limited,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
