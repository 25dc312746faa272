// SPDX-License-Identifier: Apache-2.0
// Scenarios of `gpuscale replay` from what a Prometheus has recorded.
#pragma once

#include "base/option.h"

struct replay_record {
    const char *hpa;  // file with the autoscaler
    const char *from; // URL
    struct gs_opt_list queries;
    const char *replicas_query, *http_config_file;
    const char *end; // NULL: now
    int64_t range_ns, step_ns;
};

// Asks, and writes the scenario to the file.
struct gs_error *replay_record_write(const struct replay_record *r, const char *path);
