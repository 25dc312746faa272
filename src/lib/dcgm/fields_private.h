// SPDX-License-Identifier: Apache-2.0
// The tables behind the lookups of fields.h.
#pragma once

#include "dcgm/abi.h"
#include "dcgm/fields.h"

extern const struct dcgm_field dcgm_field_table[]; // by id
extern const size_t dcgm_field_table_len;
extern const struct dcgm_unit_change dcgm_unit_changes[];
extern const size_t dcgm_unit_changes_len;
