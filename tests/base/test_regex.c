// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "base/regex.h"

static const struct gs_regex_options whole = {.whole = true};

static bool matches(const char *pattern, const struct gs_regex_options *o, struct gs_slice text)
{
    struct gs_regex *r = NULL;
    assert_ok(gs_regex_new(gs_slice_of(pattern), o, &r));
    bool is = gs_regex_matches(r, text);
    gs_regex_free(r);
    return is;
}

// PCRE2 10.43 repeats where RE2 and older versions have plain text.
static void test_braces_mean_what_they_mean_in_go(void **state)
{
    static const struct {
        const char *pattern, *value;
        bool matches;
    } cases[] = {
        {"a{,3}", "a{,3}", true},     {"a{,3}", "aa", false},     {"a{,3}", "", false},
        {"a{ 2 }x?", "a{ 2 }", true}, {"a{2}", "aa", true},       {"a{2,}", "aaaa", true},
        {"a{1,2}b?", "aa", true},     {"a{1, 2}b?", "aa", false}, {"a\\{2}b?", "a{2}", true},
        {"\\p{Lu}{2}", "AB", true},   {"\\x{41}b?", "A", true},   {"\\Qa{,3}\\Eb?", "a{,3}", true},
        {"[{,3}]+", "{3,}", true},    {"a{b?", "a{", true},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        if (matches(cases[i].pattern, &whole, gs_slice_of(cases[i].value)) != cases[i].matches)
            fail_msg("%s on %s", cases[i].pattern, cases[i].value);
    (void)state;
}

// What PCRE2 reads differently or refuses.
static void test_escapes_and_classes_mean_what_they_mean_in_go(void **state)
{
    static const struct {
        const char *pattern, *value;
        bool matches;
    } cases[] = {
        {"\\v", "\v", true},
        {"\\v", "\n", false},
        {"\\s", "\v", false},
        {"\\s", "\t", true},
        {"\\S", "\v", true},
        {"[\\s]", "\v", false},
        {"[\\S]", "\v", true},
        {"[^\\s]", "\v", true},
        {"\\101", "A", true},
        {"[\\101]", "A", true},
        {"[\\d-a]", "-", true},
        {"[\\d-a]", "b", false},
        {"[:alpha:]", "p", true},
        {"[:alpha:]", "b", false},
        {"[[:alpha:]]", "b", true},
        {"a$*", "a", true},
        {"\\b*a", "a", true},
        {"(?P<1>a)", "a", true},
        {"[[]", "[", true},
        {"[]a]", "]", true},
        {"[^]]", "a", true},
        {"a(?i)*", "aa", true},
        {"a(?i)*b", "aaB", true},
        {"a*(?i)+b", "aaB", true},
        {"(ab)(?i)(?s){2}", "abab", true},
        {"^(?i)*a", "A", true},
        {"a(?i)*", "A", false},
        {"\\pL(?i)*", "ab", true},
        {"(?i)\\p{Lu}", "a", true},
        {"(?i:a)\\p{Lu}", "Ab", false},
        {"é(?i)*", "éé", true},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        if (matches(cases[i].pattern, &whole, gs_slice_of(cases[i].value)) != cases[i].matches)
            fail_msg("%s on %s", cases[i].pattern, cases[i].value);
    (void)state;
}

static void test_a_search_finds_a_part_and_whole_does_not(void **state)
{
    assert_true(matches("b", NULL, GS_SLICE("abc")));
    assert_false(matches("b", &whole, GS_SLICE("abc")));
    assert_true(matches("a.c", &whole, GS_SLICE("a\nc")));
    assert_false(matches("a.c", NULL, GS_SLICE("a\nc")));
    assert_false(matches("a$", NULL, GS_SLICE("a\n"))); // in Go, $ is the end of the text
    assert_false(matches("a|b", &whole, GS_SLICE("ax")));
    assert_true(matches("", NULL, (struct gs_slice){0}));
    (void)state;
}

static void test_invalid_utf8_can_be_searched(void **state)
{
    static const struct gs_regex_options any = {.any_bytes = true};
    assert_true(matches("b+", &any,
                        GS_SLICE("\xff"
                                 "abb")));
    assert_false(matches("b+", NULL,
                         GS_SLICE("\xff"
                                  "abb")));
    (void)state;
}

static void test_a_pattern_that_explodes_is_no_match(void **state)
{
    const struct gs_regex_options small = {.match_limit = 1000};
    assert_false(matches("^(a+)+$", &small, GS_SLICE("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab")));
    (void)state;
}

static void test_errors_give_reason_and_place(void **state)
{
    struct gs_regex *r = NULL;
    const struct gs_regex_options small = {.max_pattern = 3};
    assert_error(gs_regex_new(GS_SLICE("a("), NULL, &r), GS_EINVAL,
                 "error parsing regexp: missing closing ): `a(`");
    assert_error(gs_regex_new(GS_SLICE("[z-a]"), &whole, &r), GS_EINVAL, "at byte");
    assert_error(gs_regex_new(GS_SLICE("abcd"), &small, &r), GS_ELIMIT, "longer than 3 bytes");
    assert_null(r);
    (void)state;
}

static void test_syntax_of_perl_is_refused_with_the_text_of_go(void **state)
{
    static const char *const cases[][2] = {
        {"DCGM_(?!FI).*", "error parsing regexp: invalid or unsupported Perl syntax: `(?!`"},
        {"a(?=b)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"},
        {"(?<=x)y", "error parsing regexp: invalid named capture: `(?<=x)y`"},
        {"(?>a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?>`"},
        {"(?#c)", "error parsing regexp: invalid or unsupported Perl syntax: `(?#`"},
        {"(?1)", "error parsing regexp: invalid or unsupported Perl syntax: `(?1`"},
        {"(?P=n)", "error parsing regexp: invalid or unsupported Perl syntax: `(?P`"},
        {"(a)\\1", "error parsing regexp: invalid escape sequence: `\\1`"},
        {"a\\Z", "error parsing regexp: invalid escape sequence: `\\Z`"},
        {"\\Ka", "error parsing regexp: invalid escape sequence: `\\K`"},
        {"a++", "error parsing regexp: invalid nested repetition operator: `++`"},
        {"(*UTF)a", "error parsing regexp: missing argument to repetition operator: `*`"},
        {"(?P<a-b>x)", "error parsing regexp: invalid named capture: `(?P<a-b>`"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct gs_regex *r = NULL;
        assert_error(gs_regex_new(gs_slice_of(cases[i][0]), NULL, &r), GS_EINVAL, cases[i][1]);
        assert_null(r);
    }
    (void)state;
}

static void test_forms_are_expanded_as_in_go(void **state)
{
    static const char *const cases[][4] = {
        {"(\\w+)-(\\w+)", "a-b", "$2_$1", "a"},  {"(\\w+)-(\\w+)", "a-b", "${2}_$1", "b_a"},
        {"(?P<x>\\w+)-", "a-b", "${x}$x", "aa"}, {"a", "a", "$$1 $ ${ ${1 $9", "$1 $ ${ ${1 "},
        {"(a)|(b)", "b", "<$1$2>", "<b>"},       {"a", "a", "plain", "plain"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_BUF struct gs_buf out = {0};
        struct gs_regex *r = NULL;
        assert_ok(gs_regex_new(gs_slice_of(cases[i][0]), NULL, &r));
        assert_true(gs_regex_expand(r, gs_slice_of(cases[i][1]), gs_slice_of(cases[i][2]), &out));
        assert_string_equal(out.data, cases[i][3]);
        assert_false(gs_regex_expand(r, GS_SLICE("+"), GS_SLICE("x"), &out));
        gs_regex_free(r);
    }
    (void)state;
}

static void test_groups_have_names_and_numbers(void **state)
{
    struct gs_regex *r = NULL;
    struct gs_slice group;
    assert_ok(gs_regex_new(GS_SLICE("^kube_(?P<group>[a-z]+)_(?P<resource>[a-z]+)$"), NULL, &r));
    assert_int_equal(gs_regex_groups(r), 2);
    assert_true(gs_regex_group(r, GS_SLICE("kube_apps_deployment"), "resource", &group));
    assert_true(gs_slice_eq_str(group, "deployment"));
    assert_false(gs_regex_group(r, GS_SLICE("kube_apps_deployment"), "none", &group));
    assert_false(gs_regex_group(r, GS_SLICE("other"), "resource", &group));
    gs_regex_free(r);
    (void)state;
}

static void test_all_matches_are_replaced_as_in_go(void **state)
{
    static const char *const cases[][4] = {
        {"a+", "baaac", "<$0>", "b<aaa>c"},
        {"a*", "baaac", "-", "-b-c-"},
        {"x*", "\xc3\xa4", "-", "-\xc3\xa4-"},
        {"a", "", "x", ""},
        {"", "ab", "-", "-a-b-"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_BUF struct gs_buf out = {0};
        struct gs_regex *r = NULL;
        assert_ok(gs_regex_new(gs_slice_of(cases[i][0]), NULL, &r));
        gs_regex_replace_all(r, gs_slice_of(cases[i][1]), gs_slice_of(cases[i][2]), &out);
        assert_string_equal(out.len ? out.data : "", cases[i][3]);
        gs_regex_free(r);
    }
    (void)state;
}

static void test_offsets_of_errors_are_those_of_the_pattern(void **state)
{
    static const struct {
        const char *pattern, *text;
    } cases[] = {
        {"\\v\\v\\v[b-a]", "at byte 11"},
        {"[[:a](b)[:]]", "invalid character class range: `[:a](b)[:]`"},
        {"[[:foo:]]", "invalid character class range: `[:foo:]`"},
        {"\\s\\s[b-a]", "at byte"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct gs_regex *r = NULL;
        assert_error(gs_regex_new(gs_slice_of(cases[i].pattern), &whole, &r), GS_EINVAL,
                     cases[i].text);
    }
    (void)state;
}

// PCRE2 counts its limit anew at each position.
static void test_a_search_in_a_long_text_has_one_limit(void **state)
{
    static const struct gs_regex_options few = {.match_limit = 1000};
    struct gs_regex *r = NULL;
    GS_AUTO_FREE char *text = gs_format("%0300dx", 0);
    (void)state;
    assert_ok(gs_regex_new(GS_SLICE("0{20}1|0{20}2|x"), &few, &r));
    assert_false(gs_regex_matches(r, gs_slice_of(text)));
    assert_true(gs_regex_matches(r, GS_SLICE("00000x")));
    gs_regex_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_braces_mean_what_they_mean_in_go),
        cmocka_unit_test(test_escapes_and_classes_mean_what_they_mean_in_go),
        cmocka_unit_test(test_a_search_finds_a_part_and_whole_does_not),
        cmocka_unit_test(test_invalid_utf8_can_be_searched),
        cmocka_unit_test(test_a_pattern_that_explodes_is_no_match),
        cmocka_unit_test(test_a_search_in_a_long_text_has_one_limit),
        cmocka_unit_test(test_errors_give_reason_and_place),
        cmocka_unit_test(test_syntax_of_perl_is_refused_with_the_text_of_go),
        cmocka_unit_test(test_offsets_of_errors_are_those_of_the_pattern),
        cmocka_unit_test(test_forms_are_expanded_as_in_go),
        cmocka_unit_test(test_groups_have_names_and_numbers),
        cmocka_unit_test(test_all_matches_are_replaced_as_in_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
