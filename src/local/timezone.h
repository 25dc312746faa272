// SPDX-License-Identifier: Apache-2.0
// Time zones of the IANA database, as offsets from UTC. Objects are immutable. Specification: TZif
// (RFC 9636); the rule for times after the last transition is a TZ string of POSIX.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>

struct local_timezone;

// Loads a zone such as "Europe/Berlin" from the system's database. Fails with "unknown time zone
// X".
struct gs_error *local_timezone_load(const char *name, struct local_timezone **ret);
// Parses the content of a TZif file.
struct gs_error *local_timezone_parse(struct gs_slice file, struct local_timezone **ret);
void local_timezone_free(struct local_timezone *z);

// Seconds east of UTC at a Unix time in seconds. z NULL: the time zone of the process.
int64_t local_timezone_offset(const struct local_timezone *z, int64_t unix_s);

// The proleptic Gregorian calendar: days since 1970-01-01 of a date, and the reverse.
int64_t local_days_of(int64_t year, int month, int day);
void local_date_of(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day);
int local_weekday_of(int64_t days); // 0: Sunday
