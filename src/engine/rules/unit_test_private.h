// SPDX-License-Identifier: Apache-2.0
// Between the files of unit tests of rules. Private to the room.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "engine/rules/runner.h"
#include "engine/rules/unit_test.h"

struct test_series {
    const char *series, *values, *where;
};
struct test_sample {
    const char *labels, *histogram;
    double value;
};
struct test_expr {
    const char *expr, *where; // where: "file:12"
    int64_t eval_ms;          // after the start
    const struct test_sample *samples;
    size_t n_samples;
};
struct test_alert {
    const struct metrics_label *labels, *annotations;
    size_t n_labels, n_annotations;
};
struct test_alerts {
    const char *name, *where;
    int64_t eval_ms;
    const struct test_alert *alerts;
    size_t n_alerts;
};
struct test_group {
    const char *name, *external_url;
    int64_t interval_ms, start_ms;
    const struct metrics_label *external_labels;
    size_t n_external_labels;
    const struct test_series *series;
    size_t n_series;
    const struct test_expr *exprs;
    size_t n_exprs;
    const struct test_alerts *alerts;
    size_t n_alerts;
};
struct test_file {
    struct gs_arena arena;
    const char *const *rule_files, *const *order;
    size_t n_rule_files, n_order;
    int64_t interval_ms; // of evaluations
    bool fuzzy;
    const struct test_group *groups;
    size_t n_groups;
};

struct gs_error *test_file_read(const char *path, struct test_file *ret);
// dir: where relative rule_files are; NULL: here.
struct gs_error *test_file_parse(struct gs_slice text, const char *path, const char *dir,
                                 struct test_file *ret);
void test_file_finish(struct test_file *f);

// One test: failures go to the case.
struct test_rules {
    const struct rule_group *const *groups; // in the order of evaluation
    size_t n;
};
void test_group_run(const struct test_file *f, const struct test_group *g,
                    const struct test_rules *rules, const struct rule_tests_options *o,
                    struct rule_test_case *ret);

// --- what did not come out as expected (unit_test_report.c) ---

void test_fail(struct rule_test_case *c, const char *fmt, ...) GS_PRINTF(2, 3);
void test_samples_differ(struct rule_test_case *c, const struct rule_tests_options *o,
                         const struct test_expr *x, const struct rule_sample *wanted,
                         size_t n_wanted, const struct rule_sample *got, size_t n_got);
void test_alerts_differ(struct rule_test_case *c, const struct rule_tests_options *o,
                        const struct test_alerts *x, const struct test_alert *wanted,
                        size_t n_wanted, const struct test_alert *got, size_t n_got);
