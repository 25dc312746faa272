// SPDX-License-Identifier: Apache-2.0
// Zero replicas: the annotation that keeps the last replica while it is used, and since when and
// why a target has no replica.
#pragma once

#include "hpa/explanation.h"
#include "hpa/hpa.h"

// An annotation of an object with minReplicas 0: the last replica ends only after it was not used
// for this time ("10m"; 10 s to 24 h). Evaluations read requests and processes of that whole time;
// the metrics of the spec are only those of the moment.
#define HPA_ZERO_AFTER_ANNOTATION "gpuscale.dev/zero-after"
// GS_EINVAL: the annotation is wrong, so that the last replica remains. *ret_ms 0: it is absent.
struct gs_error *hpa_zero_after(const json_t *object, int64_t *ret_ms);

// The check of an explanation, from the member "check" of the controller's "zero"; its text is
// borrowed. False: nothing was checked.
bool hpa_zero_check_from_json(const json_t *zero, struct hpa_zero_check *ret);
// {"since", "seconds", "reason"} at zero replicas if the autoscaler has set them, with what the
// controller knows: {"check": {"after", "held", "text"}, "wakes": […]}. New reference. NULL: the
// object cannot scale to zero.
json_t *hpa_zero_json(const struct hpa_inspection_result *found, const struct hpa_config *cfg);
// "At zero since …", the check, and the last start from zero, of that JSON. NULL: nothing.
void hpa_zero_text(const json_t *zero, struct gs_buf *out);
