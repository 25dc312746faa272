// SPDX-License-Identifier: Apache-2.0
// Rules of the adapter tried without serving them: `gpuscale check adapter` and
// `gpuscale explain metric`. Both print to stdout and run a loop of their own until they are done.
#pragma once

#include "base/error.h"

#include <stdbool.h>

// A text that is NULL is not given.
struct dry_run_check_options {
    bool strict;            // doubtful things count as wrong
    const char *source;     // URL of a Prometheus; NULL: no series are read
    const char *sources;    // file of further sources
    const char *kubeconfig; // the cluster whose resources are known; NULL: Kubernetes' own
};
// What each rule of the configurations does, step by step; at the first step that gives nothing,
// why and what to change. Returns the exit code: 1 when a rule is broken.
int dry_run_check(const struct dry_run_check_options *o, int n_files, char **files);

struct dry_run_explain_options {
    const char *config, *sources, *source, *kubeconfig;
};
// How a request of the metrics APIs is answered. *ret_exit 1: not with 200.
struct gs_error *dry_run_explain(const struct dry_run_explain_options *o, const char *path,
                                 int *ret_exit);
