// SPDX-License-Identifier: Apache-2.0
// Decision tables in the narrow sense: a document with `columns` and `rows` stands for a case a
// row. Private to the room.
#pragma once

#include "replay/shape.h"

// A row as a case of its own: name, spec, config and one step. GS_EINVAL: the row does not fit.
// doc: checked by replay_form_check(). src: its line is the row's.
struct gs_error *replay_rows_expand(const struct replay_shape_source *src, const json_t *doc,
                                    size_t row, json_t **ret);
