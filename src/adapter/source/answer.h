// SPDX-License-Identifier: Apache-2.0
// Answers of Prometheus' HTTP API, read in one pass.
#pragma once

#include "adapter/source/source.h"

// body is copied into the result. status: the HTTP status.
struct gs_error *source_read_query(int status, struct gs_slice body, struct source_result **ret);
struct gs_error *source_read_series(int status, struct gs_slice body, struct source_shapes **ret);
