// SPDX-License-Identifier: Apache-2.0
// The prices of GPUs and nodes per hour: a table in a YAML file, or in a scenario of a replay.
// docs/replay.md describes the format.
#pragma once

#include "base/error.h"
#include "codec/json.h"

// Replaces the table, which may be NULL, by the valid one of the file. After an error, which begins
// with the path, it is unchanged.
struct gs_error *nodes_prices_load(const char *path, json_t **table);
struct gs_error *nodes_prices_check(const json_t *table);
// Per hour. Errors list the entries of the table.
struct gs_error *nodes_prices_of_gpu(const json_t *table, const char *model, double *ret);
struct gs_error *nodes_prices_of_instance(const json_t *table, const char *type, size_t *ret_gpus,
                                          double *ret);
// The price of one GPU for an hour: that of its machine type, otherwise of its pool, otherwise of
// its model. The model is the driver's name of the product ("NVIDIA H100 80GB HBM3"); an entry
// whose words it contains ("H100") applies to it, the longest one first. Texts may be empty. false:
// no entry applies. table may be NULL.
bool nodes_prices_find(const json_t *table, const char *machine, const char *pool,
                       const char *model, double *ret);
