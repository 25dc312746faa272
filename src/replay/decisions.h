// SPDX-License-Identifier: Apache-2.0
// Decision tables: files of cases, each an autoscaler's spec and passes with what was observed and
// what must be decided. The form is docs/replay.md's "Decision tables".
#pragma once

#include "base/error.h"

#include <stddef.h>

struct replay_case_result {
    char *name;      // "file.yaml:12 name"
    char **failures; // "at 30 s: desired: want 3, got 4"
    size_t n_failures, cap;
};

struct replay_case_results {
    struct replay_case_result *items;
    size_t n, cap, n_failed;
};

// All cases of a file. An error: it cannot be read, or a case is no case (then with its place).
// run: regular expression that names must match somewhere; NULL: all.
struct gs_error *replay_run_cases(const char *path, const char *run,
                                  struct replay_case_results *ret);
void replay_case_results_finish(struct replay_case_results *r);
