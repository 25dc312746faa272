// SPDX-License-Identifier: Apache-2.0
// What is stored of the pods of a workload: which of them are scraped, and the names of their
// series.
#pragma once

#include "base/buf.h"

#include <stddef.h>

// Adds a PromQL query for some of the pods of a namespace: samples of `up` with the label pod, and
// one sample for each other name of their series, with the label __name__. False: no pod has a name
// of Kubernetes.
bool metrics_pod_series_query(const char *ns, const char *const *pods, size_t n,
                              struct gs_buf *out);
