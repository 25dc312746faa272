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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_differ),
        cmocka_unit_test(test_hexadecimal_digits),
        cmocka_unit_test(test_suffixes_spell_no_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
