// SPDX-License-Identifier: Apache-2.0
// Shared by the files of src/adapter/source only: parsers for responses of Prometheus' HTTP API.
// https://prometheus.io/docs/prometheus/latest/querying/api/
#pragma once

#include "adapter/source/source.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"

// status: the HTTP status. source_take_query() takes the body, also on an error. GS_EPROTO: the
// response is not one of Prometheus.
struct gs_error *source_take_query(int status, struct gs_buf *body, struct source_result **ret);
struct gs_error *source_read_query(int status, struct gs_slice body, struct source_result **ret);
struct gs_error *source_read_series(int status, struct gs_slice body, struct source_shapes **ret);
// Of /api/v1/label/__name__/values. Sorted; series of a name: 1.
struct gs_error *source_read_names(int status, struct gs_slice body, struct source_shapes **ret);

// Of /api/v1/metadata. *ret_type: of this metric; in the arena. NULL: it is not listed, or its
// targets state different types.
struct gs_error *source_read_type(int status, struct gs_slice body, struct gs_slice metric,
                                  struct gs_arena *a, const char **ret_type);

// Parses a list of series incrementally and keeps only its shapes.
struct source_series_reader;
struct source_series_reader *source_series_reader_new(void);
void source_series_reader_free(struct source_series_reader *r); // NULL is fine
struct gs_error *source_series_reader_feed(struct source_series_reader *r, struct gs_slice bytes);
// Call it once, after the last bytes.
struct gs_error *source_series_reader_end(struct source_series_reader *r, int status,
                                          struct source_shapes **ret);

// --- aliases ---

struct source_aliases;
struct source_aliases *source_aliases_new(void);
void source_aliases_free(struct source_aliases *a); // NULL is fine
// a may be NULL. See source_aliased_query().
void source_aliases_query(const struct source_aliases *a, const char *promql,
                          struct gs_buf *ret_query, struct gs_buf *ret_notes);
// The selector of a list that also has the other names. Empty: the same.
void source_aliases_selector(const struct source_aliases *a, const char *selector,
                             struct gs_buf *ret);
// Adds the series under their other names to the list that the selector found, removes those that
// it does not select, and notes which names exist.
void source_aliases_complete(struct source_aliases *a, const char *selector,
                             struct source_shapes *shapes);

// --- envelope ---

#define SOURCE_ANSWER_MAX_ARENA ((size_t)512 * 1024 * 1024)

// Parses the envelope of a response: returns its raw "data" or the error that it contains.
struct gs_error *source_answer_open(int status, struct gs_slice body, struct gs_arena *a,
                                    struct gs_slice *ret_data);
struct gs_error *source_answer_malformed(const struct codec_json_pull *j);
