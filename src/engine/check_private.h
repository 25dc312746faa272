// SPDX-License-Identifier: Apache-2.0
// Shared by the files check_*.c only.
#pragma once

#include "codec/yaml.h"
#include "engine/check.h"

#include <stdbool.h>
#include <stddef.h>

// What happened in the checks of all files.
struct engine_check_outcome {
    bool wrong;   // a file is not valid
    bool doubted; // lint found something
};
int engine_check_exit(const struct engine_check_options *o, const struct engine_check_outcome *out);

// --- check_rules.c ---

struct engine_lint {
    bool duplicate_rules, too_long_scrape_interval;
};
// Prints a warning for each unknown name. config: of a configuration, not of rule files.
struct engine_lint engine_lint_of(const struct engine_check_options *o, bool config);
// of_config: a configuration names the file, which may have no rules yet.
void engine_check_rule_file(const struct engine_check_options *o, const struct engine_lint *lint,
                            const char *path, bool of_config, struct engine_check_outcome *outcome);

// --- check_objects.c ---

// What a check has read.
struct engine_check_counts {
    size_t scrapes, alertmanagers, remote_writes, rule_files, settings;
    size_t service_monitors, pod_monitors, rule_objects, rules;
};
// "2 rules"; NULL: nothing. Caller frees.
char *engine_check_counts_text(const struct engine_check_counts *n);

// A ServiceMonitor, PodMonitor or PrometheusRule of a file.
struct engine_check_object {
    const char *path;
    int line;            // where the object begins
    const json_t *value; // with types
    const struct codec_yaml_marks *marks;
    const json_t *twin; // the same object as of codec_yaml_parse_texts(), for positions
    const struct codec_yaml_marks *twin_marks;
};
// Prints all problems of the object and adds it to counts. Returns false if it is wrong.
bool engine_check_object(const struct engine_check_options *o,
                         const struct engine_check_object *object,
                         struct engine_check_counts *counts);

// --- check_manifests.c ---

// Checks the objects of a file. Prints the result.
bool engine_check_manifests(const struct engine_check_options *o, const char *path,
                            struct gs_slice text);

// --- check_values.c ---

// Checks values of kube-prometheus-stack, with the objects in them. Prints the result.
bool engine_check_values(const struct engine_check_options *o, const char *path,
                         struct gs_slice text);
