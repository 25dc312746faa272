// SPDX-License-Identifier: Apache-2.0
// The latency target of one autoscaler (annotation gpuscale.dev/slo): its policy, what was learned,
// and its last decision. All functions are called on the thread of the loop.
#pragma once

#include "hpa/hpa.h"
#include "hpa_controller/signals.h"
#include "hpa_controller/starts.h"
#include "slo/slo.h"

struct hpa_latency;

struct hpa_latency *hpa_latency_new(void);
void hpa_latency_free(struct hpa_latency *l); // NULL is fine

// Reads the annotation of the object, if it has changed. Without it, the state is empty. GS_EINVAL:
// the annotation is wrong; returned once for each text.
struct gs_error *hpa_latency_update(struct hpa_latency *l, const json_t *object);
// NULL: the object has no valid annotation.
const struct slo_policy *hpa_latency_policy(const struct hpa_latency *l);
int64_t hpa_latency_interval_ms(const struct hpa_latency *l); // of the scrapes; 0: unknown
// Shifts times after the wall clock was set by this amount.
void hpa_latency_shift(struct hpa_latency *l, int64_t ms, int64_t now_ms);

bool hpa_latency_has_target(const struct hpa_latency *l); // an annotation, valid or not
// slo_memory_json() of the service; new reference. NULL: no annotation.
json_t *hpa_latency_learned(const struct hpa_latency *l, bool with_forecast, int64_t now_ms);
// Needs an annotation. Errors: as slo_memory_restore().
struct gs_error *hpa_latency_restore(struct hpa_latency *l, const json_t *learned, int64_t now_ms);

// What one decision reads. Borrowed.
struct hpa_latency_input {
    const struct hpa_spec *spec;
    int32_t replicas;                     // spec.replicas of the target
    const struct hpa_starts *starts;      // its learner learns when engines have values
    const struct kube_selector *selector; // of the target; NULL: unusable
    const struct hpa_signals *signals;    // NULL: not read, for the reason in error
    const char *error;
    int32_t peer_replicas; // of the other workload of the policy; -1: unknown
    int64_t now_ms;
};
// The proposal for struct hpa_observation, valid until the next call. NULL: no annotation.
const struct hpa_extra *hpa_latency_decide(struct hpa_latency *l,
                                           const struct hpa_latency_input *in);

// What is known of the minutes to come. Borrowed, valid until the next decision.
struct hpa_latency_outlook {
    const struct slo_decision *decision;
    bool applied;        // not mode=shadow
    double growth, rise; // as of struct forecast_result, and of slo_memory_rise()
    int64_t horizon_ms;  // of both
};
// False: nothing was decided, or no demand is known.
bool hpa_latency_outlook(const struct hpa_latency *l, struct hpa_latency_outlook *ret);

// The object was synced without a decision, for example because its target has no replicas: nothing
// is published until the next one.
void hpa_latency_skip(struct hpa_latency *l);

// The last decision as slo_decision_json() with {"annotation", "applied", "ageMs"}, or
// {"annotation", "error"}; new reference. NULL: no annotation, or no decision yet.
json_t *hpa_latency_json(const struct hpa_latency *l, int64_t now_ms);

// --- metrics ---

enum hpa_latency_family {
    HPA_LATENCY_DESIRED,
    HPA_LATENCY_PRESSURE,
    HPA_LATENCY_BOUND,
    HPA_LATENCY_HOLD,
    HPA_LATENCY_FAMILIES
};
void hpa_latency_write_head(enum hpa_latency_family family, struct gs_buf *out);
// Nothing if there is no decision since since_ms, or the value is unknown.
void hpa_latency_write(const struct hpa_latency *l, enum hpa_latency_family family,
                       int64_t since_ms, struct gs_buf *out);
