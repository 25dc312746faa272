// SPDX-License-Identifier: Apache-2.0
// Decisions of a budget over time: single cases, and 10,000 random steps in a cluster whose pods
// take time to start and to end.
#include "unit.h"

#include "base/mem.h"
#include "members.h"

static void assert_result(struct budget_result r, enum budget_reason reason, int32_t replicas)
{
    assert_int_equal(r.reason, reason);
    assert_int_equal(r.replicas, replicas);
}

static void test_growth_waits_until_pods_that_end_are_gone(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {member("n/a", 9, 6, 2), member("n/b", 1, 8, 6)};
    const struct budget_group g = {"g", 8, 0, m, 2};
    assert_result(decide(&g, 0, memory, 0), BUDGET_WAITS, 2);
    assert_result(decide(&g, 1, memory, 0), BUDGET_SHARE, 2);
    budget_note(memory, &g, 1, 2, 0);
    m[1].replicas = 2;
    assert_result(decide(&g, 0, memory, 1000), BUDGET_WAITS, 2);
    m[1].live = 2;
    m[1].ending = 3;
    assert_result(decide(&g, 0, memory, 2000), BUDGET_WAITS, 3);
    m[1].ending = 0;
    assert_result(decide(&g, 0, memory, 3000), BUDGET_WITHIN, 6);
    budget_memory_free(memory);
}

static void test_a_replica_that_was_taken_comes_back_after_the_hold(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {member("n/a", 9, 6, 2), member("n/b", 1, 6, 6)};
    const struct budget_group g = {"g", 8, 0, m, 2};
    int32_t left = decide(&g, 1, memory, 0).replicas;
    assert_int_equal(left, 2);
    budget_note(memory, &g, 1, left, 0);
    m[1].replicas = left;
    m[1].live = left;
    m[0].demand = 2;
    assert_result(decide(&g, 1, memory, HOLD_MS - 1), BUDGET_HOLD, 2);
    assert_result(decide(&g, 1, memory, HOLD_MS), BUDGET_WITHIN, 6);
    budget_memory_free(memory);
}

static void test_a_replica_that_was_moved_to_a_member_stays_for_the_hold(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {member("n/a", 9, 6, 2), member("n/b", 1, 6, 6)};
    const struct budget_group g = {"g", 8, 0, m, 2};
    budget_note(memory, &g, 1, 2, 0);
    m[1].replicas = 2;
    m[1].live = 2;
    budget_note(memory, &g, 0, 6, 1000);
    m[0].replicas = 6;
    m[1].weight = 1000;
    assert_result(decide(&g, 0, memory, HOLD_MS), BUDGET_KEEPS, 4);
    assert_int_equal(decide(&g, 0, memory, HOLD_MS + 1000).reason, BUDGET_SHARE);
    budget_memory_free(memory);
}

static void test_growth_into_free_gpus_is_no_move(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {member("n/low", 1, 8, 0), member("n/high", 9, 0, 0)};
    const struct budget_group g = {"g", 8, 0, m, 2};
    budget_note(memory, &g, 0, 8, 0);
    m[0].replicas = 8;
    m[0].live = 8;
    m[1].demand = 4;
    assert_result(decide(&g, 0, memory, 1), BUDGET_SHARE, 4);
    budget_memory_free(memory);
}

static void test_a_floor_is_kept_even_over_the_budget(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {member("n/a", 1, 4, 4)};
    m[0].floor = 3;
    const struct budget_group g = {"g", 2, 0, m, 1};
    assert_result(decide(&g, 0, memory, 0), BUDGET_FLOOR, 3);
    m[0].replicas = 1;
    m[0].live = 1;
    assert_result(decide(&g, 0, memory, 0), BUDGET_SHARE, 2);
    budget_memory_free(memory);
}

static void test_a_smaller_budget_overrides_the_hold(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {member("n/a", 9, 6, 2), member("n/b", 1, 6, 6)};
    struct budget_group g = {"g", 8, 0, m, 2};
    budget_note(memory, &g, 1, 2, 0);
    m[1].replicas = m[1].live = 2;
    budget_note(memory, &g, 0, 6, 1000);
    m[0].replicas = m[0].live = 6;
    g.gpus = 4;
    assert_int_equal(decide(&g, 0, memory, 2000).reason, BUDGET_SHARE);
    budget_memory_free(memory);
}

static void test_own_scaling_down_is_no_move(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {member("n/a", 1, 2, 6)};
    const struct budget_group g = {"g", 8, 0, m, 1};
    assert_result(decide(&g, 0, memory, 0), BUDGET_WITHIN, 2);
    budget_note(memory, &g, 0, 2, 0);
    m[0].replicas = m[0].live = 2;
    m[0].demand = 6;
    assert_result(decide(&g, 0, memory, 1), BUDGET_WITHIN, 6);
    budget_memory_free(memory);
}

// --- random steps ---

enum { MEMBERS = 5, STEPS = 10000, STEP_MS = 15000, DRAIN_STEPS = 3, START_STEPS = 4 };

static uint64_t random_state = 7;

static int32_t below(int32_t n)
{
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (int32_t)((random_state >> 33) % (uint64_t)n);
}

// Pods of a member: the replicas that its controller sees, the pods that it has created, and those
// that end, by the steps that they still need.
struct pods {
    int32_t seen, created, ending[DRAIN_STEPS];
};

// The workload controller follows the set replicas a step later.
static void run_pods(struct pods *p, struct budget_member *m)
{
    int32_t ending = 0;
    for (int i = 0; i + 1 < DRAIN_STEPS; i++)
        ending += p->ending[i] = p->ending[i + 1];
    p->ending[DRAIN_STEPS - 1] = p->created > p->seen ? p->created - p->seen : 0;
    ending += p->ending[DRAIN_STEPS - 1];
    p->created = p->seen;
    p->seen = m->replicas;
    m->live = (int64_t)m->gpus * p->created;
    m->ending = (int64_t)m->gpus * ending;
    if (p->created == m->replicas)
        m->settling = 0;
}

static void set_up_members(struct budget_member *m)
{
    static const char *const keys[MEMBERS] = {"n/a", "n/b", "n/c", "n/d", "n/e"};
    static const int32_t gpus[MEMBERS] = {1, 2, 4, 8, 1};
    for (size_t i = 0; i < MEMBERS; i++) {
        m[i] = member(keys[i], i == 0 ? 100 : 1 + below(5), 0, 0);
        m[i].gpus = gpus[i];
        m[i].hold_ms = 2 * START_STEPS * STEP_MS;
        m[i].floor = i == 1;
    }
}

static int64_t used_gpus(const struct budget_member *m)
{
    int64_t sum = 0;
    for (size_t i = 0; i < MEMBERS; i++)
        sum += m[i].live + m[i].ending;
    return sum;
}

struct cluster {
    struct budget_member members[MEMBERS];
    struct pods pods[MEMBERS];
    struct budget_memory *memory;
    struct budget_group group;
    int64_t now_ms;
};

static void set_up_cluster(struct cluster *c)
{
    *c = (struct cluster){.memory = budget_memory_new()};
    c->group = (struct budget_group){"g", 40, 0, c->members, MEMBERS};
    set_up_members(c->members);
}

// Decides about each member once, beginning with one of them.
static void take_step(struct cluster *c, size_t first)
{
    for (size_t k = 0; k < MEMBERS; k++) {
        size_t i = (first + k) % MEMBERS;
        struct budget_member *m = &c->members[i];
        int32_t replicas = decide(&c->group, i, c->memory, c->now_ms).replicas;
        assert_true(replicas <= m->demand);
        budget_note(c->memory, &c->group, i, replicas, c->now_ms);
        if (replicas < m->replicas && c->pods[i].created < m->replicas && !m->settling)
            m->settling = m->replicas;
        m->replicas = replicas;
    }
    for (size_t i = 0; i < MEMBERS; i++)
        run_pods(&c->pods[i], &c->members[i]);
    assert_true(used_gpus(c->members) <= c->group.gpus);
    c->now_ms += STEP_MS;
}

static void test_no_step_is_over_the_budget(void **state)
{
    struct cluster c;
    set_up_cluster(&c);
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < MEMBERS; i++)
            if (below(4) == 0)
                c.members[i].demand = below(40 / c.members[i].gpus + 2) + c.members[i].floor;
        for (size_t i = 0; i < MEMBERS; i++)
            c.members[i].idle = step >= STEPS / 2 && (c.members[i].idle != (below(10) == 0));
        take_step(&c, (size_t)below(MEMBERS));
    }
    budget_memory_free(c.memory);
}

// A member that grows again gets the GPUs when the pods of the others have ended: after the step
// that takes them, the one that sees it, and a whole drain.
static void test_demand_of_a_high_weight_is_met_after_one_drain(void **state)
{
    struct cluster c;
    set_up_cluster(&c);
    for (size_t i = 1; i < MEMBERS; i++)
        c.members[i].demand = 40 / c.members[i].gpus;
    for (int round = 0; round < 20; round++) {
        int steps = 0;
        c.members[0].demand = 0;
        for (int k = 0; k < 30; k++)
            take_step(&c, 1);
        c.members[0].demand = 10 + round;
        while (c.members[0].replicas < c.members[0].demand && steps++ < 100)
            take_step(&c, 1);
        assert_in_range(steps, 1, DRAIN_STEPS + 3);
    }
    budget_memory_free(c.memory);
}

// Two members want all GPUs, so each replica that one gets was taken from the other.
static void test_no_replica_moves_twice_within_the_hold(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {member("n/a", 1, 16, 8), member("n/b", 1, 16, 8)};
    const struct budget_group g = {"g", 16, 0, m, 2};
    int32_t gained[2] = {0}, moves = 0;
    int64_t gained_ms[2] = {0};
    for (int64_t now_ms = HOLD_MS; now_ms < 2000 * STEP_MS; now_ms += STEP_MS)
        for (size_t i = 0; i < 2; i++) {
            if (below(5) == 0)
                m[i].weight = 1 + below(9);
            int32_t replicas = decide(&g, i, memory, now_ms).replicas;
            budget_note(memory, &g, i, replicas, now_ms);
            assert_true(now_ms - gained_ms[i] >= HOLD_MS || replicas >= gained[i]);
            if (replicas > m[i].replicas) {
                gained[i] = replicas - m[i].replicas;
                gained_ms[i] = now_ms;
                moves++;
            }
            m[i].replicas = replicas;
            m[i].live = replicas;
        }
    assert_true(moves > 100);
    budget_memory_free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth_waits_until_pods_that_end_are_gone),
        cmocka_unit_test(test_a_replica_that_was_taken_comes_back_after_the_hold),
        cmocka_unit_test(test_a_replica_that_was_moved_to_a_member_stays_for_the_hold),
        cmocka_unit_test(test_growth_into_free_gpus_is_no_move),
        cmocka_unit_test(test_a_floor_is_kept_even_over_the_budget),
        cmocka_unit_test(test_a_smaller_budget_overrides_the_hold),
        cmocka_unit_test(test_own_scaling_down_is_no_move),
        cmocka_unit_test(test_no_step_is_over_the_budget),
        cmocka_unit_test(test_demand_of_a_high_weight_is_met_after_one_drain),
        cmocka_unit_test(test_no_replica_moves_twice_within_the_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
