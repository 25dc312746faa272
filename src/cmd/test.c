// SPDX-License-Identifier: Apache-2.0
// `gpuscale test rules`: unit tests of rules, as promtool's command of the same name.
// `gpuscale test hpa`: decision tables of autoscalers.
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/test_junit.h"
#include "cmd/verbs.h"
#include "engine/rules/unit_test.h"
#include "replay/decisions.h"

#include <unistd.h>

struct test_opts {
    struct gs_opt_list run;
    bool diff, ignore_unknown_fields;
    const char *junit;
};

static char *join(const struct gs_opt_list *l)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    for (size_t i = 0; i < l->len; i++)
        gs_buf_addf(&out, "%s%s", i ? "|" : "", l->items[i]);
    return l->len ? gs_buf_take(&out) : NULL;
}

static void print_failures(const struct rules_tests_report *r)
{
    for (size_t i = 0; i < r->n_cases; i++) {
        if (r->cases[i].n_failures)
            fprintf(stderr, "    name: %s\n", r->cases[i].name);
        for (size_t k = 0; k < r->cases[i].n_failures; k++)
            fprintf(stderr, "%s\n", r->cases[i].failures[k]);
    }
}

static bool test_file(const char *path, const struct rules_tests_options *o, struct gs_buf *junit)
{
    struct rules_tests_report r = {0};
    printf("Unit Testing:  %s\n", path);
    (void)fflush(stdout);
    GS_AUTO_ERROR struct gs_error *err = rules_tests_run(path, o, &r);
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
    rules_tests_report_finish(&r);
    return ok;
}

static struct gs_error *test_rules(const struct test_opts *opts, int n_files, char **files,
                                   int *ret_exit)
{
    GS_AUTO_FREE char *run = join(&opts->run);
    GS_AUTO_BUF struct gs_buf junit = {0};
    const char *no_color = getenv("NO_COLOR");
    const struct rules_tests_options o = {.run = run,
                                          .diff = opts->diff,
                                          .color =
                                              isatty(STDERR_FILENO) && !(no_color && *no_color),
                                          .ignore_unknown_fields = opts->ignore_unknown_fields};
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

// The same report, so that both kinds are printed and written alike.
static struct gs_error *run_cases(const char *path, const char *only,
                                  struct rules_tests_report *ret)
{
    struct replay_case_results r = {0};
    struct gs_error *err = replay_run_cases(path, only, &r);
    for (size_t i = 0; i < r.n; i++) {
        struct replay_case_result *from = &r.items[i];
        gs_grow(&ret->cases, &ret->cap_cases, ret->n_cases, sizeof(*ret->cases));
        struct rules_test_case *to = &ret->cases[ret->n_cases++];
        *to = (struct rules_test_case){.n_failures = from->n_failures, .cap_failures = from->cap};
        to->name = GS_TAKE(from->name);
        to->failures = GS_TAKE(from->failures);
        from->n_failures = 0;
    }
    ret->n_failed = r.n_failed;
    replay_case_results_finish(&r);
    return err;
}

static bool test_cases_file(const char *path, const char *only, struct gs_buf *junit,
                            size_t *n_cases)
{
    struct rules_tests_report r = {0};
    GS_AUTO_ERROR struct gs_error *err = run_cases(path, only, &r);
    bool ok = !err && !r.n_failed;
    printf("%s: %zu %s%s\n", path, r.n_cases, r.n_cases == 1 ? "case" : "cases",
           ok && r.n_cases ? ", all as expected" : "");
    *n_cases += r.n_cases;
    (void)fflush(stdout);
    print_failures(&r);
    if (err)
        fprintf(stderr, "  %s\n", gs_error_message(err));
    else if (!ok)
        fprintf(stderr, "  %zu of %zu cases FAILED\n", r.n_failed, r.n_cases);
    junit_suite(junit, path, &r, err ? gs_error_message(err) : NULL);
    rules_tests_report_finish(&r);
    return ok;
}

static struct gs_error *test_hpa(const struct test_opts *opts, int n_files, char **files,
                                 int *ret_exit)
{
    GS_AUTO_FREE char *only = join(&opts->run);
    GS_AUTO_BUF struct gs_buf junit = {0};
    size_t n_cases = 0;
    *ret_exit = 0;
    junit_begin(&junit);
    for (int i = 0; i < n_files; i++)
        if (!test_cases_file(files[i], only, &junit, &n_cases))
            *ret_exit = 1;
    junit_end(&junit);
    if (only && !n_cases && !*ret_exit)
        return gs_error_new(GS_EINVAL, "no case has a name that --run=%s matches", only);
    return opts->junit ? gs_file_write_atomic(opts->junit, 0666, gs_buf_slice(&junit)) : NULL;
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    bool rules = gs_streq(argv[0], "rules");
    if (!rules && !gs_streq(argv[0], "hpa"))
        return gs_error_new(GS_EINVAL, "nothing called \"%s\" can be tested; rules and hpa can",
                            argv[0]);
    if (argc < 2)
        return gs_error_new(GS_EINVAL, "test %s needs at least one FILE", argv[0]);
    return (rules ? test_rules : test_hpa)(opts, argc - 1, argv + 1, ret_exit);
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
    {.name = "ignore-unknown-fields",
     .type = GS_OPT_BOOL,
     .offset = offsetof(struct test_opts, ignore_unknown_fields),
     .help = "Of rule files: fields of other programs are no mistake. Rules with them are still "
             "wrong for the engine."},
    {.name = NULL},
};

const struct gs_verb verb_test = {
    .name = "test",
    .args = "rules|hpa FILE…",
    .summary = "Run unit tests of rules, and decision tables of autoscalers.",
    .description =
        "rules: files in promtool's format of unit tests: input series, the samples that "
        "expressions must give and the alerts that must fire at certain times. The rules are "
        "evaluated by this program's engine.\n\n"
        "hpa: decision tables. Each YAML document is a case: an autoscaler's spec and passes with "
        "what is observed and what must be decided (docs/replay.md has the form). The decisions "
        "are made by the function that the controller uses. Exits with 1 when a test fails.",
    .examples = "gpuscale test rules rules_test.yaml\n"
                "gpuscale test rules --run='GPU.*' --diff tests/*.yaml\n"
                "gpuscale test rules --junit=results.xml rules_test.yaml\n"
                "gpuscale test hpa decisions/*.yaml",
    .opts = opts,
    .opts_size = sizeof(struct test_opts),
    .min_args = 1,
    .max_args = -1,
    .run = run,
};
