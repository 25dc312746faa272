// SPDX-License-Identifier: Apache-2.0
// Shared by the conversion files of this room.
#pragma once

#include "codec/json.h"

// Where hpa objects keep what an older API version has no field for.
#define HPA_ANNOTATION_METRICS         "autoscaling.alpha.kubernetes.io/metrics"
#define HPA_ANNOTATION_CURRENT_METRICS "autoscaling.alpha.kubernetes.io/current-metrics"
#define HPA_ANNOTATION_CONDITIONS      "autoscaling.alpha.kubernetes.io/conditions"
#define HPA_ANNOTATION_BEHAVIOR        "autoscaling.alpha.kubernetes.io/behavior"

// The five metric sources, in the order that validation looks at them.
struct hpa_source {
    const char *type;   // "ContainerResource"
    const char *member; // "containerResource"
};
#define HPA_N_SOURCES 5
extern const struct hpa_source hpa_sources[HPA_N_SOURCES];

// Lists of metric specs and statuses between the v2beta1 form (also used inside the v1 annotations)
// and the v2 form. All return new references.
json_t *hpa_specs_from_beta1(const json_t *metrics);
json_t *hpa_specs_to_beta1(const json_t *metrics);
json_t *hpa_statuses_from_beta1(const json_t *metrics);
json_t *hpa_statuses_to_beta1(const json_t *metrics);

// The behavior annotation: capitalised field names, null for what is not set. NULL: not usable.
json_t *hpa_behavior_from_annotation(const char *text);
char *hpa_behavior_to_annotation(const json_t *behavior); // caller frees

// Quantities given as numbers or in another spelling become canonical strings. `where` names the
// list in errors ("spec.metrics"); part is "target" or "current".
struct gs_error *hpa_canonical_metrics(json_t *metrics, const char *where, const char *part);
struct gs_error *hpa_canonical_behavior(json_t *behavior);
