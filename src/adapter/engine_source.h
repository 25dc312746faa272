// SPDX-License-Identifier: Apache-2.0
// The engine in this process as a source: its results are taken as they are, without HTTP and JSON.
#pragma once

#include "adapter/source/source.h"

struct engine;

// The engine is borrowed: free the source first. timeout_ms 0: 30 s.
struct source *adapter_source_new_engine(uv_loop_t *loop, struct engine *engine, int64_t timeout_ms,
                                         int64_t max_age_ms);
