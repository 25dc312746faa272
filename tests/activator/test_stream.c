// SPDX-License-Identifier: Apache-2.0
// Comments for clients that wait for an event stream, and what follows them.
#include "gate_bed.h"

#define STREAM                                                                                     \
    "POST /v1/chat/completions HTTP/1.1\r\nHost: api\r\nContent-Length: 16\r\n\r\n"                \
    "{\"stream\": true}"
#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

static struct activator_rules rules = {.comment_ms = 1};

static void start_with_comments(struct fixture *f)
{
    start(f);
    activator_gate_set_rules(f->gate, &rules);
}

// A client that has got the head and a comment, and the connection to its endpoint.
static int start_stream(struct fixture *f, int *ret_endpoint, int *ret_listener)
{
    uint16_t port;
    *ret_listener = server(&port);
    start_with_comments(f);
    int c = client(f, STREAM);
    GS_AUTO_BUF struct gs_buf have = {0};
    loop_until(&f->loop, got_part(c, &have, "\r\n: waiting for a pod\n\n\r\n"));
    assert_true(gs_slice_starts(gs_buf_slice(&have), HEAD));
    set_server(f, port);
    *ret_endpoint = expect_request(f, *ret_listener, STREAM);
    return c;
}

static void test_events_follow_the_comments(void **state)
{
    struct fixture *f = *state;
    int at, s, c = start_stream(f, &at, &s);
    reply(at, HEAD "Transfer-Encoding: chunked\r\n\r\n");
    reply(at, "b\r\ndata: one\n\n\r\n");
    expect_part(f, c, "b\r\ndata: one\n\n\r\n");
    reply(at, "0\r\n\r\n");
    expect_part(f, c, "0\r\n\r\n");
    // The next request on this connection gets its answer as it is.
    reply(c, REQUEST);
    expect(f, at, REQUEST);
    reply(at, "HTTP/1.1 204 No Content\r\n\r\n");
    expect(f, c, "HTTP/1.1 204 No Content\r\n\r\n");
    close(at);
    close(c);
    close(s);
}

static void test_events_without_chunks_become_chunks(void **state)
{
    struct fixture *f = *state;
    int at, s, c = start_stream(f, &at, &s);
    reply(at, HEAD "Connection: close\r\n\r\ndata: one\n\n");
    close(at);
    expect_part(f, c, "b\r\ndata: one\n\n\r\n0\r\n\r\n");
    close(c);
    close(s);
}

static void test_an_error_becomes_an_event(void **state)
{
    struct fixture *f = *state;
    int at, s, c = start_stream(f, &at, &s);
    reply(at, "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: "
              "13\r\n\r\n{\"error\": \n1}");
    expect_part(f, c, "event: error\ndata: {\"error\":\ndata: 1}\n\n\r\n0\r\n\r\n");
    close(at);
    close(c);
    close(s);
}

static void test_a_response_that_ends_early_becomes_an_error(void **state)
{
    struct fixture *f = *state;
    int at, s, c = start_stream(f, &at, &s);
    close(at);
    expect_part(f, c, "the pod ended its response early");
    close(c);
    close(s);
}

// A part of it would look like the whole.
static void test_a_long_response_that_is_no_event_stream_becomes_an_error(void **state)
{
    enum { LENGTH = 20000 };
    struct fixture *f = *state;
    int at, s, c = start_stream(f, &at, &s);
    char *body = gs_alloc(LENGTH + 1);
    memset(body, 'x', LENGTH);
    GS_AUTO_FREE char *head = gs_format("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", LENGTH);
    reply(at, head);
    reply(at, body);
    GS_AUTO_BUF struct gs_buf have = {0};
    loop_until(&f->loop, got_part(c, &have, "0\r\n\r\n"));
    assert_null(memmem(have.data, have.len, "xxxx", 4));
    assert_non_null(memmem(have.data, have.len, "event: error\n", 13));
    free(body);
    close(at);
    close(c);
    close(s);
}

static void test_a_refusal_after_comments_is_an_event(void **state)
{
    struct fixture *f = *state;
    start_with_comments(f);
    int c = client(f, STREAM);
    expect_part(f, c, ": waiting for a pod");
    activator_gate_fail(f->gate, "no node has 8 GPUs");
    expect_part(f, c, "\nevent: error\ndata: {\"error\":{\"message\":\"no node has 8 GPUs\"");
    close(c);
}

static void expect_no_comment(struct fixture *f, const char *request)
{
    size_t before = stats(f).waiting;
    GS_AUTO_BUF struct gs_buf have = {0};
    int c = client(f, request);
    loop_until(&f->loop, stats(f).waiting == before + 1);
    loop_for_ms(&f->loop, 600); // two sweeps
    got(c, &have, "?");
    assert_int_equal(have.len, 0);
    close(c);
    loop_until(&f->loop, stats(f).waiting == before);
}

static void test_other_requests_get_no_comment(void **state)
{
    struct fixture *f = *state;
    start_with_comments(f);
    expect_no_comment(f, REQUEST);
    expect_no_comment(f, "POST / HTTP/1.0\r\nContent-Length: 16\r\n\r\n{\"stream\": true}");
    expect_no_comment(f, "POST / HTTP/1.1\r\nContent-Length: 17\r\n\r\n{\"stream\": false}");
    activator_gate_set_rules(f->gate, NULL);
    expect_no_comment(f, STREAM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GATE_TEST(test_events_follow_the_comments),
        GATE_TEST(test_events_without_chunks_become_chunks),
        GATE_TEST(test_an_error_becomes_an_event),
        GATE_TEST(test_a_response_that_ends_early_becomes_an_error),
        GATE_TEST(test_a_long_response_that_is_no_event_stream_becomes_an_error),
        GATE_TEST(test_a_refusal_after_comments_is_an_event),
        GATE_TEST(test_other_requests_get_no_comment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
