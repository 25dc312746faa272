// SPDX-License-Identifier: Apache-2.0
// The flags of `gpuscale hpa`.
#pragma once

#include "base/option.h"

struct hpa_opts {
    const char *compat, *kubeconfig, *mode, *ns, *output, *listen, *lease_ns, *lease_name,
        *identity;
    int64_t sync_period, downscale_window, cpu_init_period, readiness_delay; // ns
    double tolerance;
    bool all, elect, scale_to_zero;
};

extern const struct gs_opt hpa_option_rows[];
