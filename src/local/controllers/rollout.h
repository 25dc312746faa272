// SPDX-License-Identifier: Apache-2.0
// One look at a Deployment and its ReplicaSets: what the rollout arithmetic, the status and the
// writes share. Private to the room. Arithmetic and texts follow Kubernetes' deployment controller.
#pragma once

#include "local/cluster.h"
#include "local/work.h"

#define CONTROLLERS_ROLLOUT_HASH_LABEL   "pod-template-hash"
#define CONTROLLERS_ROLLOUT_ANN_REVISION "deployment.kubernetes.io/revision"
#define CONTROLLERS_ROLLOUT_ANN_HISTORY  "deployment.kubernetes.io/revision-history"
#define CONTROLLERS_ROLLOUT_ANN_DESIRED  "deployment.kubernetes.io/desired-replicas"
#define CONTROLLERS_ROLLOUT_ANN_MAX      "deployment.kubernetes.io/max-replicas"

struct controllers_rollout_rs {
    const json_t *obj;
    int64_t spec;                       // replicas asked for
    int64_t replicas, ready, available; // of its status
};

struct controllers_rollout {
    struct local_work *work;
    struct kube_recorder *recorder;
    const json_t *deployment;
    struct controllers_rollout_rs *all; // owned, oldest first
    size_t len, cap;
    struct controllers_rollout_rs *current; // of today's template; NULL: none yet
    int64_t replicas, max_surge, max_unavailable;
    bool recreate;
    json_t *status; // under construction: starts as a copy
};

// Fills replicas, max_surge, max_unavailable, recreate from the spec.
void controllers_rollout_read_spec(struct controllers_rollout *r);
int64_t controllers_rollout_max_replicas(
    const struct controllers_rollout *r); // with surge; 0 when replicas is 0
int64_t controllers_rollout_spec_sum(const struct controllers_rollout *r);

// Writes spec.replicas with the size annotations and the event. False when nothing is to be done.
bool controllers_rollout_scale(struct controllers_rollout *r, struct controllers_rollout_rs *rs,
                               int64_t replicas);
// replicas that the ReplicaSet of today's template should have now, given what exists.
int64_t controllers_rollout_current_target(const struct controllers_rollout *r, int64_t now_spec);

// Each makes at most the writes of one step. True: something was scaled.
bool controllers_rollout_rolling_step(struct controllers_rollout *r);
bool controllers_rollout_recreate_down(struct controllers_rollout *r);
bool controllers_rollout_is_scaling(
    const struct controllers_rollout *r); // spec.replicas has changed since the last scaling
void controllers_rollout_scale_proportionally(struct controllers_rollout *r);

// Status: counts and conditions.
void controllers_rollout_set_condition(struct controllers_rollout *r, const char *type,
                                       const char *status, const char *reason, const char *message);
void controllers_rollout_count(
    struct controllers_rollout *r); // counts, observedGeneration, Available, ReplicaFailure
void controllers_rollout_progress(
    struct controllers_rollout *r); // Progressing; after controllers_rollout_count
void controllers_rollout_check_paused(struct controllers_rollout *r);
bool controllers_rollout_complete(
    const struct controllers_rollout *r); // after controllers_rollout_count
void controllers_rollout_write_status(struct controllers_rollout *r);
