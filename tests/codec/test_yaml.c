// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "codec/yaml.h"

static char *as_json(const char *yaml)
{
    struct gs_yaml_docs docs = {0};
    assert_ok(gs_yaml_parse(gs_slice_of(yaml), "t.yaml", &docs));
    struct gs_buf out = {0};
    for (size_t i = 0; i < docs.len; i++) {
        if (i)
            gs_buf_add_char(&out, '|');
        gs_json_dump(docs.items[i].value, &out);
    }
    gs_yaml_docs_finish(&docs);
    return gs_buf_take(&out);
}

static void check(const char *yaml, const char *expected)
{
    char *got = as_json(yaml);
    assert_string_equal(got, expected);
    free(got);
}

static void test_scalars(void **state)
{
    check(
        "a: 1\nb: -2\nc: 1.5\nd: true\ne: no\nf: ~\ng: text\nh: \"1\"\ni: '2'\nj: 2026-01-02\n",
        "{\"a\":1,\"b\":-2,\"c\":1.5,\"d\":true,\"e\":false,\"f\":null,\"g\":\"text\",\"h\":\"1\","
        "\"i\":\"2\",\"j\":\"2026-01-02\"}");
    check("[0x1f, 0o17, 017, 1_000, 1e3, 99999999999999999999, .5, 1.2.3, 500m, 10Gi]",
          "[31,15,15,1000,1000.0,1e20,0.5,\"1.2.3\",\"500m\",\"10Gi\"]");
    check("a: |\n  x\n  y\nb: >\n  x\n  y\n", "{\"a\":\"x\\ny\\n\",\"b\":\"x y\\n\"}");
    check("1: a\ntrue: b\n", "{\"1\":\"a\",\"true\":\"b\"}");
    check("a: !!str 12\n", "{\"a\":\"12\"}");
}

static void test_documents(void **state)
{
    check("---\na: 1\n---\n# only a comment\n---\nb: 2\n", "{\"a\":1}|{\"b\":2}");
    check("", "");
    check("{\"kind\": \"Pod\", \"n\": [1, {\"x\": null}]}",
          "{\"kind\":\"Pod\",\"n\":[1,{\"x\":null}]}");
    struct gs_yaml_docs docs = {0};
    assert_ok(gs_yaml_parse(GS_SLICE("# c\na: 1\n---\n\nb: 2\n"), "t.yaml", &docs));
    assert_int_equal(docs.items[0].line, 2);
    assert_int_equal(docs.items[1].line, 5);
    gs_yaml_docs_finish(&docs);
}

static void test_anchors(void **state)
{
    check("a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  m: 2\n",
          "{\"a\":{\"k\":1},\"b\":{\"k\":1},\"c\":{\"k\":1,\"m\":2}}");
}

static void expect_error(const char *yaml, const char *text)
{
    struct gs_yaml_docs docs = {0};
    assert_error(gs_yaml_parse(gs_slice_of(yaml), "t.yaml", &docs), GS_EINVAL, text);
}

static void test_errors_name_the_place(void **state)
{
    expect_error("a: 1\na: 2\n", "t.yaml:2:1: key \"a\" is already set");
    expect_error("a: *nowhere\n", "t.yaml:1:5: unknown alias");
    expect_error("a: [1, 2\nb: 3\n", "t.yaml:");
    expect_error("a:\n\t- b\n", "t.yaml:2:");
}

// A version directive with bytes that are no UTF-8 made the parser loop for ever.
static void test_bytes_that_are_not_yaml(void **state)
{
    expect_error("%YAM. \xe8.1\n-\xff\xff-- !!map {? k : v}\n...\n",
                 "t.yaml:1: the text is not valid");
    expect_error("a: 1\nb: \x01\n", "t.yaml:2: the control character 0x01");
}

static void test_alias_bomb_is_refused(void **state)
{
    expect_error("a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
                 "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
                 "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
                 "too many values");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_anchors),
        cmocka_unit_test(test_errors_name_the_place),
        cmocka_unit_test(test_bytes_that_are_not_yaml),
        cmocka_unit_test(test_alias_bomb_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
