// SPDX-License-Identifier: Apache-2.0
// What waits in a gate, when it is passed on, and what ends it.
#include "gate_bed.h"

static void test_a_request_waits_and_is_passed_on_once(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    int s = server(&port), c, at;
    start(f);
    c = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 1);
    assert_int_equal(stats(f).arrivals, 1);
    assert_true(f->changes > 0);
    assert_false(accepts(s, &at));
    set_server(f, port);
    loop_until(&f->loop, accepts(s, &at));
    expect(f, at, REQUEST);
    assert_int_equal(send(at, "answer", 6, MSG_NOSIGNAL), 6);
    expect(f, c, "answer");
    assert_int_equal(stats(f).waiting, 0);
    assert_int_equal(stats(f).open, 1);
    assert_int_equal(stats(f).released, 1);
    // The connection is kept alive.
    assert_int_equal(send(c, "more", 4, MSG_NOSIGNAL), 4);
    expect(f, at, "more");
    close(c);
    expect(f, at, "");
    close(at);
    loop_until(&f->loop, stats(f).open == 0);
    close(s);
}

static void test_other_protocols_wait_from_their_first_byte(void **state)
{
    struct fixture *f = *state;
    start(f);
    int c = client(f, "\x16\x03\x01");
    loop_until(&f->loop, stats(f).waiting == 1);
    close(c);
    loop_until(&f->loop, stats(f).rejected[ACTIVATOR_GONE] == 1);
    assert_int_equal(stats(f).waiting, 0);
}

static void test_connections_without_a_request_do_not_wait(void **state)
{
    struct fixture *f = *state;
    f->cfg.silent_ms = 1;
    start(f);
    int empty = client(f, ""), part = client(f, "GET / HTTP/1.1\r\nHost: a");
    expect(f, empty, "");
    expect(f, part, "");
    assert_int_equal(stats(f).arrivals, 0);
    assert_int_equal(stats(f).rejected[ACTIVATOR_SILENT], 2);
    close(empty);
    close(part);
}

static void test_a_health_check_is_answered_and_wakes_nothing(void **state)
{
    struct fixture *f = *state;
    start(f);
    int c = client(f, "GET /ready HTTP/1.1\r\nUser-Agent: kube-probe/1.36\r\n\r\n");
    expect_part(f, c, "HTTP/1.1 200 OK\r\n");
    assert_int_equal(stats(f).arrivals, 0);
    assert_int_equal(stats(f).rejected[ACTIVATOR_PROBE], 1);
    close(c);
}

static void test_a_request_that_waits_too_long_gets_503(void **state)
{
    struct fixture *f = *state;
    f->cfg.hold_ms = 1;
    start(f);
    int http = client(f, REQUEST), other = client(f, "\x16\x03\x01");
    expect_part(f, http, "HTTP/1.1 503 Service Unavailable\r\n");
    expect(f, other, "");
    assert_int_equal(stats(f).rejected[ACTIVATOR_TIMEOUT], 2);
    close(http);
    close(other);
}

static void test_nothing_times_out_while_pods_start(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    int s = server(&port), at;
    f->cfg.hold_ms = 1;
    start(f);
    activator_gate_extend(f->gate, 600000);
    int c = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 1);
    loop_for_ms(&f->loop, 600); // two sweeps
    assert_int_equal(stats(f).waiting, 1);
    set_server(f, port);
    loop_until(&f->loop, accepts(s, &at));
    expect(f, at, REQUEST);
    close(at);
    close(s);
    close(c);
}

// More requests than the first pod takes at once, and all of them are older than hold_ms.
static void test_the_first_pod_gets_what_waited_long(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    int s = server(&port), first, second;
    f->cfg.hold_ms = 1500;
    f->cfg.per_endpoint = 1;
    start(f);
    activator_gate_extend(f->gate, 600000);
    int a = client(f, REQUEST), b = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 2);
    loop_for_ms(&f->loop, (int)f->cfg.hold_ms + 100);
    set_server(f, port);
    activator_gate_extend(f->gate, 0);
    loop_until(&f->loop, accepts(s, &first));
    loop_for_ms(&f->loop, 600); // two sweeps
    assert_int_equal(stats(f).waiting, 1);
    close(first);
    loop_until(&f->loop, accepts(s, &second));
    int c = client(f, REQUEST); // the limit remains
    expect_part(f, c, "HTTP/1.1 503 ");
    assert_int_equal(stats(f).rejected[ACTIVATOR_TIMEOUT], 1);
    close(second);
    close(a);
    close(b);
    close(c);
    close(s);
}

static void test_a_workload_that_cannot_start_is_reported_at_once(void **state)
{
    struct fixture *f = *state;
    start(f);
    int before = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 1);
    activator_gate_fail(f->gate, "no node has 8 GPUs");
    expect_part(f, before, "no node has 8 GPUs");
    int after = client(f, REQUEST);
    expect_part(f, after, "no node has 8 GPUs");
    assert_int_equal(stats(f).rejected[ACTIVATOR_FAILED], 2);
    activator_gate_fail(f->gate, NULL);
    int again = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 1);
    close(before);
    close(after);
    close(again);
}

static void test_above_the_limit_requests_get_429(void **state)
{
    struct fixture *f = *state;
    f->cfg.max_held = 2;
    start(f);
    int a = client(f, REQUEST), b = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 2);
    int c = client(f, REQUEST);
    expect_part(f, c, "HTTP/1.1 429 Too Many Requests\r\n");
    assert_int_equal(stats(f).rejected[ACTIVATOR_LIMIT], 1);
    assert_int_equal(stats(f).waiting, 2);
    close(a);
    close(b);
    close(c);
}

static void test_a_flood_without_requests_keeps_no_request_out(void **state)
{
    struct fixture *f = *state;
    f->cfg.max_held = 2;
    start(f);
    int a = client(f, ""), b = client(f, "");
    loop_until(&f->loop, stats(f).silent == 2);
    int c = client(f, REQUEST);
    expect(f, a, "");
    loop_until(&f->loop, stats(f).waiting == 1);
    assert_int_equal(stats(f).silent, 1);
    assert_int_equal(stats(f).rejected[ACTIVATOR_LIMIT], 1);
    close(a);
    close(b);
    close(c);
}

static void test_the_first_pod_is_not_flooded(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    int s = server(&port), c[5], at[5];
    f->cfg.per_endpoint = 2;
    start(f);
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++)
        c[i] = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == GS_ARRAY_LEN(c));
    set_server(f, port);
    loop_until(&f->loop, stats(f).open == 2);
    loop_for_ms(&f->loop, 300);
    assert_int_equal(stats(f).open, 2);
    assert_int_equal(stats(f).waiting, 3);
    for (size_t i = 0; i < GS_ARRAY_LEN(c); i++) { // each answer makes room for the next
        loop_until(&f->loop, accepts(s, &at[i]));
        expect(f, at[i], REQUEST);
        close(at[i]);
        close(c[i]);
    }
    assert_int_equal(stats(f).released, GS_ARRAY_LEN(c));
    close(s);
}

static void test_an_idle_connection_makes_room_for_the_next(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    int s = server(&port), first, second;
    f->cfg.per_endpoint = 1;
    start(f);
    int a = client(f, REQUEST), b = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 2);
    set_server(f, port);
    loop_until(&f->loop, accepts(s, &first));
    assert_int_equal(send(first, "ok", 2, MSG_NOSIGNAL), 2);
    loop_until(&f->loop, accepts(s, &second)); // although the first stays open
    loop_until(&f->loop, stats(f).open == 2);
    close(first);
    close(second);
    close(a);
    close(b);
    close(s);
}

// Clients that connect early, or never send anything, keep no request from the pod.
static void test_a_connection_without_a_request_makes_room(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    int s = server(&port), first, second, third;
    f->cfg.per_endpoint = 1;
    start(f);
    set_server(f, port);
    int silent = client(f, "");
    loop_until(&f->loop, accepts(s, &first));
    int b = client(f, REQUEST);
    loop_until(&f->loop, accepts(s, &second));
    expect(f, second, REQUEST);
    // Its request counts when it comes.
    assert_int_equal(send(silent, REQUEST, strlen(REQUEST), MSG_NOSIGNAL), strlen(REQUEST));
    expect(f, first, REQUEST);
    close(second);
    close(b);
    loop_until(&f->loop, stats(f).open == 1);
    int c = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 1);
    loop_for_ms(&f->loop, 1500);
    assert_int_equal(stats(f).waiting, 1);
    close(first);
    loop_until(&f->loop, accepts(s, &third));
    close(third);
    close(silent);
    close(c);
    close(s);
}

static void test_a_pod_that_refuses_is_tried_again(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    int s = server(&port), at;
    close(s);
    start(f);
    int c = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 1);
    set_server(f, port);
    loop_until(&f->loop, stats(f).connect_failures > 0);
    struct sockaddr_in a = address(port);
    int on = 1;
    s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(s, 8), 0);
    loop_until(&f->loop, accepts(s, &at));
    expect(f, at, REQUEST);
    close(at);
    close(c);
    close(s);
}

// Bytes above the limit wait at the client, and none is lost.
static void test_a_long_body_is_not_held_in_memory(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    const size_t total = 4 << 20;
    size_t sent = 0, received = 0;
    int s = server(&port), at = -1;
    f->cfg.max_bytes = 32 * 1024;
    start(f);
    int c = client(f, "\x16");
    char *body = calloc(1, total);
    loop_until(&f->loop, stats(f).waiting == 1);
    for (int i = 0; i < 100; i++) {
        ssize_t n = send(c, body + sent, total - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        loop_for_ms(&f->loop, 1);
    }
    assert_true(f->budget.left >= (8 << 20) - 32 * 1024 - 64 * 1024);
    set_server(f, port);
    loop_until(&f->loop, accepts(s, &at));
    while (received < total + 1) {
        ssize_t n = send(c, body + sent, total - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        uv_run(&f->loop, UV_RUN_NOWAIT);
        char bytes[65536];
        n = recv(at, bytes, sizeof(bytes), MSG_DONTWAIT);
        received += n > 0 ? (size_t)n : 0;
    }
    assert_int_equal(received, total + 1);
    assert_int_equal(f->budget.left, 8 << 20);
    free(body);
    close(at);
    close(c);
    close(s);
}

// The client of a connection that is full, and therefore not read, leaves.
static void test_a_client_that_leaves_a_full_connection_is_noticed(void **state)
{
    struct fixture *f = *state;
    f->cfg.max_bytes = 4;
    start(f);
    int c = client(f, "\x16 123456789");
    loop_until(&f->loop, stats(f).waiting == 1);
    close(c);
    loop_until(&f->loop, stats(f).rejected[ACTIVATOR_GONE] == 1);
}

static void test_without_memory_connections_still_wait(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    int s = server(&port), at;
    f->budget.left = 0;
    start(f);
    int c = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 1);
    assert_int_equal(f->budget.left, 0);
    set_server(f, port);
    loop_until(&f->loop, accepts(s, &at));
    expect(f, at, REQUEST);
    close(at);
    close(c);
    close(s);
}

static void test_the_end_of_the_gate_is_counted(void **state)
{
    struct fixture *f = *state;
    start(f);
    int c = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 1);
    activator_gate_free(GS_TAKE(f->gate));
    loop_for_ms(&f->loop, 1);
    GS_AUTO_BUF struct gs_buf have = {0};
    assert_true(got(c, &have, ""));
    assert_int_equal(f->budget.left, 8 << 20);
    close(c);
}

// A client may end its side after the request. One that has closed the connection is gone.
static void test_a_client_that_ends_only_its_side_gets_its_answer(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    int s = server(&port);
    start(f);
    int half = client(f, REQUEST), gone = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 2);
    shutdown(half, SHUT_WR);
    close(gone);
    loop_until(&f->loop, stats(f).rejected[ACTIVATOR_GONE] == 1);
    assert_int_equal(stats(f).waiting, 1);
    set_server(f, port);
    int at = expect_request(f, s, REQUEST);
    expect(f, at, ""); // the end is passed on, too
    reply(at, "HTTP/1.1 204 No Content\r\n\r\n");
    close(at);
    expect_part(f, half, "\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    close(half);
    close(s);
}

static void test_a_request_in_progress_is_not_idle(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    int s = server(&port);
    f->cfg.idle_ms = 1;
    start(f);
    set_server(f, port);
    int c = client(f, REQUEST);
    int at = expect_request(f, s, REQUEST);
    loop_for_ms(&f->loop, 600); // two sweeps
    assert_int_equal(stats(f).open, 1);
    reply(at, "answer");
    loop_until(&f->loop, stats(f).open == 0);
    close(at);
    close(c);
    close(s);
}

static void test_above_the_limit_of_open_connections_requests_wait(void **state)
{
    struct fixture *f = *state;
    uint16_t port;
    int s = server(&port);
    f->cfg.max_open = 1;
    start(f);
    set_server(f, port);
    int a = client(f, REQUEST), first = expect_request(f, s, REQUEST);
    int b = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 1);
    loop_for_ms(&f->loop, 300); // a sweep
    assert_int_equal(stats(f).open, 1);
    close(first);
    close(a);
    int second = expect_request(f, s, REQUEST);
    close(second);
    close(b);
    close(s);
}

// What is on its way is not reported again: the API may be away.
static void test_an_extension_ends(void **state)
{
    struct fixture *f = *state;
    f->cfg.hold_ms = 1;
    start(f);
    activator_gate_extend(f->gate, 600);
    int c = client(f, REQUEST);
    expect_part(f, c, "HTTP/1.1 503 ");
    assert_int_equal(stats(f).rejected[ACTIVATOR_TIMEOUT], 1);
    close(c);
}

static void test_a_removed_port_ends_what_it_holds(void **state)
{
    struct fixture *f = *state;
    uint16_t other = 0;
    start(f);
    assert_ok(activator_gate_listen(f->gate, 1, IP, &other));
    int a = client(f, REQUEST);
    f->port = other;
    int b = client(f, REQUEST);
    loop_until(&f->loop, stats(f).waiting == 2);
    activator_gate_remove(f->gate, 0);
    expect_part(f, a, "HTTP/1.1 503 ");
    assert_int_equal(stats(f).rejected[ACTIVATOR_CLOSED], 1);
    assert_int_equal(stats(f).waiting, 1);
    close(a);
    close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GATE_TEST(test_a_request_waits_and_is_passed_on_once),
        GATE_TEST(test_other_protocols_wait_from_their_first_byte),
        GATE_TEST(test_connections_without_a_request_do_not_wait),
        GATE_TEST(test_a_health_check_is_answered_and_wakes_nothing),
        GATE_TEST(test_a_request_that_waits_too_long_gets_503),
        GATE_TEST(test_nothing_times_out_while_pods_start),
        GATE_TEST(test_the_first_pod_gets_what_waited_long),
        GATE_TEST(test_a_workload_that_cannot_start_is_reported_at_once),
        GATE_TEST(test_above_the_limit_requests_get_429),
        GATE_TEST(test_a_flood_without_requests_keeps_no_request_out),
        GATE_TEST(test_the_first_pod_is_not_flooded),
        GATE_TEST(test_an_idle_connection_makes_room_for_the_next),
        GATE_TEST(test_a_connection_without_a_request_makes_room),
        GATE_TEST(test_a_pod_that_refuses_is_tried_again),
        GATE_TEST(test_a_long_body_is_not_held_in_memory),
        GATE_TEST(test_a_client_that_leaves_a_full_connection_is_noticed),
        GATE_TEST(test_without_memory_connections_still_wait),
        GATE_TEST(test_the_end_of_the_gate_is_counted),
        GATE_TEST(test_a_client_that_ends_only_its_side_gets_its_answer),
        GATE_TEST(test_a_request_in_progress_is_not_idle),
        GATE_TEST(test_above_the_limit_of_open_connections_requests_wait),
        GATE_TEST(test_an_extension_ends),
        GATE_TEST(test_a_removed_port_ends_what_it_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
