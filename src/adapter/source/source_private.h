// SPDX-License-Identifier: Apache-2.0
// Answers of Prometheus' HTTP API, read in one pass.
#pragma once

#include "adapter/source/source.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"

// status: the HTTP status. The body is taken, also with an error.
struct gs_error *source_take_query(int status, struct gs_buf *body, struct source_result **ret);
struct gs_error *source_read_query(int status, struct gs_slice body, struct source_result **ret);
struct gs_error *source_read_series(int status, struct gs_slice body, struct source_shapes **ret);

// A list of series, read as it comes: of what was fed only the shapes are kept.
struct source_series_reader;
struct source_series_reader *source_series_reader_new(void);
void source_series_reader_free(struct source_series_reader *r); // NULL is fine
struct gs_error *source_series_reader_feed(struct source_series_reader *r, struct gs_slice bytes);
// Once, when all was fed.
struct gs_error *source_series_reader_end(struct source_series_reader *r, int status,
                                          struct source_shapes **ret);

// --- answer private ---
//
// Between the files that read answers.

#define SOURCE_ANSWER_MAX_ARENA ((size_t)512 * 1024 * 1024)

// Opens the envelope of a body; its "data", raw, or the error that it tells.
struct gs_error *source_answer_open(int status, struct gs_slice body, struct gs_arena *a,
                                    struct gs_slice *ret_data);
struct gs_error *source_answer_malformed(const struct codec_json_pull *j);
