// SPDX-License-Identifier: Apache-2.0
// Prometheus text exposition format 0.0.4, written. Escapes label values and help text.
#pragma once

#include "base/buf.h"
#include "metrics/parse.h"

void metrics_write_family(struct gs_buf *out, const char *name, enum metrics_type type,
                          const char *help);
// labels in the given order; value in shortest round-trip form.
void metrics_write_sample(struct gs_buf *out, const char *name, const struct metrics_label *labels,
                          size_t n_labels, double value);
void metrics_write_label_value(struct gs_buf *out, struct gs_slice value); // escaped, unquoted
