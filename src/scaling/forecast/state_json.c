// SPDX-License-Identifier: Apache-2.0
// A forecast as JSON, so that it survives a restart. Demands and errors are rounded to four digits.
// The file may have been edited: numbers out of range are unknown.
#include "forecast/forecast_private.h"

#include "base/mem.h"

#include <math.h>

#define MAX_DEMAND 1e15 // as of forecast_observe()
#define MAX_SQUARE 1e33 // of sums of a quarter

// --- writing ---

static json_t *number_json(double v)
{
    if (!isfinite(v))
        return json_null();
    double unit = v != 0 ? pow(10, floor(log10(fabs(v))) - 3) : 1;
    return json_real(unit > 0 && isfinite(1 / unit) ? round(v / unit) * unit : 0);
}

// The newest n values of a ring until `end`, the oldest first, without the unknown ones before the
// first known one.
static json_t *ring_json(const float *values, int64_t size, int64_t end)
{
    json_t *out = json_array();
    for (int64_t at = end > size ? end - size : 0; at < end; at++) {
        double v = (double)values[at % size];
        if (json_array_size(out) || !isnan(v))
            json_array_append_new(out, number_json(v));
    }
    return out;
}

// [{"ago": quarters, "own", "last", "demand", "n"}, …] of those that have errors.
static json_t *quarters_json(const struct forecast_errors *e, int64_t last)
{
    json_t *out = json_array();
    for (int64_t ago = 0; ago < JUDGED && ago <= last; ago++) {
        const struct forecast_squares *q = &e->quarters[(last - ago) % JUDGED];
        json_t *one = q->n ? json_array() : NULL;
        if (!one)
            continue;
        json_array_append_new(one, json_integer(ago));
        json_array_append_new(one, number_json((double)q->own));
        json_array_append_new(one, number_json((double)q->last));
        json_array_append_new(one, number_json((double)q->demand));
        json_array_append_new(one, json_integer(q->n));
        json_array_append_new(out, one);
    }
    return out;
}

json_t *forecast_state_json(const struct forecast *f)
{
    json_t *out = json_object(), *errors;
    if (!f->minute)
        return out;
    errors = json_object();
    codec_json_set_int(out, "minute", f->minute);
    json_object_set_new(out, "open", number_json(f->sum / (double)f->n));
    codec_json_set_int(out, "ahead", f->ahead);
    json_object_set_new(out, "level", number_json(f->level));
    json_object_set_new(out, "slope", number_json(f->slope));
    json_object_set_new(out, "minutes", ring_json(f->minutes, MINUTES, f->minute));
    json_object_set_new(out, "quarters", ring_json(f->quarters, QUARTERS, f->minute / QUARTER + 1));
    for (size_t m = 0; m < FORECAST_METHODS; m++) {
        json_t *one = json_object();
        json_object_set_new(one, "quarters", quarters_json(&f->errors[m], f->minute / QUARTER));
        json_object_set_new(one, "recent", ring_json(f->errors[m].recent, RECENT, f->minute));
        json_object_set_new(errors, forecast_method_name((enum forecast_method)m), one);
    }
    json_object_set_new(out, "errors", errors);
    return out;
}

// --- reading ---

// NAN: absent, or out of range.
static double number(const json_t *in, double low, double high)
{
    double v = json_is_number(in) ? json_number_value(in) : (double)NAN;
    return v >= low && v <= high ? v : (double)NAN;
}

static void read_ring(const json_t *in, float *values, int64_t size, int64_t end)
{
    int64_t n = (int64_t)json_array_size(in), skip = n > size ? n - size : 0;
    for (int64_t i = skip; i < n && end - n + i >= 0; i++)
        values[(end - n + i) % size] = (float)number(json_array_get(in, (size_t)i), 0, MAX_DEMAND);
}

static float square(const json_t *in, size_t at)
{
    double v = number(json_array_get(in, at), 0, MAX_SQUARE);
    return isnan(v) ? 0 : (float)v;
}

static void read_quarters(const json_t *in, struct forecast_errors *e, int64_t last)
{
    for (size_t i = 0; i < json_array_size(in) && i < JUDGED; i++) {
        const json_t *one = json_array_get(in, i);
        double ago = number(json_array_get(one, 0), 0, JUDGED - 1);
        double n = number(json_array_get(one, 4), 0, QUARTER);
        if (!isnan(ago) && !isnan(n) && last >= (int64_t)ago)
            e->quarters[(last - (int64_t)ago) % JUDGED] = (struct forecast_squares){
                square(one, 1), square(one, 2), square(one, 3), (uint16_t)n};
    }
}

static void read_errors(const json_t *in, struct forecast *f)
{
    for (size_t m = 0; m < FORECAST_METHODS; m++) {
        const json_t *one = json_object_get(in, forecast_method_name((enum forecast_method)m));
        read_quarters(json_object_get(one, "quarters"), &f->errors[m], f->minute / QUARTER);
        read_ring(json_object_get(one, "recent"), f->errors[m].recent, RECENT, f->minute);
    }
}

struct gs_error *forecast_from_state(const json_t *in, int64_t now_ms, struct forecast **ret)
{
    int64_t minute = codec_json_int(in, 0, "minute", NULL);
    double open = number(json_object_get(in, "open"), 0, MAX_DEMAND);
    if (minute <= MINUTES || minute > now_ms / FORECAST_MINUTE_MS || isnan(open))
        return gs_error_new(GS_EINVAL, "no minute of the past with a demand");
    struct forecast *f = forecast_new();
    int64_t ahead = codec_json_int(in, f->ahead, "ahead", NULL);
    f->minute = minute;
    f->sum = open;
    f->n = 1;
    if (ahead >= 2 && ahead <= MOST_AHEAD)
        f->ahead = (int)ahead;
    f->level = number(json_object_get(in, "level"), -MAX_DEMAND, MAX_DEMAND);
    f->slope = number(json_object_get(in, "slope"), -MAX_DEMAND, MAX_DEMAND);
    if (isnan(f->level) || isnan(f->slope))
        f->level = f->slope = (double)NAN;
    read_ring(json_object_get(in, "minutes"), f->minutes, MINUTES, minute);
    read_ring(json_object_get(in, "quarters"), f->quarters, QUARTERS, minute / QUARTER + 1);
    read_errors(json_object_get(in, "errors"), f);
    *ret = f;
    return NULL;
}
