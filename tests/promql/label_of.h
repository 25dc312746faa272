// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "promql/promql.h"

// The value of a label of a result. Empty: the label is absent.
static inline struct gs_slice label_of(const struct promql_result *r, struct tsdb_labels l,
                                       const char *name)
{
    for (size_t i = 0; i < l.n; i++)
        if (gs_slice_eq_str(promql_text(r, l.pairs[i].name), name))
            return promql_text(r, l.pairs[i].value);
    return GS_SLICE("");
}
