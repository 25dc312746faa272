// SPDX-License-Identifier: Apache-2.0
// The form of a decision table: which fields a case has and what each may hold. Nothing of a case
// is read before it was checked here. Private to the module.
#pragma once

#include "replay/shape.h"

// A document: a case with steps, or columns and rows (of which each row is checked by itself).
struct gs_error *replay_form_check(const struct replay_shape_source *src, const json_t *doc);
// The cell of a column, by the shape of the field that it stands for.
enum replay_form_cell {
    REPLAY_FORM_STEP,      // field of the step
    REPLAY_FORM_EXPECT,    // … of expect
    REPLAY_FORM_METRIC,    // … of the first metric that is expected
    REPLAY_FORM_CONDITION, // … of the conditions that are expected
    REPLAY_FORM_OBSERVED,  // … of the first metric that is observed
    REPLAY_FORM_SPEC,      // checked as part of the spec
    REPLAY_FORM_CONFIG,
    REPLAY_FORM_TARGET, // quantity or percentage that the first metric of the spec aims at
};
struct gs_error *replay_form_check_cell(const struct replay_shape_source *src,
                                        enum replay_form_cell place, const char *field,
                                        const json_t *cell);
// The autoscaler of a case as the API would validate it. object: with defaults.
struct gs_error *replay_form_check_object(const struct replay_shape_source *src, const json_t *doc,
                                          const json_t *object);
