// SPDX-License-Identifier: Apache-2.0
// Parts of a time, in UTC, of seconds since 1970.
#include "promql/functions_private.h"

#include <math.h>
#include <time.h>

static struct tm parts_of(double v)
{
    struct tm tm = {0};
    // Beyond these the calendar has no meaning (and the conversion no value).
    time_t t = v >= -6.7e16 && v <= 6.7e16 ? (time_t)v : 0;
    (void)gmtime_r(&t, &tm);
    return tm;
}

#define PART(name, expression)                                                                     \
    double map_##name(double v, const double *args, size_t n_args)                                 \
    {                                                                                              \
        (void)args, (void)n_args;                                                                  \
        struct tm tm = parts_of(v);                                                                \
        return expression;                                                                         \
    }
PART(minute, tm.tm_min)
PART(hour, tm.tm_hour)
PART(day_of_week, tm.tm_wday)
PART(day_of_month, tm.tm_mday)
PART(day_of_year, tm.tm_yday + 1)
PART(month, tm.tm_mon + 1)
PART(year, (double)tm.tm_year + 1900)
#undef PART

double map_days_in_month(double v, const double *args, size_t n_args)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    (void)args, (void)n_args;
    struct tm tm = parts_of(v);
    long year = tm.tm_year + 1900L;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return tm.tm_mon == 1 && leap ? 29 : days[tm.tm_mon];
}
