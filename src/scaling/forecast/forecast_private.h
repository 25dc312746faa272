// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the module: what a forecast keeps.
#pragma once

#include "forecast/forecast.h"

enum {
    DAY = 1440, // minutes
    LEVEL = 30, // minutes whose ratio is today's level
    MINUTES = DAY + LEVEL + 2,
    QUARTER = 15, // minutes
    WEEK = 7 * DAY / QUARTER,
    QUARTERS = WEEK + 4,
    MOST_AHEAD = 16, // of the last closed minute: the time of a start, and the open minute
    RECENT = 15,     // minutes; with MOST_AHEAD, a wrong method is off after half an hour
    JUDGED = 102, // quarters: a day, and the longest horizon, so that the burst of yesterday counts
};
#define FORECAST_MINUTE_MS INT64_C(60000)

// Sums over the minutes of a quarter for which a method had a forecast: the squares of its errors,
// of those of the last value, and of the demand. Squares, because a burst that is missed matters
// more than noise.
struct forecast_squares {
    float own, last, demand;
    uint16_t n;
};
struct forecast_errors {
    struct forecast_squares quarters[JUDGED]; // by quarter % JUDGED
    float recent[RECENT];                     // by minute % RECENT; NAN: not measured
};

struct forecast {
    int64_t minute; // the one that is open; 0: no value yet
    double sum;
    uint64_t n;
    int ahead;
    float minutes[MINUTES];   // by minute % MINUTES; NAN: unknown
    float quarters[QUARTERS]; // by quarter % QUARTERS
    double quarter_sum;
    int quarter_n;
    double level, slope; // NAN: no trend
    // Forecasts by the minute that they are for; NAN: none.
    float made[FORECAST_METHODS][MOST_AHEAD + 1];
    float next[FORECAST_METHODS]; // the newest ones
    struct forecast_errors errors[FORECAST_METHODS];
};
