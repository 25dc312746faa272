// SPDX-License-Identifier: Apache-2.0
// Unit tests of rules in promtool's format:
// https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/. No clock, no
// loop: a test is a store, its input series and the groups evaluated step by step.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct rules_tests_options {
    const char *run;            // regular expression: only tests with such a name; NULL: all
    bool diff;                  // differences by line instead of both sides
    bool color;                 // of differences
    bool ignore_unknown_fields; // of rule files
};

struct rules_test_case {
    char *name; // "unnamed#2" for the third test without one
    char **failures;
    size_t n_failures, cap_failures;
};

struct rules_tests_report {
    struct rules_test_case *cases;
    size_t n_cases, cap_cases, n_failed;
    char **warnings;
    size_t n_warnings, cap_warnings;
};

// An error: the file cannot be read or is no such file, or the expression is wrong. A test that
// fails is in the report.
struct gs_error *rules_tests_run(const char *path, const struct rules_tests_options *o,
                                 struct rules_tests_report *ret);
void rules_tests_report_finish(struct rules_tests_report *r);
