// SPDX-License-Identifier: Apache-2.0
// Runs a file of unit tests: loads its rules once, then runs its tests in order.
#include "engine/rules/unit_test.h"

#include "base/log.h"
#include "base/mem.h"
#include "engine/rules/unit_test_private.h"

#include <glob.h>
#include <unistd.h>

struct loaded {
    struct rules_set *set;
    struct rules_problems problems;
    const struct rules_group **groups;
};

static void loaded_finish(struct loaded *l)
{
    rules_set_free(l->set);
    rules_problems_finish(&l->problems);
    free(l->groups);
}

static bool matches_file(const char *pattern)
{
    glob_t found = {0};
    bool any = glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    return any;
}

static size_t group_order(const struct rules_test_file *f, const struct rules_group *g)
{
    for (size_t i = 0; i < f->n_order; i++)
        if (gs_streq(f->order[i], g->name))
            return i;
    return 0; // as in promtool, groups that are not listed have the first position
}

// The sort is stable: groups with the same position keep the order of their files.
static void order_groups(const struct rules_test_file *f, struct loaded *l)
{
    size_t n = l->set->n_groups;
    l->groups = gs_alloc_array(n + 1, sizeof(*l->groups));
    for (size_t i = 0; i < n; i++) {
        const struct rules_group *g = &l->set->groups[i];
        size_t at = i;
        for (; at > 0 && group_order(f, l->groups[at - 1]) > group_order(f, g); at--)
            l->groups[at] = l->groups[at - 1];
        l->groups[at] = g;
    }
}

// As in promtool, a pattern without matching files is not an error.
static struct gs_error *load_rules(const struct rules_test_file *f,
                                   struct codec_test_report *report, struct loaded *ret)
{
    GS_AUTO_FREE const char **found = gs_alloc_array(f->n_rule_files + 1, sizeof(*found));
    size_t n = 0;
    for (size_t i = 0; i < f->n_rule_files; i++) {
        if (matches_file(f->rule_files[i])) {
            found[n++] = f->rule_files[i];
            continue;
        }
        codec_test_report_warn(report, gs_format("no file matches \"%s\"", f->rule_files[i]));
    }
    struct gs_error *err = rules_load_files(found, n, &ret->problems, &ret->set);
    if (!err)
        order_groups(f, ret);
    return err;
}

static void run_group(const struct rules_test_file *f, size_t i, const struct loaded *l,
                      const struct rules_tests_options *o, struct codec_test_report *ret)
{
    const struct rules_test_group *g = &f->groups[i];
    struct codec_test_case *c =
        codec_test_report_add(ret, *g->name ? gs_strdup(g->name) : gs_format("unnamed#%zu", i));
    for (size_t k = 0; k < l->problems.len; k++)
        rules_test_fail(c, "    %s", l->problems.items[k].text);
    const struct rules_test_rules rules = {l->groups, l->set->n_groups};
    if (!l->problems.len)
        rules_test_group_run(f, g, &rules, o, c);
    ret->n_failed += c->n_failures > 0;
}

static struct gs_error *compile_name_regex(const char *pattern, struct tsdb_regex **ret)
{
    GS_AUTO_FREE char *anywhere = gs_format("(?s:.*)(?:%s)(?s:.*)", pattern);
    struct gs_error *err = tsdb_regex_new(gs_slice_of(anywhere), ret);
    return err ? gs_error_wrap(err, "the names of tests to run") : NULL;
}

struct gs_error *rules_tests_run(const char *path, const struct rules_tests_options *o,
                                 struct codec_test_report *ret)
{
    struct rules_test_file f = {0};
    GS_CLEANUP(loaded_finish) struct loaded l = {0};
    struct tsdb_regex *run = NULL;
    l.problems.ignore_unknown_fields = o->ignore_unknown_fields;
    struct gs_error *err = o->run ? compile_name_regex(o->run, &run) : NULL;
    if (!err)
        err = rules_test_file_read(path, &f);
    if (!err)
        err = load_rules(&f, ret, &l);
    for (size_t i = 0; !err && i < f.n_groups; i++)
        if (!run || tsdb_regex_matches(run, gs_slice_of(f.groups[i].name)))
            run_group(&f, i, &l, o, ret);
    tsdb_regex_free(run);
    rules_test_file_finish(&f);
    return err;
}

// --- files ---

static bool run_file(const char *path, const struct rules_tests_options *o, struct gs_buf *junit)
{
    struct codec_test_report r = {0};
    printf("Processing test file: %s\n", path);
    (void)fflush(stdout);
    GS_AUTO_ERROR struct gs_error *err = rules_tests_run(path, o, &r);
    for (size_t i = 0; i < r.n_warnings; i++)
        fprintf(stderr, "  WARNING: %s\n", r.warnings[i]);
    bool ok = !err && !r.n_failed;
    if (!ok)
        fprintf(stderr, "  FAILED:\n");
    if (err)
        fprintf(stderr, "    %s\n", gs_error_message(err));
    codec_test_report_print(&r, stderr);
    if (ok)
        printf("  SUCCESS\n");
    printf("\n");
    (void)fflush(stdout);
    codec_junit_add(junit, path, &r, err ? gs_error_message(err) : NULL);
    codec_test_report_finish(&r);
    return ok;
}

struct gs_error *rules_tests_run_files(const struct codec_test_options *opts, int n_files,
                                       char **files, int *ret_exit)
{
    GS_AUTO_FREE char *run = codec_test_pattern(opts);
    GS_AUTO_BUF struct gs_buf junit = {0};
    const char *no_color = getenv("NO_COLOR");
    const struct rules_tests_options o = {.run = run,
                                          .diff = opts->diff,
                                          .debug = opts->debug,
                                          .color =
                                              isatty(STDERR_FILENO) && !(no_color && *no_color),
                                          .ignore_unknown_fields = opts->ignore_unknown_fields};
    if (gs_log_level() == GS_LOG_INFO) // errors of rules are reported as failures of the test
        gs_log_configure(GS_LOG_ERROR, GS_LOG_TEXT);
    *ret_exit = 0;
    codec_junit_begin(&junit);
    for (int i = 0; i < n_files; i++)
        if (!run_file(files[i], &o, &junit))
            *ret_exit = 1;
    return codec_junit_end(&junit, opts);
}
