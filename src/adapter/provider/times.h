// SPDX-License-Identifier: Apache-2.0
// When the samples behind a value were taken: an instant query's answer has the time of the query,
// so the times are asked for with it, in one query.
#pragma once

#include "adapter/source/source.h"
#include "base/buf.h"
#include "base/hmap.h"

// The query's text says of which series they are: it uses .Series and .LabelMatchers.
bool provider_times_known(const char *template_text);
// The query and, of each value of the label (none: of all), the oldest of the newest samples.
void provider_times_add(const struct gs_buf *query, struct gs_slice label, struct gs_slice series,
                        struct gs_slice matchers, struct gs_buf *out);
bool provider_times_is_mark(
    const struct source_sample *s); // it is such a time, not one of the query's
// Label values -> times. The caller frees.
struct gs_hmap *provider_times_index(const struct source_result *r, struct gs_slice label);
// The time of the answer where there is none.
int64_t provider_times_look_up(const struct gs_hmap *index, struct gs_slice value,
                               int64_t fallback_ms);
