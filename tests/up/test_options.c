// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_accepted),
        cmocka_unit_test(test_contradictions_are_refused),
        cmocka_unit_test(test_releases),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
