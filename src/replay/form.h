// SPDX-License-Identifier: Apache-2.0
// The form of a decision table: which fields a case has and what each may hold. Nothing of a case
// is read before it was checked here. Private to the module.
#pragma once

#include "replay/shape.h"

// A document: a case with steps, or columns and rows (of which each row is checked by itself).
struct gs_error *form_check(const struct shape_source *src, const json_t *doc);
// The cell of a column, by the shape of the field that it stands for.
enum form_cell {
    FORM_STEP,      // field of the step
    FORM_EXPECT,    // … of expect
    FORM_METRIC,    // … of the first metric that is expected
    FORM_CONDITION, // … of the conditions that are expected
    FORM_OBSERVED,  // … of the first metric that is observed
    FORM_SPEC,      // checked as part of the spec
    FORM_CONFIG,
    FORM_TARGET, // quantity or percentage that the first metric of the spec aims at
};
struct gs_error *form_check_cell(const struct shape_source *src, enum form_cell place,
                                 const char *field, const json_t *cell);
// The autoscaler of a case as the API would validate it. object: with defaults.
struct gs_error *form_check_object(const struct shape_source *src, const json_t *doc,
                                   const json_t *object);
