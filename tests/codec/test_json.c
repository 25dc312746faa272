// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "codec/json.h"

static void test_parse_and_dump(void **state)
{
    GS_AUTO_JSON json_t *j = NULL;
    assert_ok(gs_json_parse(GS_SLICE("{\"b\": [1, 2.5, null], \"a\": \"x/y\"}"), true, &j));
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_json_dump(j, &out);
    assert_string_equal(out.data, "{\"b\":[1,2.5,null],\"a\":\"x/y\"}");
}

static void test_errors(void **state)
{
    json_t *j = NULL;
    assert_error(gs_json_parse(GS_SLICE("{\n \"a\": }"), true, &j), GS_EINVAL, "line 2");
    assert_error(gs_json_parse(GS_SLICE("{\"a\":1,\"a\":2}"), true, &j), GS_EINVAL, "duplicate");
    assert_error(gs_json_parse((struct gs_slice){NULL, 0}, true, &j), GS_EINVAL, "line");
    GS_AUTO_BUF struct gs_buf deep = {0};
    for (int i = 0; i < 5000; i++)
        gs_buf_add_char(&deep, '[');
    assert_error(gs_json_parse(gs_buf_slice(&deep), true, &j), GS_ELIMIT, "nested");
    assert_null(j);
}

static void test_paths(void **state)
{
    GS_AUTO_JSON json_t *j = json_object();
    gs_json_set(j, json_integer(3), "spec", "replicas", NULL);
    gs_json_set(j, json_string("x"), "metadata", "name", NULL);
    assert_int_equal(gs_json_int(j, -1, "spec", "replicas", NULL), 3);
    assert_int_equal(gs_json_int(j, -1, "spec", "missing", NULL), -1);
    assert_string_equal(gs_json_str(j, "metadata", "name", NULL), "x");
    assert_null(gs_json_str(j, "spec", "replicas", NULL));
    gs_json_del(j, "spec", "replicas", NULL);
    gs_json_del(j, "nothing", "here", NULL);
    assert_null(gs_json_get(j, "spec", "replicas", NULL));
}

static void test_texts_that_are_no_utf8_are_kept_as_far_as_they_are(void **state)
{
    GS_AUTO_JSON json_t *j = json_object();
    gs_json_set_str(j, "a", "\xff\xc3x \xc3\xa9\xe2\x82");
    gs_json_set_str(j, "b", "\xc3\xa9");
    assert_string_equal(json_string_value(json_object_get(j, "a")),
                        "\xef\xbf\xbd\xef\xbf\xbdx \xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
    assert_string_equal(json_string_value(json_object_get(j, "b")), "\xc3\xa9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_and_dump),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_texts_that_are_no_utf8_are_kept_as_far_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
