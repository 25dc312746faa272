// SPDX-License-Identifier: Apache-2.0
// The explanation of the decision about one autoscaler.
#pragma once

#include "base/buf.h"
#include "hpa/whatif.h"

// What was read of one autoscaler. Borrowed.
struct hpa_inspection_result {
    const struct hpa_spec *spec;
    const struct hpa_observation *obs;
    const json_t *const *pods; // the objects of obs->pods, in the same order
    int64_t now_ms;            // when it was complete
    // The history of the controller. NULL: unavailable, for the reason in history_error.
    const struct hpa_history *history;
    const char *history_error; // NULL: the history is available or was not requested
    // Starts of the pods, as the controller's history has them. NULL: unknown.
    const json_t *startup;
    // The last decision of its latency target, as the controller's history has it; obs->extra is
    // made of it. NULL: it has none, or the history is unavailable.
    const json_t *latency;
    // What the controller knows of zero replicas, as its history has it; obs->zero is made of it.
    // NULL: the object cannot scale to zero, or the history is unavailable.
    const json_t *zero;
    // What GPU budgets allow, as the controller's history has it. NULL: no budget has the workload,
    // or the history is unavailable.
    const json_t *budget;
};

// The decision with its inputs, as JSON (new reference) and as a short text. docs/autoscaler.md
// describes both.
// The proposal of that decision, whose texts are borrowed. False: it has none.
bool hpa_extra_from_json(const json_t *latency, struct hpa_extra *ret);

json_t *hpa_explanation_json(const struct hpa_inspection_result *seen,
                             const struct hpa_config *cfg);
void hpa_explanation_text(const json_t *reading, struct gs_buf *out);
