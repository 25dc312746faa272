// SPDX-License-Identifier: Apache-2.0
// The SQLite file behind the store: one row an object. WAL mode, one transaction a write, exclusive
// lock, so that two programs cannot work on one data directory.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>

struct local_api_store_db;

typedef void (*local_api_store_db_row_fn)(void *arg, const char *bucket, const char *ns,
                                          const char *name, uint64_t rv, struct gs_slice body);

struct gs_error *local_api_store_db_open(const char *path, struct local_api_store_db **ret);
void local_api_store_db_close(struct local_api_store_db *db);
GS_DEFINE_CLEANUP(struct local_api_store_db *, local_api_store_db_close)
// All rows; ret_rv: no change was ever given a greater resourceVersion.
struct gs_error *local_api_store_db_load(struct local_api_store_db *db,
                                         local_api_store_db_row_fn fn, void *arg, uint64_t *ret_rv);
struct gs_error *local_api_store_db_put(struct local_api_store_db *db, const char *bucket,
                                        const char *ns, const char *name, uint64_t rv,
                                        struct gs_slice body);
struct gs_error *local_api_store_db_delete(struct local_api_store_db *db, const char *bucket,
                                           const char *ns, const char *name, uint64_t rv);
