// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/clock.h"
#include "up/up_private.h"

static void assert_refused(const struct up_options *o, const char *part)
{
    struct gs_error *err = up_options_check(o);
    assert_non_null(err);
    assert_int_equal(gs_error_code(err), GS_EINVAL);
    if (!strstr(gs_error_message(err), part))
        fail_msg("no \"%s\" in: %s", part, gs_error_message(err));
    gs_error_free(err);
}

static void test_defaults_are_accepted(void **state)
{
    assert_ok(up_options_check(&(struct up_options){0}));
}

static void test_contradictions_are_refused(void **state)
{
    assert_refused(&(struct up_options){.exit_after_load = true}, "--exit-after-load needs a load");
    assert_refused(&(struct up_options){.after_load = "true"}, "--after-load needs a load");
    assert_ok(up_options_check(&(struct up_options){.exit_after_load = true, .load = "true"}));
}

static void test_releases(void **state)
{
    assert_ok(up_options_check(&(struct up_options){.hpa_compat = "1.29"}));
    assert_refused(&(struct up_options){.hpa_compat = "1.19"}, "--hpa-compat");
}

static void test_environment(void **state)
{
    const char *good[] = {"A=1", "B="}, *bad[] = {"A=1", "=x"}, *without[] = {"A"};
    struct up_options o = {.env = {.items = good, .len = 2}};
    assert_ok(up_options_check(&o));
    o.env.items = bad;
    assert_refused(&o, "--env =x: write NAME=VALUE");
    o.env = (struct gs_opt_list){.items = without, .len = 1};
    assert_refused(&o, "--env A: write NAME=VALUE");
}

static void test_receivers(void **state)
{
    const char *messages[] = {"prometheus.WriteRequest", "x"};
    struct up_options o = {.receivers = {.messages = {.items = messages, .len = 1}}};
    assert_ok(up_options_check(&o));
    o.receivers.messages.len = 2;
    assert_refused(&o, "--web.remote-write-receiver.accepted-protobuf-messages");
}

static void test_space_for_samples(void **state)
{
    assert_ok(up_options_check(&(struct up_options){.retention_size = "512MB"}));
    assert_refused(&(struct up_options){.retention_size = "1MB"}, "--retention-size 1MB");
    assert_refused(&(struct up_options){.retention_size = "much"}, "such as 512MB");
    assert_refused(&(struct up_options){.retention = GS_NS_PER_SEC / 2}, "--retention");
}

static void test_samples_in_memory_only_have_no_folder(void **state)
{
    struct tsdb_config c;
    const struct up_options o = {.retention_size = "512MB"};
    assert_ok(up_store_config(&o, "/nowhere/at/all", &c));
    assert_null(c.storage_path);
    assert_true(c.retention_ms > 0);
}

static void test_settings_of_the_node_autoscaler(void **state)
{
    struct up_options o = {0};
    autoscaler_settings_init(&o.autoscaler);
    o.autoscaler.utilization_threshold = 2;
    assert_error(up_node_autoscaler_check(&o), GS_EINVAL, "--scale-down-utilization-threshold");
}

static void test_pools(void **state)
{
    static const struct {
        const char *pool, *error;
    } cases[] = {
        {"a=0..2x1,model=Tesla T4,price=1", NULL},   {"a=0..2x0,cpu=4,price=1", NULL},
        {"a=0..2x1,model=Abacus,price=1", "Abacus"}, {"a=0..2x17,price=1", "at most 16 GPUs"},
        {"a=300x0,price=1", "at most 256"},          {"a=2..1x1", "--pool"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        const char *items[] = {cases[i].pool};
        const struct up_options o = {.pools = {.items = items, .len = 1},
                                     .autoscaler = {.expander = "cost"}};
        struct nodes_pools pools = {0};
        if (cases[i].error)
            assert_error(up_pools_load(&o, &pools), GS_EINVAL, cases[i].error);
        else
            assert_ok(up_pools_load(&o, &pools));
        nodes_pools_finish(&pools);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_accepted),
        cmocka_unit_test(test_contradictions_are_refused),
        cmocka_unit_test(test_releases),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_receivers),
        cmocka_unit_test(test_space_for_samples),
        cmocka_unit_test(test_samples_in_memory_only_have_no_folder),
        cmocka_unit_test(test_settings_of_the_node_autoscaler),
        cmocka_unit_test(test_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
