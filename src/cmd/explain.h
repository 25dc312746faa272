// SPDX-License-Identifier: Apache-2.0
// What `gpuscale explain` explains beside hpa.
#pragma once

#include "base/error.h"

struct explain_metric_opts {
    const char *config, *sources, *source, *kubeconfig; // NULL: not given
};
// How a request of the metrics APIs is answered, to stdout. *ret_exit 1: not with 200.
struct gs_error *explain_metric(const struct explain_metric_opts *o, const char *path,
                                int *ret_exit);
