// SPDX-License-Identifier: Apache-2.0
#include "kube/names.h"
#include "kube/selector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define QUALIFIED                                                                                  \
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "    \
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "         \
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"

static json_t *json(const char *text)
{
    json_t *j = NULL;
    struct gs_error *err = codec_json_parse(gs_slice_of(text), true, &j);
    if (err)
        fail_msg("%s: %s", text, gs_error_message(err));
    return j;
}

static void test_parse_and_print(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {"  ", ""},
        {"a=b", "a=b"},
        {"a==b", "a=b"},
        {"b=1,a=2", "a=2,b=1"},
        {" a = b , c != d ", "a=b,c!=d"},
        {"x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"},
        {"x in (b,a,b)", "x in (a,b)"},
        {"x in (,a)", "x in (,a)"},
        {"x in (a,)", "x in (,a)"},
        {"!c", "!c"},
        {"a", "a"},
        {"in in (in,notin)", "in in (in,notin)"},
        {"a=", "a="},
        {"a=,b", "a=,b"},
        {"example.com/a=b", "example.com/a=b"},
        {"n>5,m<-3x", NULL},
        {"n>5,m<3", "m<3,n>5"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct kube_selector s;
        struct gs_error *err = kube_selector_parse(cases[i].in, &s);
        if (!cases[i].out) {
            assert_non_null(err);
            gs_error_free(err);
            continue;
        }
        if (err)
            fail_msg("%s: %s", cases[i].in, gs_error_message(err));
        GS_AUTO_BUF struct gs_buf out = {0};
        kube_selector_format(&s, &out);
        assert_string_equal(out.data ? out.data : "", cases[i].out);
        kube_selector_finish(&s);
    }
}

static void test_wrong_selectors(void **state)
{
    static const struct {
        const char *in, *error;
    } cases[] = {
        {"=b", "found '=', expected: !, identifier, or 'end of string'"},
        {"a,", "found '', expected: identifier after ','"},
        {"a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"},
        {"a=b c", "found 'c', expected: ',' or 'end of string'"},
        {"!a=b", "found '=', expected: ',' or 'end of string'"},
        {"!", "unable to parse requirement: found '', expected: identifier"},
        {"a in b", "unable to parse requirement: found 'b' expected: '('"},
        {"a in (b", "unable to parse requirement: found '', expected: ',' or ')'"},
        {"a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"},
        {"a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"},
        {"a=(", "unable to parse requirement: found '(', expected: identifier"},
        {"a$=b", "unable to parse requirement: <nil>: Invalid value: \"a$\": name part " QUALIFIED},
        {"a//b=c",
         "unable to parse requirement: <nil>: Invalid value: \"a//b\": a qualified name " QUALIFIED
         " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"},
        {"/b=c", "unable to parse requirement: <nil>: Invalid value: \"/b\": prefix part must be "
                 "non-empty"},
        {"a=-b", "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label "
                 "must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
                 "and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
                 "'my_value',  or '12345', regex used for validation is "
                 "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"},
        {"a>b", "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' "
                "operators, the value must be an integer"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct kube_selector s;
        struct gs_error *err = kube_selector_parse(cases[i].in, &s);
        if (!err)
            fail_msg("%s was taken", cases[i].in);
        assert_string_equal(gs_error_message(err), cases[i].error);
        gs_error_free(err);
    }
}

static void test_matching(void **state)
{
    static const struct {
        const char *selector, *labels;
        bool match;
    } cases[] = {
        {"", "{}", true},
        {"a=b", "{\"a\":\"b\"}", true},
        {"a=b", "{\"a\":\"c\"}", false},
        {"a=b", "{}", false},
        {"a!=b", "{}", true},
        {"a!=b", "{\"a\":\"b\"}", false},
        {"a notin (b,c)", "{}", true},
        {"a notin (b,c)", "{\"a\":\"c\"}", false},
        {"a in (b,c)", "{\"a\":\"c\"}", true},
        {"a in (b,c)", "{}", false},
        {"a", "{\"a\":\"\"}", true},
        {"a", "{}", false},
        {"!a", "{}", true},
        {"!a", "{\"a\":\"\"}", false},
        {"a=", "{}", false},
        {"a=", "{\"a\":\"\"}", true},
        {"a=b,c=d", "{\"a\":\"b\"}", false},
        {"a=b,c=d", "{\"a\":\"b\",\"c\":\"d\",\"e\":\"f\"}", true},
        {"n>5", "{\"n\":\"6\"}", true},
        {"n>5", "{\"n\":\"5\"}", false},
        {"n<5", "{\"n\":\"x\"}", false},
        {"n<5", "{}", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct kube_selector s;
        assert_null(kube_selector_parse(cases[i].selector, &s));
        CODEC_AUTO_JSON json_t *labels = json(cases[i].labels);
        if (kube_selector_matches(&s, labels) != cases[i].match)
            fail_msg("%s on %s", cases[i].selector, cases[i].labels);
        kube_selector_finish(&s);
    }
    struct kube_selector s;
    assert_null(kube_selector_parse("!a,b!=c", &s));
    assert_true(kube_selector_matches(&s, NULL));
    kube_selector_finish(&s);
}

static void test_label_selector_objects(void **state)
{
    struct kube_selector s;
    assert_null(kube_selector_from_json(NULL, &s));
    assert_false(kube_selector_matches(&s, NULL));
    kube_selector_finish(&s);

    CODEC_AUTO_JSON json_t *empty = json("{}");
    assert_null(kube_selector_from_json(empty, &s));
    assert_true(kube_selector_matches(&s, NULL));
    kube_selector_finish(&s);

    CODEC_AUTO_JSON json_t *both = json(
        "{\"matchLabels\":{\"z\":\"1\"},\"matchExpressions\":["
        "{\"key\":\"a\",\"operator\":\"In\",\"values\":[\"y\",\"x\"]},"
        "{\"key\":\"b\",\"operator\":\"NotIn\",\"values\":[\"q\"]},"
        "{\"key\":\"c\",\"operator\":\"Exists\"},{\"key\":\"d\",\"operator\":\"DoesNotExist\"}]}");
    assert_null(kube_selector_from_json(both, &s));
    GS_AUTO_BUF struct gs_buf out = {0};
    kube_selector_format(&s, &out);
    assert_string_equal(out.data, "a in (x,y),b notin (q),c,!d,z=1");
    kube_selector_finish(&s);

    static const struct {
        const char *in, *error;
    } wrong[] = {
        {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Like\"}]}",
         "\"Like\" is not a valid label selector operator"},
        {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\"}]}",
         "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"},
        {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\",\"values\":[\"b\"]}]}",
         "values: Invalid value: [\"b\"]: values set must be empty for exists and does not exist"},
        {"{\"matchLabels\":{\"$\":\"b\"}}", "key: Invalid value: \"$\": name part " QUALIFIED},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        CODEC_AUTO_JSON json_t *j = json(wrong[i].in);
        struct gs_error *err = kube_selector_from_json(j, &s);
        assert_non_null(err);
        assert_string_equal(gs_error_message(err), wrong[i].error);
        gs_error_free(err);
    }

    CODEC_AUTO_JSON json_t *map = json("{\"b\":\"2\",\"a\":\"1\"}");
    kube_selector_from_map(map, &s);
    assert_true(kube_selector_matches(&s, map));
    assert_false(kube_selector_matches(&s, empty));
    kube_selector_finish(&s);
}

static void test_field_selectors(void **state)
{
    CODEC_AUTO_JSON json_t *pod =
        json("{\"metadata\":{\"name\":\"x\"},\"spec\":{\"n\":3,\"b\":true},"
             "\"status\":{\"phase\":\"Running\",\"odd\":\"a,b=c\"}}");
    static const struct {
        const char *in;
        bool match;
    } cases[] = {
        {"", true},
        {"metadata.name=x", true},
        {"metadata.name==x", true},
        {"metadata.name!=x", false},
        {"metadata.name=x,status.phase!=Running", false},
        {",metadata.name=x,", true},
        {"metadata.namespace=", true},
        {"metadata.namespace!=default", true},
        {"spec.n=3", true},
        {"spec.b=true", true},
        {"status.odd=a\\,b\\=c", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct kube_selector s;
        assert_null(kube_field_selector_parse(cases[i].in, &s));
        if (kube_field_selector_matches(&s, pod) != cases[i].match)
            fail_msg("%s", cases[i].in);
        kube_selector_finish(&s);
    }
    static const struct {
        const char *in, *error;
    } wrong[] = {
        {"metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"},
        {"a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"},
        {"a=b=c", "invalid field selector: unescaped character in value: 61"},
        {"a=b\\", "invalid field selector: invalid escape sequence: \\"},
        {"a=b\\x", "invalid field selector: invalid escape sequence: \\x"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct kube_selector s;
        struct gs_error *err = kube_field_selector_parse(wrong[i].in, &s);
        assert_non_null(err);
        assert_string_equal(gs_error_message(err), wrong[i].error);
        gs_error_free(err);
    }
}

static void test_names(void **state)
{
    char long_name[300];
    memset(long_name, 'a', sizeof(long_name));
    assert_true(kube_check_dns_label(gs_slice_make(long_name, 63), NULL));
    assert_false(kube_check_dns_label(gs_slice_make(long_name, 64), NULL));
    assert_false(kube_check_dns_subdomain(gs_slice_make(long_name, 254), NULL));
    assert_true(kube_check_dns_subdomain(GS_SLICE("a.b-c.1"), NULL));
    assert_false(kube_check_dns_subdomain(GS_SLICE("a..b"), NULL));
    assert_false(kube_check_dns_subdomain(GS_SLICE("a."), NULL));
    assert_false(kube_check_dns_subdomain(GS_SLICE("A"), NULL));
    assert_false(kube_check_dns_subdomain(GS_SLICE(""), NULL));
    assert_false(kube_check_dns1035_label(GS_SLICE("1a"), NULL));
    assert_true(kube_check_dns1035_label(GS_SLICE("a1"), NULL));
    assert_true(kube_check_label_value(GS_SLICE(""), NULL));
    assert_false(kube_check_label_value(gs_slice_make(long_name, 64), NULL));
    assert_true(kube_check_env_name(GS_SLICE("MY_ENV.NAME-1"), NULL));
    assert_false(kube_check_env_name(GS_SLICE("1X"), NULL));

    GS_AUTO_BUF struct gs_buf why = {0};
    assert_false(kube_check_label_key(gs_slice_make(long_name, 64), &why));
    assert_string_equal(why.data, "name part must be no more than 63 bytes");

    GS_AUTO_BUF struct gs_buf quoted = {0};
    kube_quote(GS_SLICE("a\"\\\n\x01"), &quoted);
    assert_string_equal(quoted.data, "\"a\\\"\\\\\\n\\x01\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_and_print), cmocka_unit_test(test_wrong_selectors),
        cmocka_unit_test(test_matching),        cmocka_unit_test(test_label_selector_objects),
        cmocka_unit_test(test_field_selectors), cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
