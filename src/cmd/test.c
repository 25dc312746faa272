// SPDX-License-Identifier: Apache-2.0
// `gpuscale test rules`: unit tests of rules, as promtool's command of the same name.
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/test_junit.h"
#include "cmd/verbs.h"
#include "engine/rules/unit_test.h"

#include <unistd.h>

struct test_opts {
    struct gs_opt_list run;
    bool diff;
    const char *junit;
};

static char *join(const struct gs_opt_list *l)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    for (size_t i = 0; i < l->len; i++)
        gs_buf_addf(&out, "%s%s", i ? "|" : "", l->items[i]);
    return l->len ? gs_buf_take(&out) : NULL;
}

static void print_failures(const struct rule_tests_report *r)
{
    for (size_t i = 0; i < r->n_cases; i++) {
        if (r->cases[i].n_failures)
            fprintf(stderr, "    name: %s\n", r->cases[i].name);
        for (size_t k = 0; k < r->cases[i].n_failures; k++)
            fprintf(stderr, "%s\n", r->cases[i].failures[k]);
    }
}

static bool test_file(const char *path, const struct rule_tests_options *o, struct gs_buf *junit)
{
    struct rule_tests_report r = {0};
    printf("Unit Testing:  %s\n", path);
    (void)fflush(stdout);
    GS_AUTO_ERROR struct gs_error *err = rule_tests_run(path, o, &r);
    for (size_t i = 0; i < r.n_warnings; i++)
        fprintf(stderr, "  WARNING: %s\n", r.warnings[i]);
    bool ok = !err && !r.n_failed;
    if (!ok)
        fprintf(stderr, "  FAILED:\n");
    if (err)
        fprintf(stderr, "    %s\n", gs_error_message(err));
    print_failures(&r);
    if (ok)
        printf("  SUCCESS\n");
    printf("\n");
    (void)fflush(stdout);
    junit_suite(junit, path, &r, err ? gs_error_message(err) : NULL);
    rule_tests_report_finish(&r);
    return ok;
}

static struct gs_error *test_rules(const struct test_opts *opts, int n_files, char **files,
                                   int *ret_exit)
{
    GS_AUTO_FREE char *run = join(&opts->run);
    GS_AUTO_BUF struct gs_buf junit = {0};
    const struct rule_tests_options o = {
        .run = run, .diff = opts->diff, .color = isatty(STDERR_FILENO) && !getenv("NO_COLOR")};
    if (gs_log_level() == GS_LOG_INFO) // a rule that fails is told as the test's failure
        gs_log_configure(GS_LOG_ERROR, GS_LOG_TEXT);
    *ret_exit = 0;
    junit_begin(&junit);
    for (int i = 0; i < n_files; i++)
        if (!test_file(files[i], &o, &junit))
            *ret_exit = 1;
    junit_end(&junit);
    return opts->junit ? gs_file_write_atomic(opts->junit, 0666, gs_buf_slice(&junit)) : NULL;
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    if (!gs_streq(argv[0], "rules"))
        return gs_error_new(GS_EINVAL, "nothing called \"%s\" can be tested; rules can", argv[0]);
    if (argc < 2)
        return gs_error_new(GS_EINVAL, "test rules needs at least one FILE");
    return test_rules(opts, argc - 1, argv + 1, ret_exit);
}

static const struct gs_opt opts[] = {
    {.name = "run",
     .type = GS_OPT_STRINGS,
     .arg = "REGEX",
     .offset = offsetof(struct test_opts, run),
     .help = "Only tests whose name it matches somewhere. Repeatable: any of them."},
    {.name = "diff",
     .type = GS_OPT_BOOL,
     .offset = offsetof(struct test_opts, diff),
     .help = "Show the lines in which expected (-) and received (+) differ, instead of both."},
    {.name = "junit",
     .type = GS_OPT_STRING,
     .arg = "FILE",
     .offset = offsetof(struct test_opts, junit),
     .help = "Also write the results as JUnit XML."},
    {.name = NULL},
};

const struct gs_verb verb_test = {
    .name = "test",
    .args = "rules FILE…",
    .summary = "Run unit tests of recording and alerting rules.",
    .description =
        "rules: files in promtool's format of unit tests: input series, the samples that "
        "expressions must give and the alerts that must fire at certain times. The rules are "
        "evaluated by this program's engine. Exits with 1 when a test fails.",
    .examples = "gpuscale test rules rules_test.yaml\n"
                "gpuscale test rules --run='GPU.*' --diff tests/*.yaml\n"
                "gpuscale test rules --junit=results.xml rules_test.yaml",
    .opts = opts,
    .opts_size = sizeof(struct test_opts),
    .min_args = 1,
    .max_args = -1,
    .run = run,
};
