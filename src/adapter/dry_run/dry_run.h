// SPDX-License-Identifier: Apache-2.0
// Evaluates rules of the adapter without serving them, for `gpuscale check adapter` and
// `gpuscale explain metric`. Both functions print to stdout, use a loop of their own and block
// until they have finished.
#pragma once

#include "base/error.h"

#include <stdbool.h>

// NULL texts are absent.
struct dry_run_check_options {
    bool strict;            // warnings count as errors
    const char *source;     // URL of a Prometheus; NULL: no series are read
    const char *sources;    // path of a file with extra sources
    const char *kubeconfig; // the cluster that lists its resources; NULL: built-in resources
};
// Prints the result of each step of each rule. At the first step without a result it prints the
// cause and the fix. Returns the exit code: 1 if a rule is broken.
int dry_run_check(const struct dry_run_check_options *o, int n_files, char **files);
// Whether the file has rules of the adapter, as Helm values or as its configuration file.
// Manifests are not examined.
bool dry_run_has_rules(const char *path);

struct dry_run_explain_options {
    const char *config, *sources, *source, *kubeconfig;
};
// Prints how a request of the metrics APIs is answered. *ret_exit 1: the status is not 200.
// config and source NULL: the adapter of the cluster answers. Then path may be a metric of all
// pods, RESOURCE/METRIC or RESOURCE/NAME/METRIC of the namespace.
struct gs_error *dry_run_explain(const struct dry_run_explain_options *o, const char *path,
                                 int *ret_exit);
