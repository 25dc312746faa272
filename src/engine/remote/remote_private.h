// SPDX-License-Identifier: Apache-2.0
// Writes prometheus.WriteRequest in protobuf's wire format.
// https://prometheus.io/docs/specs/prw/remote_write_spec/#protocol.
#pragma once

#include "base/buf.h"
#include "metrics/labels.h"

#include <stdint.h>

// Appends a TimeSeries. labels are sorted by name.
void remote_encode_series(struct gs_buf *out, const struct metrics_label *labels, size_t n_labels,
                          const int64_t *t, const double *v, size_t n_samples);
// Compresses in Snappy's block format. Replaces the content of ret.
void remote_compress(struct gs_slice raw, struct gs_buf *ret);
