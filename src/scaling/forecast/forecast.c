// SPDX-License-Identifier: Apache-2.0
// Minutes are closed one by one. When a minute closes, the forecasts that were made for it become
// errors, and each method makes its forecast for the minute that is the horizon away.
#include "forecast/forecast_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEW_RECENT = 10, // errors without which it is not judged
    FEW_ERRORS = 60, // errors without which a method is not used
    MAX_GAP = 5,     // minutes
    FEW_RISES = 60,  // minutes without which no rise is known
    RISE_PERCENT = 90,
};
#define BETTER  0.9 // of the error of the last value
#define WORSE   1.1
#define SMOOTH  0.5 // of the level and the slope
#define SLOPE   0.3
#define DAMPING 0.9 // of the slope, per minute

const char *forecast_method_name(enum forecast_method method)
{
    static const char *const names[FORECAST_METHODS] = {
        "last value", "trend", "same time yesterday", "same time last week"};
    return names[method];
}

static void clear(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = NAN;
}

static void forget_forecasts(struct forecast *f)
{
    for (size_t m = 0; m < FORECAST_METHODS; m++) {
        clear(f->made[m], MOST_AHEAD + 1);
        f->next[m] = NAN;
    }
}

struct forecast *forecast_new(void)
{
    struct forecast *f = gs_alloc(sizeof(*f));
    f->ahead = 2;
    f->level = f->slope = NAN;
    clear(f->minutes, MINUTES);
    clear(f->quarters, QUARTERS);
    forget_forecasts(f);
    for (size_t m = 0; m < FORECAST_METHODS; m++)
        clear(f->errors[m].recent, RECENT);
    return f;
}

void forecast_free(struct forecast *f)
{
    free(f);
}

// --- values ---

static double minute_at(const struct forecast *f, int64_t minute)
{
    return minute > f->minute - MINUTES && minute >= 0 ? (double)f->minutes[minute % MINUTES]
                                                       : (double)NAN;
}

static double quarter_at(const struct forecast *f, int64_t quarter)
{
    return quarter >= 0 ? (double)f->quarters[quarter % QUARTERS] : (double)NAN;
}

// The mean of the known values of the LEVEL minutes until this one; NAN: fewer than half are known.
static double level_until(const struct forecast *f, int64_t minute)
{
    double sum = 0;
    int n = 0;
    for (int64_t m = minute - LEVEL + 1; m <= minute; m++) {
        double v = minute_at(f, m);
        if (isnan(v))
            continue;
        sum += v;
        n++;
    }
    return n >= LEVEL / 2 ? sum / n : (double)NAN;
}

static double week_level(const struct forecast *f, int64_t minute)
{
    int64_t q = minute / QUARTER - WEEK;
    return (quarter_at(f, q - 1) + quarter_at(f, q)) / 2;
}

// Between the middles of two quarters.
static double week_at(const struct forecast *f, int64_t minute)
{
    double at = ((double)minute + 0.5) / QUARTER - 0.5 - WEEK;
    double low = floor(at), part = at - low;
    double a = quarter_at(f, (int64_t)low), b = quarter_at(f, (int64_t)low + 1);
    return a + (b - a) * part;
}

// --- methods ---

static double scaled(double past, double level_then, double level_now)
{
    double ratio = level_now / level_then;
    if (!(ratio > 0) || isinf(ratio))
        return (double)NAN;
    ratio = ratio < 0.5 ? 0.5 : ratio > 2 ? 2 : ratio;
    return past * ratio;
}

static double trend_ahead(const struct forecast *f)
{
    double steps = DAMPING * (1 - pow(DAMPING, f->ahead)) / (1 - DAMPING);
    return f->level + f->slope * steps;
}

// For the minute that is the horizon after `last`, which has just closed.
static double predict(const struct forecast *f, enum forecast_method method, int64_t last)
{
    double now = level_until(f, last);
    switch (method) {
    case FORECAST_TREND:
        return trend_ahead(f);
    case FORECAST_YESTERDAY:
        return scaled(minute_at(f, last + f->ahead - DAY), level_until(f, last - DAY), now);
    case FORECAST_WEEK:
        return scaled(week_at(f, last + f->ahead), week_level(f, last), now);
    case FORECAST_LAST:
    case FORECAST_METHODS:
        break;
    }
    return minute_at(f, last);
}

// A forecast neither scales down nor grows without limit.
static double bounded(double value, double last)
{
    if (isnan(value))
        return value;
    double most = last * FORECAST_MAX_GROWTH;
    return value < last ? last : value > most ? most : value;
}

// --- closing a minute ---

static void follow_trend(struct forecast *f, double value)
{
    if (isnan(f->level)) {
        f->level = value;
        f->slope = 0;
        return;
    }
    double before = f->level, slope = f->slope * DAMPING;
    f->level = SMOOTH * value + (1 - SMOOTH) * (before + slope);
    f->slope = SLOPE * (f->level - before) + (1 - SLOPE) * slope;
}

static void measure(struct forecast_errors *e, double forecast, double last, double value,
                    int64_t minute)
{
    struct forecast_squares *q = &e->quarters[minute / QUARTER % JUDGED];
    double error = forecast - value;
    e->recent[minute % RECENT] = (float)fabs(error);
    if (isnan(error) || isnan(last))
        return;
    q->own += (float)(error * error);
    q->last += (float)((last - value) * (last - value));
    q->demand += (float)(value * value);
    q->n++;
}

static void add_to_quarter(struct forecast *f, double value, int64_t minute)
{
    f->quarter_sum += value;
    f->quarter_n++;
    f->quarters[minute / QUARTER % QUARTERS] = (float)(f->quarter_sum / f->quarter_n);
    if (minute % QUARTER == QUARTER - 1) {
        f->quarter_sum = 0;
        f->quarter_n = 0;
    }
}

// Forgets the errors of the quarters from `first` to `end`, which begin now.
static void begin_quarters(struct forecast *f, int64_t first, int64_t end)
{
    for (int64_t q = end - first >= JUDGED ? end - JUDGED + 1 : first; q <= end; q++)
        for (size_t m = 0; m < FORECAST_METHODS; m++)
            f->errors[m].quarters[q % JUDGED] = (struct forecast_squares){0};
}

static void close_minute(struct forecast *f, double value)
{
    int64_t last = f->minute;
    f->minutes[last % MINUTES] = (float)value;
    add_to_quarter(f, value, last);
    follow_trend(f, value);
    size_t at = (size_t)(last % (MOST_AHEAD + 1));
    double by_last = (double)f->made[FORECAST_LAST][at];
    for (size_t m = 0; m < FORECAST_METHODS; m++) {
        float *made = f->made[m];
        measure(&f->errors[m], (double)made[at], by_last, value, last);
        made[at] = NAN;
        f->next[m] = (float)bounded(predict(f, (enum forecast_method)m, last), value);
        made[(last + f->ahead) % (MOST_AHEAD + 1)] = f->next[m];
    }
}

// Minutes without a value, of which nothing is known.
static void skip_minutes(struct forecast *f, int64_t from, int64_t to)
{
    int64_t gap = to - from;
    for (int64_t m = gap > MINUTES ? to - MINUTES : from; m < to; m++) {
        f->minutes[m % MINUTES] = NAN;
        for (size_t k = 0; k < FORECAST_METHODS; k++) {
            f->made[k][m % (MOST_AHEAD + 1)] = NAN;
            f->errors[k].recent[m % RECENT] = NAN;
        }
    }
    int64_t first = from / QUARTER + 1, end = to / QUARTER;
    for (int64_t q = end - first > QUARTERS ? end - QUARTERS : first; q <= end; q++)
        f->quarters[q % QUARTERS] = NAN;
    begin_quarters(f, (from - 1) / QUARTER + 1, end);
    if (from / QUARTER != end)
        f->quarter_sum = f->quarter_n = 0;
    if (gap <= MAX_GAP)
        return;
    f->level = f->slope = NAN;
    forget_forecasts(f);
}

void forecast_observe(struct forecast *f, double demand, int64_t now_ms)
{
    int64_t minute = now_ms / FORECAST_MINUTE_MS;
    if (!isfinite(demand) || demand < 0 || demand > 1e15 || now_ms <= 0 || minute < f->minute)
        return;
    if (f->minute && minute > f->minute) {
        close_minute(f, f->sum / (double)f->n);
        skip_minutes(f, f->minute + 1, minute);
        f->sum = 0;
        f->n = 0;
    }
    f->minute = minute;
    f->sum += demand;
    f->n++;
}

void forecast_set_horizon(struct forecast *f, int64_t ms)
{
    int64_t ahead = ms <= 0 ? 2 : (ms - 1) / FORECAST_MINUTE_MS + 2;
    ahead = ahead > MOST_AHEAD ? MOST_AHEAD : ahead;
    if (ahead == f->ahead)
        return;
    f->ahead = (int)ahead;
    forget_forecasts(f);
}

void forecast_append(struct forecast *f, const struct forecast *newer)
{
    int64_t oldest = newer->minute - MINUTES + 1;
    for (int64_t m = f->minute < oldest ? oldest : f->minute + 1; m < newer->minute; m++)
        forecast_observe(f, minute_at(newer, m), m * FORECAST_MINUTE_MS);
    if (newer->n)
        forecast_observe(f, newer->sum / (double)newer->n, newer->minute * FORECAST_MINUTE_MS);
}

void forecast_shift(struct forecast *f, int64_t ms)
{
    struct forecast *old;
    int64_t by = ms / FORECAST_MINUTE_MS, minute = f->minute + by;
    if (!f->minute || !by)
        return;
    if (minute <= MINUTES || f->minute <= MINUTES) {
        struct forecast *empty = forecast_new();
        *f = *empty;
        forecast_free(empty);
        return;
    }
    old = gs_alloc(sizeof(*old));
    *old = *f;
    f->minute = minute;
    for (int64_t m = 0; m < MINUTES; m++)
        f->minutes[(minute - m) % MINUTES] = old->minutes[(old->minute - m) % MINUTES];
    // A quarter is moved by whole quarters only, and the newest one starts again.
    for (int64_t q = 0; q < QUARTERS; q++)
        f->quarters[(minute / QUARTER - q + QUARTERS) % QUARTERS] =
            old->quarters[(old->minute / QUARTER - q + QUARTERS) % QUARTERS];
    f->quarter_sum = f->quarter_n = 0;
    forget_forecasts(f);
    free(old);
}

// --- reading ---

struct sums {
    double own, last, demand;
    unsigned n;
};

static struct sums sums_of(const struct forecast_errors *e)
{
    struct sums sum = {0};
    for (size_t i = 0; i < JUDGED; i++) {
        sum.own += (double)e->quarters[i].own;
        sum.last += (double)e->quarters[i].last;
        sum.demand += (double)e->quarters[i].demand;
        sum.n += e->quarters[i].n;
    }
    return sum;
}

// Whether the method was worse than the last value in the last minutes.
static bool is_wrong(const struct forecast *f, size_t method)
{
    const struct forecast_errors *e = &f->errors[method], *last = &f->errors[FORECAST_LAST];
    double own = 0, other = 0;
    int n = 0;
    for (size_t i = 0; i < RECENT; i++) {
        if (isnan(e->recent[i]) || isnan(last->recent[i]))
            continue;
        own += (double)e->recent[i] * (double)e->recent[i];
        other += (double)last->recent[i] * (double)last->recent[i];
        n++;
    }
    return n >= FEW_RECENT && sqrt(own) > sqrt(other) * WORSE;
}

static size_t best_method(const struct forecast *f, const struct sums sums[FORECAST_METHODS])
{
    size_t best = FORECAST_LAST;
    double least = BETTER;
    for (size_t m = FORECAST_TREND; m < FORECAST_METHODS; m++) {
        double ratio = sums[m].last > 0 ? sqrt(sums[m].own / sums[m].last) : 1;
        if (sums[m].n < FEW_ERRORS || isnan(f->next[m]) || !(ratio < least))
            continue;
        best = m;
        least = ratio;
    }
    return best;
}

void forecast_read(const struct forecast *f, struct forecast_result *ret)
{
    struct sums sums[FORECAST_METHODS];
    double last = (double)f->next[FORECAST_LAST];
    *ret = (struct forecast_result){.growth = 1, .horizon_ms = (f->ahead - 1) * FORECAST_MINUTE_MS};
    for (size_t m = 0; m < FORECAST_METHODS; m++) {
        sums[m] = sums_of(&f->errors[m]);
        bool known = sums[m].n && sums[m].demand > 0;
        ret->errors[m] = known ? sqrt(sums[m].own / sums[m].demand) : (double)NAN;
    }
    size_t best = best_method(f, sums);
    ret->off = best != FORECAST_LAST && is_wrong(f, best);
    if (best == FORECAST_LAST || ret->off || !(last > 0))
        return;
    ret->method = (enum forecast_method)best;
    ret->growth = (double)f->next[best] / last;
}

double forecast_rise(const struct forecast *f)
{
    double rises[DAY];
    size_t n = 0;
    for (int64_t later = f->minute - 1; later > f->minute - 1 - DAY; later--) {
        double rise = minute_at(f, later) - minute_at(f, later - f->ahead);
        if (!isnan(rise))
            rises[n++] = rise > 0 ? rise : 0;
    }
    if (n < FEW_RISES)
        return (double)NAN;
    qsort(rises, n, sizeof(*rises), gs_compare_doubles);
    return rises[(n - 1) * RISE_PERCENT / 100];
}

json_t *forecast_json(const struct forecast_result *r)
{
    json_t *out = json_object(), *errors = json_object();
    codec_json_set_str(out, "method", forecast_method_name(r->method));
    json_object_set_new(out, "growth", json_real(r->growth));
    codec_json_set_bool(out, "off", r->off);
    codec_json_set_int(out, "horizonSeconds", r->horizon_ms / 1000);
    for (size_t m = 0; m < FORECAST_METHODS; m++)
        if (!isnan(r->errors[m]))
            json_object_set_new(errors, forecast_method_name((enum forecast_method)m),
                                json_real(r->errors[m]));
    json_object_set_new(out, "errors", errors);
    return out;
}

void forecast_text(const struct forecast_result *r, struct gs_buf *out)
{
    long long minutes = (long long)(r->horizon_ms / FORECAST_MINUTE_MS);
    if (r->off) {
        gs_buf_add_str(out, "no forecast: the best method was wrong in the last minutes");
        return;
    }
    if (r->method == FORECAST_LAST) {
        gs_buf_add_str(out, "no forecast: no method is better than the last value");
        return;
    }
    gs_buf_addf(out, "%+.0f %% in %lld min by the %s (error %.1f %%, of the last value %.1f %%)",
                (r->growth - 1) * 100, minutes, forecast_method_name(r->method),
                r->errors[r->method] * 100, r->errors[FORECAST_LAST] * 100);
}
