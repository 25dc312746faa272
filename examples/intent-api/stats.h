// SPDX-License-Identifier: Apache-2.0
// Request counts and latencies, as Prometheus text. Thread-safe.
#pragma once

#include "base/buf.h"

#include <stdint.h>

struct stats;

struct stats *stats_new(void);
void stats_free(struct stats *s);
void stats_begin(struct stats *s);
void stats_end(struct stats *s, const char *path, int code, int64_t duration_ns);
void stats_write(struct stats *s, struct gs_buf *out);
