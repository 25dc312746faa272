// SPDX-License-Identifier: Apache-2.0
// The state of Kubernetes objects into the store, as if kube-state-metrics were a target: job
// "kube-state-metrics", the series' own labels kept.
#pragma once

#include "engine/state_metrics/kube_state.h"
#include "tsdb/tsdb.h"

struct state_metrics_feed;

struct state_metrics_feed_config {
    struct state_metrics_config state;
    int64_t interval_ms; // 0: 1 s
};

struct gs_error *state_metrics_feed_new(uv_loop_t *loop, struct tsdb *db,
                                        struct kube_client *client,
                                        const struct state_metrics_feed_config *cfg,
                                        struct state_metrics_feed **ret);
void state_metrics_feed_free(struct state_metrics_feed *f); // before db
