// SPDX-License-Identifier: Apache-2.0
// Collects and prints results of test files and writes them as JUnit XML with promtool's elements
// and attributes.
#pragma once

#include "base/buf.h"
#include "base/option.h"

#include <stdio.h>

struct codec_test_case {
    char *name;
    char **failures;
    size_t n_failures, cap_failures;
};

// The results of one file. Zero-initialize it; free it with codec_test_report_finish().
struct codec_test_report {
    struct codec_test_case *cases;
    size_t n_cases, cap_cases, n_failed; // n_failed: counted by the caller
    char **warnings;
    size_t n_warnings, cap_warnings;
};

// Takes name. The case is valid until the next one is added.
struct codec_test_case *codec_test_report_add(struct codec_test_report *r, char *name);
void codec_test_report_warn(struct codec_test_report *r, char *text); // takes text
void codec_test_case_fail(struct codec_test_case *c, char *text);     // takes text
void codec_test_case_finish(struct codec_test_case *c);
void codec_test_report_print(const struct codec_test_report *r, FILE *out); // the failed cases
void codec_test_report_finish(struct codec_test_report *r);

// --- test commands ---

// The flags of `gpuscale test`.
struct codec_test_options {
    struct gs_opt_list run; // regular expressions of names; empty: all
    bool diff;              // differences by line instead of both sides
    bool debug;             // of rules: print all samples of each test to stderr
    bool ignore_unknown_fields;
    const char *junit; // path of the XML file; NULL: none
};

// Joins the expressions of --run as "A|B". NULL: all tests. The caller frees it.
char *codec_test_pattern(const struct codec_test_options *o);

void codec_junit_begin(struct gs_buf *out);
// Adds the report of a file. error: why the file cannot be used, or NULL.
void codec_junit_add(struct gs_buf *out, const char *file, const struct codec_test_report *r,
                     const char *error);
// Ends the document and writes it to o->junit.
struct gs_error *codec_junit_end(struct gs_buf *out, const struct codec_test_options *o);
