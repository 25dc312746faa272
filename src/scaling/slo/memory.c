// SPDX-License-Identifier: Apache-2.0
// What one service keeps between decisions. A demand in another unit is another course, so its
// forecast begins again. The first decisions after a restart know no rates, and their demand is in
// requests: they do not count.
#include "slo/memory.h"

#include "base/mem.h"
#include "base/slice.h"
#include "slo/slo_private.h"

#include <math.h>

struct slo_memory {
    struct slo_state *state;
    struct forecast *forecast; // of the demand in `unit`; NULL: no demand yet
    const char *unit;
    int64_t other_ms; // since when the demand is in another unit; 0: it is not
};

#define OTHER_UNIT_MS (INT64_C(15) * 60 * 1000) // after which a forecast begins again

struct slo_memory *slo_memory_new(void)
{
    struct slo_memory *m = gs_alloc(sizeof(*m));
    m->state = slo_state_new();
    return m;
}

void slo_memory_free(struct slo_memory *m)
{
    if (!m)
        return;
    slo_state_free(m->state);
    forecast_free(m->forecast);
    free(m);
}

void slo_memory_shift(struct slo_memory *m, int64_t ms, int64_t now_ms)
{
    struct slo_state *moved = NULL;
    CODEC_AUTO_JSON json_t *json = slo_state_json(m->state, now_ms - ms);
    GS_AUTO_ERROR struct gs_error *err = slo_state_from_json(json, now_ms, &moved);
    slo_state_free(m->state);
    m->state = err ? slo_state_new() : moved;
    if (m->forecast)
        forecast_shift(m->forecast, ms);
    m->other_ms = 0;
}

const struct forecast *slo_memory_forecast(const struct slo_memory *m)
{
    return m->forecast;
}

double slo_memory_rise(const struct slo_memory *m, const struct slo_decision *d)
{
    return m->forecast && gs_streq(m->unit, d->demand_unit) ? forecast_rise(m->forecast)
                                                            : (double)NAN;
}

static double read_growth(struct slo_memory *m, double start_s)
{
    struct forecast_result r;
    if (!m->forecast)
        return 1;
    forecast_set_horizon(m->forecast, (int64_t)(start_s * 1000));
    forecast_read(m->forecast, &r);
    return r.growth;
}

static bool is_rate(const char *unit)
{
    return !gs_streq(unit, "requests");
}

static void note_demand(struct slo_memory *m, const struct slo_decision *d, int64_t now_ms)
{
    if (isnan(d->demand))
        return;
    bool other = m->forecast && !gs_streq(m->unit, d->demand_unit);
    m->other_ms = !other ? 0 : m->other_ms ? m->other_ms : now_ms;
    if (other && is_rate(m->unit) && now_ms - m->other_ms < OTHER_UNIT_MS)
        return;
    if (other)
        forecast_free(GS_TAKE(m->forecast));
    m->other_ms = 0;
    if (!m->forecast)
        m->forecast = forecast_new();
    m->unit = d->demand_unit;
    forecast_observe(m->forecast, d->demand, now_ms);
}

void slo_memory_decide(struct slo_memory *m, const struct slo_policy *policy,
                       struct slo_observation *obs, int64_t now_ms, bool terse,
                       struct slo_decision *ret)
{
    obs->growth = read_growth(m, obs->start_seconds);
    slo_decide(policy, obs, m->state, now_ms, terse, ret);
    note_demand(m, ret, now_ms);
}

// --- for restarts ---

json_t *slo_memory_json(const struct slo_memory *m, bool with_forecast, int64_t now_ms)
{
    json_t *out = slo_state_json(m->state, now_ms);
    if (!m->forecast || !with_forecast)
        return out;
    codec_json_set_str(out, "unit", m->unit);
    json_object_set_new(out, "forecast", forecast_state_json(m->forecast));
    return out;
}

struct gs_error *slo_memory_restore(struct slo_memory *m, const json_t *in, int64_t now_ms)
{
    struct slo_state *state = NULL;
    struct forecast *forecast = NULL;
    const char *unit = slo_demand_unit(codec_json_str(in, "unit", NULL));
    struct gs_error *err = slo_state_from_json(in, now_ms, &state);
    if (err)
        return err;
    GS_AUTO_ERROR struct gs_error *no_forecast =
        unit ? forecast_from_state(json_object_get(in, "forecast"), now_ms, &forecast) : NULL;
    slo_learned_merge(m->state, state);
    slo_state_free(state);
    if (forecast && m->forecast && gs_streq(m->unit, unit))
        forecast_append(forecast, m->forecast);
    else if (m->forecast && is_rate(m->unit))
        forecast_free(GS_TAKE(forecast));
    if (!forecast)
        return NULL;
    forecast_free(m->forecast);
    m->forecast = forecast;
    m->unit = unit;
    return NULL;
}
