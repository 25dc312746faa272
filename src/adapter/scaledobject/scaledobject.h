// SPDX-License-Identifier: Apache-2.0
// ScaledObjects of KEDA as HorizontalPodAutoscalers with rules of the adapter, and back: pure
// functions of objects. Each field is converted, kept in an annotation, or reported.
// https://keda.sh/docs/latest/reference/scaledobject-spec/
#pragma once

#include "adapter/config/config.h"
#include "base/buf.h"

// Of a HorizontalPodAutoscaler: the fields of the ScaledObject that it cannot express, as JSON.
#define SCALEDOBJECT_ANNOTATION "gpuscale.dev/scaledobject"

// What a conversion adds to. The caller initializes the arrays.
struct scaledobject_result {
    json_t *objects;        // array
    json_t *rules;          // array of externalRules of the adapter
    struct gs_buf notes;    // lines: what was kept, and what works differently
    struct gs_buf problems; // lines: what cannot be converted
    size_t n_problems;
};
void scaledobject_result_init(struct scaledobject_result *r);
void scaledobject_result_finish(struct scaledobject_result *r);

// Adds the autoscaler and the rules of a ScaledObject. After a problem that would change decisions,
// it adds nothing: an autoscaler without one of its triggers would scale down too far.
void scaledobject_to_hpa(const json_t *scaled_object, struct scaledobject_result *r);

// Where the triggers of a ScaledObject get their values. NULL: unknown.
struct scaledobject_sources {
    const struct adapter_config *rules; // of External metrics
    // Addresses for triggers whose address is not kept in the annotation: of Prometheus, and of
    // gpuscale's external scaler for KEDA.
    const char *server, *scaler;
};
// Adds the ScaledObject of a HorizontalPodAutoscaler (autoscaling/v2).
void scaledobject_from_hpa(const json_t *hpa, const struct scaledobject_sources *sources,
                           struct scaledobject_result *r);
