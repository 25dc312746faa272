// SPDX-License-Identifier: Apache-2.0
// The regular expressions of matchers, whose common forms are compared without PCRE2.
#include "unit.h"

#include "base/regex.h"
#include "tsdb/matcher.h"

enum { LONGEST = 5 };

static void check(struct gs_slice pattern)
{
    struct tsdb_regex *r = NULL;
    GS_AUTO_ERROR struct gs_error *want = gs_regex_check(pattern);
    GS_AUTO_ERROR struct gs_error *err = tsdb_regex_new(pattern, &r);
    if (!want != !err)
        fail_msg("\"%.*s\": %s", (int)pattern.len, pattern.data,
                 err ? gs_error_message(err) : "accepted, although Go rejects it");
    tsdb_regex_free(r);
}

// The forms without PCRE2 accept and reject the same patterns: all texts of these characters.
static void test_each_form_follows_the_rules_of_go(void **state)
{
    static const char alphabet[] = {'a', '|', '(', ')', '.', '*', '\\'};
    size_t at[LONGEST] = {0};
    char text[LONGEST];
    for (size_t len = 0; len <= LONGEST;) {
        for (size_t i = 0; i < len; i++)
            text[i] = alphabet[at[i]];
        check(gs_slice_make(text, len));
        size_t i = 0;
        while (i < len && ++at[i] == sizeof(alphabet))
            at[i++] = 0;
        len += i == len;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_form_follows_the_rules_of_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
