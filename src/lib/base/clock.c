// SPDX-License-Identifier: Apache-2.0
// Clocks, and texts of times and durations. Four clocks: monotonic for intervals, boot time for
// what goes on during suspend, real time for timestamps, processor time for limits. Durations have
// the syntax of Go's time.ParseDuration, dates that of RFC 3339; both are parsed without the
// locale.
#include "base/clock.h"

#include "base/num.h"

#include <stdio.h>
#include <time.h>

static int64_t read_clock_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * GS_NS_PER_SEC + ts.tv_nsec;
}

int64_t gs_mono_ns(void)
{
    return read_clock_ns(CLOCK_MONOTONIC);
}

int64_t gs_boot_ns(void)
{
    return read_clock_ns(CLOCK_BOOTTIME);
}

int64_t gs_thread_cpu_ns(void)
{
    return read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t gs_unix_ms(void)
{
    return read_clock_ns(CLOCK_REALTIME) / GS_NS_PER_MS;
}

int64_t gs_unix_us(void)
{
    return read_clock_ns(CLOCK_REALTIME) / 1000;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static size_t format_seconds(int64_t unix_s, char buf[GS_RFC3339_SIZE])
{
    time_t t = (time_t)unix_s;
    struct tm tm;
    if (!gmtime_r(&t, &tm) || tm.tm_year > 8099 || tm.tm_year < -1900)
        return (size_t)snprintf(buf, GS_RFC3339_SIZE, "0001-01-01T00:00:00");
    return (size_t)snprintf(buf, GS_RFC3339_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d",
                            tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
                            tm.tm_sec);
}

char *gs_format_rfc3339(int64_t unix_ms, char buf[GS_RFC3339_SIZE])
{
    size_t n = format_seconds(floor_div(unix_ms, 1000), buf);
    snprintf(buf + n, GS_RFC3339_SIZE - n, "Z");
    return buf;
}

char *gs_format_rfc3339_micro(int64_t unix_us, char buf[GS_RFC3339_SIZE])
{
    int64_t seconds = floor_div(unix_us, 1000000);
    size_t n = format_seconds(seconds, buf);
    snprintf(buf + n, GS_RFC3339_SIZE - n, ".%06dZ", (int)(unix_us - seconds * 1000000));
    return buf;
}

// Reads exactly n digits at *s and moves on.
static bool take_digits(struct gs_slice *s, size_t n, int *ret)
{
    if (s->len < n)
        return false;
    int v = 0;
    for (size_t i = 0; i < n; i++) {
        if (s->data[i] < '0' || s->data[i] > '9')
            return false;
        v = v * 10 + (s->data[i] - '0');
    }
    *s = gs_slice_make(s->data + n, s->len - n);
    *ret = v;
    return true;
}

static bool take_char(struct gs_slice *s, char c)
{
    if (!s->len || s->data[0] != c)
        return false;
    *s = gs_slice_make(s->data + 1, s->len - 1);
    return true;
}

// ".123456789" as milliseconds; digits past the third are read and dropped.
static bool take_fraction(struct gs_slice *s, int *ret_ms)
{
    *ret_ms = 0;
    if (!take_char(s, '.'))
        return true;
    int digit, scale = 100;
    size_t n = 0;
    while (take_digits(s, 1, &digit)) {
        *ret_ms += digit * scale;
        scale /= 10;
        n++;
    }
    return n > 0;
}

static bool take_zone(struct gs_slice *s, int *ret_seconds)
{
    *ret_seconds = 0;
    if (take_char(s, 'Z') || take_char(s, 'z'))
        return true;
    int sign = take_char(s, '+') ? 1 : take_char(s, '-') ? -1 : 0;
    int hours, minutes;
    if (!sign || !take_digits(s, 2, &hours) || !take_char(s, ':') || !take_digits(s, 2, &minutes) ||
        hours > 23 || minutes > 59)
        return false;
    *ret_seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap);
}

struct gs_error *gs_parse_rfc3339(struct gs_slice s, int64_t *ret_unix_ms)
{
    struct gs_slice rest = s;
    struct tm tm = {0};
    int year, month, ms, zone;
    bool ok =
        take_digits(&rest, 4, &year) && take_char(&rest, '-') && take_digits(&rest, 2, &month) &&
        take_char(&rest, '-') && take_digits(&rest, 2, &tm.tm_mday) &&
        (take_char(&rest, 'T') || take_char(&rest, 't')) && take_digits(&rest, 2, &tm.tm_hour) &&
        take_char(&rest, ':') && take_digits(&rest, 2, &tm.tm_min) && take_char(&rest, ':') &&
        take_digits(&rest, 2, &tm.tm_sec) && take_fraction(&rest, &ms) && take_zone(&rest, &zone) &&
        rest.len == 0;
    if (!ok || month < 1 || month > 12 || tm.tm_mday < 1 ||
        tm.tm_mday > days_of_month(year, month) || tm.tm_hour > 23 || tm.tm_min > 59 ||
        tm.tm_sec > 60)
        return gs_error_new(GS_EINVAL, "\"" GS_SLICE_FMT "\" is not an RFC 3339 time",
                            GS_SLICE_ARG(s));
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    *ret_unix_ms = ((int64_t)timegm(&tm) - zone) * 1000 + ms;
    return NULL;
}

static int64_t unit_ns(struct gs_slice unit)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {
        {"ns", 1},
        {"us", 1000},
        {"\xc2\xb5s", 1000},
        {"ms", GS_NS_PER_MS},
        {"s", GS_NS_PER_SEC},
        {"m", 60 * GS_NS_PER_SEC},
        {"h", 3600 * GS_NS_PER_SEC},
        {"d", 86400 * GS_NS_PER_SEC},
        {"w", 7 * 86400 * GS_NS_PER_SEC},
        {"y", 365 * 86400 * GS_NS_PER_SEC},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(units); i++)
        if (gs_slice_eq_str(unit, units[i].name))
            return units[i].ns;
    return 0;
}

static bool is_number_char(char c)
{
    return (c >= '0' && c <= '9') || c == '.';
}

struct gs_error *gs_parse_duration(struct gs_slice s, int64_t *ret_ns)
{
    struct gs_error *bad = NULL;
    double total = 0;
    size_t i = 0;
    bool negative = s.len && s.data[0] == '-';
    if (negative)
        i++;
    if (gs_slice_eq_str(gs_slice_make(s.data + i, s.len - i), "0")) {
        *ret_ns = 0;
        return NULL;
    }
    bool any = false;
    while (i < s.len) {
        size_t start = i;
        while (i < s.len && is_number_char(s.data[i]))
            i++;
        struct gs_slice number = gs_slice_make(s.data + start, i - start);
        start = i;
        while (i < s.len && !is_number_char(s.data[i]))
            i++;
        int64_t unit = unit_ns(gs_slice_make(s.data + start, i - start));
        double value;
        bad = gs_parse_double(number, &value);
        if (bad || !unit)
            break;
        total += value * (double)unit;
        any = true;
        if (total > 9.2e18)
            break;
    }
    bool ok = any && !bad && i == s.len && total <= 9.2e18;
    // The last unit may have been the bad one: its loop ended early with i at the end.
    if (ok && s.len) {
        size_t end = s.len;
        while (end && !is_number_char(s.data[end - 1]))
            end--;
        ok = unit_ns(gs_slice_make(s.data + end, s.len - end)) != 0;
    }
    gs_error_free(bad);
    if (!ok)
        return gs_error_new(GS_EINVAL,
                            "\"" GS_SLICE_FMT "\" is not a duration (write 30s, 5m, 1h30m, 250ms)",
                            GS_SLICE_ARG(s));
    *ret_ns = (int64_t)(negative ? -total : total);
    return NULL;
}

char *gs_format_duration(int64_t ns, char buf[GS_RFC3339_SIZE])
{
    const char *sign = ns < 0 ? "-" : "";
    uint64_t v = ns < 0 ? (uint64_t)0 - (uint64_t)ns : (uint64_t)ns;
    if (v < (uint64_t)GS_NS_PER_SEC) {
        if (v == 0)
            snprintf(buf, GS_RFC3339_SIZE, "0s");
        else if (v < 1000)
            snprintf(buf, GS_RFC3339_SIZE, "%s%dns", sign, (int)v);
        else
            snprintf(buf, GS_RFC3339_SIZE, "%s%.9g%s", sign, (double)v / (v < 1000000 ? 1e3 : 1e6),
                     v < 1000000 ? "us" : "ms");
        return buf;
    }
    uint64_t seconds = v / (uint64_t)GS_NS_PER_SEC;
    double s = (double)(seconds % 60) + (double)(v % (uint64_t)GS_NS_PER_SEC) / 1e9;
    unsigned long hours = seconds / 3600, minutes = seconds / 60 % 60;
    if (hours)
        snprintf(buf, GS_RFC3339_SIZE, "%s%luh%lum%.12gs", sign, hours, minutes, s);
    else if (minutes)
        snprintf(buf, GS_RFC3339_SIZE, "%s%lum%.12gs", sign, minutes, s);
    else
        snprintf(buf, GS_RFC3339_SIZE, "%s%.12gs", sign, s);
    return buf;
}

char *gs_format_units(int64_t ns, char buf[GS_RFC3339_SIZE])
{
    static const struct {
        const char *name;
        uint64_t ms;
        bool exact; // only when nothing is left
    } units[] = {
        {"y", UINT64_C(365) * 86400000, true},
        {"w", UINT64_C(7) * 86400000, true},
        {"d", 86400000, false},
        {"h", 3600000, false},
        {"m", 60000, false},
        {"s", 1000, false},
        {"ms", 1, false},
    };
    uint64_t ms = (ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns) / GS_NS_PER_MS;
    size_t n = 0;
    snprintf(buf, GS_RFC3339_SIZE, "0s");
    if (ns < 0 && ms)
        buf[n++] = '-';
    for (size_t i = 0; i < GS_ARRAY_LEN(units); i++) {
        uint64_t count = ms / units[i].ms;
        if (!count || (units[i].exact && ms % units[i].ms))
            continue;
        n += (size_t)snprintf(buf + n, GS_RFC3339_SIZE - n, "%llu%s", (unsigned long long)count,
                              units[i].name);
        ms -= count * units[i].ms;
    }
    return buf;
}
