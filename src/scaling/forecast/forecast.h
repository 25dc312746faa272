// SPDX-License-Identifier: Apache-2.0
// Forecast of a demand some minutes ahead, so that pods are ready when it comes. Four methods run
// side by side, and each one's error is measured as time passes. The forecast is that of the method
// with the smallest error of the last day, if it is at least 10 % better than the last value. A
// method that was worse in the last minutes is off. The forecast is never below the last value,
// because it must not scale down. Pure: times come from the caller.
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"

#include <stdbool.h>
#include <stdint.h>

enum forecast_method {
    FORECAST_LAST,      // no change
    FORECAST_TREND,     // the change of the last minutes continues, and flattens
    FORECAST_YESTERDAY, // the course of the same time yesterday, at today's level
    FORECAST_WEEK,      // … of the same time last week
    FORECAST_METHODS,
};
const char *forecast_method_name(enum forecast_method method); // "same time yesterday"

// About 16 KiB: a day of minutes and a week of quarters of an hour.
struct forecast;

struct forecast *forecast_new(void);
void forecast_free(struct forecast *f); // NULL is fine
GS_DEFINE_CLEANUP(struct forecast *, forecast_free)

// Adds a value of the demand, in any unit, at least 0; other values are ignored. Values of a minute
// are averaged. Times must not decrease; after a gap of minutes the trend starts again.
void forecast_observe(struct forecast *f, double demand, int64_t now_ms);
// The time ahead, such as the p90 of a start; rounded up to minutes, 1 to 15. Errors are measured
// at this distance. Call it when the time changes; the default is 1 minute.
void forecast_set_horizon(struct forecast *f, int64_t ms);
// Adds the minutes of a newer forecast of the same demand that this one does not have.
void forecast_append(struct forecast *f, const struct forecast *newer);
// Shifts the times after the wall clock was set by this amount, in whole minutes.
void forecast_shift(struct forecast *f, int64_t ms);

#define FORECAST_MAX_GROWTH 10.0

struct forecast_result {
    enum forecast_method method; // FORECAST_LAST: no forecast
    double growth;               // expected demand / demand of the last minute, 1 to
                                 // FORECAST_MAX_GROWTH
    bool off; // the best method of the day was wrong in the last minutes: no forecast
    int64_t horizon_ms;
    // Error of the last day, relative to the demand (root mean squares). NAN: not measured yet.
    double errors[FORECAST_METHODS];
};
void forecast_read(const struct forecast *f, struct forecast_result *ret);
// By how much the demand of a minute rose within the horizon, in nine of ten minutes of the last
// day; at least 0, in the unit of the demand. NAN: fewer than 60 minutes are known.
double forecast_rise(const struct forecast *f);
// {"method", "growth", "off", "horizonSeconds", "errors": {"last value": 0.1, …}}; new reference.
json_t *forecast_json(const struct forecast_result *r);
// "+18 % in 2 min by the same time yesterday (error 6 %, of the last value 14 %)".
void forecast_text(const struct forecast_result *r, struct gs_buf *out);

// --- for restarts ---

// All but the forecasts that were made; at most about 60 KB of text. New reference.
json_t *forecast_state_json(const struct forecast *f);
// GS_EINVAL: not such an object, or from the future. Numbers out of range are unknown. The time
// since then is a gap.
struct gs_error *forecast_from_state(const json_t *in, int64_t now_ms, struct forecast **ret);
