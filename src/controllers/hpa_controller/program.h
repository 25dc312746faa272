// SPDX-License-Identifier: Apache-2.0
// The autoscaler as a program of a cluster: the controller, leader election, /metrics and the log
// of decisions on standard output.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

// The options of `gpuscale hpa`. Strings are borrowed; NULL: not given.
struct hpa_server_options {
    const char *compat, *kubeconfig, *url, *mode, *ns, *output, *listen, *lease_ns, *lease_name,
        *identity, *state_file, *state_config_map; // at most one of the last two
    int64_t sync_period, downscale_window, cpu_init_period, readiness_delay; // ns
    double tolerance;
    bool all, elect, scale_to_zero;
};

// Runs until SIGINT or SIGTERM. Errors: options that contradict each other, no cluster, the address
// is in use, the leadership was lost.
struct gs_error *hpa_server_run(const struct hpa_server_options *o);
