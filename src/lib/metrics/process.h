// SPDX-License-Identifier: Apache-2.0
// The series that Prometheus' client libraries have about their own process.
#pragma once

#include "base/buf.h"

#include <stdint.h>

// process_cpu_seconds_total, memory, descriptors and start time in the text format. started_ms:
// Unix milliseconds.
void metrics_write_process(struct gs_buf *out, int64_t started_ms);
