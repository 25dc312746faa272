// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "codec/yaml.h"

static char *as_json(const char *yaml)
{
    struct codec_yaml_docs docs = {0};
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "t.yaml", &docs));
    struct gs_buf out = {0};
    for (size_t i = 0; i < docs.len; i++) {
        if (i)
            gs_buf_add_char(&out, '|');
        codec_json_dump(docs.items[i].value, &out);
    }
    codec_yaml_docs_finish(&docs);
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
          "[31,15,15,1000,1000.0,100000000000000000000.0,0.5,\"1.2.3\",\"500m\",\"10Gi\"]");
    check("a: |\n  x\n  y\nb: >\n  x\n  y\n", "{\"a\":\"x\\ny\\n\",\"b\":\"x y\\n\"}");
    check("1: a\ntrue: b\n", "{\"1\":\"a\",\"true\":\"b\"}");
    check("a: !!str 12\n", "{\"a\":\"12\"}");
    check("a: !!binary aGVsbG8=\nb: !!binary |\n  aGVs\n  bG8=\n",
          "{\"a\":\"hello\",\"b\":\"hello\"}");
    check("a: !!binary MTI=\n!!binary Yg==: !!binary \"\"\n", "{\"a\":\"12\",\"b\":\"\"}");
}

static void test_documents(void **state)
{
    check("---\na: 1\n---\n# only a comment\n---\nb: 2\n", "{\"a\":1}|{\"b\":2}");
    check("", "");
    check("{\"kind\": \"Pod\", \"n\": [1, {\"x\": null}]}",
          "{\"kind\":\"Pod\",\"n\":[1,{\"x\":null}]}");
    struct codec_yaml_docs docs = {0};
    assert_ok(codec_yaml_parse(GS_SLICE("# c\na: 1\n---\n\nb: 2\n"), "t.yaml", &docs));
    assert_int_equal(docs.items[0].line, 2);
    assert_int_equal(docs.items[1].line, 5);
    codec_yaml_docs_finish(&docs);
}

static void test_anchors(void **state)
{
    check("a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  m: 2\n",
          "{\"a\":{\"k\":1},\"b\":{\"k\":1},\"c\":{\"m\":2,\"k\":1}}");
}

// Keys of the mapping have precedence, wherever they are. In a list of mappings, the first has
// precedence, and of several "<<" the last.
static void test_merge_keys(void **state)
{
    check("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  k: 3\n",
          "{\"a\":{\"k\":1,\"l\":2},\"b\":{\"k\":3,\"l\":2}}");
    check("a: &x {k: 1, l: 2}\nb:\n  k: 3\n  <<: *x\n",
          "{\"a\":{\"k\":1,\"l\":2},\"b\":{\"k\":3,\"l\":2}}");
    check("a: {<<: [{k: 1}, {k: 2, l: 3}], m: 4}\n", "{\"a\":{\"m\":4,\"k\":1,\"l\":3}}");
    check("a: &a {k: 1}\nb: &b {l: 2}\nc: {<<: [*a, *b], l: 3}\n",
          "{\"a\":{\"k\":1},\"b\":{\"l\":2},\"c\":{\"l\":3,\"k\":1}}");
    check("a: {<<: {k: 1, l: 1}, <<: {k: 2}}\n", "{\"a\":{\"k\":2,\"l\":1}}");
    check("a: {<<: {<<: {k: 1, l: 1, m: 1}, l: 2, m: 2}, m: 3}\n",
          "{\"a\":{\"m\":3,\"l\":2,\"k\":1}}");
    // Merging is shallow, and does not change the source.
    check("a: &x {o: {k: 1}}\nb: {<<: *x, o: {l: 2}}\nc: *x\n",
          "{\"a\":{\"o\":{\"k\":1}},\"b\":{\"o\":{\"l\":2}},\"c\":{\"o\":{\"k\":1}}}");
    // An anchor of a mapping with "<<" contains the merged keys.
    check("a: &x {<<: {k: 1}, l: 2}\nb: *x\n", "{\"a\":{\"l\":2,\"k\":1},\"b\":{\"l\":2,\"k\":1}}");
    check("\"<<\": {k: 1}\n'<<x': 2\n", "{\"<<\":{\"k\":1},\"<<x\":2}");
}

static void expect_error(const char *yaml, const char *text)
{
    struct codec_yaml_docs docs = {0};
    assert_error(codec_yaml_parse(gs_slice_of(yaml), "t.yaml", &docs), GS_EINVAL, text);
}

static void test_errors_name_the_place(void **state)
{
    expect_error("a: 1\na: 2\n", "t.yaml:2:1: key \"a\" is already set");
    expect_error("a: *nowhere\n", "t.yaml:1:5: unknown alias");
    expect_error("a: [1, 2\nb: 3\n", "t.yaml:");
    expect_error("a:\n\t- b\n", "t.yaml:2:");
    expect_error("a: {<<: {k: 1}, k: 2, k: 3}\n", "t.yaml:1:23: key \"k\" is already set");
    expect_error("a: 1\n<<: 2\n", "t.yaml:2:5: << needs a mapping or a list of mappings");
    expect_error("<<: [{a: 1}, 2]\n", "t.yaml:1:15: << needs a mapping");
    expect_error("<<: ~\n", "t.yaml:1:5: << needs a mapping");
    expect_error("a: !!binary YWJ\n", "t.yaml:1:13: !!binary value contains invalid base64 data");
    expect_error("a: !!binary /w==\n", "t.yaml:1:13: the text is not valid UTF-8");
    expect_error("a: !!binary AGE=\n", "t.yaml:1:13: a NUL character is not allowed");
}

// A version directive with invalid UTF-8 caused an endless loop in the parser.
static void test_bytes_that_are_not_yaml(void **state)
{
    expect_error("%YAM. \xe8.1\n-\xff\xff-- !!map {? k : v}\n...\n",
                 "t.yaml:1: the text is not valid");
    expect_error("a: 1\nb: \x01\n", "t.yaml:2: the control character 0x01");
}

static void test_values_have_places(void **state)
{
    struct codec_yaml_docs docs = {0};
    struct codec_yaml_marks *marks = NULL;
    assert_ok(codec_yaml_parse_marked(gs_slice_of("a: &x {b: 12}\nc: *x\nd: \"12\"\n"), "t.yaml",
                                      &docs, &marks));
    const json_t *doc = docs.items[0].value, *b = codec_json_get(doc, "a", "b", NULL);
    const json_t *copy = codec_json_get(doc, "c", "b", NULL), *d = json_object_get(doc, "d");
    assert_true(json_is_integer(b) && json_is_string(d)); // types are kept
    assert_int_equal(codec_yaml_mark_of(marks, b).line, 1);
    assert_int_equal(codec_yaml_mark_of(marks, b).column, 11);
    // The position of an alias is that of its anchor.
    assert_int_equal(codec_yaml_mark_of(marks, copy).line, 1);
    assert_int_equal(codec_yaml_mark_of(marks, d).line, 3);
    assert_int_equal(codec_yaml_mark_of(marks, d).column, 4);
    codec_yaml_docs_finish(&docs);
    codec_yaml_marks_free(marks);
    (void)state;
}

static void test_dump_reads_back(void **state)
{
    static const char json[] =
        "{\"a\":\"12\",\"b\":12,\"c\":[],\"d\":{},\"e\":[{\"x\":\"yes\",\"n\":null,\"m\":\"null\"},"
        "[1,[2]]],"
        "\"f\":\"line1\\nline2 # x\",\"g\":\"\",\"h\":1.5,\"i\":\"~\",\"j\":\"- a\",\"k\":\"0x12\","
        "\"o\":\" x \",\"q q\":\"*a\",\"1\":\"2024-01-01\",\"true\":true,\"on\":\"off\",\"p\":\"a "
        "b \"}";
    CODEC_AUTO_JSON json_t *j = NULL;
    GS_AUTO_BUF struct gs_buf out = {0};
    struct codec_yaml_docs docs = {0};
    assert_ok(codec_json_parse(gs_slice_of(json), true, &j));
    codec_yaml_dump(j, &out);
    assert_ok(codec_yaml_parse(gs_buf_slice(&out), "dump", &docs));
    assert_true(json_equal(docs.items[0].value, j));
    codec_yaml_docs_finish(&docs);
    (void)state;
}

static void test_dump_is_in_the_style_of_kubectl(void **state)
{
    CODEC_AUTO_JSON json_t *j =
        json_pack("{s:s, s:{s:[{s:s, s:i}], s:s}}", "kind", "Pod", "spec", "containers", "image",
                  "registry.local/a", "port", 80, "host", "10.0.0.1");
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_yaml_dump(j, &out);
    assert_string_equal(out.data, "kind: Pod\nspec:\n  containers:\n  - image: registry.local/a\n"
                                  "    port: 80\n  host: \"10.0.0.1\"\n");
    (void)state;
}

static void test_alias_bomb_is_refused(void **state)
{
    expect_error("a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
                 "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
                 "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
                 "too many values");
    expect_error("a: &a {p: x, q: x, r: x, s: x, t: x, u: x, v: x, w: x, y: x, z: x}\n"
                 "b: &b [{<<: *a},{<<: *a},{<<: *a},{<<: *a},{<<: *a},{<<: *a},{<<: *a},{<<: "
                 "*a},{<<: *a},{<<: *a}]\n"
                 "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
                 "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
                 "too many values");
}

static void test_aliases_do_not_nest_without_end(void **state)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add_str(&text, "a0: &a0 x\n");
    for (int i = 1; i <= CODEC_JSON_MAX_DEPTH; i++)
        gs_buf_addf(&text, "a%d: &a%d [*a%d]\n", i, i, i - 1);
    expect_error(text.data, "nested too deeply");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_anchors),
        cmocka_unit_test(test_merge_keys),
        cmocka_unit_test(test_errors_name_the_place),
        cmocka_unit_test(test_bytes_that_are_not_yaml),
        cmocka_unit_test(test_values_have_places),
        cmocka_unit_test(test_dump_reads_back),
        cmocka_unit_test(test_dump_is_in_the_style_of_kubectl),
        cmocka_unit_test(test_alias_bomb_is_refused),
        cmocka_unit_test(test_aliases_do_not_nest_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
