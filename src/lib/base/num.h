// SPDX-License-Identifier: Apache-2.0
// Checked, locale-independent numbers. Parsers require that the whole text is the number and that
// it is in range (GS_EINVAL).
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>

struct gs_error *gs_parse_i64(struct gs_slice s, int64_t min, int64_t max, int64_t *ret);
struct gs_error *gs_parse_u64(struct gs_slice s, uint64_t max, uint64_t *ret);
// Decimal and exponent forms, and Prometheus' Inf, +Inf, -Inf, NaN in any case. No hex floats.
struct gs_error *gs_parse_double(struct gs_slice s, double *ret);

// The shortest decimal text that reads back as the same double: "0.1", "1e+21", "NaN", "+Inf",
// in the form of Go's strconv 'g' with exponent threshold 21 (what Prometheus prints).
#define GS_DOUBLE_SIZE 40
char *gs_format_double(double v, char buf[GS_DOUBLE_SIZE]);
// The same without a NUL, for code where speed matters. Returns the end of the text. Numbers of at
// least 10^min_exponent are written without an exponent (Prometheus: -4 in text, -6 in JSON).
char *gs_put_double(char *at, double v, int min_exponent);
char *gs_put_u64(char *at, uint64_t v); // decimal, at most 20 digits
// Like printf's "%f": six decimals, rounded exactly. Returns the end of the text.
#define GS_FIXED6_SIZE 328
char *gs_put_fixed6(char *at, double v);

// For qsort(): numbers in ascending order. Doubles must not be NAN.
int gs_compare_doubles(const void *a, const void *b);
int gs_compare_int64s(const void *a, const void *b);

int64_t gs_add_clamped(int64_t a, int64_t b); // limited to the range of int64_t

// Two lowercase digits for each byte, without a NUL. Returns the end of the text.
char *gs_put_hex(char *at, const void *bytes, size_t len);
int gs_hex_digit(char c); // 0 … 15 in either case; -1: not a hexadecimal digit
