// SPDX-License-Identifier: Apache-2.0
// The state of Kubernetes objects into the store, as if kube-state-metrics were a target: job
// "kube-state-metrics", the series' own labels kept.
#pragma once

#include "engine/state/kube_state.h"
#include "tsdb/tsdb.h"

struct kube_state_feed;

struct kube_state_feed_config {
    struct kube_state_config state;
    int64_t interval_ms; // 0: 1 s
};

struct gs_error *kube_state_feed_new(uv_loop_t *loop, struct tsdb *db, struct kube_client *client,
                                     const struct kube_state_feed_config *cfg,
                                     struct kube_state_feed **ret);
void kube_state_feed_free(struct kube_state_feed *f); // before db
