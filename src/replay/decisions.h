// SPDX-License-Identifier: Apache-2.0
// Decision tables: files of cases, each an autoscaler's spec and passes with what was observed and
// what must be decided. The form is docs/replay.md's "Decision tables".
#pragma once

#include "base/error.h"

#include <stddef.h>

struct replay_case_result {
    char *name;      // "file.yaml:12 name"
    char **failures; // "at 30 s, step name: desired: want 3, got 4"
    size_t n_failures, cap;
};

struct replay_case_results {
    struct replay_case_result *items;
    size_t n, cap, n_failed;
};

// Runs all cases of a file. A malformed case is a failed one, and its failure names the place; the
// other cases are run nevertheless. An error: the file cannot be read or parsed, or has no cases.
// run: regular expression that names must match somewhere; NULL: all. No match: no results.
struct gs_error *replay_run_cases(const char *path, const char *run,
                                  struct replay_case_results *ret);
// Adds a failure. Takes text.
void replay_case_fail(struct replay_case_result *c, char *text);
void replay_case_results_finish(struct replay_case_results *r);
