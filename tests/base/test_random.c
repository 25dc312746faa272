// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "base/random.h"

static void test_bytes_differ(void **state)
{
    char a[600] = "", b[600] = ""; // longer than what getrandom() returns at once
    gs_random_bytes(a, sizeof(a));
    gs_random_bytes(b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
    assert_memory_not_equal(a + 300, b + 300, 300);
}

static void test_hexadecimal_digits(void **state)
{
    GS_AUTO_FREE char *a = gs_random_hex(16);
    GS_AUTO_FREE char *b = gs_random_hex(16);
    GS_AUTO_FREE char *none = gs_random_hex(0);
    assert_int_equal(strlen(a), 32);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_string_not_equal(a, b);
    assert_string_equal(none, "");
}

static void test_suffixes_spell_no_words(void **state)
{
    char a[33], b[33];
    assert_ptr_equal(gs_random_suffix(a, 32), a);
    gs_random_suffix(b, 32);
    assert_int_equal(strlen(a), 32);
    assert_int_equal(strspn(a, "bcdfghjklmnpqrstvwxz2456789"), 32);
    assert_string_not_equal(a, b);
    assert_int_equal(gs_name_letter(0), 'b');
    assert_int_equal(gs_name_letter(27), 'b');
    assert_int_equal(gs_name_letter(26), '9');
}

// The values that the authors' program gives for this seed.
static void test_a_seeded_sequence(void **state)
{
    static const uint64_t want[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                    UINT64_C(9817491932198370423), UINT64_C(4593380528125082431)};
    uint64_t seed = 1234567;
    assert_true(gs_mix64(seed) == want[0]);
    for (size_t i = 0; i < GS_ARRAY_LEN(want); i++)
        assert_true(gs_seeded_next(&seed) == want[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_differ),
        cmocka_unit_test(test_hexadecimal_digits),
        cmocka_unit_test(test_suffixes_spell_no_words),
        cmocka_unit_test(test_a_seeded_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
