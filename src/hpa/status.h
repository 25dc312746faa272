// SPDX-License-Identifier: Apache-2.0
// What a pass leaves in a HorizontalPodAutoscaler's status.
#pragma once

#include "hpa/hpa.h"

// The status after the decision (and its scale write, see hpa_decision_written), as autoscaling/v2
// JSON: the old one of spec->object changed. New reference.
json_t *hpa_status_build(const struct hpa_spec *spec, const struct hpa_decision *d);
// Whether writing `fresh` over `old` (NULL: none) would change anything.
bool hpa_status_differs(const json_t *old, const json_t *fresh);
