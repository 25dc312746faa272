// SPDX-License-Identifier: Apache-2.0
// Idle GPUs: what counts as idle, and what becomes of the replicas of idle workloads.
#include "unit.h"

#include "base/mem.h"
#include "members.h"

#include <math.h>

#define HALF_HOUR_MS 1800000

// --- what is idle ---

static struct budget_idle_pod idle_pod(void)
{
    return (struct budget_idle_pod){
        .name = "web-1", .gpus = 2, .measured = 2, .minutes = 31, .process = NAN};
}

static void assert_busy(const struct budget_idle_pod *pods, size_t n, const char *part)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    assert_false(budget_is_idle(pods, n, HALF_HOUR_MS, &text));
    assert_non_null(strstr(text.data, part));
}

static void test_a_workload_is_idle_if_all_its_gpus_were_the_whole_time(void **state)
{
    struct budget_idle_pod pods[] = {idle_pod(), idle_pod()};
    GS_AUTO_BUF struct gs_buf text = {0};
    (void)state;
    assert_true(budget_is_idle(pods, 2, HALF_HOUR_MS, &text));
    assert_string_equal(text.data, "idle for 30m: no busy process, utilization 0, constant memory");
    pods[1].util = 0.5;
    assert_busy(pods, 2, "used a GPU");
    pods[1] = idle_pod();
    pods[1].process = 1;
    assert_busy(pods, 2, "busy process");
    pods[1] = idle_pod();
    pods[1].memory = 2;
    assert_busy(pods, 2, "changed its GPU memory");
}

static void test_missing_data_is_never_idle(void **state)
{
    struct budget_idle_pod p = idle_pod();
    (void)state;
    p.util = NAN;
    assert_busy(&p, 1, "no samples of the whole time");
    p = idle_pod();
    p.memory = NAN;
    assert_busy(&p, 1, "no samples of the whole time");
    p = idle_pod();
    p.minutes = 30; // a gap, or a pod that is younger
    assert_busy(&p, 1, "no samples of the whole time");
    p.minutes = NAN;
    assert_busy(&p, 1, "no samples of the whole time");
    p = idle_pod();
    p.measured = 1; // of two GPUs: the other one is stale
    assert_busy(&p, 1, "without a sample in the last minute");
    p.measured = NAN;
    assert_busy(&p, 1, "without a sample in the last minute");
    assert_busy(NULL, 0, "no pods");
}

// --- what becomes of it ---

static struct budget_member with_floor(const char *key, int32_t demand, int32_t replicas)
{
    struct budget_member m = member(key, 1, demand, replicas);
    m.floor = 1;
    return m;
}

// Decides, and does it.
static void apply(struct budget_group *g, struct budget_member *m, size_t i,
                  struct budget_memory *memory, int64_t now_ms)
{
    int32_t replicas = decide(g, i, memory, now_ms).replicas;
    budget_note(memory, g, i, replicas, now_ms);
    m[i].replicas = replicas;
    m[i].live = replicas;
}

static void test_idle_gpus_stay_while_nobody_wants_them(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {with_floor("n/idle", 6, 6), with_floor("n/b", 2, 2)};
    const struct budget_group g = {"g", 8, 0, m, 2};
    (void)state;
    m[0].idle = true;
    struct budget_result r = decide(&g, 0, memory, 0);
    assert_int_equal(r.replicas, 6);
    assert_int_equal(r.reason, BUDGET_WITHIN);
    budget_memory_free(memory);
}

static void test_others_take_idle_gpus_down_to_one_replica(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {with_floor("n/idle", 6, 6), with_floor("n/b", 9, 2)};
    const struct budget_group g = {"g", 8, 0, m, 2};
    (void)state;
    m[0].floor = 0;
    m[0].idle = true;
    struct budget_result r = decide(&g, 0, memory, 0);
    assert_int_equal(r.replicas, 1); // shows when it is busy
    assert_int_equal(r.reason, BUDGET_IDLE);
    m[0].floor = 3;
    assert_int_equal(decide(&g, 0, memory, 0).replicas, 3);
    m[1].demand = 4; // what it needs, and no more
    assert_int_equal(decide(&g, 0, memory, 0).replicas, 4);
    GS_AUTO_BUF struct gs_buf text = {0};
    r = decide(&g, 0, memory, 0);
    budget_result_text(&g, 0, memory, &r, 0, &text);
    assert_non_null(strstr(text.data, "its GPUs are idle"));
    budget_memory_free(memory);
}

// Neither the hold of the owner nor that of the taker delays it, and a third one does not get them.
static void test_the_owner_gets_its_gpus_back_first_when_it_is_busy(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {with_floor("n/owner", 6, 6), with_floor("n/taker", 9, 2),
                                with_floor("n/third", 0, 0)};
    struct budget_group g = {"g", 8, 0, m, 3};
    (void)state;
    m[2].floor = 0;
    m[0].idle = true;
    apply(&g, m, 0, memory, 0);
    apply(&g, m, 1, memory, 0);
    assert_int_equal(m[0].replicas, 1);
    assert_int_equal(m[1].replicas, 7);
    m[0].idle = false;
    m[2].demand = 4;
    int32_t share = decide(&g, 0, memory, 15000).share;
    assert_true(share >= 2);
    apply(&g, m, 1, memory, 15000);
    assert_true(m[1].replicas < 7); // at once
    m[0].demand = 6;
    int64_t owed = share - m[0].replicas;
    assert_true(budget_free(&g) >= owed);
    apply(&g, m, 2, memory, 15000);
    assert_true(budget_free(&g) >= owed);
    apply(&g, m, 0, memory, 15000);
    assert_int_equal(m[0].replicas, share);
    size_t n;
    const struct budget_transfer *t = budget_transfers(memory, &n);
    assert_string_equal(t[0].from, "n/owner");
    assert_string_equal(t[0].to, "n/taker");
    assert_true(t[0].lent);
    assert_int_equal(t[0].gpus, 5);
    budget_memory_free(memory);
}

// While pods end, the free GPUs do not suffice for both.
static void test_a_third_member_waits_for_gpus_that_the_owner_wants_back(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {with_floor("n/owner", 4, 4), with_floor("n/taker", 6, 4),
                                with_floor("n/third", 0, 0)};
    struct budget_group g = {"g", 8, 0, m, 3};
    (void)state;
    m[2].floor = 0;
    m[0].idle = true;
    apply(&g, m, 0, memory, 0);
    assert_int_equal(m[0].replicas, 2);
    m[0].idle = false;
    m[1] = with_floor("n/taker", 2, 2);
    m[1].ending = 2;
    m[2].demand = 4;
    assert_int_equal(budget_free(&g), 2);
    struct budget_result r = decide(&g, 2, memory, 1);
    assert_int_equal(r.reason, BUDGET_LENT);
    assert_int_equal(r.replicas, 0);
    apply(&g, m, 0, memory, 1);
    assert_int_equal(m[0].replicas, 4);
    m[1].ending = 0; // nothing is owed any more
    assert_int_equal(decide(&g, 2, memory, 2).replicas, 2);
    budget_memory_free(memory);
}

// Once in 20 minutes, so that it is never idle for 30.
static void test_a_workload_that_is_busy_now_and_then_keeps_its_gpus(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {with_floor("n/owner", 4, 4), with_floor("n/taker", 8, 4)};
    struct budget_group g = {"g", 8, 0, m, 2};
    int moves = 0, minutes_idle = 0;
    (void)state;
    for (int minute = 0; minute < 600; minute++) {
        struct budget_idle_pod p = idle_pod();
        GS_AUTO_BUF struct gs_buf text = {0};
        minutes_idle = minute % 20 == 0 ? 0 : minutes_idle + 1;
        p.util = minutes_idle >= 30 ? 0 : 3; // the highest of the last 30 minutes
        m[0].idle = budget_is_idle(&p, 1, HALF_HOUR_MS, &text);
        int32_t before = m[0].replicas;
        apply(&g, m, 0, memory, (int64_t)minute * 60000);
        apply(&g, m, 1, memory, (int64_t)minute * 60000);
        moves += before != m[0].replicas;
        assert_true(budget_free(&g) >= 0);
    }
    assert_in_range(moves, 0, 1); // to its share at the begin
    budget_memory_free(memory);
}

// --- demand that a limit hides ---

static void test_a_refused_utilization_keeps_the_demand_that_it_had(void **state)
{
    int32_t demand = 0;
    (void)state;
    assert_int_equal(budget_demand(8, 6, true, false, &demand), 8);
    assert_int_equal(budget_demand(3, 2, true, true, &demand), 8); // 100 % of two replicas
    assert_int_equal(budget_demand(2, 2, true, true, &demand), 2); // the load has fallen
    assert_int_equal(budget_demand(3, 2, true, true, &demand), 3);
    demand = 8;
    assert_int_equal(budget_demand(3, 2, false, true, &demand), 3); // a queue shows all of it
    demand = 8;
    assert_int_equal(budget_demand(3, 2, true, false, &demand), 3); // nothing limits it
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_workload_is_idle_if_all_its_gpus_were_the_whole_time),
        cmocka_unit_test(test_missing_data_is_never_idle),
        cmocka_unit_test(test_idle_gpus_stay_while_nobody_wants_them),
        cmocka_unit_test(test_others_take_idle_gpus_down_to_one_replica),
        cmocka_unit_test(test_the_owner_gets_its_gpus_back_first_when_it_is_busy),
        cmocka_unit_test(test_a_third_member_waits_for_gpus_that_the_owner_wants_back),
        cmocka_unit_test(test_a_workload_that_is_busy_now_and_then_keeps_its_gpus),
        cmocka_unit_test(test_a_refused_utilization_keeps_the_demand_that_it_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
