// SPDX-License-Identifier: Apache-2.0
// /api/v1/write: remote writes over HTTP.
#include "harness.h"

#include "../remote/messages.h"
#include "engine/remote/receiver.h"

enum { N_CALLERS = 100 };

struct caller {
    int status;
    struct http_op *op;
};

static int setup_receiver(void **state)
{
    const struct engine_api_config cfg = {.write_messages = REMOTE_MESSAGE_V1 | REMOTE_MESSAGE_V2};
    return setup_with(state, &cfg);
}

static void on_reply(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct caller *c = arg;
    c->op = NULL;
    c->status = a->status;
    gs_error_free(err);
}

static void push(struct harness *h, struct caller *c, const struct gs_buf *message)
{
    static const struct http_callbacks callbacks = {.on_done = on_reply};
    static const struct http_header headers[] = {{"Content-Encoding", "snappy"}, {NULL, NULL}};
    GS_AUTO_BUF struct gs_buf packed = {0};
    remote_compress(gs_buf_slice(message), &packed);
    const struct http_request q = {.method = "POST",
                                   .path = "/api/v1/write",
                                   .headers = headers,
                                   .content_type = "application/x-protobuf",
                                   .timeout_ms = WAIT_MS,
                                   .body = gs_buf_slice(&packed)};
    *c = (struct caller){0};
    c->op = http_send(h->client, &q, &callbacks, c);
}

static void wait_reply(struct harness *h, const struct caller *c)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; !c->status && gs_mono_ns() < end;)
        uv_run(&h->loop, UV_RUN_NOWAIT);
}

static void make_message(struct gs_buf *m, const char *name, int64_t from, size_t n)
{
    const struct metrics_label label = {GS_SLICE("__name__"), gs_slice_of(name)};
    int64_t *t = gs_alloc_array(n, sizeof(*t));
    double *v = gs_alloc_array(n, sizeof(*v));
    for (size_t i = 0; i < n; i++)
        t[i] = from + (int64_t)i;
    remote_encode_series(m, &label, 1, t, v, n);
    free(t);
    free(v);
}

static void test_pushed_samples(void **state)
{
    struct harness *h = *state;
    GS_AUTO_BUF struct gs_buf m = {0};
    struct caller c;
    make_message(&m, "pushed", gs_unix_ms() - 1000, 1);
    push(h, &c, &m);
    wait_reply(h, &c);
    assert_int_equal(c.status, 204);
    get(h, "/api/v1/query?query=pushed");
    assert_contains(h, 200, "{\"metric\":{\"__name__\":\"pushed\"},\"value\":[");
    get(h, "/metrics");
    assert_contains(h, 200, "gpuscale_remote_write_received_samples_total 1\n");
    assert_contains(h, 200,
                    "prometheus_http_requests_total{code=\"204\",handler=\"/api/v1/write\"} 1\n");
}

static void test_refused_requests(void **state)
{
    struct harness *h = *state;
    post(h, "/api/v1/write", "a=b");
    assert_contains(h, 415, "expected application/x-protobuf as the first (media) part");
    get(h, "/api/v1/write");
    assert_answer(h, 405, "Method Not Allowed\n");
}

static void test_disabled(void **state)
{
    struct harness *h = *state;
    post(h, "/api/v1/write", "");
    assert_answer(
        h, 404,
        "remote write receiver needs to be enabled with --web.enable-remote-write-receiver\n");
}

// Requests wait for long ones, other requests do not, and too many are refused.
static void test_too_many_requests(void **state)
{
    struct harness *h = *state;
    GS_AUTO_BUF struct gs_buf m = {0};
    struct caller c[N_CALLERS];
    size_t done = 0, refused = 0;
    make_message(&m, "pushed", gs_unix_ms() - 1000000, 50000);
    for (size_t i = 0; i < N_CALLERS; i++)
        push(h, &c[i], &m);
    get(h, "/-/healthy");
    assert_int_equal(h->status, 200);
    for (size_t i = 0; i < N_CALLERS; i++) {
        wait_reply(h, &c[i]);
        done += c[i].status == 204 || c[i].status == 400; // the same samples in another order
        refused += c[i].status == 429;
    }
    assert_true(done >= 4);
    assert_true(refused > 0);
    assert_int_equal(done + refused, N_CALLERS);
}

static void test_client_disconnects(void **state)
{
    struct harness *h = *state;
    GS_AUTO_BUF struct gs_buf m = {0};
    struct caller first, waiting[5], last;
    make_message(&m, "pushed", gs_unix_ms() - 1000000, 100000);
    push(h, &first, &m);
    for (size_t i = 0; i < GS_ARRAY_LEN(waiting); i++)
        push(h, &waiting[i], &m);
    uv_run(&h->loop, UV_RUN_NOWAIT);
    if (first.op)
        http_op_cancel(first.op);
    for (size_t i = 0; i < GS_ARRAY_LEN(waiting); i++)
        if (waiting[i].op)
            http_op_cancel(waiting[i].op);
    gs_buf_clear(&m);
    make_message(&m, "after", gs_unix_ms() - 1000, 1);
    push(h, &last, &m);
    wait_reply(h, &last);
    assert_int_equal(last.status, 204);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pushed_samples, setup_receiver, teardown),
        cmocka_unit_test_setup_teardown(test_refused_requests, setup_receiver, teardown),
        cmocka_unit_test_setup_teardown(test_disabled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many_requests, setup_receiver, teardown),
        cmocka_unit_test_setup_teardown(test_client_disconnects, setup_receiver, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
