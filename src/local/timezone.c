// SPDX-License-Identifier: Apache-2.0
// Time zones for schedules: TZif files (RFC 9636) and the POSIX rule in their footer. The C
// library has one zone per process. Files are parsed as hostile input, and names cannot leave the
// database.
#include "local/timezone.h"

#include "base/file.h"
#include "base/mem.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

#define ZONE_DIR      "/usr/share/zoneinfo"
#define MAX_FILE      (1024 * 1024)
#define MAX_NAME      255
#define MAX_OFFSET_S  (26 * 3600)
#define DAY_S         86400
#define HEADER_LENGTH 44

struct rule {                 // of a change between standard and daylight saving time
    char kind;                // 'M': month, week, weekday; 'J': day 1 to 365; 'N': day 0 to 365
    int month, week, weekday; // week 5: the last one
    int day;
    int64_t time_s; // local time of that day
};

struct local_timezone {
    int64_t *times;   // transitions, ascending
    int64_t *offsets; // from each transition on
    size_t len;
    int64_t first_offset; // before the first transition
    // After the last transition:
    bool has_rule, has_dst;
    int64_t standard, daylight; // seconds east of UTC
    struct rule start, end;
};

// --- calendar ---

int64_t local_days_of(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           719468;
}

void local_date_of(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *ret_day = (int)(doy - (153 * mp + 2) / 5 + 1);
    *ret_month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *ret_year = yoe + era * 400 + (*ret_month <= 2);
}

int local_weekday_of(int64_t days)
{
    return (int)(((days + 4) % 7 + 7) % 7);
}

static int64_t day_number(int64_t unix_s)
{
    return (unix_s - ((unix_s % DAY_S + DAY_S) % DAY_S)) / DAY_S;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

// --- the TZ string ---

struct cursor {
    const char *p, *end;
};

static bool at(const struct cursor *c, char wanted)
{
    return c->p < c->end && *c->p == wanted;
}

static bool take(struct cursor *c, char wanted)
{
    if (!at(c, wanted))
        return false;
    c->p++;
    return true;
}

static bool take_number(struct cursor *c, int64_t max, int64_t *ret)
{
    int64_t n = 0;
    const char *first = c->p;
    while (c->p < c->end && isdigit((unsigned char)*c->p) && n <= max)
        n = n * 10 + (*c->p++ - '0');
    *ret = n;
    return c->p > first && n <= max;
}

// "CET" or "<+03>".
static bool take_name(struct cursor *c)
{
    const char *first = c->p;
    if (take(c, '<')) {
        while (c->p < c->end && *c->p != '>')
            c->p++;
        return take(c, '>');
    }
    while (c->p < c->end && isalpha((unsigned char)*c->p))
        c->p++;
    return c->p - first >= 3;
}

// [+-]hh[:mm[:ss]]
static bool take_time(struct cursor *c, int64_t max_hours, int64_t *ret)
{
    int64_t hours, minutes = 0, seconds = 0;
    bool negative = take(c, '-');
    if (!negative)
        take(c, '+');
    if (!take_number(c, max_hours, &hours) || (take(c, ':') && !take_number(c, 59, &minutes)) ||
        (take(c, ':') && !take_number(c, 59, &seconds)))
        return false;
    *ret = (hours * 3600 + minutes * 60 + seconds) * (negative ? -1 : 1);
    return true;
}

static bool take_rule(struct cursor *c, struct rule *ret)
{
    int64_t a = 0, b = 0, d = 0;
    *ret = (struct rule){.time_s = 2 * 3600};
    if (!take(c, ','))
        return false;
    if (take(c, 'M')) {
        ret->kind = 'M';
        if (!take_number(c, 12, &a) || !take(c, '.') || !take_number(c, 5, &b) || !take(c, '.') ||
            !take_number(c, 6, &d) || a < 1 || b < 1)
            return false;
        ret->month = (int)a;
        ret->week = (int)b;
        ret->weekday = (int)d;
    } else {
        ret->kind = take(c, 'J') ? 'J' : 'N';
        if (!take_number(c, 365, &d) || (ret->kind == 'J' && d < 1))
            return false;
        ret->day = (int)d;
    }
    return !take(c, '/') || take_time(c, 167, &ret->time_s);
}

static bool read_rules(struct local_timezone *z, struct gs_slice text)
{
    struct cursor c = {text.data, text.data + text.len};
    int64_t west;
    if (!take_name(&c) || !take_time(&c, 24, &west))
        return false;
    z->standard = -west;
    z->daylight = z->standard + 3600;
    if (c.p == c.end)
        return true;
    if (!take_name(&c))
        return false;
    if (!at(&c, ',')) {
        if (!take_time(&c, 24, &west))
            return false;
        z->daylight = -west;
    }
    z->has_dst = true;
    return take_rule(&c, &z->start) && take_rule(&c, &z->end) && c.p == c.end;
}

// Local time of a change in a year, as seconds since 1970 without an offset.
static int64_t change_in(const struct rule *r, int64_t year)
{
    int64_t days = local_days_of(year, 1, 1);
    if (r->kind == 'N') {
        days += r->day;
    } else if (r->kind == 'J') {
        days += r->day - 1 + (is_leap(year) && r->day >= 60); // never counts February 29
    } else {
        days = local_days_of(year, r->month, 1);
        days += (r->weekday - local_weekday_of(days) + 7) % 7 + 7 * (r->week - 1);
        int64_t next =
            r->month == 12 ? local_days_of(year + 1, 1, 1) : local_days_of(year, r->month + 1, 1);
        while (days >= next)
            days -= 7;
    }
    return days * DAY_S + r->time_s;
}

static int64_t offset_by_rule(const struct local_timezone *z, int64_t unix_s)
{
    int64_t year;
    int month, day;
    if (!z->has_dst)
        return z->standard;
    local_date_of(day_number(unix_s + z->standard), &year, &month, &day);
    int64_t start = change_in(&z->start, year) - z->standard;
    int64_t end = change_in(&z->end, year) - z->daylight;
    bool daylight = start < end ? unix_s >= start && unix_s < end : unix_s >= start || unix_s < end;
    return daylight ? z->daylight : z->standard;
}

// --- TZif ---

static int64_t big_endian(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | p[i];
    return n == 4 ? (int32_t)(uint32_t)v : (int64_t)v;
}

struct block {
    size_t isut, isstd, leap, times, types, chars;
    size_t time_size; // of a transition
    const unsigned char *data;
    size_t len;
};

static struct gs_error *malformed(const char *what)
{
    return gs_error_new(GS_EINVAL, "malformed time zone file: %s", what);
}

static struct gs_error *read_header(struct gs_slice file, size_t time_size, struct block *ret)
{
    const unsigned char *p = (const unsigned char *)file.data;
    if (file.len < HEADER_LENGTH || memcmp(p, "TZif", 4) != 0)
        return malformed("no header");
    size_t n[6];
    for (size_t i = 0; i < 6; i++) {
        int64_t v = big_endian(p + 20 + 4 * i, 4);
        if (v < 0 || v > MAX_FILE)
            return malformed("a count is too large");
        n[i] = (size_t)v;
    }
    *ret = (struct block){n[0], n[1], n[2], n[3], n[4], n[5], time_size, p + HEADER_LENGTH, 0};
    ret->len = ret->times * (time_size + 1) + ret->types * 6 + ret->chars +
               ret->leap * (time_size + 4) + ret->isstd + ret->isut;
    if (file.len - HEADER_LENGTH < ret->len)
        return malformed("it is cut");
    return ret->types == 0 ? malformed("it has no types") : NULL;
}

static struct gs_error *read_block(const struct block *b, struct local_timezone *z)
{
    const unsigned char *index = b->data + b->times * b->time_size, *types = index + b->times;
    z->times = gs_alloc_array(b->times + 1, sizeof(int64_t));
    z->offsets = gs_alloc_array(b->times + 1, sizeof(int64_t));
    z->first_offset = big_endian(types, 4);
    for (size_t i = 0; i < b->times; i++) {
        z->times[i] = big_endian(b->data + i * b->time_size, b->time_size);
        if (index[i] >= b->types)
            return malformed("a type does not exist");
        if (i > 0 && z->times[i] <= z->times[i - 1])
            return malformed("the transitions are not in order");
        z->offsets[i] = big_endian(types + 6 * (size_t)index[i], 4);
        if (z->offsets[i] > MAX_OFFSET_S || z->offsets[i] < -MAX_OFFSET_S)
            return malformed("an offset is too large");
        z->len = i + 1;
    }
    if (z->first_offset > MAX_OFFSET_S || z->first_offset < -MAX_OFFSET_S)
        return malformed("an offset is too large");
    return NULL;
}

static struct gs_error *read_footer(struct gs_slice text, struct local_timezone *z)
{
    if (text.len < 2 || text.data[0] != '\n')
        return malformed("no footer");
    const char *end = memchr(text.data + 1, '\n', text.len - 1);
    if (!end)
        return malformed("its footer does not end");
    struct gs_slice rule = gs_slice_make(text.data + 1, (size_t)(end - text.data - 1));
    if (rule.len == 0)
        return NULL;
    z->has_rule = true;
    return read_rules(z, rule) ? NULL : malformed("its footer is not a TZ string");
}

static struct gs_error *read_file(struct gs_slice file, struct local_timezone *z)
{
    struct block b;
    struct gs_error *err = read_header(file, 4, &b);
    if (err || file.data[4] == '\0') // version 1 has no second block
        return err ? err : read_block(&b, z);
    size_t first = HEADER_LENGTH + b.len;
    struct gs_slice second = gs_slice_make(file.data + first, file.len - first);
    err = read_header(second, 8, &b);
    if (!err)
        err = read_block(&b, z);
    if (err)
        return err;
    first = HEADER_LENGTH + b.len;
    return read_footer(gs_slice_make(second.data + first, second.len - first), z);
}

struct gs_error *local_timezone_parse(struct gs_slice file, struct local_timezone **ret)
{
    struct local_timezone *z = gs_alloc(sizeof(*z));
    struct gs_error *err = read_file(file, z);
    if (err)
        local_timezone_free(z);
    else
        *ret = z;
    return err;
}

void local_timezone_free(struct local_timezone *z)
{
    if (!z)
        return;
    free(z->times);
    free(z->offsets);
    free(z);
}

// --- use ---

// Names are paths below the database: they must not leave it.
static bool is_name(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > MAX_NAME || *name == '/' || *name == '.' || strstr(name, "..") ||
        strstr(name, "//") || name[n - 1] == '/')
        return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("/_+-.", *c))
            return false;
    return true;
}

static struct gs_error *unknown(const char *name)
{
    return gs_error_new(GS_EINVAL, "unknown time zone %s", name);
}

struct gs_error *local_timezone_load(const char *name, struct local_timezone **ret)
{
    GS_AUTO_BUF struct gs_buf file = {0};
    if (!is_name(name))
        return unknown(name);
    if (strcmp(name, "UTC") == 0) { // also without the database
        *ret = gs_alloc(sizeof(**ret));
        return NULL;
    }
    GS_AUTO_FREE char *path = gs_format(ZONE_DIR "/%s", name);
    struct gs_error *err = gs_file_read(path, MAX_FILE, &file);
    if (!err)
        err = local_timezone_parse(gs_slice_make(file.data, file.len), ret);
    if (!err)
        return NULL;
    gs_error_free(err);
    return unknown(name);
}

int64_t local_timezone_offset(const struct local_timezone *z, int64_t unix_s)
{
    if (!z) {
        time_t t = (time_t)unix_s;
        struct tm tm;
        return localtime_r(&t, &tm) ? (int64_t)tm.tm_gmtoff : 0;
    }
    if (z->has_rule && (z->len == 0 || unix_s >= z->times[z->len - 1]))
        return offset_by_rule(z, unix_s);
    if (z->len == 0 || unix_s < z->times[0])
        return z->first_offset;
    size_t low = 0, high = z->len;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (z->times[middle] <= unix_s)
            low = middle;
        else
            high = middle;
    }
    return z->offsets[low];
}
