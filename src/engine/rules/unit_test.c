// SPDX-License-Identifier: Apache-2.0
// A file of unit tests: its rules, loaded once, and its tests one after the other.
#include "engine/rules/unit_test.h"

#include "base/mem.h"
#include "engine/rules/unit_test_private.h"

#include <glob.h>

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

static size_t place_of(const struct rules_test_file *f, const struct rules_group *g)
{
    for (size_t i = 0; i < f->n_order; i++)
        if (gs_streq(f->order[i], g->name))
            return i;
    return 0; // as promtool: before or with the first
}

// Groups of the same place stay in the order of their files.
static void order_groups(const struct rules_test_file *f, struct loaded *l)
{
    size_t n = l->set->n_groups;
    l->groups = gs_alloc_array(n + 1, sizeof(*l->groups));
    for (size_t i = 0; i < n; i++) {
        const struct rules_group *g = &l->set->groups[i];
        size_t at = i;
        for (; at > 0 && place_of(f, l->groups[at - 1]) > place_of(f, g); at--)
            l->groups[at] = l->groups[at - 1];
        l->groups[at] = g;
    }
}

// A pattern without files is no mistake, as in promtool.
static struct gs_error *load_rules(const struct rules_test_file *f,
                                   struct rules_tests_report *report, struct loaded *ret)
{
    GS_AUTO_FREE const char **found = gs_alloc_array(f->n_rule_files + 1, sizeof(*found));
    size_t n = 0;
    for (size_t i = 0; i < f->n_rule_files; i++) {
        if (matches_file(f->rule_files[i])) {
            found[n++] = f->rule_files[i];
            continue;
        }
        gs_grow(&report->warnings, &report->cap_warnings, report->n_warnings,
                sizeof(*report->warnings));
        report->warnings[report->n_warnings++] =
            gs_format("no file matches \"%s\"", f->rule_files[i]);
    }
    struct gs_error *err = rules_load_files(found, n, &ret->problems, &ret->set);
    if (!err)
        order_groups(f, ret);
    return err;
}

static void run_group(const struct rules_test_file *f, size_t i, const struct loaded *l,
                      const struct rules_tests_options *o, struct rules_tests_report *ret)
{
    const struct rules_test_group *g = &f->groups[i];
    gs_grow(&ret->cases, &ret->cap_cases, ret->n_cases, sizeof(*ret->cases));
    struct rules_test_case *c = &ret->cases[ret->n_cases++];
    *c = (struct rules_test_case){.name =
                                      *g->name ? gs_strdup(g->name) : gs_format("unnamed#%zu", i)};
    for (size_t k = 0; k < l->problems.len; k++)
        rules_test_fail(c, "    %s", l->problems.items[k].text);
    const struct rules_test_rules rules = {l->groups, l->set->n_groups};
    if (!l->problems.len)
        rules_test_group_run(f, g, &rules, o, c);
    ret->n_failed += c->n_failures > 0;
}

static struct gs_error *compile(const char *pattern, struct tsdb_regex **ret)
{
    GS_AUTO_FREE char *anywhere = gs_format("(?s:.*)(?:%s)(?s:.*)", pattern);
    struct gs_error *err = tsdb_regex_new(gs_slice_of(anywhere), ret);
    return err ? gs_error_wrap(err, "the names of tests to run") : NULL;
}

struct gs_error *rules_tests_run(const char *path, const struct rules_tests_options *o,
                                 struct rules_tests_report *ret)
{
    struct rules_test_file f = {0};
    GS_CLEANUP(loaded_finish) struct loaded l = {0};
    struct tsdb_regex *run = NULL;
    l.problems.ignore_unknown_fields = o->ignore_unknown_fields;
    struct gs_error *err = o->run ? compile(o->run, &run) : NULL;
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

void rules_tests_report_finish(struct rules_tests_report *r)
{
    for (size_t i = 0; i < r->n_cases; i++) {
        for (size_t k = 0; k < r->cases[i].n_failures; k++)
            free(r->cases[i].failures[k]);
        free(r->cases[i].failures);
        free(r->cases[i].name);
    }
    free(r->cases);
    for (size_t i = 0; i < r->n_warnings; i++)
        free(r->warnings[i]);
    free(r->warnings);
    *r = (struct rules_tests_report){0};
}
