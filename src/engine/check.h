// SPDX-License-Identifier: Apache-2.0
// `gpuscale check config` and `gpuscale check rules`, like promtool's commands of the same names:
// read the files as the engine does. Problems are printed to stderr, everything else to stdout.
#pragma once

#include "base/option.h"

struct engine_check_options {
    bool strict;                // warnings count as errors
    bool ignore_unknown_fields; // of rule files
    bool syntax_only;           // of configurations: the files that they name are not read
    // "all", "none", "duplicate-rules", "too-long-scrape-interval", joined with commas. NULL:
    // duplicate-rules.
    const char *lint;
    bool lint_fatal;     // findings of lint end with exit code 3
    bool promtool_texts; // as promtool prints them; duplicates are also searched among alerts
    int64_t lookback_ms; // of too-long-scrape-interval; 0: 5 min
};

enum { ENGINE_CHECK_EXIT_LINT = 3 }; // as promtool

#define ENGINE_FEATURE_EXEMPLARS "exemplar-storage"

// Enables the features of PromQL that the values of --enable-feature list. Call it before files are
// read. Features that no part has are logged.
void engine_enable_features(const struct gs_opt_list *lists);
bool engine_has_feature(const struct gs_opt_list *lists, const char *name);
// Checks each prometheus.yml with the secret, certificate, target and rule files that it names.
// Helm values of kube-prometheus-stack, and ServiceMonitor and PodMonitor objects, are recognized
// by their content.
// Returns the exit code: 1 if a file is wrong, ENGINE_CHECK_EXIT_LINT with lint_fatal if lint found
// something.
int engine_check_config(const struct engine_check_options *o, int n_files, char **files);
// Whether the file has Helm values of kube-prometheus-stack.
bool engine_check_is_values(const char *path);
// No file: the standard input.
int engine_check_rules(const struct engine_check_options *o, int n_files, char **files);
struct engine_check_metrics_options {
    bool lint;           // against the recommendations for names
    bool extended;       // print the number of series of each family
    bool promtool_texts; // print only what promtool prints, and accept an empty text
};
// Checks an exposition in the text format, with promtool's texts. Returns promtool's exit codes: 3
// for problems, 1 if the text cannot be read.
int engine_check_metrics(const char *path, const struct engine_check_metrics_options *o);
int engine_check_web_config(int n_files, char **files, bool promtool_texts);
// Discovers the targets of a job, and prints their labels before and after relabeling as JSON, when
// all discoveries have answered or the time is over. Returns the exit code.
int engine_check_discovery(const char *path, const char *job, int64_t timeout_ns);
