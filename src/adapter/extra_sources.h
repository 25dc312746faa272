// SPDX-License-Identifier: Apache-2.0
// The sources of a configuration beside the default one.
#pragma once

#include "adapter/config/config.h"
#include "adapter/source/source.h"

struct engine;

// engine: the one in this process; NULL: there is none, and a source that is the
// engine gives GS_EINVAL. One for each of c->sources; NULL in *ret when there are none.
struct gs_error *extra_sources_new(uv_loop_t *loop, const struct adapter_config *c,
                                   struct engine *engine, int64_t max_age_ms, struct source ***ret);
void extra_sources_free(struct source **others, size_t n);
bool extra_sources_need_engine(const struct adapter_config *c);
