// SPDX-License-Identifier: Apache-2.0
// Decision tables: files of cases. A case is the spec of an autoscaler and a series of evaluations,
// each with the observation and the expected decision. docs/replay.md, "Decision tables", describes
// the format.
#pragma once

#include "codec/test_report.h"

// Runs the cases of a file. A malformed case fails with the place in its failure, and the other
// cases still run. Errors: the file cannot be read or parsed, or has no cases. run: a regular
// expression that part of the name must match; NULL: all cases. Without a match there are no
// results.
struct gs_error *replay_run_cases(const char *path, const char *run, struct codec_test_report *ret);
// `gpuscale test hpa`: runs files, prints the results and writes the JUnit file. *ret_exit: 1 if a
// case failed.
struct gs_error *replay_test_files(const struct codec_test_options *o, int n_files, char **files,
                                   int *ret_exit);
// The same with other cases.
typedef struct gs_error *replay_run_fn(const char *path, const char *run,
                                       struct codec_test_report *ret);
struct gs_error *replay_test_each(replay_run_fn *run, const struct codec_test_options *o,
                                  int n_files, char **files, int *ret_exit);
