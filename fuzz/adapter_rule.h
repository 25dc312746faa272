// SPDX-License-Identifier: Apache-2.0
// The data with which the fuzz targets of the adapter expand templates of rules.
#pragma once

#include "adapter/config/config.h"

static inline void expand_rule_query(const struct template_program *query, struct gs_buf *out)
{
    const struct metrics_label values[] = {{GS_SLICE("namespace"), GS_SLICE("ml")},
                                           {GS_SLICE("pod"), GS_SLICE("a|b")}};
    const struct gs_slice by[] = {GS_SLICE("pod"), GS_SLICE("container")};
    const struct adapter_config_query_data d = {.series = GS_SLICE("m"),
                                                .matchers = GS_SLICE("pod=~\"a|b\""),
                                                .group_by = GS_SLICE("pod"),
                                                .values = values,
                                                .n_values = GS_ARRAY_LEN(values),
                                                .group_by_list = by,
                                                .n_group_by = GS_ARRAY_LEN(by)};
    gs_error_free(adapter_config_query_expand(query, &d, out));
}

static inline void expand_rule_label(const struct template_program *label, struct gs_buf *out)
{
    gs_error_free(
        adapter_config_label_expand(label, GS_SLICE("apps"), GS_SLICE("deployment"), out));
}
