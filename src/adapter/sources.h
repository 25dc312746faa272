// SPDX-License-Identifier: Apache-2.0
// Where series come from: the engine in this process, whose results are used without HTTP and JSON,
// and the sources of a configuration beside the default one.
#pragma once

#include "adapter/config/config.h"
#include "adapter/source/source.h"

struct engine;

// The engine is borrowed: free the source first. timeout_ms 0: 30 s.
struct source *adapter_source_new_engine(uv_loop_t *loop, struct engine *engine, int64_t timeout_ms,
                                         int64_t max_age_ms);

// engine: the one in this process; NULL: there is none, and a source that is the
// engine gives GS_EINVAL. One for each of c->sources; NULL in *ret when there are none.
struct gs_error *adapter_extra_sources_new(uv_loop_t *loop, const struct adapter_config *c,
                                           struct engine *engine, int64_t max_age_ms,
                                           struct source ***ret);
void adapter_extra_sources_free(struct source **sources, size_t n);
bool adapter_extra_sources_need_engine(const struct adapter_config *c);
