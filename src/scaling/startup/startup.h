// SPDX-License-Identifier: Apache-2.0
// How long pods take to start, phase by phase, and which pods are still coming. A learner reads
// pods, their events and the first signals of inference engines, and keeps the last starts of each
// workload, image and GPU model, by the path that a start took. No clock and no I/O: times come
// from the objects and the caller. Times are Unix milliseconds, durations are milliseconds.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- starts ---

enum startup_phase {
    STARTUP_PENDING,   // until the scheduler has a node, or until a node is ordered
    STARTUP_NODE,      // until the ordered node has the pod
    STARTUP_PULL,      // of images; 0 if they are present
    STARTUP_CONTAINER, // the rest until the last container runs
    STARTUP_LOAD,      // until the pod is ready, and its engine has published its first values
    STARTUP_PHASES,
};
const char *startup_phase_name(enum startup_phase phase); // "pending"

enum startup_image { STARTUP_IMAGE_UNKNOWN, STARTUP_IMAGE_PRESENT, STARTUP_IMAGE_PULLED };

struct startup_path {
    bool node_to_come; // no node had room: one was ordered
    enum startup_image image;
};
// "node free, image present"; "node to come".
void startup_path_text(struct startup_path path, struct gs_buf *out);

// The times of a start that has ended, from the pod alone. False: it is not ready, a container was
// restarted, or the times contradict each other.
struct startup_times {
    int64_t created_ms, scheduled_ms, started_ms, ready_ms;
};
bool startup_times_of(const json_t *pod, struct startup_times *ret);

// The GPU model of the node, or that the pod (or a template of pods) selects; NULL: unknown.
// Borrowed. node may be NULL.
const char *startup_gpu_model(const json_t *pod, const json_t *node);

struct startup_learner;

struct startup_learner *startup_learner_new(void);
void startup_learner_free(struct startup_learner *l); // NULL is fine
// For restarts: the starts that were learned, at most those of 500 images and GPU models (1 MiB of
// text). New reference.
json_t *startup_learner_json(const struct startup_learner *l, int64_t now_ms);
// Into a new learner, or one that knows pods: of each image and GPU model, the longer list of
// starts remains. GS_EINVAL: not such an object, or from the future.
struct gs_error *startup_learner_restore(struct startup_learner *l, const json_t *in,
                                         int64_t now_ms);

// Call it for each change of a pod, and at first for each pod that exists. node: of the pod, for
// its GPU model and its age; NULL: unknown. The objects are not kept.
void startup_observe_pod(struct startup_learner *l, const json_t *pod, const json_t *node,
                         int64_t now_ms);
// The pod was deleted. If it was late, its start has failed.
void startup_forget_pod(struct startup_learner *l, const json_t *pod, int64_t now_ms);
// An event of a pod: TriggeredScaleUp and NotTriggerScaleUp (Cluster Autoscaler), Nominated
// (Karpenter), Pulling and Pulled (kubelet). Others are ignored. It may come before its
// pod.
void startup_observe_event(struct startup_learner *l, const json_t *event, int64_t now_ms);
// The inference engine of the pod has published its first values. From then on, starts of the
// workload end with this signal, because readiness does not mean that a model is loaded.
void startup_engine_ready(struct startup_learner *l, const char *ns, const char *pod,
                          int64_t at_ms);

// The start of one pod.
struct startup_start {
    struct startup_path path;
    int64_t total_ms;           // from creation until the pod serves
    int64_t ms[STARTUP_PHASES]; // negative: not measured
};
// False: it has not ended, or was not observed from its begin.
bool startup_start_of(const struct startup_learner *l, const json_t *pod,
                      struct startup_start *ret);

// --- what is expected ---

// Of which starts an expectation is.
enum startup_basis {
    STARTUP_BASIS_SAME,     // the workload's, with this image, GPU model and path
    STARTUP_BASIS_PATHS,    // the same on other paths
    STARTUP_BASIS_WORKLOAD, // the workload's with other images or GPU models
    STARTUP_BASIS_OTHERS,   // other workloads' on this path
    STARTUP_BASIS_DEFAULT,  // none: STARTUP_DEFAULT_MS
};
#define STARTUP_DEFAULT_MS (INT64_C(300) * 1000)

struct startup_quantiles {
    size_t n; // 0: the others are 0
    int64_t p50_ms, p90_ms, p99_ms;
};

struct startup_expected {
    enum startup_basis basis;
    bool any_path; // all paths together
    struct startup_path path;
    struct startup_quantiles total; // from creation until the pod serves
    struct startup_quantiles phases[STARTUP_PHASES];
    size_t failed; // starts of this workload and image that failed
};

// Of a new pod of a workload ("deployment/web"): all starts of its newest image, on all paths.
void startup_expected_of_workload(const struct startup_learner *l, const char *ns,
                                  const char *workload, struct startup_expected *ret);
// Of this pod, on the path that it takes.
void startup_expected_of_pod(const struct startup_learner *l, const json_t *pod,
                             struct startup_expected *ret);
// {"path", "basis", "n", "failed", "p50Seconds", "p90Seconds", "p99Seconds", "phases": {"load":
// {"n", "p50Seconds", "p90Seconds", "p99Seconds"}, …}}; phases without a value are absent. New
// reference.
json_t *startup_expected_json(const struct startup_expected *e);
// The same for each image, GPU model and path of a workload: [{"image", "gpu", …}]; new reference.
json_t *startup_workload_json(const struct startup_learner *l, const char *ns,
                              const char *workload);
// "p90 52s (pull 3s, container 1s, load 48s), node free, image present, from 5 starts, 1 failed" of
// that JSON.
void startup_expected_text(const json_t *e, struct gs_buf *out);

// --- what is coming ---

enum startup_state {
    STARTUP_READY,
    STARTUP_STARTING,
    STARTUP_LATE,          // it should be ready by now: it does not count as coming
    STARTUP_UNSCHEDULABLE, // no node has room, and none is coming
    STARTUP_FAILED,        // crashes, or its image cannot be pulled
    STARTUP_ENDED,         // is deleted, or has ended
};
const char *startup_state_name(enum startup_state state); // "starting"

struct startup_progress {
    enum startup_state state;
    enum startup_phase phase; // of a pod that is not ready
    int64_t created_ms;
    int64_t ready_ms;    // since when it serves; 0: it does not
    int64_t expected_ms; // when it serves at the latest in nine of ten starts; 0: unknown
};
void startup_progress_of(const struct startup_learner *l, const json_t *pod, int64_t now_ms,
                         struct startup_progress *ret);

// The pods of a workload by their state.
struct startup_coming {
    int32_t ready, starting, late, unschedulable, failed;
    int32_t settling; // of the ready ones: so new that measurements do not show their effect yet
    int64_t first_ms, last_ms; // when the first and last starting pod are expected; 0: none starts
    int64_t start_ms; // how long one more pod would take, p90; set by the caller, 0: unknown
};
#define STARTUP_SETTLE_MS (INT64_C(30) * 1000)
void startup_coming_add(struct startup_coming *c, const struct startup_progress *p, int64_t now_ms);
// {"ready", "starting", "settling", "late", "unschedulable", "failed", "startSeconds",
// "firstSeconds", "lastSeconds"}: the first and last start in how many seconds; new reference.
json_t *startup_coming_json(const struct startup_coming *c, int64_t now_ms);
// "1 ready, 2 starting (the last one serves in 32s), 1 late" of that JSON.
void startup_coming_text(const json_t *coming, struct gs_buf *out);
// False: not such an object. Numbers out of range are 0.
bool startup_coming_from_json(const json_t *in, int64_t now_ms, struct startup_coming *ret);
