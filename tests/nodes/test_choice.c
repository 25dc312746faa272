// SPDX-License-Identifier: Apache-2.0
#include "nodes_fixture.h"

#include "nodes/nodes_private.h"

#define MINUTE INT64_C(60000)

// Pools of GPU nodes with 1, 2, 4 and 8 GPUs as the GKE guide has them, and a CPU pool.
static const char guide[] =
    "pools:\n"
    "- {name: gpu-1, max: 8, price: 1.0, startup: 60s, machine: {gpus: 1}}\n"
    "- {name: gpu-2, max: 8, price: 1.9, startup: 60s, machine: {gpus: 2}}\n"
    "- {name: gpu-4, max: 8, price: 3.7, startup: 30s, machine: {gpus: 4}}\n"
    "- {name: gpu-8, max: 8, price: 7.2, startup: 90s, machine: {gpus: 8}}\n"
    "- {name: cpu, max: 8, price: 0.2, startup: 40s, machine: {cpu: 16, memory: 64Gi}}\n";

struct bed {
    struct nodes_pools pools;
    struct nodes_group groups[8];
    struct nodes_snapshot *s;
    struct nodes_choice_settings settings;
    struct nodes_decision d;
};

static void bed_open(struct bed *b, const char *pools, enum nodes_policy policy)
{
    *b = (struct bed){.settings = {.policy = policy, .now_ms = 1000 * MINUTE}};
    assert_ok(nodes_pools_parse(&b->pools, gs_slice_of(pools), "pools", NULL));
    for (size_t i = 0; i < b->pools.len; i++)
        b->groups[i] = (struct nodes_group){.name = b->pools.items[i].name,
                                            .pool = &b->pools.items[i],
                                            .size = b->pools.items[i].min,
                                            .max = b->pools.items[i].max};
    b->s = nodes_snapshot_new();
}

static void bed_close(struct bed *b)
{
    nodes_decision_finish(&b->d);
    nodes_snapshot_free(b->s);
    nodes_pools_finish(&b->pools);
}

static void pods(struct bed *b, size_t n, const char *requests)
{
    for (size_t i = 0; i < n; i++)
        add_pod(b->s, "p", "app: x", requests, "");
}

static const struct nodes_option *decide(struct bed *b)
{
    nodes_decision_finish(&b->d);
    nodes_decide(b->s, b->groups, b->pools.len, &b->settings, &b->d);
    return b->d.chosen == NODES_NONE ? NULL : &b->d.options[b->d.chosen];
}

#define assert_chosen(b, group_, count_)                                                           \
    do {                                                                                           \
        const struct nodes_option *o_ = decide(b);                                                 \
        assert_non_null(o_);                                                                       \
        if (!gs_streq(o_->group->name, group_) || o_->count != (count_))                           \
            fail_msg("chose %s x %zu: %s", o_->group->name, o_->count, (b)->d.text);               \
    } while (0)

static void test_policies_choose_the_pool_that_fits_best(void **state)
{
    static const struct {
        enum nodes_policy policy;
        size_t ones, twos, fours, eights, cpus; // pods by their GPUs
        const char *group;
        size_t count;
    } rows[] = {
        {NODES_POLICY_COST, 1, 0, 0, 0, 0, "gpu-1", 1},
        // Two for 1.90, and one for 1.00 in the next round.
        {NODES_POLICY_COST, 3, 0, 0, 0, 0, "gpu-2", 1},
        {NODES_POLICY_COST, 4, 0, 0, 0, 0, "gpu-4", 1},
        {NODES_POLICY_COST, 8, 0, 0, 0, 0, "gpu-8", 1},
        {NODES_POLICY_COST, 0, 1, 0, 0, 0, "gpu-2", 1},
        {NODES_POLICY_COST, 0, 0, 1, 0, 0, "gpu-4", 1},
        {NODES_POLICY_COST, 0, 0, 0, 1, 0, "gpu-8", 1},
        {NODES_POLICY_COST, 0, 0, 0, 0, 4, "cpu", 1},
        {NODES_POLICY_PACKING, 1, 0, 0, 0, 0, "gpu-1", 1},
        {NODES_POLICY_PACKING, 3, 0, 0, 0, 0, "gpu-1", 3},
        {NODES_POLICY_PACKING, 0, 0, 1, 0, 0, "gpu-4", 1},
        {NODES_POLICY_PACKING, 0, 0, 0, 0, 1, "cpu", 1},
        {NODES_POLICY_SPEED, 1, 0, 0, 0, 0, "gpu-4", 1},
        {NODES_POLICY_SPEED, 0, 1, 0, 1, 0, "gpu-4", 1},
        {NODES_POLICY_MOST_PODS, 1, 0, 0, 1, 0, "gpu-8", 2},
        {NODES_POLICY_LEAST_NODES, 8, 0, 0, 0, 0, "gpu-8", 1},
        // The CPUs of the pods fill the smallest machine best, and GPUs do not count.
        {NODES_POLICY_LEAST_WASTE, 1, 0, 0, 0, 0, "gpu-1", 1},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct bed b;
        bed_open(&b, guide, rows[i].policy);
        pods(&b, rows[i].ones, "cpu: 4, memory: 8Gi, nvidia.com/gpu: 1");
        pods(&b, rows[i].twos, "cpu: 4, memory: 8Gi, nvidia.com/gpu: 2");
        pods(&b, rows[i].fours, "cpu: 4, memory: 8Gi, nvidia.com/gpu: 4");
        pods(&b, rows[i].eights, "cpu: 4, memory: 8Gi, nvidia.com/gpu: 8");
        pods(&b, rows[i].cpus, "cpu: 4, memory: 8Gi");
        assert_chosen(&b, rows[i].group, rows[i].count);
        assert_int_equal(nodes_count(b.s), 0); // the snapshot is as before
        bed_close(&b);
    }
}

static void test_least_waste_ignores_gpus(void **state)
{
    // The 4-GPU machine has less CPU: a model of the expander takes it for a pod with one GPU.
    static const char pools[] =
        "pools:\n"
        "- {name: one, max: 8, price: 1, machine: {gpus: 1, cpu: 16, memory: 32Gi}}\n"
        "- {name: four, max: 8, price: 4, machine: {gpus: 4, cpu: 8, memory: 16Gi}}\n";
    struct bed b;
    bed_open(&b, pools, NODES_POLICY_LEAST_WASTE);
    pods(&b, 1, "cpu: 4, memory: 8Gi, nvidia.com/gpu: 1");
    assert_chosen(&b, "four", 1);
    assert_int_equal(b.d.options[1].unused_gpus, 3);
    b.settings.policy = NODES_POLICY_PACKING;
    assert_chosen(&b, "one", 1);
    bed_close(&b);
}

static void test_the_decision_explains_each_option(void **state)
{
    struct bed b;
    bed_open(&b, guide, NODES_POLICY_COST);
    pods(&b, 3, "cpu: 4, memory: 8Gi, nvidia.com/gpu: 1");
    b.groups[1].backoff = (struct nodes_backoff){.until_ms = 1002 * MINUTE, .failures = 2};
    b.groups[2].size = 8;
    b.groups[3].blocked = "not ready for scale-up";
    assert_chosen(&b, "gpu-1", 3);
    assert_string_equal(
        b.d.text,
        "3 pods without a node. Policy cost chose gpu-1: 3 nodes for 3 pods, 0 of 3 GPUs unused, "
        "3.00 USD an hour, usable in about 60s: 1.06 times the average price of these requests. "
        "Not gpu-2: in back-off for 2m0s after 2 failures. Not gpu-4: has its maximum of 8 nodes. "
        "Not gpu-8: not ready for scale-up. Not cpu: fits none of the pods: Insufficient "
        "nvidia.com/gpu.");
    CODEC_AUTO_JSON json_t *j = nodes_decision_json(&b.d);
    assert_string_equal(codec_json_str(j, "chosen", NULL), "gpu-1");
    assert_int_equal(json_array_size(json_object_get(j, "options")), 5);
    bed_close(&b);
}

static void test_upcoming_nodes_place_pods(void **state)
{
    struct bed b;
    bed_open(&b, guide, NODES_POLICY_COST);
    pods(&b, 2, "nvidia.com/gpu: 1");
    b.groups[0].size = b.groups[0].upcoming = 2;
    assert_null(decide(&b));
    assert_int_equal(b.d.n_waiting, 2);
    assert_string_equal(b.d.text, "2 pods without a node, 2 fit on existing or upcoming nodes. No "
                                  "group has to grow.");
    b.groups[0].upcoming = 1;
    assert_chosen(&b, "gpu-1", 1);
    bed_close(&b);
}

static void test_pods_that_fit_nowhere_are_counted(void **state)
{
    struct bed b;
    bed_open(&b, guide, NODES_POLICY_COST);
    pods(&b, 1, "nvidia.com/gpu: 16");
    assert_null(decide(&b));
    assert_int_equal(b.d.n_helpless, 1);
    assert_non_null(strstr(b.d.text, "1 fits on no group that can grow. No group can grow"));
    struct nodes_reasons r = {0};
    for (size_t i = 0; i < b.pools.len; i++)
        nodes_group_reasons(b.s, 0, &b.groups[i], &b.settings, &r);
    assert_int_equal(r.len, 1);
    assert_int_equal(r.items[0].nodes, 5);
    assert_string_equal(r.items[0].text, "Insufficient nvidia.com/gpu");
    b.groups[0].size = 8;
    b.groups[1].backoff = (struct nodes_backoff){.until_ms = 1002 * MINUTE, .failures = 2};
    nodes_group_reasons(b.s, 0, &b.groups[0], &b.settings, &r);
    nodes_group_reasons(b.s, 0, &b.groups[1], &b.settings, &r);
    assert_string_equal(r.items[1].text, "max node group size reached");
    assert_string_equal(r.items[2].text, "in backoff after failed scale-up");
    nodes_reasons_finish(&r);
    bed_close(&b);
}

static void test_limits_of_nodes(void **state)
{
    struct bed b;
    bed_open(&b, guide, NODES_POLICY_LEAST_NODES);
    pods(&b, 20, "nvidia.com/gpu: 8");
    assert_chosen(&b, "gpu-8", 8);
    assert_int_equal(b.d.options[b.d.chosen].n_pods, 8);
    b.settings.max_nodes_per_choice = 3;
    assert_chosen(&b, "gpu-8", 3);
    b.settings.max_nodes_total = 2;
    assert_chosen(&b, "gpu-8", 2);
    b.groups[4].upcoming = 2;
    assert_null(decide(&b));
    assert_non_null(strstr(b.d.text, "the cluster has its maximum of 2 nodes"));
    bed_close(&b);
}

static void test_daemon_pods_use_new_nodes(void **state)
{
    struct bed b;
    bed_open(&b, guide, NODES_POLICY_COST);
    json_t *daemon = yaml("{spec: {containers: [{resources: {requests: {cpu: 1}}}]}}");
    const json_t *daemons[] = {daemon};
    pods(&b, 4, "cpu: 4");
    assert_chosen(&b, "cpu", 1);
    b.settings.daemons = daemons;
    b.settings.n_daemons = 1;
    assert_chosen(&b, "cpu", 2);
    json_decref(daemon);
    bed_close(&b);
}

static void test_failures_make_an_option_worse(void **state)
{
    static const char pools[] = "pools:\n"
                                "- {name: a, max: 8, price: 1.00, machine: {gpus: 1}}\n"
                                "- {name: b, max: 8, price: 1.05, machine: {gpus: 1}}\n";
    struct bed b;
    bed_open(&b, pools, NODES_POLICY_COST);
    pods(&b, 1, "nvidia.com/gpu: 1");
    assert_chosen(&b, "a", 1);
    b.groups[0].backoff.failures = 1; // the back-off itself is over
    assert_chosen(&b, "b", 1);
    bed_close(&b);
}

static void test_a_pool_without_price_is_the_last_choice(void **state)
{
    static const char pools[] = "pools:\n"
                                "- {name: free, max: 8, machine: {gpus: 1}}\n"
                                "- {name: paid, max: 1, price: 9, machine: {gpus: 1}}\n";
    struct bed b;
    bed_open(&b, pools, NODES_POLICY_COST);
    pods(&b, 1, "nvidia.com/gpu: 1");
    assert_chosen(&b, "paid", 1);
    assert_non_null(strstr(b.d.options[0].text, "its price is not known"));
    b.groups[1].size = 1;
    assert_chosen(&b, "free", 1);
    assert_non_null(strstr(b.d.options[0].text, "no group has a price"));
    bed_close(&b);
}

static void test_random_is_seeded(void **state)
{
    struct bed b;
    bool chosen[4] = {false};
    bed_open(&b, guide, NODES_POLICY_RANDOM);
    pods(&b, 1, "nvidia.com/gpu: 1");
    for (b.settings.seed = 0; b.settings.seed < 100; b.settings.seed++) {
        decide(&b);
        size_t first = b.d.chosen;
        decide(&b);
        assert_int_equal(b.d.chosen, first);
        chosen[first] = true;
    }
    assert_true(chosen[0] && chosen[1] && chosen[2] && chosen[3]);
    bed_close(&b);
}

static void test_priority_chooses_the_highest(void **state)
{
    struct bed b;
    bed_open(&b, guide, NODES_POLICY_PRIORITY);
    pods(&b, 1, "nvidia.com/gpu: 1");
    b.groups[2].priority = 10;
    assert_chosen(&b, "gpu-4", 1);
    bed_close(&b);
}

static void test_offers_of_another_autoscaler_are_rated(void **state)
{
    struct bed b;
    bed_open(&b, guide, NODES_POLICY_PACKING);
    json_t *pod = yaml("{metadata: {name: p, namespace: d}, spec: {containers: [{resources: "
                       "{requests: {nvidia.com/gpu: 1}}}]}}");
    json_t *other = json_deep_copy(pod), *four = make_node("t", "nvidia.com/gpu: 4", "", "");
    json_t *one = make_node("t", "nvidia.com/gpu: 1", "", "");
    const json_t *both[] = {pod, other};
    struct nodes_offer offers[] = {
        {.group = {.name = "four", .node = four}, .count = 1, .pods = both, .n_pods = 2},
        {.group = {.name = "one", .node = one}, .count = 2, .pods = both, .n_pods = 2},
        {.group = {.name = "unknown"}, .count = 2, .pods = both, .n_pods = 2},
    };
    nodes_rate(offers, 3, &b.settings, &b.d);
    assert_int_equal(b.d.chosen, 1);
    assert_int_equal(b.d.options[0].unused_gpus, 2);
    assert_int_equal(b.d.options[1].unused_gpus, 0);
    assert_int_equal(b.d.options[2].state, NODES_OPTION_FITS_NO_POD);
    nodes_decision_finish(&b.d);
    // A group in back-off is left out, except if it is the only one.
    offers[1].group.backoff = (struct nodes_backoff){.until_ms = 1002 * MINUTE, .failures = 1};
    nodes_rate(offers, 3, &b.settings, &b.d);
    assert_int_equal(b.d.chosen, 0);
    nodes_decision_finish(&b.d);
    nodes_rate(offers + 1, 1, &b.settings, &b.d);
    assert_int_equal(b.d.chosen, 0);
    nodes_decision_finish(&b.d);
    nodes_rate(offers, 0, &b.settings, &b.d);
    assert_true(b.d.chosen == NODES_NONE);
    json_decref(pod);
    json_decref(other);
    json_decref(four);
    json_decref(one);
    bed_close(&b);
}

static void test_a_pod_that_requests_only_a_gpu(void **state)
{
    static const char pools[] =
        "pools:\n"
        "- {name: gpu-1, max: 8, price: 1, startup: 60s, machine: {gpus: 1}}\n"
        "- {name: gpu-4, max: 8, price: 3.5, startup: 30s, machine: {gpus: 4}}\n";
    struct bed b;
    bed_open(&b, pools, NODES_POLICY_COST);
    pods(&b, 1, "nvidia.com/gpu: 1");
    assert_chosen(&b, "gpu-1", 1);
    assert_string_equal(
        b.d.text,
        "1 pod without a node. Policy cost chose gpu-1: 1 node for 1 pod, 0 of 1 GPU unused, 1.00 "
        "USD an hour, usable in about 60s: 1.08 times the average price of these requests. Not "
        "gpu-4: 1 node for 1 pod, 3 of 4 GPUs unused, 3.50 USD an hour, usable in about 30s: 3.76 "
        "times the average price of these requests.");
    bed_close(&b);
}

static void test_backoff_doubles_and_resets(void **state)
{
    struct nodes_backoff b = {0};
    int64_t now = 1000 * MINUTE;
    static const int64_t minutes[] = {5, 10, 20, 30, 30};
    for (size_t i = 0; i < GS_ARRAY_LEN(minutes); i++) {
        nodes_backoff_fail(&b, now, NULL);
        assert_int_equal(b.until_ms - now, minutes[i] * MINUTE);
        assert_true(nodes_backoff_active(&b, now + minutes[i] * MINUTE));
        nodes_backoff_fail(&b, now + MINUTE, NULL); // at once: no doubling
        assert_int_equal(b.until_ms - now, (minutes[i] + 1) * MINUTE);
        now = b.until_ms + 1;
        assert_false(nodes_backoff_active(&b, now));
    }
    assert_int_equal(b.failures, 10);
    nodes_backoff_expire(&b, b.last_failure_ms + NODES_BACKOFF_RESET_MS, NULL);
    assert_int_equal(b.failures, 10);
    nodes_backoff_expire(&b, b.last_failure_ms + NODES_BACKOFF_RESET_MS + 1, NULL);
    assert_int_equal(b.failures, 0);
    nodes_backoff_fail(&b, now, &(struct nodes_backoff_limits){1000, 3000, 60000});
    assert_int_equal(b.until_ms, now + 1000);
    nodes_backoff_succeed(&b);
    assert_false(nodes_backoff_active(&b, now));
}

static void test_unit_prices_explain_the_prices_of_machines(void **state)
{
    static const double machines[][NODES_UNITS] = {
        {1, 8, 32}, {2, 104, 512}, {4, 32, 128}, {8, 96, 384}, {0, 32, 256}, {0, 96, 512},
    };
    double x[GS_ARRAY_LEN(machines)][NODES_UNITS], units[NODES_UNITS];
    for (size_t i = 0; i < GS_ARRAY_LEN(machines); i++) {
        double price = machines[i][0] * 1.0 + machines[i][1] * 0.03 + machines[i][2] * 0.004;
        for (size_t k = 0; k < NODES_UNITS; k++)
            x[i][k] = machines[i][k] / price;
    }
    nodes_fit_units(x, GS_ARRAY_LEN(machines), units);
    assert_true(units[0] > 0.95 && units[0] < 1.05);
    assert_true(units[1] > 0.02 && units[1] < 0.04);
    assert_true(units[2] > 0.002 && units[2] < 0.006);
    // All price of nodes in equal proportion belongs to the GPUs.
    static const double equal[][NODES_UNITS] = {{1, 8, 32}, {1, 8, 32}};
    nodes_fit_units(equal, 2, units);
    assert_true(units[0] > 0.9 && units[0] < 1.01);
    nodes_fit_units(x, 0, units);
    assert_true(units[0] == 0);
}

static void test_names_of_policies(void **state)
{
    enum nodes_policy p = NODES_POLICY_COST;
    for (int i = 0; i < NODES_POLICIES; i++) {
        assert_ok(nodes_policy_parse(nodes_policy_name((enum nodes_policy)i), &p));
        assert_int_equal(p, i);
    }
    assert_error(nodes_policy_parse("packng", &p), GS_EINVAL, "did you mean \"packing\"?");
    assert_error(nodes_policy_parse("", &p), GS_EINVAL, "the policies are cost, speed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies_choose_the_pool_that_fits_best),
        cmocka_unit_test(test_least_waste_ignores_gpus),
        cmocka_unit_test(test_the_decision_explains_each_option),
        cmocka_unit_test(test_upcoming_nodes_place_pods),
        cmocka_unit_test(test_pods_that_fit_nowhere_are_counted),
        cmocka_unit_test(test_limits_of_nodes),
        cmocka_unit_test(test_daemon_pods_use_new_nodes),
        cmocka_unit_test(test_failures_make_an_option_worse),
        cmocka_unit_test(test_a_pool_without_price_is_the_last_choice),
        cmocka_unit_test(test_random_is_seeded),
        cmocka_unit_test(test_priority_chooses_the_highest),
        cmocka_unit_test(test_offers_of_another_autoscaler_are_rated),
        cmocka_unit_test(test_a_pod_that_requests_only_a_gpu),
        cmocka_unit_test(test_backoff_doubles_and_resets),
        cmocka_unit_test(test_unit_prices_explain_the_prices_of_machines),
        cmocka_unit_test(test_names_of_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
