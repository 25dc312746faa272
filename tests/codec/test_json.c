// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "codec/json.h"

static void test_parse_and_dump(void **state)
{
    CODEC_AUTO_JSON json_t *j = NULL;
    assert_ok(codec_json_parse(GS_SLICE("{\"b\": [1, 2.5, null], \"a\": \"x/y\"}"), true, &j));
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_json_dump(j, &out);
    assert_string_equal(out.data, "{\"b\":[1,2.5,null],\"a\":\"x/y\"}");
}

static void test_errors(void **state)
{
    json_t *j = NULL;
    assert_error(codec_json_parse(GS_SLICE("{\n \"a\": }"), true, &j), GS_EINVAL, "line 2");
    assert_error(codec_json_parse(GS_SLICE("{\"a\":1,\"a\":2}"), true, &j), GS_EINVAL, "duplicate");
    assert_error(codec_json_parse((struct gs_slice){NULL, 0}, true, &j), GS_EINVAL, "line");
    GS_AUTO_BUF struct gs_buf deep = {0};
    for (int i = 0; i < 5000; i++)
        gs_buf_add_char(&deep, '[');
    assert_error(codec_json_parse(gs_buf_slice(&deep), true, &j), GS_ELIMIT, "nested");
    assert_null(j);
}

// An API server sends objects inside lists and events. It accepts NUL, as Go does.
static void test_texts_of_an_api_server_may_contain_more_than_requests(void **state)
{
    CODEC_AUTO_JSON json_t *j = NULL, *k = NULL;
    GS_AUTO_BUF struct gs_buf deep = {0};
    for (int i = 0; i < CODEC_JSON_MAX_DEPTH + 3; i++)
        gs_buf_add_char(&deep, '[');
    for (int i = 0; i < CODEC_JSON_MAX_DEPTH + 3; i++)
        gs_buf_add_char(&deep, ']');
    assert_error(codec_json_parse(gs_buf_slice(&deep), false, &j), GS_ELIMIT, "nested");
    assert_ok(codec_json_parse_accepted(gs_buf_slice(&deep), &j));
    assert_error(codec_json_parse(GS_SLICE("{\"a\":\"x\\u0000y\"}"), false, &k), GS_EINVAL,
                 "not allowed");
    assert_ok(codec_json_parse_accepted(GS_SLICE("{\"a\":\"x\\u0000y\"}"), &k));
    assert_string_equal(codec_json_str(k, "a", NULL), "x");
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_json_dump(k, &out);
    assert_string_equal(out.data, "{\"a\":\"x\\u0000y\"}");
}

static void test_paths(void **state)
{
    CODEC_AUTO_JSON json_t *j = json_object();
    codec_json_set(j, json_integer(3), "spec", "replicas", NULL);
    codec_json_set(j, json_string("x"), "metadata", "name", NULL);
    assert_int_equal(codec_json_int(j, -1, "spec", "replicas", NULL), 3);
    assert_int_equal(codec_json_int(j, -1, "spec", "missing", NULL), -1);
    assert_string_equal(codec_json_str(j, "metadata", "name", NULL), "x");
    assert_null(codec_json_str(j, "spec", "replicas", NULL));
    codec_json_del(j, "spec", "replicas", NULL);
    codec_json_del(j, "nothing", "here", NULL);
    assert_null(codec_json_get(j, "spec", "replicas", NULL));
}

static void test_an_array_contains_a_string(void **state)
{
    json_t *array = json_pack("[s, i, n, s]", "v1", 2, "v1beta1");
    assert_true(codec_json_has_string(array, "v1beta1"));
    assert_false(codec_json_has_string(array, "v1beta"));
    assert_false(codec_json_has_string(array, "2"));
    assert_false(codec_json_has_string(json_array_get(array, 0), "v1"));
    assert_false(codec_json_has_string(NULL, "v1"));
    json_decref(array);
}

static void test_texts_that_are_no_utf8_are_kept_as_far_as_they_are(void **state)
{
    CODEC_AUTO_JSON json_t *j = json_object();
    codec_json_set_str(j, "a", "\xff\xc3x \xc3\xa9\xe2\x82");
    codec_json_set_str(j, "b", "\xc3\xa9");
    assert_string_equal(json_string_value(json_object_get(j, "a")),
                        "\xef\xbf\xbd\xef\xbf\xbdx \xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
    assert_string_equal(json_string_value(json_object_get(j, "b")), "\xc3\xa9");
}

static void assert_dumped(const char *text, const char *want)
{
    CODEC_AUTO_JSON json_t *j = NULL;
    assert_ok(codec_json_parse(gs_slice_of(text), true, &j));
    GS_AUTO_FREE char *got = codec_json_text(j);
    assert_string_equal(got, want);
}

static void test_numbers_have_the_fewest_digits_that_read_back_the_same(void **state)
{
    assert_dumped("[0.7, 0.1, 0.30000000000000004, 33.333333333333336]",
                  "[0.7,0.1,0.30000000000000004,33.333333333333336]");
    assert_dumped("[1.0, -0.0, 1e20, 1e21, 1e-6, 1.5e-7, 5e-324, 1.7976931348623157e308]",
                  "[1.0,-0.0,100000000000000000000.0,1e+21,0.000001,1.5e-07,5e-324,"
                  "1.7976931348623157e+308]");
    assert_dumped("[0, -1, 9223372036854775807, -9223372036854775808]",
                  "[0,-1,9223372036854775807,-9223372036854775808]");
}

static void test_every_number_reads_back_as_itself(void **state)
{
    uint64_t bits = 88172645463325252;
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13; // xorshift: the same numbers in each run
        bits ^= bits >> 7;
        bits ^= bits << 17;
        double v;
        memcpy(&v, &bits, sizeof(v));
        CODEC_AUTO_JSON json_t *number = json_real(v), *again = NULL;
        if (!number)
            continue; // not finite
        GS_AUTO_FREE char *text = codec_json_text(number);
        assert_ok(codec_json_parse(gs_slice_of(text), true, &again));
        if (!json_is_real(again) || json_real_value(again) != v)
            fail_msg("%.17g is written as %s", v, text);
    }
}

static void test_strings_are_escaped(void **state)
{
    assert_dumped("[\"a\\u0001\\b\\n\\\"\\\\/\\u007f\\u00e9\", \"\"]",
                  "[\"a\\u0001\\u0008\\n\\\"\\\\/\x7f\xc3\xa9\",\"\"]");
}

static void test_pretty(void **state)
{
    CODEC_AUTO_JSON json_t *j = NULL;
    assert_ok(codec_json_parse(GS_SLICE("{\"a\": [1, {\"b\": 0.7}], \"c\": {}, \"d\": [], "
                                        "\"e\": [true, false, null]}"),
                               true, &j));
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_json_dump_pretty(j, &out);
    assert_string_equal(out.data, "{\n  \"a\": [\n    1,\n    {\n      \"b\": 0.7\n    }\n  ],\n"
                                  "  \"c\": {},\n  \"d\": [],\n  \"e\": [\n    true,\n    false,\n"
                                  "    null\n  ]\n}");
}

static void test_the_memory_of_a_value_is_more_than_its_text(void **state)
{
    CODEC_AUTO_JSON json_t *empty = NULL, *text = NULL;
    assert_ok(codec_json_parse(GS_SLICE("[{},{},{\"a\":[1,null]}]"), true, &empty));
    assert_ok(codec_json_parse(GS_SLICE("[\"0123456789\"]"), true, &text));
    assert_true(codec_json_memory(empty) > 600);
    assert_in_range(codec_json_memory(text), 10, 300);
}

static void test_equal_members_are_shared(void **state)
{
    CODEC_AUTO_JSON json_t *like = NULL, *value = NULL, *copy = NULL;
    assert_ok(codec_json_parse(
        GS_SLICE(
            "{\"a\":{\"b\":[1,{\"c\":2}],\"d\":\"x\"},\"e\":[{\"f\":1},{\"f\":2}],\"g\":null}"),
        true, &like));
    assert_ok(codec_json_parse(
        GS_SLICE("{\"a\":{\"b\":[1,{\"c\":2}],\"d\":\"y\"},\"e\":[{\"f\":1},{\"f\":3}],\"h\":{}}"),
        true, &value));
    copy = json_deep_copy(value);
    codec_json_share(value, like);
    assert_true(json_equal(value, copy)); // only its memory is another
    assert_ptr_equal(codec_json_get(value, "a", "b", NULL), codec_json_get(like, "a", "b", NULL));
    assert_ptr_not_equal(json_object_get(value, "a"), json_object_get(like, "a"));
    assert_ptr_equal(json_array_get(json_object_get(value, "e"), 0),
                     json_array_get(json_object_get(like, "e"), 0));
    assert_string_equal(codec_json_str(like, "a", "d", NULL), "x");
    codec_json_share(value, value);
    codec_json_share(value, json_null());
    assert_true(json_equal(value, copy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_and_dump),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_texts_of_an_api_server_may_contain_more_than_requests),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_an_array_contains_a_string),
        cmocka_unit_test(test_texts_that_are_no_utf8_are_kept_as_far_as_they_are),
        cmocka_unit_test(test_numbers_have_the_fewest_digits_that_read_back_the_same),
        cmocka_unit_test(test_every_number_reads_back_as_itself),
        cmocka_unit_test(test_strings_are_escaped),
        cmocka_unit_test(test_pretty),
        cmocka_unit_test(test_the_memory_of_a_value_is_more_than_its_text),
        cmocka_unit_test(test_equal_members_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
