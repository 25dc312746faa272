// SPDX-License-Identifier: Apache-2.0
// Starts of pods, for autoscalers that use them: credit for pods that are coming, latency targets,
// and starts from zero. Nothing is read for other autoscalers. All functions are called on the
// thread of the loop.
#pragma once

#include "base/arena.h"
#include "kube/cache.h"
#include "kube/selector.h"
#include "startup/startup.h"

struct hpa_starts;

// pods: borrowed, outlives it. ns: of the events; NULL: all namespaces.
struct hpa_starts *hpa_starts_new(uv_loop_t *loop, struct kube_client *client,
                                  struct kube_cache *pods, const char *ns);
void hpa_starts_free(struct hpa_starts *s); // NULL is fine
// Starts to learn if this autoscaler needs it: a watch of the events of pods.
void hpa_starts_want(struct hpa_starts *s, const json_t *hpa);
// What another process has learned, before the first autoscaler or later; NULL: nothing.
void hpa_starts_restore(struct hpa_starts *s, const json_t *learned);
// Starts to learn, whatever the annotations say.
void hpa_starts_need(struct hpa_starts *s);
// The cache of nodes, of which only metadata is kept. NULL: nothing is learned, or only one
// namespace is read.
struct kube_cache *hpa_starts_nodes(const struct hpa_starts *s);
// How long a new pod of a workload ("deployment/web") takes, p90.
int64_t hpa_starts_expected_ms(const struct hpa_starts *s, const char *ns, const char *workload);
// NULL: nothing is learned.
struct startup_learner *hpa_starts_learner(const struct hpa_starts *s);
struct hpa_start {
    const json_t *pod; // borrowed from the cache
    struct startup_progress progress;
};
// The pods of a selector, without those that have ended, in the arena. NULL: nothing is learned, or
// the selector is NULL.
const struct hpa_start *hpa_starts_pods(const struct hpa_starts *s, const char *ns,
                                        const struct kube_selector *selector, int64_t now_ms,
                                        struct gs_arena *arena, size_t *ret_n);
// The pods of a selector by their state. selector NULL: unusable. False: nothing is learned, or no
// pod matches.
bool hpa_starts_coming(const struct hpa_starts *s, const char *ns,
                       const struct kube_selector *selector, int64_t now_ms,
                       struct startup_coming *ret);
// {"expected": startup_expected_json(), "coming": startup_coming_json(), "paths":
// startup_workload_json()}; new reference. NULL: as above.
json_t *hpa_starts_json(const struct hpa_starts *s, const char *ns,
                        const struct kube_selector *selector, int64_t now_ms);
