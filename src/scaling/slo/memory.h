// SPDX-License-Identifier: Apache-2.0
// What one service keeps between decisions: what slo_decide() has learned, and the forecast of its
// demand. No clock; one thread at a time.
#pragma once

#include "forecast/forecast.h"
#include "slo/slo.h"

struct slo_memory;

struct slo_memory *slo_memory_new(void);
void slo_memory_free(struct slo_memory *m); // accepts NULL
GS_DEFINE_CLEANUP(struct slo_memory *, slo_memory_free)
// After the wall clock was set by ms; now_ms: the new time.
void slo_memory_shift(struct slo_memory *m, int64_t ms, int64_t now_ms);
// NULL: no demand is known yet.
const struct forecast *slo_memory_forecast(const struct slo_memory *m);
// As forecast_rise(), in the unit of the decision's demand. NAN, too, if the forecast is in another
// unit, as for the first decisions after a restart.
double slo_memory_rise(const struct slo_memory *m, const struct slo_decision *d);

// slo_decide() with the growth of the forecast at now + obs->start_seconds, which is set in the
// observation; the demand of the decision enters the forecast.
void slo_memory_decide(struct slo_memory *m, const struct slo_policy *policy,
                       struct slo_observation *obs, int64_t now_ms, bool terse,
                       struct slo_decision *ret);

// For restarts: {"learned": …, "forecast": …, "unit": "tokens/s"}; new reference.
json_t *slo_memory_json(const struct slo_memory *m, bool with_forecast, int64_t now_ms);
// Merges with what *m has learned since. GS_EINVAL: not such an object; *m is unchanged. A forecast
// that is wrong is left out.
struct gs_error *slo_memory_restore(struct slo_memory *m, const json_t *in, int64_t now_ms);
