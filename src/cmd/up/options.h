// SPDX-License-Identifier: Apache-2.0
// The flags of `gpuscale up`.
#pragma once

#include "base/option.h"

struct up_options {
    const char *gpus, *adapter_config, *data_dir, *node_name, *address, *load, *hpa_compat;
    struct gs_opt_list files, images, env;
    int64_t api_port, exporter_port,
        prometheus_port; // -1: the usual one, or any free one when that is busy
    int64_t sync_period, downscale_window, cpu_init_period, readiness_delay; // ns
    int64_t max_pods, pod_quota, max_objects;
    double tolerance;
    bool exit_after_load, stop, reset;
};

extern const struct gs_opt up_option_rows[];

// What can be refused before anything starts: flags that contradict each other, and values that
// would fail later.
struct gs_error *up_options_check(const struct up_options *o);
