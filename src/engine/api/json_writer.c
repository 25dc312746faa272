// SPDX-License-Identifier: Apache-2.0
// Times, values and samples in JSON as Prometheus prints them, written into a buffer without a
// tree: a response can have millions of points. The put functions expect that the caller has
// reserved the space, the add functions reserve it.
#include "engine/api/api_private.h"

#include "base/num.h"

char *engine_api_json_put_time(char *at, int64_t ms)
{
    uint64_t u = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    if (ms < 0)
        *at++ = '-';
    at = gs_put_u64(at, u / 1000);
    unsigned fraction = (unsigned)(u % 1000);
    if (fraction) {
        *at++ = '.';
        *at++ = (char)('0' + fraction / 100);
        *at++ = (char)('0' + fraction / 10 % 10);
        *at++ = (char)('0' + fraction % 10);
    }
    return at;
}

char *engine_api_json_put_value(char *at, double v)
{
    return gs_put_double(at, v, -6);
}

// --- into the buffer ---

static void took(struct gs_buf *out, const char *start, char *end)
{
    *end = '\0';
    out->len += (size_t)(end - start);
}

void engine_api_json_add_value(struct gs_buf *out, double v)
{
    char *at = gs_buf_room(out, ENGINE_API_JSON_VALUE_SIZE + 2);
    if (!at)
        return;
    char *end = at;
    *end++ = '"';
    end = engine_api_json_put_value(end, v);
    *end++ = '"';
    took(out, at, end);
}

void engine_api_json_add_point(struct gs_buf *out, int64_t t_ms, double v)
{
    char *at = gs_buf_room(out, 2 * ENGINE_API_JSON_VALUE_SIZE + 5);
    if (!at)
        return;
    char *end = at;
    *end++ = '[';
    end = engine_api_json_put_time(end, t_ms);
    *end++ = ',';
    *end++ = '"';
    end = engine_api_json_put_value(end, v);
    *end++ = '"';
    *end++ = ']';
    took(out, at, end);
}

void engine_api_json_add_seconds(struct gs_buf *out, double seconds)
{
    char *at = gs_buf_room(out, ENGINE_API_JSON_VALUE_SIZE);
    if (at)
        took(out, at, engine_api_json_put_value(at, seconds));
}
