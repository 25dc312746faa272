// SPDX-License-Identifier: Apache-2.0
// The status of a HorizontalPodAutoscaler.
#pragma once

#include "hpa/hpa.h"

// The status after the decision (and its scale write, see hpa_decision_written), as autoscaling/v2
// JSON, based on the status of spec->object. New reference.
json_t *hpa_status_build(const struct hpa_spec *spec, const struct hpa_decision *d);
// Whether `fresh` differs from `old` (NULL: none).
bool hpa_status_differs(const json_t *old, const json_t *fresh);

// Replicas that the controller which wrote the status wants, in the limits of minReplicas and max,
// which may be above maxReplicas. replicas: that are set.
int32_t hpa_status_demand(const struct hpa_spec *spec, int32_t replicas, int32_t max);
