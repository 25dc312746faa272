// SPDX-License-Identifier: Apache-2.0
// Durations in the notation of Prometheus: whole numbers with units, in milliseconds. A year has
// 365 days. The limit is half of what a 64-bit number of nanoseconds holds, so that one can be
// added to a time.
#include "codec/yaml_reader.h"

#include "base/clock.h"

#include <ctype.h>

// https://prometheus.io/docs/prometheus/latest/configuration/configuration/: units y w d h m s ms,
// each at most once, in this order.
bool codec_parse_duration(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"y", INT64_C(31536000000)},
                 {"w", 604800000},
                 {"d", 86400000},
                 {"h", 3600000},
                 {"m", 60000},
                 {"s", 1000},
                 {"ms", 1}};
    if (gs_streq(text, "0")) {
        *ret_ms = 0;
        return true;
    }
    int64_t total = 0;
    size_t next = 0;
    if (!*text)
        return false;
    for (const char *p = text; *p;) {
        int64_t n = 0;
        if (!isdigit((unsigned char)*p))
            return false;
        for (; isdigit((unsigned char)*p); p++)
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
                return false;
        size_t len = strspn(p, "ywdhms"), unit = next;
        while (unit < GS_ARRAY_LEN(units) &&
               (strlen(units[unit].name) != len || memcmp(units[unit].name, p, len) != 0))
            unit++;
        if (unit == GS_ARRAY_LEN(units) || __builtin_mul_overflow(n, units[unit].ms, &n) ||
            __builtin_add_overflow(total, n, &total))
            return false;
        next = unit + 1;
        p += len;
    }
    // In nanoseconds, it can be added to a time of today: about 146 years.
    if (total > INT64_MAX / 2 / GS_NS_PER_MS)
        return false;
    *ret_ms = total;
    return true;
}
