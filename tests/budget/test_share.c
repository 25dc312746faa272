// SPDX-License-Identifier: Apache-2.0
// Shares of a budget: small cases by hand, and 200 random scenarios beside an exhaustive search for
// the best division in whole replicas.
#include "unit.h"

#include "base/mem.h"
#include "budget/budget.h"

#include <math.h>

#define SCENARIOS   200
#define MAX_MEMBERS 4

static struct budget_member member(double weight, int32_t gpus, int32_t floor, int32_t demand)
{
    return (struct budget_member){
        .key = "n/a", .weight = weight, .gpus = gpus, .floor = floor, .demand = demand};
}

static void assert_shares(int64_t gpus, int64_t others, const struct budget_member *m, size_t n,
                          const int32_t *want)
{
    int32_t shares[MAX_MEMBERS];
    const struct budget_group group = {"g", gpus, others, m, n};
    budget_share(&group, shares);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(shares[i], want[i]);
}

static void test_enough_gpus_meet_each_demand(void **state)
{
    const struct budget_member m[] = {member(1, 1, 1, 3), member(5, 2, 0, 2)};
    assert_shares(7, 0, m, 2, (int32_t[]){3, 2});
}

static void test_scarce_gpus_are_divided_by_weight_times_demand(void **state)
{
    const struct budget_member m[] = {member(3, 1, 0, 8), member(1, 1, 0, 8)};
    assert_shares(8, 0, m, 2, (int32_t[]){6, 2});
}

static void test_what_one_does_not_want_goes_to_the_others(void **state)
{
    const struct budget_member m[] = {member(10, 1, 0, 2), member(1, 1, 0, 8), member(1, 1, 0, 8)};
    assert_shares(10, 0, m, 3, (int32_t[]){2, 4, 4});
}

static void test_floors_come_first(void **state)
{
    const struct budget_member m[] = {member(1000, 1, 0, 8), member(1, 1, 3, 8)};
    assert_shares(8, 0, m, 2, (int32_t[]){5, 3});
}

static void test_floors_that_do_not_fit_are_met_by_weight(void **state)
{
    const struct budget_member m[] = {member(1, 2, 3, 3), member(2, 1, 3, 5)};
    assert_shares(5, 0, m, 2, (int32_t[]){1, 3});
}

static void test_gpus_of_other_pods_are_not_divided(void **state)
{
    const struct budget_member m[] = {member(1, 1, 0, 8), member(1, 1, 0, 8)};
    assert_shares(8, 4, m, 2, (int32_t[]){2, 2});
    assert_shares(8, 9, m, 2, (int32_t[]){0, 0});
}

static void test_a_remainder_goes_to_a_replica_that_fits(void **state)
{
    // 7 GPUs: one replica of 4 each does not fit; 3 are left for the small one.
    const struct budget_member m[] = {member(1, 4, 0, 2), member(1, 1, 0, 8)};
    assert_shares(7, 0, m, 2, (int32_t[]){1, 3});
}

static void test_equal_members_always_have_the_same_order(void **state)
{
    const struct budget_member m[] = {member(1, 1, 0, 5), member(1, 1, 0, 5), member(1, 1, 0, 5)};
    assert_shares(4, 0, m, 3, (int32_t[]){2, 1, 1});
}

// --- beside an exact solver ---

static uint64_t random_state = 1;

static int32_t below(int32_t n)
{
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (int32_t)((random_state >> 33) % (uint64_t)n);
}

static struct budget_group random_group(struct budget_member *m)
{
    static const int32_t sizes[] = {1, 1, 2, 4, 8};
    size_t n = 2 + (size_t)below(MAX_MEMBERS - 1);
    for (size_t i = 0; i < n; i++) {
        int32_t demand = below(11);
        m[i] = member(1 + below(10), sizes[below(5)], below(3), demand);
    }
    return (struct budget_group){"g", 4 + below(60), below(4), m, n};
}

static double floor_gpus(const struct budget_member *m)
{
    return (double)m->gpus * (m->floor < m->demand ? m->floor : m->demand);
}

static double at_level(const struct budget_member *m, double level)
{
    double wanted = (double)m->gpus * m->demand;
    return fmin(wanted, floor_gpus(m) + level * m->weight * wanted);
}

// What each is entitled to, in fractions of GPUs: by bisection of the level.
static void entitlements(const struct budget_group *g, double *ret)
{
    double low = 0, high = 1, left = (double)(g->gpus - g->others);
    for (int step = 0; step < 200; step++) {
        double middle = (low + high) / 2, sum = 0;
        for (size_t i = 0; i < g->n; i++)
            sum += at_level(&g->members[i], middle);
        if (sum > left)
            high = middle;
        else
            low = middle;
    }
    for (size_t i = 0; i < g->n; i++)
        ret[i] = at_level(&g->members[i], low);
}

// GPUs below the entitlement, times the weight.
static double shortfall(const struct budget_group *g, const double *entitled, const int32_t *shares)
{
    double sum = 0;
    for (size_t i = 0; i < g->n; i++)
        sum += g->members[i].weight * fmax(0, entitled[i] - (double)g->members[i].gpus * shares[i]);
    return sum;
}

// The smallest shortfall of all divisions in whole replicas.
static double best_shortfall(const struct budget_group *g, const double *entitled, size_t i,
                             int64_t left, int32_t *shares)
{
    double best = INFINITY;
    const struct budget_member *m = &g->members[i];
    if (i == g->n)
        return shortfall(g, entitled, shares);
    for (int32_t k = 0; k <= m->demand && (int64_t)m->gpus * k <= left; k++) {
        shares[i] = k;
        best = fmin(best, best_shortfall(g, entitled, i + 1, left - (int64_t)m->gpus * k, shares));
    }
    return best;
}

static void assert_scenario(const struct budget_group *g)
{
    int32_t shares[MAX_MEMBERS], tried[MAX_MEMBERS];
    double entitled[MAX_MEMBERS], replica = 0, floors = 0;
    int64_t left = g->gpus - g->others, sum = 0;
    budget_share(g, shares);
    for (size_t i = 0; i < g->n; i++) {
        const struct budget_member *m = &g->members[i];
        assert_in_range(shares[i], 0, m->demand);
        sum += (int64_t)m->gpus * shares[i];
        floors += floor_gpus(m);
        replica = fmax(replica, m->weight * m->gpus);
    }
    assert_true(sum <= left);
    for (size_t i = 0; i < g->n; i++)
        assert_true(shares[i] == g->members[i].demand || g->members[i].gpus > left - sum);
    if (floors > (double)left)
        return;
    entitlements(g, entitled);
    double best = best_shortfall(g, entitled, 0, left, tried);
    assert_true(shortfall(g, entitled, shares) <= best + replica + 1e-6);
    for (size_t i = 0; i < g->n; i++)
        assert_true((double)g->members[i].gpus * (shares[i] + 1) > entitled[i] - 1e-6);
}

static void test_shares_are_within_one_replica_of_the_best_division(void **state)
{
    struct budget_member m[MAX_MEMBERS];
    for (int i = 0; i < SCENARIOS; i++) {
        const struct budget_group g = random_group(m);
        assert_scenario(&g);
    }
}

// In steps of one GPU, this takes minutes.
static void test_idle_members_of_a_large_budget_divide_what_is_left(void **state)
{
    const size_t n = 20000;
    GS_AUTO_FREE struct budget_member *m = gs_alloc_array(n, sizeof(*m));
    GS_AUTO_FREE int32_t *shares = gs_alloc_array(n, sizeof(*shares));
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        m[i] = member(1, 1, 1, i % 2 ? INT32_MAX : 10);
        m[i].idle = i % 2;
    }
    const struct budget_group group = {"g", 999999, 0, m, n};
    budget_share(&group, shares);
    for (size_t i = 0; i < n; i++) {
        sum += shares[i];
        assert_true(i % 2 ? shares[i] == 89 || shares[i] == 90 : shares[i] == 10);
    }
    assert_int_equal(sum, 999999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enough_gpus_meet_each_demand),
        cmocka_unit_test(test_scarce_gpus_are_divided_by_weight_times_demand),
        cmocka_unit_test(test_what_one_does_not_want_goes_to_the_others),
        cmocka_unit_test(test_floors_come_first),
        cmocka_unit_test(test_floors_that_do_not_fit_are_met_by_weight),
        cmocka_unit_test(test_gpus_of_other_pods_are_not_divided),
        cmocka_unit_test(test_a_remainder_goes_to_a_replica_that_fits),
        cmocka_unit_test(test_equal_members_always_have_the_same_order),
        cmocka_unit_test(test_shares_are_within_one_replica_of_the_best_division),
        cmocka_unit_test(test_idle_members_of_a_large_budget_divide_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
