// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/mem.h"
#include "base/turn.h"
#include "net/http/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct fixture {
    uv_loop_t loop;
    struct http_exchange *held; // the handler "held" keeps it for later
    struct http_stream *stream;
    int aborted, closed, handled;
    bool free_on_data;
    struct http_client *client;
};

struct result {
    struct fixture *f;
    struct http_op *op;
    int done, status;
    char *content_type;
    struct gs_buf body, data;
    enum gs_code code; // 0: no error
    bool cancel_on_data;
};

static void result_finish(struct result *r)
{
    free(r->content_type);
    gs_buf_finish(&r->body);
    gs_buf_finish(&r->data);
}

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct result *r = arg;
    r->done++;
    r->status = response->status;
    r->content_type = gs_strdup(response->content_type);
    gs_buf_add_slice(&r->body, response->body);
    assert_null(http_response_header(response, "x-sam").data);
    gs_buf_add_slice(&r->data, http_response_header(response, "x-same"));
    r->code = err ? gs_error_code(err) : 0;
    gs_error_free(err);
}

static void on_data(void *arg, struct gs_slice bytes)
{
    struct result *r = arg;
    gs_buf_add_slice(&r->data, bytes);
    if (r->cancel_on_data)
        http_op_cancel(r->op);
    if (r->f->free_on_data)
        http_client_free(GS_TAKE(r->f->client));
}

static const struct http_callbacks collect = {.on_done = on_done};
static const struct http_callbacks stream = {.on_data = on_data, .on_done = on_done};

static void on_abort(void *arg)
{
    struct fixture *f = arg;
    f->aborted++;
    f->held = NULL;
}

static void on_close(void *arg)
{
    struct fixture *f = arg;
    f->closed++;
    f->stream = NULL;
}

static void handle_echo(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    f->handled++;
    const struct http_identity *id = http_identity(x);
    GS_AUTO_BUF struct gs_buf b = {0};
    gs_buf_addf(&b, "%s %s by %s/%s header=%s type=%s from %s:", http_method(x), http_path(x),
                id->user ? id->user : "-", id->n_groups ? id->groups[0] : "-",
                http_header(x, "x-test"), http_header(x, "content-type"), http_peer(x));
    const char *name, *value;
    for (size_t i = 0; (value = http_query_nth(x, i, &name)); i++)
        gs_buf_addf(&b, " [%s=%s]", name, value);
    gs_buf_add_str(&b, " body=");
    gs_buf_add_slice(&b, http_body(x));
    http_reply(x, 201, "text/x-echo", gs_buf_slice(&b));
}

static void handle_hold(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    f->handled++;
    f->held = x;
    http_on_abort(x, on_abort, f);
}

static void handle_deaf(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    f->handled++;
    f->held = x;
}

static void handle_stream(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    f->handled++;
    f->stream = http_reply_stream(x, 200, "application/json", on_close, f);
    http_stream_write(f->stream, GS_SLICE("one "));
}

static void turn(struct fixture *f, int n)
{
    for (int i = 0; i < n; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
}

static struct result *send_call(struct fixture *f, const char *path,
                                const struct http_callbacks *cb)
{
    struct result *r = gs_alloc(sizeof(*r));
    r->f = f;
    struct http_request request = {.path = path};
    r->op = http_send(f->client, &request, cb, r);
    return r;
}

static void drop(struct result *r)
{
    result_finish(r);
    free(r);
}

static struct fixture *setup(http_handler h)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    uv_loop_init(&f->loop);
    char user[] = "alice";
    const char *groups[] = {"devs", "ops"};
    struct http_identity id = {user, groups, 2};
    f->client = http_client_new_loopback(&f->loop, h, f, &id);
    memset(user, 'x', sizeof(user) - 1);
    groups[0] = NULL;
    return f;
}

static void teardown(struct fixture *f)
{
    http_client_free(f->client);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
}

static void test_loopback_round_trip(void **state)
{
    struct fixture *f = setup(handle_echo);
    struct result *r = gs_alloc(sizeof(*r));
    struct http_header headers[] = {{"X-Test", "yes"}, {NULL, NULL}};
    struct http_request request = {.method = "POST",
                                   .path = "/a%2Fb/c?x=1&y=a%20b+c&z&w=%25",
                                   .headers = headers,
                                   .content_type = "text/plain",
                                   .body = GS_SLICE("hello")};
    http_send(f->client, &request, &collect, r);
    assert_int_equal(f->handled, 0);
    turn(f, 1);
    assert_int_equal(f->handled, 1);
    assert_int_equal(r->done, 0);
    turn(f, 3);
    assert_int_equal(r->done, 1);
    assert_int_equal(r->status, 201);
    assert_string_equal(r->content_type, "text/x-echo");
    assert_string_equal(r->body.data, "POST /a%2Fb/c by alice/devs header=yes type=text/plain from "
                                      "loopback: [x=1] [y=a b c] [z=] [w=%] body=hello");
    drop(r);
    teardown(f);
}

static void handle_headers(void *ctx, struct http_exchange *x)
{
    http_add_header(x, "X-Other", "x-same: 1");
    http_add_header(x, "X-Same", "two: words");
    handle_echo(ctx, x);
}

static void test_loopback_headers_of_a_response(void **state)
{
    struct fixture *f = setup(handle_headers);
    struct result *r = send_call(f, "/", &collect);
    turn(f, 4);
    assert_int_equal(r->done, 1);
    assert_string_equal(r->data.data, "two: words");
    drop(r);
    teardown(f);
    (void)state;
}

static void count_turn(uv_prepare_t *p)
{
    ++*(int *)p->data;
}

// Many requests at once leave turns in which the loop does its other work.
static void test_loopback_leaves_the_loop_to_others(void **state)
{
    enum { REQUESTS = 300 };
    struct fixture *f = setup(handle_echo);
    struct result *all[REQUESTS];
    int turns = 0;
    uv_prepare_t counter;
    gs_turn_set_ns(0);
    uv_prepare_init(&f->loop, &counter);
    counter.data = &turns;
    uv_prepare_start(&counter, count_turn);
    for (int i = 0; i < REQUESTS; i++)
        all[i] = send_call(f, "/", &collect);
    while (f->handled < REQUESTS)
        turn(f, 1);
    assert_in_range(turns, REQUESTS / 8, INT_MAX); // the few that always start
    while (!all[REQUESTS - 1]->done)
        turn(f, 1);
    for (int i = 0; i < REQUESTS; i++)
        drop(all[i]);
    uv_close((uv_handle_t *)&counter, NULL);
    teardown(f);
}

static void test_loopback_bad_path(void **state)
{
    struct fixture *f = setup(handle_echo);
    const char *bad[] = {"no-slash", "", "/a?x=%zz", "/a?x=%4", "/a?%00=1", "/?a=%"};
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        struct result *r = send_call(f, bad[i], &collect);
        turn(f, 3);
        assert_int_equal(r->done, 1);
        assert_int_equal(r->code, GS_EINVAL);
        drop(r);
    }
    assert_int_equal(f->handled, 0);
    teardown(f);
}

static void test_loopback_late_answer(void **state)
{
    struct fixture *f = setup(handle_hold);
    struct result *r = send_call(f, "/", &collect);
    turn(f, 5);
    assert_non_null(f->held);
    assert_int_equal(r->done, 0);
    http_reply_text(f->held, 200, "late %d", 7);
    assert_int_equal(r->done, 0); // never from inside the answer
    turn(f, 3);
    assert_int_equal(r->done, 1);
    assert_string_equal(r->body.data, "late 7");
    assert_int_equal(f->aborted, 0);
    drop(r);
    teardown(f);
}

// As 32 bits, the long ones would be the default, 1 ms, or none.
static void test_long_timeouts_do_not_wrap(void **state)
{
    static const struct {
        int64_t timeout_ms;
        unsigned expect;
    } cases[] = {{0, 30000},
                 {1, 1},
                 {INT32_MAX, INT32_MAX},
                 {UINT32_MAX, INT32_MAX},
                 {UINT32_MAX + INT64_C(1), INT32_MAX},
                 {UINT32_MAX + INT64_C(2), INT32_MAX},
                 {INT64_MAX - 1, INT32_MAX},
                 {HTTP_NO_TIMEOUT, UINT_MAX},
                 {-1, 1},
                 {INT64_MIN, 1}};
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        assert_int_equal(
            http_request_timeout_ms(&(struct http_request){.timeout_ms = cases[i].timeout_ms}),
            cases[i].expect);
}

static void test_loopback_cancel_aborts(void **state)
{
    struct fixture *f = setup(handle_hold);
    struct result *r = send_call(f, "/", &collect);
    http_op_cancel(r->op); // before the handler saw it
    turn(f, 5);
    assert_int_equal(f->handled, 0);
    drop(r);
    r = send_call(f, "/", &collect);
    turn(f, 5);
    http_op_cancel(r->op);
    assert_int_equal(f->aborted, 1);
    turn(f, 5);
    assert_int_equal(r->done, 0);
    drop(r);
    teardown(f);
}

static void test_loopback_cancel_without_abort_handler(void **state)
{
    struct fixture *f = setup(handle_deaf);
    struct result *r = send_call(f, "/", &collect);
    turn(f, 5);
    http_op_cancel(r->op);
    turn(f, 5);
    http_reply_text(f->held, 200, "nobody listens");
    drop(r);
    r = send_call(f, "/", &collect);
    turn(f, 5);
    http_op_cancel(r->op);
    f->stream = http_reply_stream(f->held, 200, NULL, on_close, f);
    http_stream_write(f->stream, GS_SLICE("nobody listens"));
    assert_int_equal(f->closed, 0);
    turn(f, 5);
    assert_int_equal(f->closed, 1);
    assert_int_equal(r->done, 0);
    drop(r);
    teardown(f);
}

static void test_loopback_stream(void **state)
{
    struct fixture *f = setup(handle_stream);
    struct result *r = send_call(f, "/", &stream);
    turn(f, 5);
    assert_string_equal(r->data.data, "one ");
    http_stream_write(f->stream, GS_SLICE("two "));
    http_stream_write(f->stream, GS_SLICE("three"));
    turn(f, 5);
    assert_string_equal(r->data.data, "one two three");
    assert_int_equal(r->done, 0);
    http_stream_end(f->stream);
    assert_int_equal(f->closed, 0); // never from inside the call
    turn(f, 5);
    assert_int_equal(f->closed, 1);
    assert_int_equal(r->done, 1);
    assert_int_equal(r->status, 200);
    assert_int_equal(r->body.len, 0);
    drop(r);

    r = send_call(f, "/", &collect); // without on_data it is collected
    turn(f, 5);
    http_stream_end(f->stream);
    turn(f, 5);
    assert_string_equal(r->body.data, "one ");
    drop(r);
    teardown(f);
}

static void test_loopback_stream_cancel_from_data(void **state)
{
    struct fixture *f = setup(handle_stream);
    struct result *r = send_call(f, "/", &stream);
    r->cancel_on_data = true;
    turn(f, 5);
    assert_int_equal(f->closed, 1);
    assert_int_equal(r->done, 0);
    drop(r);

    f->free_on_data = true;
    r = send_call(f, "/", &stream);
    turn(f, 5);
    assert_int_equal(f->closed, 2);
    assert_null(f->client);
    drop(r);
    teardown(f);
}

static void test_loopback_stream_cut(void **state)
{
    struct fixture *f = setup(handle_stream);
    struct result *r = send_call(f, "/", &stream);
    turn(f, 5);
    GS_AUTO_FREE char *block = gs_alloc(1024 * 1024);
    for (int i = 0; i < 4; i++)
        http_stream_write(f->stream, gs_slice_make(block, 1024 * 1024));
    assert_int_equal(http_stream_pending(f->stream), 4 * 1024 * 1024);
    http_stream_write(f->stream, GS_SLICE("x"));
    assert_int_equal(f->closed, 0);
    turn(f, 5);
    assert_int_equal(f->closed, 1);
    assert_int_equal(r->done, 1);
    assert_int_equal(r->code, GS_ELIMIT);
    assert_int_equal(r->status, 0);
    drop(r);
    teardown(f);
}

static void test_loopback_limits(void **state)
{
    struct fixture *f = setup(handle_echo);
    struct result *r = gs_alloc(sizeof(*r));
    struct http_request request = {.path = "/", .max_reply = 10};
    http_send(f->client, &request, &collect, r);
    turn(f, 5);
    assert_int_equal(r->done, 1);
    assert_int_equal(r->code, GS_ELIMIT);
    drop(r);
    teardown(f);

    f = setup(handle_hold);
    r = gs_alloc(sizeof(*r));
    request = (struct http_request){.path = "/", .timeout_ms = 5};
    http_send(f->client, &request, &collect, r);
    while (!r->done)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(r->code, GS_ETIMEOUT);
    assert_int_equal(f->aborted, 1);
    drop(r);
    teardown(f);
}

static void test_loopback_head(void **state)
{
    struct fixture *f = setup(handle_echo);
    struct result *r = gs_alloc(sizeof(*r));
    http_send(f->client, &(struct http_request){.method = "HEAD", .path = "/"}, &collect, r);
    turn(f, 5);
    assert_int_equal(r->status, 201);
    assert_int_equal(r->body.len, 0);
    drop(r);
    teardown(f);
    f = setup(handle_stream);
    r = gs_alloc(sizeof(*r));
    http_send(f->client, &(struct http_request){.method = "HEAD", .path = "/"}, &collect, r);
    turn(f, 5);
    assert_int_equal(r->status, 200);
    assert_int_equal(r->body.len, 0);
    assert_int_equal(f->closed, 1);
    drop(r);
    teardown(f);
}

static void test_client_free_ends_everything(void **state)
{
    struct fixture *f = setup(handle_stream);
    struct result *a = send_call(f, "/", &stream);
    turn(f, 5);
    struct result *b = send_call(f, "/", &stream);
    http_client_free(GS_TAKE(f->client));
    assert_int_equal(f->closed, 1);
    turn(f, 5);
    assert_int_equal(a->done + b->done, 0);
    drop(a);
    drop(b);
    teardown(f);
}

static void test_segment_coding(void **state)
{
    static const struct {
        const char *raw, *want; // want NULL: refused
    } cases[] = {
        {"", ""},         {"abc", "abc"}, {"a%2Fb", "a/b"},       {"a+b", "a+b"},
        {"%2a", "*"},     {"%", NULL},    {"%4", NULL},           {"a%4", NULL},
        {"%zz", NULL},    {"%00", NULL},  {"%e4%BD", "\xe4\xbd"}, {"%25%32", "%2"},
        {"%2525", "%25"}, {"%%41", NULL},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *got = NULL;
        GS_AUTO_ERROR struct gs_error *err = http_decode_segment(gs_slice_of(cases[i].raw), &got);
        if (cases[i].want) {
            assert_null(err);
            assert_string_equal(got, cases[i].want);
        } else {
            assert_non_null(err);
            assert_int_equal(gs_error_code(err), GS_EINVAL);
            assert_null(got);
        }
    }
    GS_AUTO_BUF struct gs_buf b = {0};
    http_encode(GS_SLICE("a b/c%\xff~-"), &b);
    assert_string_equal(b.data, "a%20b%2Fc%25%FF~-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loopback_round_trip),
        cmocka_unit_test(test_loopback_headers_of_a_response),
        cmocka_unit_test(test_loopback_leaves_the_loop_to_others),
        cmocka_unit_test(test_loopback_bad_path),
        cmocka_unit_test(test_loopback_late_answer),
        cmocka_unit_test(test_long_timeouts_do_not_wrap),
        cmocka_unit_test(test_loopback_cancel_aborts),
        cmocka_unit_test(test_loopback_cancel_without_abort_handler),
        cmocka_unit_test(test_loopback_stream),
        cmocka_unit_test(test_loopback_stream_cancel_from_data),
        cmocka_unit_test(test_loopback_stream_cut),
        cmocka_unit_test(test_loopback_limits),
        cmocka_unit_test(test_loopback_head),
        cmocka_unit_test(test_client_free_ends_everything),
        cmocka_unit_test(test_segment_coding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
