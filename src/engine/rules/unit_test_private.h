// SPDX-License-Identifier: Apache-2.0
// Internals of the unit tests of rules.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "engine/rules/rules_private.h"
#include "engine/rules/unit_test.h"

struct rules_test_series {
    const char *series, *values, *where;
};
struct rules_test_sample {
    const char *labels, *histogram;
    double value;
};
struct rules_test_expr {
    const char *expr, *where; // where: "file:12"
    int64_t eval_ms;          // after the start
    const struct rules_test_sample *samples;
    size_t n_samples;
};
struct rules_test_alert {
    const struct metrics_label *labels, *annotations;
    size_t n_labels, n_annotations;
};
struct rules_test_alerts {
    const char *name, *where;
    int64_t eval_ms;
    const struct rules_test_alert *alerts;
    size_t n_alerts;
};
struct rules_test_group {
    const char *name, *external_url;
    int64_t interval_ms, start_ms;
    const struct metrics_label *external_labels;
    size_t n_external_labels;
    const struct rules_test_series *series;
    size_t n_series;
    const struct rules_test_expr *exprs;
    size_t n_exprs;
    const struct rules_test_alerts *alerts;
    size_t n_alerts;
};
struct rules_test_file {
    struct gs_arena arena;
    const char *const *rule_files, *const *order;
    size_t n_rule_files, n_order;
    int64_t interval_ms; // of evaluations
    bool fuzzy;
    const struct rules_test_group *groups;
    size_t n_groups;
};

struct gs_error *rules_test_file_read(const char *path, struct rules_test_file *ret);
// dir: base of relative rule_files; NULL: the working directory.
struct gs_error *rules_test_file_parse(struct gs_slice text, const char *path, const char *dir,
                                       struct rules_test_file *ret);
void rules_test_file_finish(struct rules_test_file *f);

// Runs one test and adds its failures to the case.
struct rules_test_rules {
    const struct rules_group *const *groups; // in the order of evaluation
    size_t n;
};
void rules_test_group_run(const struct rules_test_file *f, const struct rules_test_group *g,
                          const struct rules_test_rules *rules, const struct rules_tests_options *o,
                          struct codec_test_case *ret);

// --- what did not come out as expected (unit_test_report.c) ---

void rules_test_fail(struct codec_test_case *c, const char *fmt, ...) GS_PRINTF(2, 3);
void rules_test_samples_differ(struct codec_test_case *c, const struct rules_tests_options *o,
                               const struct rules_test_expr *x, const struct rules_sample *wanted,
                               size_t n_wanted, const struct rules_sample *got, size_t n_got);
void rules_test_alerts_differ(struct codec_test_case *c, const struct rules_tests_options *o,
                              const struct rules_test_alerts *x,
                              const struct rules_test_alert *wanted, size_t n_wanted,
                              const struct rules_test_alert *got, size_t n_got);
// Prints the series of a range selector with their samples, in the format of promtool.
void rules_test_print_series(const struct promql_result *r, FILE *out);
