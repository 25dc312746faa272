// SPDX-License-Identifier: Apache-2.0
// One look at a Deployment and its ReplicaSets: what the rollout arithmetic, the status and the
// writes share. Private to the room. Arithmetic and texts follow Kubernetes' deployment controller.
#pragma once

#include "local/cluster.h"
#include "local/work.h"

#define ROLLOUT_HASH_LABEL   "pod-template-hash"
#define ROLLOUT_ANN_REVISION "deployment.kubernetes.io/revision"
#define ROLLOUT_ANN_HISTORY  "deployment.kubernetes.io/revision-history"
#define ROLLOUT_ANN_DESIRED  "deployment.kubernetes.io/desired-replicas"
#define ROLLOUT_ANN_MAX      "deployment.kubernetes.io/max-replicas"

struct rollout_rs {
    const json_t *obj;
    int64_t spec;                       // replicas asked for
    int64_t replicas, ready, available; // of its status
};

struct rollout {
    struct local_work *work;
    struct kube_recorder *recorder;
    const json_t *deployment;
    struct rollout_rs *all; // owned, oldest first
    size_t len, cap;
    struct rollout_rs *current; // of today's template; NULL: none yet
    int64_t replicas, max_surge, max_unavailable;
    bool recreate;
    json_t *status; // under construction: starts as a copy
};

// Fills replicas, max_surge, max_unavailable, recreate from the spec.
void rollout_read_spec(struct rollout *r);
int64_t rollout_max_replicas(const struct rollout *r); // with surge; 0 when replicas is 0
int64_t rollout_spec_sum(const struct rollout *r);

// Writes spec.replicas with the size annotations and the event. False when nothing is to be done.
bool rollout_scale(struct rollout *r, struct rollout_rs *rs, int64_t replicas);
// replicas that the ReplicaSet of today's template should have now, given what exists.
int64_t rollout_current_target(const struct rollout *r, int64_t now_spec);

// Each makes at most the writes of one step. True: something was scaled.
bool rollout_rolling_step(struct rollout *r);
bool rollout_recreate_down(struct rollout *r);
bool rollout_is_scaling(
    const struct rollout *r); // spec.replicas has changed since the last scaling
void rollout_scale_proportionally(struct rollout *r);

// Status: counts and conditions.
void rollout_set_condition(struct rollout *r, const char *type, const char *status,
                           const char *reason, const char *message);
void rollout_count(struct rollout *r);    // counts, observedGeneration, Available, ReplicaFailure
void rollout_progress(struct rollout *r); // Progressing; after rollout_count
void rollout_check_paused(struct rollout *r);
bool rollout_complete(const struct rollout *r); // after rollout_count
void rollout_write_status(struct rollout *r);
