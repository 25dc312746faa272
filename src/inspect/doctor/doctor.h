// SPDX-License-Identifier: Apache-2.0
// Examines the chain from the GPU driver to the replicas of a workload, and reports what is broken,
// the first broken link first. docs/doctor.md describes the checks and the output.
//
// Facts are read first: objects of the Kubernetes API, responses of a Prometheus, texts of
// exporters, the state of this machine. The checks are pure functions of the facts. A fact that
// cannot be read is unknown, and the checks that need it report nothing.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"

#include <stdbool.h>
#include <stdint.h>

// Strings are borrowed; NULL: not given.
struct doctor_options {
    const char *kubeconfig, *context;
    const char *prometheus; // URL; NULL: found by its Service
    const char *output;     // "text", "json" or "yaml"
    int64_t interval_ns;    // of watch
    bool watch;             // again until a signal ends the program
    bool list;              // print the checks
    bool this_node;         // examine this machine only
};

// The result of one examination, for its exit code.
enum doctor_result {
    DOCTOR_HEALTHY = 0,
    DOCTOR_FINDINGS = 1,
    DOCTOR_UNKNOWN = 2, // nothing could be examined
};

// Reads the facts of this machine and of the cluster, with limits on time, objects and bytes.
// Returns a new reference. What cannot be read is unknown, so there is no error.
json_t *doctor_gather(const struct doctor_options *o);

// The report about facts: {"result", "findings": […], "examined": […], "notExamined": […]}; new
// reference. Facts of any shape are accepted.
json_t *doctor_examine(const json_t *facts);
enum doctor_result doctor_result_of(const json_t *report);
void doctor_report_text(const json_t *report, struct gs_buf *out);

// Gathers, examines and prints to stdout; with watch until the process ends.
enum doctor_result doctor_run(const struct doctor_options *o);

// The checks as a Markdown table for each link of the chain.
void doctor_reference(struct gs_buf *out);
// The identifier of the i-th check; NULL: i is past the last one.
const char *doctor_check_id(size_t i);
