// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "promql/promql.h"

// The value of a label of a result. Empty: the label is absent.
static inline struct gs_slice label_of(const struct promql_result *r, struct tsdb_labels l,
                                       const char *name)
{
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct metrics_label label = promql_label_at(r, l, i);
        if (gs_slice_eq_str(label.name, name))
            return label.value;
    }
    return GS_SLICE("");
}
