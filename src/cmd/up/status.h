// SPDX-License-Identifier: Apache-2.0
// The status block: GPUs with bars, pods, autoscalers with their last decision. Reads the same
// series and objects that everyone else sees.
#pragma once

#include "base/buf.h"
#include "cmd/up/decisions.h"
#include "cmd/up/problems.h"
#include "kube/cache.h"
#include "tsdb/tsdb.h"

#define UP_STATUS_HINTS 3

struct up_status_source {
    const struct tsdb *db;
    const struct kube_cache *pods;
    const struct up_decisions *decisions;
    const struct up_problems *problems; // NULL: none
    const char *headline;               // "node x, 4 GPUs"
    const char *hints[UP_STATUS_HINTS]; // "export KUBECONFIG=…"; NULL after the last
    const char *service_url;            // NULL: none yet
    const char *load;                   // "running: hey …" or NULL
    bool simulated;
    bool colour;
};

// At most `rows` rows (0: no limit) of at most `columns` columns. What is important stays in small
// windows: problems, decisions, counts; then GPUs, addresses, explanations.
void up_status_render(const struct up_status_source *s, int64_t now_ms, size_t rows, size_t columns,
                      struct gs_buf *out);
// Mean GPU_UTIL over the GPUs that have a process on them; NAN when none has.
double up_status_gpu_percent(const struct tsdb *db, int64_t now_ms);
// "1 running, 2 pending", "no pods".
void up_status_pods(const struct kube_cache *pods, struct gs_buf *out);
