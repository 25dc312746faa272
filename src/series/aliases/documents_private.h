// SPDX-License-Identifier: Apache-2.0
// Shared by the files that convert documents: places of texts in files, and expressions with
// variables of Grafana.
#pragma once

#include "aliases/aliases_private.h"
#include "aliases/documents.h"
#include "codec/yaml.h"

// Bytes of a file, and what replaces them.
struct aliases_place {
    size_t start, end;
    struct gs_buf text; // owned
};

// Finds the scalar that begins at the mark and has this value. False: it was not found; the text
// has to be freed in any case.
bool aliases_place_scalar(struct gs_slice text, struct codec_yaml_mark mark, struct gs_slice value,
                          struct gs_slice new_value, struct aliases_place *ret);

// As aliases_convert(), for an expression of a dashboard: variables ($__rate_interval, ${node},
// [[gpu]]) may be in place of durations, numbers and names, and it may be a query for the values of
// a variable (label_values(metric, label), query_result(expression)).
struct gs_error *aliases_convert_panel(struct gs_slice expr, enum aliases_release to,
                                       struct gs_buf *ret_text, struct gs_buf *ret_changes,
                                       struct gs_buf *ret_problem);
