// SPDX-License-Identifier: Apache-2.0
// Wide scans over a line. Private to the room.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The first '}' outside quotes in p..end, or end. p is outside quotes. A backslash within quotes
// takes the next byte with it. *ret_open: the text ends within quotes.
// What is readable ends at limit, not before end.
const char *metrics_scan_brace(const char *p, const char *end, const char *limit, bool *ret_open);
// The first byte of p..end that is not a letter, digit or '_' (nor, with colon, ':'), or end.
const char *metrics_scan_name(const char *p, const char *end, const char *limit, bool colon);
// The number at p, which ends at the first byte that cannot belong to it; NULL when it is not one
// that this can read exactly (then gs_parse_double decides).
const char *metrics_scan_number(const char *p, const char *end, double *ret);
bool metrics_utf8_ok(const char *p, size_t n);
