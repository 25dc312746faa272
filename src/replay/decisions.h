// SPDX-License-Identifier: Apache-2.0
// Decision tables: files of cases, each an autoscaler's spec and passes with what was observed and
// what must be decided. The form is docs/replay.md's "Decision tables".
#pragma once

#include "codec/test_report.h"

// Runs all cases of a file. A malformed case is a failed one, and its failure names the place; the
// other cases are run nevertheless. An error: the file cannot be read or parsed, or has no cases.
// run: regular expression that names must match somewhere; NULL: all. No match: no results.
struct gs_error *replay_run_cases(const char *path, const char *run, struct codec_test_report *ret);
// `gpuscale test hpa`: runs files, prints the results and writes the JUnit file. *ret_exit: 1 if a
// case failed.
struct gs_error *replay_test_files(const struct codec_test_options *o, int n_files, char **files,
                                   int *ret_exit);
