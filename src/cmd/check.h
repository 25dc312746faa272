// SPDX-License-Identifier: Apache-2.0
// What `gpuscale check` checks: one file each, listed in check.c.
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct check_opts {
    bool strict;                // doubtful things count as wrong
    bool ignore_unknown_fields; // of rule files
    const char *source;         // of adapter: URL of a Prometheus; NULL: none is asked
    const char *sources;        // of adapter: file of more sources; NULL: none
    const char *kubeconfig;     // of adapter: whose resources are known; NULL: Kubernetes' own
};

// Reads the files as the program would, prints what it found, to stdout what is right and to
// stderr what is wrong. Returns the exit code: 0, or 1 when something is wrong (as promtool).
int check_rules(const struct check_opts *o, int n_files, char **files);
int check_adapter(const struct check_opts *o, int n_files, char **files);
int check_config(const struct check_opts *o, int n_files, char **files);
