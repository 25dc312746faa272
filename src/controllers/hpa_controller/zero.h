// SPDX-License-Identifier: Apache-2.0
// What the controller knows of one autoscaler that may scale to zero: whether the last replica was
// used (hpa/zero.h), why the target went to zero, and its last starts from zero with their phases.
// All functions are called on the thread of the loop.
#pragma once

#include "hpa/hpa.h"
#include "hpa_controller/starts.h"
#include "hpa_controller/zero_query.h"

#define HPA_ZERO_WAKES 20 // that are kept

struct hpa_zero;
struct hpa_zero *hpa_zero_new(void);
void hpa_zero_free(struct hpa_zero *z); // NULL is fine
// Shifts times after the wall clock was set by this amount.
void hpa_zero_shift(struct hpa_zero *z, int64_t ms);

// --- the check ---

// Whether the decision needs the check: the annotation, minReplicas 0, and one replica. More than
// one are first reduced to one.
bool hpa_zero_wanted(const struct hpa_spec *spec, int32_t replicas);
// The query of the check. Names are borrowed from the spec and the pods; arrays are of the arena.
void hpa_zero_query_of(const struct hpa_spec *spec, const struct kube_cache *pods,
                       const struct kube_selector *selector, struct gs_arena *arena,
                       struct hpa_zero_query *ret);
// Records the result of the fetch, or why it failed (error). For hpa_observation.zero, valid
// until the next call. NULL: the spec has no annotation or cannot scale to zero.
const struct hpa_zero_check *hpa_zero_checked(struct hpa_zero *z, const struct hpa_spec *spec,
                                              int32_t replicas, const struct hpa_zero_fetch *fetch,
                                              const char *error);

// --- history ---

// After each evaluation. starts and selector: for the phases of the first pod; selector NULL: the
// pods are unknown.
void hpa_zero_observe(struct hpa_zero *z, const struct hpa_spec *spec, const struct hpa_decision *d,
                      const struct hpa_starts *starts, const struct kube_selector *selector,
                      int64_t now_ms);
// {"reason", "check": {"after", "held", "text"}, "wakes": [{"since", "time", "reason", "path",
// "readySeconds", "phases": {"pull": 3.5, …}} or {…, "failed"}]}, the newest first; "reason" is
// that of the last change to zero; what is unknown is absent. New reference. NULL: nothing is
// known.
json_t *hpa_zero_history_json(const struct hpa_zero *z);
