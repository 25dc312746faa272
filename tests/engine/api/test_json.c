// SPDX-License-Identifier: Apache-2.0
// Strings, times and values in the JSON of the HTTP API.
#include "engine/api/api_private.h"
#include "unit.h"

#include "codec/json.h"

#include <math.h>

static void assert_value(double v, const char *want)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    engine_api_json_add_value(&out, v);
    GS_AUTO_BUF struct gs_buf quoted = {0};
    gs_buf_addf(&quoted, "\"%s\"", want);
    assert_string_equal(out.data, quoted.data);
}

// Like Prometheus: without an exponent from 1e-6 to 1e21.
static void test_values(void **state)
{
    assert_value(0, "0");
    assert_value(-0.0, "-0");
    assert_value(1, "1");
    assert_value(-1.5, "-1.5");
    assert_value(0.1, "0.1");
    assert_value(100, "100");
    assert_value(1e6, "1000000");
    assert_value(123456789.125, "123456789.125");
    assert_value(1e-6, "0.000001");
    assert_value(0.00001234, "0.00001234");
    assert_value(9.99999999999999e-7, "9.99999999999999e-07");
    assert_value(1e-7, "1e-07");
    assert_value(1.5e-300, "1.5e-300");
    assert_value(5e-324, "5e-324");
    assert_value(1e15, "1000000000000000");
    assert_value(9007199254740993, "9007199254740992");
    assert_value(1e20, "100000000000000000000");
    assert_value(123456789012345680000.0, "123456789012345680000");
    assert_value(1e21, "1e+21");
    assert_value(1.7976931348623157e308, "1.7976931348623157e+308");
    assert_value(1.0 / 3, "0.3333333333333333");
    assert_value(2.0 / 3, "0.6666666666666666");
    assert_value(0.1 + 0.2, "0.30000000000000004");
    assert_value(INFINITY, "+Inf");
    assert_value(-INFINITY, "-Inf");
    assert_value(NAN, "NaN");
}

static void assert_time(int64_t ms, const char *want)
{
    char out[ENGINE_API_JSON_VALUE_SIZE + 1];
    *engine_api_json_put_time(out, ms) = '\0';
    assert_string_equal(out, want);
}

static void test_times(void **state)
{
    assert_time(0, "0");
    assert_time(1700000000000, "1700000000");
    assert_time(1700000000123, "1700000000.123");
    assert_time(1700000000500, "1700000000.500");
    assert_time(7, "0.007");
    assert_time(-1500, "-1.500");
    assert_time(INT64_MIN, "-9223372036854775.808");
}

static void test_points(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    engine_api_json_add_point(&out, 1000, 2.5);
    assert_string_equal(out.data, "[1,\"2.5\"]");
}

static void assert_text(struct gs_slice s, const char *want)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_json_add_string(&out, s, CODEC_JSON_PLAIN);
    assert_string_equal(out.data, want);
    assert_int_equal(out.len, strlen(want));
}

static void test_strings(void **state)
{
    assert_text(GS_SLICE(""), "\"\"");
    assert_text(GS_SLICE("abc"), "\"abc\"");
    assert_text(GS_SLICE("exactly8"), "\"exactly8\"");
    assert_text(GS_SLICE("nine byte"), "\"nine byte\"");
    assert_text(GS_SLICE("a\"b\\c\n\r\t"), "\"a\\\"b\\\\c\\n\\r\\t\"");
    assert_text(GS_SLICE("\x01\x1f\x7f"), "\"\\u0001\\u001f\x7f\"");
    assert_text(GS_SLICE("/<&>"), "\"/<&>\"");
    assert_text(GS_SLICE("nul\0inside"), "\"nul\\u0000inside\"");
    assert_text(GS_SLICE("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
                "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

// A byte that must be escaped is found at each position of a word and in the tail.
static void test_escapes_everywhere(void **state)
{
    static const char special[] = "\"\\\n\x01";
    for (size_t len = 1; len <= 40; len++) {
        for (size_t at = 0; at < len; at++) {
            for (size_t k = 0; k < sizeof(special) - 1; k++) {
                char text[40];
                memset(text, 'x', sizeof(text));
                text[at] = special[k];
                GS_AUTO_BUF struct gs_buf out = {0};
                codec_json_add_string(&out, gs_slice_make(text, len), CODEC_JSON_PLAIN);
                json_error_t error;
                json_t *back = json_loadb(out.data, out.len, JSON_DECODE_ANY, &error);
                assert_non_null(back);
                assert_int_equal(json_string_length(back), len);
                assert_memory_equal(json_string_value(back), text, len);
                json_decref(back);
            }
        }
    }
}

static void test_overflow(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {.limit = 10};
    codec_json_add_string(&out, GS_SLICE("far too long for it"), CODEC_JSON_PLAIN);
    assert_true(out.overflow);
    assert_int_equal(out.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),   cmocka_unit_test(test_times),
        cmocka_unit_test(test_points),   cmocka_unit_test(test_strings),
        cmocka_unit_test(test_overflow), cmocka_unit_test(test_escapes_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
