// SPDX-License-Identifier: Apache-2.0
// The provider is killed between any two steps: nothing is created twice, and nothing is forgotten.
#include "harness.h"

static void wait_crash(struct harness *h)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; !child_has_died(h); run_once(h))
        if (gs_mono_ns() > end)
            fail_msg("the provider was not killed");
    reap_child(h);
}

static void ignore_answer(void *arg, const struct grpc_reply *reply)
{
    (void)arg, (void)reply;
}

static void send_call(struct harness *h, const char *method, const void *message)
{
    GS_AUTO_BUF struct gs_buf bytes = packed(message);
    GS_AUTO_FREE char *path = gs_format(SERVICE "%s", method);
    (void)grpc_client_call(h->client, path, gs_buf_slice(&bytes), WAIT_MS, ignore_answer, NULL);
}

static void send_increase(struct harness *h, int delta)
{
    Externalgrpc__DeltaRequest m = EXTERNALGRPC__DELTA_REQUEST__INIT;
    m.id = (char *)"t4";
    m.delta = delta;
    send_call(h, "NodeGroupIncreaseSize", &m);
}

static void send_delete(struct harness *h, char *id)
{
    Externalgrpc__Node node = EXTERNALGRPC__NODE__INIT;
    Externalgrpc__Node *items[] = {&node};
    Externalgrpc__DeleteNodesRequest m = EXTERNALGRPC__DELETE_NODES_REQUEST__INIT;
    node.provider_id = id;
    m.nodes = items;
    m.n_nodes = 1;
    m.id = (char *)"t4";
    send_call(h, "NodeGroupDeleteNodes", &m);
}

static void restart(struct harness *h)
{
    start_child(h);
    wait_ready(h);
}

// --- crashes inside commands ---

static void crash_in_creation(const char *point)
{
    struct harness h;
    setup(&h, NULL);
    write_text(&h, point, "");
    send_increase(&h, 1);
    wait_crash(&h);
    restart(&h);
    assert_int_equal(target(&h, "t4"), 1);
    wait_state(&h, "t4", 2, false, 0);
    wait_state(&h, "t4", 1, false, 1);
    assert_int_equal(count_machines(&h), 1);
    teardown(&h);
}

static void test_kill_before_a_machine_exists_creates_it_once(void **state)
{
    crash_in_creation("crash-before-create-exit");
}

static void test_command_that_outlives_the_provider_is_awaited(void **state)
{
    crash_in_creation("crash-before-create-slow");
}

static void test_kill_after_a_machine_exists_creates_no_second_one(void **state)
{
    crash_in_creation("crash-after-create");
    crash_in_creation("crash-after-create-slow");
}

static void crash_in_deletion(const char *point)
{
    struct harness h;
    setup(&h, NULL);
    increase(&h, "t4", 2);
    wait_state(&h, "t4", 1, false, 2);
    write_text(&h, point, "");
    GS_AUTO_FREE char *id = first_id(&h, "t4");
    send_delete(&h, id);
    wait_crash(&h);
    restart(&h);
    assert_int_equal(target(&h, "t4"), 1);
    wait_machines(&h, 1);
    wait_state(&h, "t4", 3, false, 0);
    assert_int_equal(count_state(&h, "t4", 1, false), 1);
    teardown(&h);
}

static void test_kill_during_a_deletion_deletes_the_machine(void **state)
{
    crash_in_deletion("crash-before-delete-exit");
    crash_in_deletion("crash-before-delete-slow");
    crash_in_deletion("crash-after-delete");
}

static void test_kill_during_a_list_changes_nothing(void **state)
{
    struct harness h;
    setup(&h, NULL);
    increase(&h, "t4", 1);
    wait_state(&h, "t4", 1, false, 1);
    write_text(&h, "crash-list-exit", "");
    wait_crash(&h);
    restart(&h);
    assert_int_equal(count_state(&h, "t4", 1, false), 1);
    assert_int_equal(count_machines(&h), 1);
    teardown(&h);
}

// --- crashes at any time ---

static void run_for(struct harness *h, unsigned us)
{
    for (int64_t end = gs_mono_ns() + (int64_t)us * 1000; gs_mono_ns() < end;) {
        uv_run(&h->loop, UV_RUN_NOWAIT);
        usleep(50);
    }
}

static void test_kills_at_random_times_lose_and_double_nothing(void **state)
{
    struct harness h;
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    setup(&h, NULL);
    for (int round = 0; round < 12; round++) {
        send_increase(&h, 1);
        run_for(&h, (unsigned)(rand_r(&seed) % 12000));
        kill_child(&h);
        restart(&h);
    }
    wait_state(&h, "t4", 2, false, 0);
    const int n = target(&h, "t4");
    wait_state(&h, "t4", 1, false, n);
    assert_int_equal(count_machines(&h), n);
    while (target(&h, "t4") > 0) {
        GS_AUTO_FREE char *id = first_id(&h, "t4");
        send_delete(&h, id);
        run_for(&h, (unsigned)(rand_r(&seed) % 12000));
        kill_child(&h);
        restart(&h);
        for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; usleep(5000))
            if (count_state(&h, "t4", 3, false) == 0)
                break;
    }
    wait_machines(&h, 0);
    teardown(&h);
}

static void test_lost_state_file_does_not_lose_machines(void **state)
{
    struct harness h;
    setup(&h, NULL);
    increase(&h, "t4", 3);
    wait_state(&h, "t4", 1, false, 3);
    kill_child(&h);
    GS_AUTO_FREE char *path = gs_format("%s/state", h.dir);
    remove_tree(path);
    restart(&h);
    assert_int_equal(target(&h, "t4"), 3);
    assert_int_equal(count_machines(&h), 3);
    teardown(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill_before_a_machine_exists_creates_it_once),
        cmocka_unit_test(test_command_that_outlives_the_provider_is_awaited),
        cmocka_unit_test(test_kill_after_a_machine_exists_creates_no_second_one),
        cmocka_unit_test(test_kill_during_a_deletion_deletes_the_machine),
        cmocka_unit_test(test_kill_during_a_list_changes_nothing),
        cmocka_unit_test(test_kills_at_random_times_lose_and_double_nothing),
        cmocka_unit_test(test_lost_state_file_does_not_lose_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
