// SPDX-License-Identifier: Apache-2.0
#include "kube/quantity.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FORMAT                                                                                     \
    "quantities must match the regular expression "                                                \
    "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
#define SUFFIX "unable to parse quantity's suffix"

static void test_canonical_forms(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"0", "0"},
        {"0Ki", "0"},
        {"-0", "0"},
        {"0.0", "0"},
        {"500m", "500m"},
        {"0.5", "500m"},
        {".5", "500m"},
        {"5.", "5"},
        {"00.5", "500m"},
        {"+1", "1"},
        {"1000m", "1"},
        {"1500", "1500"},
        {"1000", "1k"},
        {"20000", "20k"},
        {"12k", "12k"},
        {"2500000", "2500k"},
        {"0.1n", "1n"},
        {"-0.1n", "-1n"},
        {"1.5n", "2n"},
        {"100u", "100u"},
        {"1E", "1E"},
        {"1000E", "1000E"},
        {"64Mi", "64Mi"},
        {"65536Ki", "64Mi"},
        {"1024Ki", "1Mi"},
        {"1.5Gi", "1536Mi"},
        {"0.5Ki", "512"},
        {"1023Ki", "1023Ki"},
        {"0.0001Ki", "102400u"},
        {"1.0001Ki", "1024102400u"},
        {"-64Mi", "-64Mi"},
        {"16Ei", "9223372036854775807"},
        {"8Ei", "9223372036854775807"},
        {"7Ei", "7Ei"},
        {"1e3", "1e3"},
        {"1E3", "1e3"},
        {"12e4", "120e3"},
        {"1e+2", "100"},
        {"1e-3", "1e-3"},
        {"1e100", "10e99"},
        {"1e-100", "1e-9"},
        {"100000000000000000000", "100E"},
        {"0.00000000000000000000000000000000000000000001", "1n"},
        {"1.0000000000", "1"},
        {"1000e999999", "1000e999999"}, // 1e1000002 could not be parsed
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char buf[KUBE_QUANTITY_SIZE] = "?";
        struct gs_error *err = kube_quantity_canonical(gs_slice_of(cases[i].in), buf);
        if (err)
            fail_msg("%s: %s", cases[i].in, gs_error_message(err));
        assert_string_equal(buf, cases[i].out);
    }
}

static void test_wrong_texts(void **state)
{
    static const struct {
        const char *in, *error;
    } cases[] = {
        {"", FORMAT},
        {" 1", FORMAT},
        {"1 ", FORMAT},
        {"abc", FORMAT},
        {"1.1.M", FORMAT},
        {"1+1.0M", FORMAT},
        {"0.1am", FORMAT},
        {"-", FORMAT},
        {".", FORMAT},
        {"Ki", FORMAT},
        {"0.1mi", SUFFIX},
        {".5i", SUFFIX},
        {"1i", SUFFIX},
        {"1e", SUFFIX},
        {"-3.01e-", SUFFIX},
        {"1ki", SUFFIX},
        {"1mm", SUFFIX},
        {"1K", SUFFIX},
        {"1Mi5", SUFFIX},
        {"1e1000000", SUFFIX},
        {"5%", FORMAT},
        {"0x10", FORMAT},
        {"--1", FORMAT},
        {"12345678901234567890123456789", "unable to parse numeric part of quantity"},
        // Rounded up, it is 10^30E, which could not be parsed.
        {"0999999999999999999999999999999.99000003E", "unable to parse numeric part of quantity"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t milli = 42;
        struct gs_error *err = kube_quantity_parse_milli(gs_slice_of(cases[i].in), &milli);
        if (!err)
            fail_msg("%s was taken", cases[i].in);
        assert_string_equal(gs_error_message(err), cases[i].error);
        assert_int_equal(gs_error_code(err), GS_EINVAL);
        assert_int_equal(milli, 42);
        gs_error_free(err);
    }
}

static void test_values(void **state)
{
    static const struct {
        const char *in;
        int64_t milli, value;
    } cases[] = {
        {"1", 1000, 1},
        {"0.5m", 1, 1},
        {"-0.5m", -1, -1},
        {"1.0001", 1001, 2},
        {"1500m", 1500, 2},
        {"-1500m", -1500, -2},
        {"20k", 20000000, 20000},
        {"64Mi", INT64_C(67108864000), 67108864},
        {"1n", 1, 1},
        {"100E", INT64_MAX, INT64_MAX},
        {"-100E", INT64_MIN, INT64_MIN},
        {"1e30", INT64_MAX, INT64_MAX},
        {"1e999999", INT64_MAX, INT64_MAX},
        {"0e999999", 0, 0},
        {"1e-999999", 1, 1},
        {"9223372036854775807m", INT64_MAX, INT64_C(9223372036854776)},
        {"8Ei", INT64_MAX, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t milli = -42, value = -42;
        assert_null(kube_quantity_parse_milli(gs_slice_of(cases[i].in), &milli));
        assert_null(kube_quantity_parse_value(gs_slice_of(cases[i].in), &value));
        if (milli != cases[i].milli || value != cases[i].value)
            fail_msg("%s: %lld milli, %lld", cases[i].in, (long long)milli, (long long)value);
    }
}

static void test_formats(void **state)
{
    char buf[KUBE_QUANTITY_SIZE];
    assert_string_equal(kube_quantity_format_milli(0, buf), "0");
    assert_string_equal(kube_quantity_format_milli(500, buf), "500m");
    assert_string_equal(kube_quantity_format_milli(2000, buf), "2");
    assert_string_equal(kube_quantity_format_milli(1500000, buf), "1500");
    assert_string_equal(kube_quantity_format_milli(20000000, buf), "20k");
    assert_string_equal(kube_quantity_format_milli(-1500, buf), "-1500m");
    assert_string_equal(kube_quantity_format_milli(INT64_MIN, buf), "-9223372036854775808m");
    assert_string_equal(kube_quantity_format_bytes(1048576, buf), "1Mi");
    assert_string_equal(kube_quantity_format_bytes(1500, buf), "1500");
    assert_string_equal(kube_quantity_format_bytes(1500000000, buf), "1500000000");
    assert_string_equal(kube_quantity_format_bytes(1000, buf), "1k");
    assert_string_equal(kube_quantity_format_bytes(INT64_C(1) << 30, buf), "1Gi");
    assert_string_equal(kube_quantity_format_bytes(INT64_MIN, buf), "-8Ei");
}

// The table of the metrics APIs: value x 1000 truncated toward zero.
static void test_samples(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {
        {0, "0"},       {0.0004, "0"},    {0.001, "1m"},      {0.0019, "1m"},
        {1.001, "1"},   {10.5, "10500m"}, {-1.5, "-1500m"},   {1000, "1k"},
        {1500, "1500"}, {12000, "12k"},   {2.5e6, "2500k"},   {1e9, "1G"},
        {1e12, "1T"},   {1e15, "1P"},     {9.22e15, "9220T"}, {-0.0004, "0"},
    };
    char buf[KUBE_QUANTITY_SIZE];
    int64_t milli;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_true(kube_quantity_from_double(cases[i].v, &milli));
        assert_string_equal(kube_quantity_format_milli(milli, buf), cases[i].text);
    }
    milli = 7;
    static const double none[] = {NAN, INFINITY, -INFINITY, 9.3e15, -9.3e15, 1e300};
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
        assert_false(kube_quantity_from_double(none[i], &milli));
    assert_int_equal(milli, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical_forms), cmocka_unit_test(test_wrong_texts),
        cmocka_unit_test(test_values),          cmocka_unit_test(test_formats),
        cmocka_unit_test(test_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
