// SPDX-License-Identifier: Apache-2.0
// Unit tests of rules in promtool's format:
// https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/. A test needs no
// clock and no loop: it evaluates the groups step by step over a store with the input series.
#pragma once

#include "codec/test_report.h"

struct rules_tests_options {
    const char *run;            // regular expression of names; NULL: all tests
    bool diff;                  // print differences by line instead of both sides
    bool color;                 // of differences
    bool debug;                 // print begin, end and all samples of each test to stderr
    bool ignore_unknown_fields; // of rule files
};

// Runs the tests of a file. Failed tests are in the report; "unnamed#2" is the third test without a
// name. Returns an error if the file cannot be read or parsed, or o->run is invalid.
struct gs_error *rules_tests_run(const char *path, const struct rules_tests_options *o,
                                 struct codec_test_report *ret);
// `gpuscale test rules`: runs files, prints the results and writes the JUnit file. *ret_exit: 1 if
// a test failed.
struct gs_error *rules_tests_run_files(const struct codec_test_options *o, int n_files,
                                       char **files, int *ret_exit);
