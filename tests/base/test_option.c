// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/option.h"
#include "base/slice.h"

#include <stdlib.h>

struct opts {
    bool on;
    enum gs_switch watch;
    const char *address;
    struct gs_opt_list files;
    int64_t interval, wait, hold;
    double ratio;
    const char *shell;
};

static const struct gs_opt rows[] = {
    {"kubernetes", GS_OPT_BOOL, offsetof(struct opts, on), .alias = "k",
     .env = "TEST_OPTION_KUBERNETES", .help = "x"},
    {"address", GS_OPT_STRING, offsetof(struct opts, address), "A", ":9400", .alias = "a",
     .env = "TEST_OPTION_ADDRESS", .help = "x"},
    {"file", GS_OPT_STRINGS, offsetof(struct opts, files), "F", .alias = "f", .help = "x"},
    {"collect-interval", GS_OPT_INT, offsetof(struct opts, interval), "MS", "1000", .alias = "c",
     .min = 100, .max = 60000, .help = "x"},
    {"wait", GS_OPT_DURATION, offsetof(struct opts, wait), "D", "30s", .help = "x"},
    {"hold", GS_OPT_DURATION, offsetof(struct opts, hold), "D", .min = 1, .help = "x"},
    {"watch", GS_OPT_SWITCH, offsetof(struct opts, watch), .help = "x"},
    {"ratio", GS_OPT_DOUBLE, offsetof(struct opts, ratio), "R", .alias = "rbmn", .help = "x"},
    {"shell", GS_OPT_STRING, offsetof(struct opts, shell), "S", .implied = "sh", .help = "x"},
    {0},
};
static const struct gs_command command = {.name = "t",
                                          .main_flags = "address wait",
                                          .summary = "s",
                                          .opts = rows,
                                          .opts_size = sizeof(struct opts),
                                          .max_args = 2};

// Arguments are split at blanks.
static struct gs_error *parse(const char *line, struct opts *ret, struct gs_common_opts *common,
                              int *ret_n)
{
    static char text[256];
    static char *argv[16];
    snprintf(text, sizeof(text), "%s", line);
    int argc = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    return gs_options_parse(&command, argc, argv, ret, common, ret_n);
}

static void test_forms(void **state)
{
    struct opts o;
    struct gs_common_opts c;
    int n;
    assert_ok(
        parse("-k -a :1 --file=x -f y --collect-interval 250 -rbmn=0.5 p --log-level=debug -- -q",
              &o, &c, &n));
    assert_true(o.on);
    assert_string_equal(o.address, ":1");
    assert_int_equal(o.files.len, 2);
    assert_string_equal(o.files.items[1], "y");
    assert_int_equal(o.interval, 250);
    assert_true(o.ratio == 0.5);
    assert_true(o.wait == 30 * GS_NS_PER_SEC);
    assert_int_equal(n, 2);
    assert_string_equal(c.log_level, "debug");
    gs_options_finish(&command, &o);
    assert_ok(parse("--kubernetes=false", &o, &c, &n));
    assert_false(o.on);
}

static unsigned n_others;

static bool skip_other(const char *flag, const char *next)
{
    n_others++;
    assert_true(gs_starts(flag, "--other") || gs_streq(flag, "-x"));
    return next && *next != '-';
}

static void test_a_command_can_skip_flags_that_it_lacks(void **state)
{
    struct gs_command lenient = command;
    struct opts o;
    struct gs_common_opts c;
    int n = 0;
    char text[][24] = {"--other", "value", "--collect_interval=250", "--other_two=3", "-x",
                       "-k",      "p"};
    char *argv[] = {text[0], text[1], text[2], text[3], text[4], text[5], text[6]};
    lenient.other_flag = skip_other;
    n_others = 0;
    assert_ok(gs_options_parse(&lenient, 7, argv, &o, &c, &n));
    assert_int_equal(n_others, 3);
    assert_int_equal(o.interval, 250);
    assert_true(o.on);
    assert_int_equal(n, 1);
    assert_string_equal(argv[0], "p");
    gs_options_finish(&lenient, &o);
}

static void test_switches_may_be_unset(void **state)
{
    struct opts o;
    struct gs_common_opts c;
    int n;
    assert_ok(parse("p", &o, &c, &n));
    assert_int_equal(o.watch, GS_SWITCH_UNSET);
    assert_ok(parse("--watch p", &o, &c, &n));
    assert_int_equal(o.watch, GS_SWITCH_ON);
    assert_int_equal(n, 1);
    assert_ok(parse("--watch=false", &o, &c, &n));
    assert_int_equal(o.watch, GS_SWITCH_OFF);
    assert_error(parse("--watch=maybe", &o, &c, &n), GS_EINVAL, "not true or false");
}

// Charts of Go programs write the values of strconv.ParseBool, such as Helm's True.
static void test_booleans_as_go_reads_them(void **state)
{
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True", "yes"};
    static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False", "no"};
    static const char *const neither[] = {"tRUE", "on", "2", "Yes!", "truee"};
    struct opts o;
    struct gs_common_opts c;
    int n;
    char flag[64];
    for (size_t i = 0; i < 7; i++) {
        for (int on = 0; on < 2; on++) {
            const char *text = on ? yes[i] : no[i];
            snprintf(flag, sizeof(flag), "--kubernetes=%s --watch=%s", text, text);
            assert_ok(parse(flag, &o, &c, &n));
            assert_int_equal(o.on, on);
            assert_int_equal(o.watch, on ? GS_SWITCH_ON : GS_SWITCH_OFF);
            setenv("TEST_OPTION_KUBERNETES", text, 1);
            assert_ok(parse("", &o, &c, &n));
            assert_int_equal(o.on, on);
            unsetenv("TEST_OPTION_KUBERNETES");
        }
    }
    for (size_t i = 0; i < 5; i++) {
        snprintf(flag, sizeof(flag), "--kubernetes=%s", neither[i]);
        assert_error(parse(flag, &o, &c, &n), GS_EINVAL, "not true or false");
    }
    setenv("TEST_OPTION_KUBERNETES", "maybe", 1);
    assert_error(parse("", &o, &c, &n), GS_EINVAL, "TEST_OPTION_KUBERNETES");
    unsetenv("TEST_OPTION_KUBERNETES");
}

static void test_a_value_may_be_implied(void **state)
{
    struct opts o;
    struct gs_common_opts c;
    int n;
    assert_ok(parse("--shell", &o, &c, &n));
    assert_string_equal(o.shell, "sh");
    assert_ok(parse("--shell --wait=1s", &o, &c, &n));
    assert_string_equal(o.shell, "sh");
    assert_int_equal(o.wait, GS_NS_PER_SEC);
    assert_ok(parse("--shell fish a", &o, &c, &n));
    assert_string_equal(o.shell, "fish");
    assert_int_equal(n, 1);
    assert_ok(parse("a", &o, &c, &n));
    assert_null(o.shell);
}

static char *help(bool all)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    gs_options_print_help(&command, "gpuscale", all, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void test_help_has_the_main_flags(void **state)
{
    GS_AUTO_FREE char *few = help(false), *all = help(true);
    assert_non_null(strstr(few, "--address"));
    assert_null(strstr(few, "--ratio"));
    assert_null(strstr(few, "--log-level"));
    assert_non_null(strstr(few, "gpuscale t --help-all lists 7 more flags"));
    assert_non_null(strstr(all, "--ratio"));
    assert_non_null(strstr(all, "--shell[=S]"));
    assert_non_null(strstr(all, "--log-level"));
    assert_null(strstr(all, "more flags"));
}

static void test_help_all_is_help(void **state)
{
    struct opts o;
    struct gs_common_opts c;
    int n;
    assert_ok(parse("--help-all a b c", &o, &c, &n));
    assert_true(c.help && c.help_all);
    assert_ok(parse("--help", &o, &c, &n));
    assert_true(c.help && !c.help_all);
}

static void test_environment_is_below_the_flag(void **state)
{
    struct opts o;
    struct gs_common_opts c;
    int n;
    setenv("TEST_OPTION_ADDRESS", ":7", 1);
    assert_ok(parse("", &o, &c, &n));
    assert_string_equal(o.address, ":7");
    assert_ok(parse("--address=:8", &o, &c, &n));
    assert_string_equal(o.address, ":8");
    unsetenv("TEST_OPTION_ADDRESS");
}

static void test_errors_help(void **state)
{
    struct opts o;
    struct gs_common_opts c;
    int n;
    assert_error(parse("--adress=x", &o, &c, &n), GS_EINVAL, "did you mean --address?");
    assert_error(parse("--zzzzzzzz", &o, &c, &n), GS_EINVAL, "see gpuscale t --help");
    assert_error(parse("-c 5", &o, &c, &n), GS_EINVAL, "--collect-interval: 5 is not between");
    assert_error(parse("--wait=5", &o, &c, &n), GS_EINVAL, "--wait: ");
    assert_error(parse("--wait=-1ns", &o, &c, &n), GS_EINVAL, "--wait: \"-1ns\": want at least 0");
    assert_error(parse("--wait=900000h", &o, &c, &n), GS_EINVAL, "want at most 100y");
    assert_error(parse("--hold=0s", &o, &c, &n), GS_EINVAL, "--hold: \"0s\": want more than 0s");
    assert_ok(parse("--wait=0", &o, &c, &n));
    assert_ok(parse("--wait=100y", &o, &c, &n));
    assert_error(parse("--address", &o, &c, &n), GS_EINVAL, "needs a value");
    assert_error(parse("--kubernetes=maybe", &o, &c, &n), GS_EINVAL, "not true or false");
    assert_error(parse("a b c", &o, &c, &n), GS_EINVAL, "too many arguments");
}

static void test_suggestions(void **state)
{
    static const char *const words[] = {"exporter", "engine", "up"};
    assert_string_equal(gs_suggest("exprter", words, 3), "exporter");
    assert_string_equal(gs_suggest("engin", words, 3), "engine");
    assert_null(gs_suggest("banana", words, 3));
}

static void test_suggestions_ignore_case_and_separators(void **state)
{
    static const char *const words[] = {"interval", "scrapeTimeout", "targetLabel",
                                        "regex",    "honorLabels",   "expr"};
    static const char *const cases[][2] = {
        {"target_label", "targetLabel"},
        {"scrape_interval", "interval"},
        {"Regex", "regex"},
        {"honor_labels", "honorLabels"},
        {"expression", "expr"},
        {"targetLabels", "targetLabel"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        assert_string_equal(gs_suggest(cases[i][0], words, GS_ARRAY_LEN(words)), cases[i][1]);
    assert_null(gs_suggest("", words, GS_ARRAY_LEN(words)));
    assert_null(gs_suggest("podSelector", words, GS_ARRAY_LEN(words)));
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_switches_may_be_unset),
        cmocka_unit_test(test_booleans_as_go_reads_them),
        cmocka_unit_test(test_a_value_may_be_implied),
        cmocka_unit_test(test_help_has_the_main_flags),
        cmocka_unit_test(test_help_all_is_help),
        cmocka_unit_test(test_environment_is_below_the_flag),
        cmocka_unit_test(test_a_command_can_skip_flags_that_it_lacks),
        cmocka_unit_test(test_errors_help),
        cmocka_unit_test(test_suggestions),
        cmocka_unit_test(test_suggestions_ignore_case_and_separators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
