// SPDX-License-Identifier: Apache-2.0
// JSON written directly into a buffer: what replies with many series consist of. Private.
#pragma once

#include "base/buf.h"

#include <stdint.h>

void engine_api_json_add_string(struct gs_buf *out, struct gs_slice s); // quoted and escaped
// Into memory that has room for this much; returns the place behind it, without a NUL.
#define ENGINE_API_JSON_STRING_SIZE(len) ((len)*6 + 2)
char *engine_api_json_put_string(char *at, struct gs_slice s);
char *engine_api_json_put_time(char *at, int64_t ms);
char *engine_api_json_put_value(char *at, double v); // unquoted
void engine_api_json_add_text(struct gs_buf *out, const char *s);
// Unix milliseconds as seconds, with three decimals when it is not a whole second.
void engine_api_json_add_time(struct gs_buf *out, int64_t ms);
// A sample value: quoted, in Prometheus' form ("0.00001", "1e-07", "+Inf").
void engine_api_json_add_value(struct gs_buf *out, double v);
// [time,"value"]
void engine_api_json_add_point(struct gs_buf *out, int64_t t_ms, double v);
// Seconds as a number.
void engine_api_json_add_seconds(struct gs_buf *out, double seconds);

enum { ENGINE_API_JSON_VALUE_SIZE = 40 }; // holds the longest text of a value or time
