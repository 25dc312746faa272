// SPDX-License-Identifier: Apache-2.0
// Sources of series besides a Prometheus-compatible server: the engine in this process, whose
// results are used without HTTP and JSON, and the extra sources of a configuration. All functions
// run on the thread of the loop.
#pragma once

#include "adapter/config/config.h"
#include "adapter/source/source.h"

struct engine;

// The engine is borrowed: free the source first. timeout_ms 0: 30 s. max_age_ms: how long a
// response is shared; 0: only while it is pending.
struct source *adapter_source_new_engine(uv_loop_t *loop, struct engine *engine, int64_t timeout_ms,
                                         int64_t max_age_ms);

// Opens the extra sources: *ret has one for each of c->sources and is NULL if there are none.
// engine: the engine in this process, may be NULL. GS_EINVAL: a source uses the engine and engine
// is NULL, or its settings are wrong.
struct gs_error *adapter_extra_sources_new(uv_loop_t *loop, const struct adapter_config *c,
                                           struct engine *engine, int64_t max_age_ms,
                                           struct source ***ret);
void adapter_extra_sources_free(struct source **sources, size_t n);
bool adapter_extra_sources_need_engine(const struct adapter_config *c);
