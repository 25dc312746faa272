// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/shell.h"

#include <stdio.h>

// What a shell makes of the word.
static void assert_is_one_word(const char *text)
{
    GS_AUTO_FREE char *word = gs_shell_word(text);
    GS_AUTO_FREE char *command = gs_format("set -- %s; printf '%%s:%%s' $# \"$1\"", word);
    GS_AUTO_FREE char *want = gs_format("1:%s", text);
    char got[200] = "";
    FILE *f = popen(command, "r");
    size_t n = fread(got, 1, sizeof(got) - 1, f);
    got[n] = '\0';
    assert_int_equal(pclose(f), 0);
    assert_string_equal(got, want);
}

static void test_a_shell_reads_the_text_as_one_word(void **state)
{
    static const char *const texts[] = {"",     "a",    "a b",     "it's",     "$HOME", "`id`",
                                        "a\nb", "*",    "a;b&c|d", "~",        "\\",    "\"",
                                        "#",    "!x{}", "''",      "ä/b c'd'e"};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        assert_is_one_word(texts[i]);
}

static void test_plain_paths_stay_as_they_are(void **state)
{
    GS_AUTO_FREE char *path = gs_shell_word("/home/me/.local/share/gpu-scale_1");
    assert_string_equal(path, "/home/me/.local/share/gpu-scale_1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_shell_reads_the_text_as_one_word),
        cmocka_unit_test(test_plain_paths_stay_as_they_are),
    };
    return cmocka_run_group_tests_name("shell", tests, NULL, NULL);
}
