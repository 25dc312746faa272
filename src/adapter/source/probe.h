// SPDX-License-Identifier: Apache-2.0
// Whether a source answers: a query that needs no series is sent every few seconds, so that a
// source that fails or hangs is noticed also when nothing else queries it.
#pragma once

#include "adapter/source/source.h"

struct source_probe;

struct source_probe_options {
    struct source *source; // borrowed; freed after the probe
    int64_t period_ms;     // between two queries; 0: 5 s
    int64_t timeout_ms;    // of one query; 0: 5 s
    int64_t silence_ms;    // how long a source may give no good answer; 0: 30 s
};

struct source_probe *
source_probe_new(uv_loop_t *loop, const struct source_probe_options *o); // the first query is sent
void source_probe_free(struct source_probe *p);
// Why the source counts as down: it has never answered, or has given no good answer to any query
// for silence_ms. NULL: it is up. Valid until the next call.
const char *source_probe_wrong(struct source_probe *p);
