// SPDX-License-Identifier: Apache-2.0
// The work queue of the loops, with a client that nobody uses.
#include "../kube/loop.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/turn.h"
#include "local/workqueue.h"
#include "net/http/client.h"

struct fixture {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *client;
    struct local_workqueue *queue;
    uv_prepare_t counter;
    int runs, turns;
    int again; // how often a key asks to run again
    char order[64];
};

static void refuse(void *ctx, struct http_exchange *x)
{
    (void)ctx;
    http_reply_text(x, 500, "no");
}

static void run(void *arg, struct local_reconcile *w, const char *ns, const char *name)
{
    struct fixture *f = arg;
    (void)ns;
    size_t n = strlen(f->order);
    if (n + 1 < sizeof(f->order))
        f->order[n] = name[0];
    f->runs++;
    if (f->again-- > 0)
        local_reconcile_requeue(w, 0);
}

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    uv_loop_init(&f->loop);
    f->http = http_client_new_loopback(&f->loop, refuse, NULL, NULL);
    f->client = kube_client_new(f->http);
    f->queue = local_workqueue_new(&f->loop, f->client, "test", run, f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    local_workqueue_free(f->queue);
    kube_client_free(f->client);
    http_client_free(f->http);
    loop_finish(&f->loop);
    free(f);
    return 0;
}

static void test_keys_run_in_the_order_of_their_time(void **state)
{
    struct fixture *f = *state;
    local_workqueue_add_after(f->queue, "ns", "d", 40);
    local_workqueue_add_after(f->queue, "ns", "b", 20);
    local_workqueue_add_after(f->queue, "ns", "e", 50);
    local_workqueue_add_after(f->queue, "ns", "c", 30);
    local_workqueue_add_after(f->queue, NULL, "a", 600000);
    local_workqueue_add_after(f->queue, NULL, "a", 10); // the earlier time counts
    local_workqueue_add_after(f->queue, "ns", "b", 700000);
    assert_int_equal(f->runs, 0);
    loop_until(&f->loop, f->runs == 5);
    assert_string_equal(f->order, "abcde");
    loop_for_ms(&f->loop, 20);
    assert_int_equal(f->runs, 5);
}

static void test_a_key_runs_again_when_it_asks(void **state)
{
    struct fixture *f = *state;
    f->again = 3;
    local_workqueue_add(f->queue, "ns", "a");
    local_workqueue_add(f->queue, "ns", "a"); // once
    loop_until(&f->loop, f->runs == 4);
    loop_for_ms(&f->loop, 20);
    assert_int_equal(f->runs, 4);
}

static void count_turn(uv_prepare_t *p)
{
    struct fixture *f = p->data;
    f->turns++;
}

static void test_many_keys_leave_the_loop_to_others(void **state)
{
    enum { KEYS = 300 };
    struct fixture *f = *state;
    uv_prepare_init(&f->loop, &f->counter);
    f->counter.data = f;
    uv_prepare_start(&f->counter, count_turn);
    gs_turn_set_ns(0);
    for (int i = 0; i < KEYS; i++) {
        GS_AUTO_FREE char *name = gs_format("k%d", i);
        local_workqueue_add(f->queue, "ns", name);
    }
    loop_until(&f->loop, f->runs == KEYS);
    // One key for each run of timers: in the mode of loop_until() there are two around each poll.
    assert_in_range(f->turns, KEYS / 2, INT32_MAX);
    uv_close((uv_handle_t *)&f->counter, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keys_run_in_the_order_of_their_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_key_runs_again_when_it_asks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_keys_leave_the_loop_to_others, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("work", tests, NULL, NULL);
}
