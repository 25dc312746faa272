// SPDX-License-Identifier: Apache-2.0
// Times and steps of the command line, in milliseconds since 1970: Unix seconds, RFC 3339, or
// relative to now. Steps of 0 are errors.
#include "base/clock.h"
#include "base/num.h"
#include "query/query_private.h"

#include <math.h>

#define MAX_SECONDS 1e12

static bool parse_seconds(const char *text, double *ret)
{
    struct gs_error *err = gs_parse_double(gs_slice_of(text), ret);
    gs_error_free(err);
    return !err && isfinite(*ret) && fabs(*ret) < MAX_SECONDS;
}

// "-1h30m" or "now-1h30m". A plain "-5" is a number of seconds since 1970.
static bool parse_relative(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    int64_t ns = 0;
    if (gs_starts(text, "now"))
        text += 3;
    if (*text == '\0') {
        *ret_ms = now_ms;
        return true;
    }
    if (*text != '-' && *text != '+')
        return false;
    struct gs_error *err = gs_parse_duration(gs_slice_of(text + 1), &ns);
    gs_error_free(err);
    *ret_ms = now_ms + (*text == '-' ? -ns : ns) / GS_NS_PER_MS;
    return !err;
}

// RFC 3339, with optional fractions of a second.
static bool parse_rfc3339(const char *text, int64_t *ret_ms)
{
    struct gs_error *err = gs_parse_rfc3339(gs_slice_of(text), ret_ms);
    gs_error_free(err);
    return !err;
}

struct gs_error *query_parse_time(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    double seconds;
    if (*text && parse_seconds(text, &seconds))
        *ret_ms = llround(seconds * 1000);
    else if (!*text || (!parse_relative(text, now_ms, ret_ms) && !parse_rfc3339(text, ret_ms)))
        return gs_error_new(GS_EINVAL,
                            "cannot read the time \"%s\": want now, -1h, 2026-01-02T15:04:05Z or "
                            "Unix seconds",
                            text);
    return NULL;
}

struct gs_error *query_parse_step(const char *text, int64_t *ret_ms)
{
    double seconds;
    int64_t ns = 0;
    bool number = parse_seconds(text, &seconds);
    struct gs_error *err = number ? NULL : gs_parse_duration(gs_slice_of(text), &ns);
    gs_error_free(err);
    int64_t ms = number ? llround(seconds * 1000) : ns / GS_NS_PER_MS;
    if (err || ms <= 0)
        return gs_error_new(GS_EINVAL, "cannot read the step \"%s\": want 15s or seconds", text);
    *ret_ms = ms;
    return NULL;
}

void query_add_seconds(struct gs_buf *out, int64_t ms)
{
    uint64_t a = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    gs_buf_addf(out, "%s%llu.%03u", ms < 0 ? "-" : "", (unsigned long long)(a / 1000),
                (unsigned)(a % 1000));
}
