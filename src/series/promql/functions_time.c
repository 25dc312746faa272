// SPDX-License-Identifier: Apache-2.0
// Date and time functions, in UTC, of seconds since 1970.
#include "promql/function_table.h"

#include <math.h>

struct parts {
    int64_t year;
    int month, day, day_of_year, day_of_week, hour, minute; // month, day and day of year from 1
};

// NaN and values beyond 64 bits become the minimum of int64_t, and seconds are counted from a year
// far in the past, modulo 2^64. The results for such values are then the same as those of
// Prometheus on x86-64.
enum { DAYS_400_YEARS = 146097, DAY_S = 86400 };
#define YEAR_ZERO   INT64_C(-292277022400)                                  // divisible by 400
#define BEFORE_1970 (UINT64_C(9223371966579724800) + UINT64_C(62135596800)) // s from year zero + 1

static bool leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t to_int64(double v)
{
    return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? (int64_t)v : INT64_MIN;
}

// The Gregorian calendar from a count of days: years start in March, so that the leap day is last.
static struct parts parts_of(double v)
{
    uint64_t s = (uint64_t)to_int64(v) + BEFORE_1970;
    struct parts p = {.hour = (int)(s % DAY_S / 3600), .minute = (int)(s % 3600 / 60)};
    uint64_t days = s / DAY_S; // since 1 January of year zero + 1, a Monday
    p.day_of_week = (int)((days + 1) % 7);
    uint64_t since_march = days + 306; // since 1 March of year zero
    uint64_t era = since_march / DAYS_400_YEARS;
    int doe = (int)(since_march % DAYS_400_YEARS);
    int yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int month = (5 * doy + 2) / 153; // from March
    p.day = doy - (153 * month + 2) / 5 + 1;
    p.month = month < 10 ? month + 3 : month - 9;
    p.year = YEAR_ZERO + (int64_t)era * 400 + yoe + (p.month <= 2);
    p.day_of_year = p.month <= 2 ? doy - 305 : doy + 60 + leap(p.year);
    return p;
}

#define PART(name, expression)                                                                     \
    double promql_map_##name(double v, const double *args, size_t n_args)                          \
    {                                                                                              \
        (void)args, (void)n_args;                                                                  \
        struct parts p = parts_of(v);                                                              \
        return expression;                                                                         \
    }
PART(minute, p.minute)
PART(hour, p.hour)
PART(day_of_week, p.day_of_week)
PART(day_of_month, p.day)
PART(day_of_year, p.day_of_year)
PART(month, p.month)
PART(year, (double)p.year)
#undef PART

double promql_map_days_in_month(double v, const double *args, size_t n_args)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    (void)args, (void)n_args;
    struct parts p = parts_of(v);
    return p.month == 2 && leap(p.year) ? 29 : days[p.month - 1];
}
