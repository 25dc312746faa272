// SPDX-License-Identifier: Apache-2.0
#include "base/turn.h"

#include "base/clock.h"
#include "unit.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// Whether a new program with this value in its environment has turns of ns.
static bool begins_with(const char *value, int64_t ns)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (value)
            setenv("GPUSCALE_TEST_TURN_MS", value, 1);
        else
            unsetenv("GPUSCALE_TEST_TURN_MS");
        _exit(gs_turn_ns() != ns);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static void test_the_environment_sets_the_length(void **state)
{
    (void)state;
    assert_true(begins_with(NULL, 5 * GS_NS_PER_MS));
    assert_true(begins_with("0", 0));
    assert_true(begins_with("1000", GS_NS_PER_SEC));
}

static void test_a_wrong_length_is_ignored(void **state)
{
    static const char *const wrong[] = {"", "-1", "1s", "1.5", " 1", "99999999999999999999"};
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_true(begins_with(wrong[i], 5 * GS_NS_PER_MS));
}

static void test_a_test_sets_the_length(void **state)
{
    (void)state;
    gs_turn_set_ns(0);
    assert_int_equal(gs_turn_ns(), 0);
    gs_turn_set_ns(GS_TURN_NEVER_ENDS);
    assert_true(gs_mono_ns() + 4 * gs_turn_ns() > gs_mono_ns());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_environment_sets_the_length), // before one is set
        cmocka_unit_test(test_a_wrong_length_is_ignored),
        cmocka_unit_test(test_a_test_sets_the_length),
    };
    return cmocka_run_group_tests_name("turn", tests, NULL, NULL);
}
