// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/num.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void test_integers(void **state)
{
    int64_t i;
    uint64_t u;
    assert_ok(gs_parse_i64(GS_SLICE("-9223372036854775808"), INT64_MIN, INT64_MAX, &i));
    assert_true(i == INT64_MIN);
    assert_ok(gs_parse_i64(GS_SLICE("+12"), 0, 100, &i));
    assert_true(i == 12);
    assert_ok(gs_parse_u64(GS_SLICE("18446744073709551615"), UINT64_MAX, &u));
    static const char *const bad[] = {"", "-", "1x", " 1", "1 ", "1.0", "0x1"};
    for (size_t k = 0; k < GS_ARRAY_LEN(bad); k++)
        assert_error(gs_parse_i64(gs_slice_of(bad[k]), INT64_MIN, INT64_MAX, &i), GS_EINVAL,
                     "not a whole number");
    assert_error(gs_parse_i64(GS_SLICE("101"), 0, 100, &i), GS_EINVAL, "between 0 and 100");
    // It is a whole number.
    assert_error(gs_parse_i64(GS_SLICE("9223372036854775808"), 0, 100, &i), GS_EINVAL,
                 "9223372036854775808 is not between 0 and 100");
    assert_error(gs_parse_i64(GS_SLICE("99999999999999999999"), INT64_MIN, INT64_MAX, &i),
                 GS_EINVAL, "99999999999999999999 is not between");
    assert_error(gs_parse_u64(GS_SLICE("18446744073709551616"), UINT64_MAX, &u), GS_EINVAL,
                 "18446744073709551616 is more than 18446744073709551615");
}

static void test_doubles_read(void **state)
{
    double d;
    assert_ok(gs_parse_double(GS_SLICE("-1.5e3"), &d));
    assert_true(d == -1500);
    assert_ok(gs_parse_double(GS_SLICE("+Inf"), &d));
    assert_true(isinf(d) && d > 0);
    assert_ok(gs_parse_double(GS_SLICE("-inf"), &d));
    assert_true(isinf(d) && d < 0);
    assert_ok(gs_parse_double(GS_SLICE("NaN"), &d));
    assert_true(isnan(d));
    static const char *const bad[] = {"", ".", "e5", "1e", "0x1p3", "1,5", "--1", "nan(1)", "infi"};
    for (size_t k = 0; k < GS_ARRAY_LEN(bad); k++)
        assert_error(gs_parse_double(gs_slice_of(bad[k]), &d), GS_EINVAL, "not a number");
}

// Expected texts: what Prometheus prints for these values.
static void test_doubles_print_shortest(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.5, "-0.5"},
                 {0.1, "0.1"},
                 {100, "100"},
                 {1e15, "1000000000000000"},
                 {1e20, "100000000000000000000"},
                 {1e21, "1e+21"},
                 {1.5e300, "1.5e+300"},
                 {0.0001, "0.0001"},
                 {0.00001, "1e-05"},
                 {123456.789, "123456.789"},
                 {1.0 / 3, "0.3333333333333333"},
                 {5e-324, "5e-324"}};
    char buf[GS_DOUBLE_SIZE];
    for (size_t k = 0; k < GS_ARRAY_LEN(cases); k++)
        assert_string_equal(gs_format_double(cases[k].v, buf), cases[k].text);
    assert_string_equal(gs_format_double(NAN, buf), "NaN");
    assert_string_equal(gs_format_double(-INFINITY, buf), "-Inf");
}

static void test_doubles_round_trip(void **state)
{
    srand(7);
    for (int k = 0; k < 20000; k++) {
        union {
            uint64_t bits;
            double d;
        } v = {.bits = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand()};
        if (!isfinite(v.d))
            continue;
        char buf[GS_DOUBLE_SIZE];
        double back;
        assert_ok(gs_parse_double(gs_slice_of(gs_format_double(v.d, buf)), &back));
        assert_true(back == v.d);
    }
}

// No shorter decimal reads back as the same double.
static void test_doubles_are_shortest(void **state)
{
    srand(11);
    for (int k = 0; k < 20000; k++) {
        double v = (double)rand() / (k % 2 ? 7.0 : 1000.0) * (k % 3 ? 1e-5 : 1e3) + 1e-9;
        char buf[GS_DOUBLE_SIZE], shorter[GS_DOUBLE_SIZE];
        size_t digits = 0, lead = 1;
        for (const char *c = gs_format_double(v, buf); *c && *c != 'e'; c++) {
            lead = lead && (*c == '0' || *c == '.');
            digits += !lead && *c != '.';
        }
        if (digits < 2 || digits > 17 || v >= 1e15)
            continue;
        snprintf(shorter, sizeof(shorter), "%.*e", (int)digits - 2, v);
        // Whole numbers can end with zeros that are not significant.
        if (buf[strlen(buf) - 1] != '0')
            assert_true(strtod(shorter, NULL) != v);
    }
}

static void assert_fixed(double v)
{
    char want[GS_FIXED6_SIZE], got[GS_FIXED6_SIZE];
    snprintf(want, sizeof(want), "%f", v);
    *gs_put_fixed6(got, v) = '\0';
    assert_string_equal(got, want);
}

// Compared with the C library, including halves and the limits of the fast path.
static void test_whole_numbers(void **state)
{
    char text[21], want[21];
    for (uint64_t power = 1;; power *= 10) {
        const uint64_t numbers[] = {power - 1, power, power + 9, UINT64_MAX / power};
        for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
            *gs_put_u64(text, numbers[i]) = '\0';
            snprintf(want, sizeof(want), "%llu", (unsigned long long)numbers[i]);
            assert_string_equal(text, want);
        }
        if (power > UINT64_MAX / 10)
            break;
    }
    (void)state;
}

static void test_six_decimals(void **state)
{
    static const double some[] = {0,           -0.0,
                                  0.5,         1,
                                  70.123,      0.0000005,
                                  1.5e-6,      2.5e-6,
                                  9.9999995,   0.9999995,
                                  1e-7,        1e300,
                                  0x1p43,      0x1p44,
                                  DBL_MIN,     DBL_MAX,
                                  4.9e-324,    INFINITY,
                                  -1e15,       -0.25,
                                  18446744.25, 0x1.fffffffffffffp42};
    for (size_t i = 0; i < GS_ARRAY_LEN(some); i++)
        assert_fixed(some[i]);
    for (int k = 0; k < 64; k++) // exact halves of the sixth decimal
        assert_fixed((2 * k + 1) * 0x1p-7 / 15625 * 15625);
    srand(5);
    for (int k = 0; k < 200000; k++) {
        union {
            uint64_t bits;
            double d;
        } v = {.bits = (uint64_t)rand() << 33 ^ (uint64_t)rand() << 11 ^ (uint64_t)rand()};
        if (isfinite(v.d))
            assert_fixed(v.d);
        assert_fixed((double)rand() / 1e6 + (double)(rand() % 1000) * 1e-9);
        assert_fixed((double)(rand() % 20000000) / 128);
    }
}

static void test_hexadecimal_digits(void **state)
{
    static const unsigned char bytes[] = {0, 0x0f, 0xa0, 0xff};
    char text[] = "........+";
    char *end = gs_put_hex(text, bytes, sizeof(bytes));
    assert_string_equal(text, "000fa0ff+");
    assert_ptr_equal(end, text + 8);
    assert_ptr_equal(gs_put_hex(text, bytes, 0), text);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(gs_hex_digit(text[i]), i % 2 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4);
    assert_int_equal(gs_hex_digit('C'), 12);
    assert_int_equal(gs_hex_digit('g'), -1);
    assert_int_equal(gs_hex_digit('\0'), -1);
    assert_int_equal(gs_hex_digit('\x10'), -1); // '0' without a bit
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_doubles_read),
        cmocka_unit_test(test_doubles_print_shortest),
        cmocka_unit_test(test_doubles_round_trip),
        cmocka_unit_test(test_doubles_are_shortest),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_six_decimals),
        cmocka_unit_test(test_hexadecimal_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
