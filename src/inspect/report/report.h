// SPDX-License-Identifier: Apache-2.0
// `gpuscale report`: hours of GPUs and their costs, from an engine, from the file of a ledger, or
// calculated from the series of a Prometheus. docs/report.md describes the output.
#pragma once

#include "base/error.h"
#include "base/option.h"

#include <stdbool.h>
#include <stdint.h>

// Texts are borrowed; NULL: not given.
struct report_options {
    const char *url;        // of an engine
    const char *file;       // of a ledger, instead
    const char *prometheus; // URL, instead
    const char *http_config_file;
    struct gs_opt_list headers;
    const char *since, *until, *by, *prices, *currency, *owner_label, *output;
    int64_t idle_ns, step_ns, timeout_ns;
    bool budgets; // CSV of the budgets instead of the hours
};

// Prints the report to stdout. GS_EINVAL: a wrong option.
struct gs_error *report_run(const struct report_options *o);
