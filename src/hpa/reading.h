// SPDX-License-Identifier: Apache-2.0
// What one look at an HPA tells: the decision with everything that it comes from, as data and as a
// short text. docs/autoscaler.md describes both.
#pragma once

#include "hpa/look.h"

// New reference.
json_t *hpa_reading(const struct hpa_seen *seen, const struct hpa_config *cfg);
void hpa_reading_text(const json_t *reading, struct gs_buf *out);
