// SPDX-License-Identifier: Apache-2.0
// Replicas that contend for a Lease, on a played API that keeps it with its resourceVersion.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/election.h"
#include "kube/status.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { A, B, N };

static int64_t clock_ms = 1000;

// In place of the C library's: monotonic time passes only where the test says so, for the loop too.
int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE)
        return (int)syscall(SYS_clock_gettime, id, ts);
    *ts = (struct timespec){.tv_sec = clock_ms / 1000, .tv_nsec = clock_ms % 1000 * GS_NS_PER_MS};
    return 0;
}

struct replica {
    struct bench *bench;
    struct kube_election *election;
    int led, lost;
};

struct bench {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *kube;
    json_t *lease; // NULL: there is none
    int version, writes;
    bool refuse;   // writes end in 403
    bool conflict; // the next write is stored, and ends in 409
    struct replica replicas[N];
};

static void store(struct bench *b, json_t *lease)
{
    char version[24];
    snprintf(version, sizeof(version), "%d", ++b->version);
    codec_json_set(lease, json_string(version), "metadata", "resourceVersion", NULL);
    json_decref(b->lease);
    b->lease = lease;
    b->writes++;
}

static void handle(void *ctx, struct http_exchange *x)
{
    struct bench *b = ctx;
    bool is_get = strcmp(http_method(x), "GET") == 0, is_post = strcmp(http_method(x), "POST") == 0;
    json_t *body = NULL;
    if (!is_get)
        gs_error_free(codec_json_parse(http_body(x), false, &body));
    const char *version = codec_json_str(body, "metadata", "resourceVersion", NULL);
    const char *stored = codec_json_str(b->lease, "metadata", "resourceVersion", NULL);
    if (is_get && !b->lease) {
        kube_reply_failure(x, 404, "NotFound", "no such lease");
    } else if (!is_get && b->refuse) {
        kube_reply_failure(x, 403, "Forbidden", "leases are not yours");
    } else if (!is_get && (is_post ? b->lease != NULL : !gs_streq(version, stored))) {
        kube_reply_failure(x, 409, is_post ? "AlreadyExists" : "Conflict", "somebody was first");
    } else {
        if (!is_get)
            store(b, json_incref(body));
        if (!is_get && b->conflict)
            kube_reply_failure(x, 409, "Conflict", "this request was repeated");
        else
            kube_reply_json(x, is_post ? 201 : 200, b->lease);
        b->conflict = b->conflict && is_get;
    }
    json_decref(body);
}

static void on_leading(void *arg)
{
    ((struct replica *)arg)->led++;
}

static void on_lost(void *arg)
{
    ((struct replica *)arg)->lost++;
}

static void contend(struct bench *b, int who)
{
    static const char *const names[] = {"a", "b"};
    const struct kube_election_config cfg = {.ns = "kube-system",
                                             .name = "x",
                                             .identity = names[who],
                                             .lease_ms = 1000,
                                             .renew_ms = 300,
                                             .retry_ms = 20,
                                             .on_leading = on_leading,
                                             .on_lost = on_lost,
                                             .arg = &b->replicas[who]};
    b->replicas[who].election = kube_election_new(&b->loop, b->kube, &cfg);
}

static void leave(struct bench *b, int who)
{
    kube_election_free(b->replicas[who].election);
    b->replicas[who].election = NULL;
}

static void pass(struct bench *b, int64_t ms)
{
    for (const int64_t end = clock_ms + ms; clock_ms < end; clock_ms++)
        for (int i = 0; i < 4; i++) // a request and its answer
            uv_run(&b->loop, UV_RUN_NOWAIT);
}

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    uv_loop_init(&b->loop);
    b->http = http_client_new_loopback(&b->loop, handle, b, NULL);
    b->kube = kube_client_new(b->http);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    for (int i = 0; i < N; i++)
        leave(b, i);
    kube_client_free(b->kube);
    http_client_free(b->http);
    for (int i = 0; i < 1000 && uv_loop_alive(&b->loop); i++)
        uv_run(&b->loop, UV_RUN_NOWAIT);
    int rc = uv_loop_close(&b->loop);
    json_decref(b->lease);
    free(b);
    return rc;
}

static const char *holder(const struct bench *b)
{
    return codec_json_str(b->lease, "spec", "holderIdentity", NULL);
}

static void test_one_of_two_leads(void **state)
{
    struct bench *b = *state;
    contend(b, A);
    contend(b, B);
    pass(b, 300);
    assert_int_equal(b->replicas[A].led + b->replicas[B].led, 1);
    assert_int_equal(b->replicas[A].lost + b->replicas[B].lost, 0);
    int leader = b->replicas[A].led ? A : B;
    assert_string_equal(holder(b), leader == A ? "a" : "b");
    assert_true(kube_election_leading(b->replicas[leader].election));
    assert_true(b->writes > 3); // it is renewed
    assert_int_equal(codec_json_int(b->lease, -1, "spec", "leaseTransitions", NULL), 0);
    assert_int_equal(codec_json_int(b->lease, -1, "spec", "leaseDurationSeconds", NULL), 1);
}

static void test_the_other_follows_when_the_lease_has_run_out(void **state)
{
    struct bench *b = *state;
    contend(b, A);
    pass(b, 100);
    contend(b, B);
    pass(b, 100);
    leave(b, A);
    pass(b, 500);
    assert_int_equal(b->replicas[B].led, 0); // half a lease
    pass(b, 800);
    assert_int_equal(b->replicas[B].led, 1);
    assert_string_equal(holder(b), "b");
    assert_int_equal(codec_json_int(b->lease, -1, "spec", "leaseTransitions", NULL), 1);
}

static void test_who_cannot_renew_gives_up_before_the_lease_ends(void **state)
{
    struct bench *b = *state;
    contend(b, A);
    pass(b, 100);
    assert_int_equal(b->replicas[A].led, 1);
    b->refuse = true;
    pass(b, 450);
    assert_int_equal(b->replicas[A].lost, 1);
    assert_false(kube_election_leading(b->replicas[A].election));
}

static void test_a_lease_that_was_taken_is_lost(void **state)
{
    struct bench *b = *state;
    contend(b, A);
    pass(b, 100);
    json_t *taken = json_deep_copy(b->lease);
    codec_json_set(taken, json_string("c"), "spec", "holderIdentity", NULL);
    store(b, taken);
    pass(b, 100);
    assert_int_equal(b->replicas[A].lost, 1);
    assert_string_equal(holder(b), "c");
}

// The HTTP client repeats a PUT whose connection ends before the response. If the first one was
// stored, the second one has an old resourceVersion. `gpuscale hpa` ended.
static void test_a_conflict_with_the_own_write_is_not_a_loss(void **state)
{
    struct bench *b = *state;
    contend(b, A);
    pass(b, 100);
    assert_int_equal(b->replicas[A].led, 1);
    b->conflict = true;
    pass(b, 100);
    assert_false(b->conflict);
    assert_int_equal(b->replicas[A].lost, 0);
    int writes = b->writes;
    pass(b, 400); // longer than renew_ms
    assert_true(b->writes > writes);
    assert_int_equal(b->replicas[A].lost, 0);
    assert_true(kube_election_leading(b->replicas[A].election));
    assert_int_equal(codec_json_int(b->lease, -1, "spec", "leaseTransitions", NULL), 0);
}

struct recorder {
    struct http_client base;
    struct http_client *inner;
    int sent, urgent;
};

static struct http_op *record(struct http_client *base, const struct http_request *request,
                              const struct http_callbacks *cb, void *arg)
{
    struct recorder *r = GS_CONTAINER_OF(base, struct recorder, base);
    r->sent++;
    r->urgent += request->urgent;
    return http_send(r->inner, request, cb, arg);
}

// Otherwise slow requests of the same client could end the leadership.
static void test_the_lease_does_not_wait_for_other_requests(void **state)
{
    static const struct http_client_ops ops = {.send = record};
    struct bench *b = *state;
    struct recorder r = {.base.ops = &ops, .inner = b->http};
    kube_client_free(b->kube);
    b->kube = kube_client_new(&r.base);
    contend(b, A);
    pass(b, 100);
    assert_int_equal(b->replicas[A].led, 1);
    assert_true(b->writes > 1);
    assert_int_equal(r.urgent, r.sent);
    leave(b, A);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_of_two_leads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_other_follows_when_the_lease_has_run_out, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_who_cannot_renew_gives_up_before_the_lease_ends,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lease_that_was_taken_is_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_conflict_with_the_own_write_is_not_a_loss, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_lease_does_not_wait_for_other_requests, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
