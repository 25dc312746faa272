// SPDX-License-Identifier: Apache-2.0
// What GPUs and nodes cost: a table in a YAML file, or in the scenario.
#pragma once

#include "base/error.h"
#include "codec/json.h"

#include <stddef.h>

// New reference of a table that holds. Errors begin with the path.
struct gs_error *replay_prices_load(const char *path, json_t **ret);
struct gs_error *replay_prices_check(const json_t *table);
// Of an hour. Errors name what the table has.
struct gs_error *replay_prices_of_gpu(const json_t *table, const char *model, double *ret);
struct gs_error *replay_prices_of_instance(const json_t *table, const char *type, size_t *ret_gpus,
                                           double *ret);
