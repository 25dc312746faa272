// SPDX-License-Identifier: Apache-2.0
// Files with unit tests of rules. Short tests are run.
#include "base/log.h"
#include "base/mem.h"
#include "engine/rules/unit_test_private.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_STEPS 50

static bool ends_soon(const struct rules_test_file *f, const struct rules_test_group *g)
{
    int64_t last = 0;
    for (size_t i = 0; i < g->n_alerts; i++)
        last = g->alerts[i].eval_ms > last ? g->alerts[i].eval_ms : last;
    for (size_t i = 0; i < g->n_exprs; i++)
        last = g->exprs[i].eval_ms > last ? g->exprs[i].eval_ms : last;
    return last / f->interval_ms < MAX_STEPS && last / g->interval_ms < MAX_STEPS &&
           g->n_exprs < MAX_STEPS;
}

static void run(const struct rules_test_file *f, const struct rules_set *set)
{
    const struct rules_group *groups[] = {set->n_groups ? &set->groups[0] : NULL};
    const struct rules_test_rules rules = {groups, set->n_groups ? 1 : 0};
    for (size_t i = 0; i < f->n_groups; i++)
        for (int diff = 0; diff < 2 && ends_soon(f, &f->groups[i]); diff++) {
            const struct rules_tests_options o = {.diff = diff};
            struct codec_test_case c = {0};
            rules_test_group_run(f, &f->groups[i], &rules, &o, &c);
            codec_test_case_finish(&c);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rules_test_file f = {0};
    struct rules_problems problems = {0};
    struct rules_set *set = NULL;
    gs_log_configure(GS_LOG_ERROR, GS_LOG_TEXT);
    struct gs_error *err = rules_parse(
        GS_SLICE("groups:\n- name: g\n  rules:\n  - {record: r, expr: 'x * 2'}\n"
                 "  - {alert: A, expr: r > 4, for: 1m, annotations: {a: '{{ $value }}'}}"),
        "rules", &problems, &set);
    if (err)
        abort();
    err = rules_test_file_parse(gs_slice_make(size ? (const char *)data : "", size), "test", NULL,
                                &f);
    if (!err) {
        run(&f, set);
        rules_test_file_finish(&f);
    }
    gs_error_free(err);
    rules_set_free(set);
    rules_problems_finish(&problems);
    return 0;
}
