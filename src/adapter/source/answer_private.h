// SPDX-License-Identifier: Apache-2.0
// Between the files that read answers.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "codec/json.h"

#define SOURCE_ANSWER_MAX_ARENA ((size_t)512 * 1024 * 1024)

// Opens the envelope of a body; its "data", raw, or the error that it tells.
struct gs_error *source_answer_open(int status, struct gs_slice body, struct gs_arena *a,
                                    struct gs_slice *ret_data);
struct gs_error *source_answer_malformed(const struct codec_json_pull *j);
