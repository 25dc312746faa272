// SPDX-License-Identifier: Apache-2.0
// Schedules of CronJobs, with the syntax and the errors of robfig/cron, which Kubernetes uses. If
// both days and weekdays are restricted, either matches. Times are seconds since 1970; days with a
// change of the offset are calculated in local time.
#include "local/cron.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"

#include <ctype.h>
#include <string.h>

#define MAX_TEXT   1024
#define MAX_FIELDS 64
#define YEARS      5
#define DAY_S      86400

struct field {
    int min, max;
    const char *const *names; // of min, min + 1 …; NULL: none
};

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun", "jul",
                                          "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const day_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};

// --- parsing ---

static struct gs_error *parse_int(struct gs_slice text, int64_t *ret)
{
    GS_AUTO_FREE char *shown = gs_slice_dup(text);
    struct gs_error *err = gs_parse_i64(text, INT32_MIN, INT32_MAX, ret);
    if (err) {
        gs_error_free(err);
        return gs_error_new(GS_EINVAL,
                            "failed to parse int from %s: strconv.Atoi: parsing \"%s\": invalid "
                            "syntax",
                            shown, shown);
    }
    return *ret < 0 ? gs_error_new(GS_EINVAL, "negative number (%lld) not allowed: %s",
                                   (long long)*ret, shown)
                    : NULL;
}

static bool same_name(struct gs_slice text, const char *name)
{
    if (text.len != strlen(name))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (tolower((unsigned char)text.data[i]) != name[i])
            return false;
    return true;
}

static struct gs_error *parse_value(struct gs_slice text, const struct field *f, int64_t *ret)
{
    for (int i = 0; f->names && f->names[i]; i++)
        if (same_name(text, f->names[i])) {
            *ret = f->min + i;
            return NULL;
        }
    return parse_int(text, ret);
}

// Splits at a character; the last part has the rest. Returns how many parts there are.
static size_t split(struct gs_slice text, char at, struct gs_slice parts[3])
{
    size_t n = 0;
    parts[0] = gs_slice_make(text.data, 0);
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] != at) {
            parts[n].len++;
        } else {
            if (++n == 3)
                return 4;
            parts[n] = gs_slice_make(text.data + i + 1, 0);
        }
    }
    return n + 1;
}

// One item of a list: "*", "*/5", "3", "3/5", "1-5", "1-5/2".
static struct gs_error *parse_range(struct gs_slice text, const struct field *f, uint64_t *bits,
                                    bool *ret_any)
{
    struct gs_slice steps[3], ends[3];
    GS_AUTO_FREE char *shown = gs_slice_dup(text);
    int64_t first = f->min, last = f->max, step = 1;
    bool any = false;
    size_t n_steps = split(text, '/', steps), n_ends = split(steps[0], '-', ends);
    struct gs_error *err = NULL;

    if (n_ends > 2 && n_steps <= 2)
        return gs_error_new(GS_EINVAL, "too many hyphens: %s", shown);
    if (gs_slice_eq_str(ends[0], "*") || gs_slice_eq_str(ends[0], "?")) {
        any = true;
    } else {
        err = parse_value(ends[0], f, &first);
        last = first;
        if (!err && n_ends == 2)
            err = parse_value(ends[1], f, &last);
    }
    if (!err && n_steps > 2)
        err = gs_error_new(GS_EINVAL, "too many slashes: %s", shown);
    if (!err && n_steps == 2) {
        err = parse_int(steps[1], &step);
        if (n_ends == 1)
            last = f->max;
        any = any && step <= 1;
    }
    if (err)
        return err;
    if (first < f->min)
        return gs_error_new(GS_EINVAL, "beginning of range (%lld) below minimum (%d): %s",
                            (long long)first, f->min, shown);
    if (last > f->max)
        return gs_error_new(GS_EINVAL, "end of range (%lld) above maximum (%d): %s",
                            (long long)last, f->max, shown);
    if (first > last)
        return gs_error_new(GS_EINVAL, "beginning of range (%lld) beyond end of range (%lld): %s",
                            (long long)first, (long long)last, shown);
    if (step == 0)
        return gs_error_new(GS_EINVAL, "step of range should be a positive number: %s", shown);
    for (int64_t i = first; i <= last; i += step)
        *bits |= UINT64_C(1) << i;
    *ret_any = *ret_any || any;
    return NULL;
}

static struct gs_error *parse_field(struct gs_slice text, const struct field *f, uint64_t *ret,
                                    bool *ret_any)
{
    uint64_t bits = 0;
    bool any = false;
    size_t from = 0;
    for (size_t i = 0; i <= text.len; i++) {
        if (i < text.len && text.data[i] != ',')
            continue;
        if (i > from) { // empty items are skipped
            struct gs_error *err =
                parse_range(gs_slice_make(text.data + from, i - from), f, &bits, &any);
            if (err)
                return err;
        }
        from = i + 1;
    }
    *ret = bits;
    *ret_any = any;
    return NULL;
}

static size_t words_of(struct gs_slice text, struct gs_slice words[MAX_FIELDS])
{
    size_t n = 0, i = 0;
    while (i < text.len && n < MAX_FIELDS) {
        size_t from;
        while (i < text.len && isspace((unsigned char)text.data[i]))
            i++;
        from = i;
        while (i < text.len && !isspace((unsigned char)text.data[i]))
            i++;
        if (i > from)
            words[n++] = gs_slice_make(text.data + from, i - from);
    }
    return n;
}

static struct gs_error *parse_fields(struct gs_slice text, struct local_cron *c)
{
    static const struct field fields[] = {
        {0, 59, NULL}, {0, 23, NULL}, {1, 31, NULL}, {1, 12, month_names}, {0, 6, day_names}};
    uint64_t *const values[] = {&c->minutes, &c->hours, &c->days, &c->months, &c->weekdays};
    struct gs_slice words[MAX_FIELDS];
    size_t n = words_of(text, words);
    bool any[5];

    if (n != 5) {
        GS_AUTO_BUF struct gs_buf shown = {0};
        for (size_t i = 0; i < n; i++)
            gs_buf_addf(&shown, "%s%.*s", i ? " " : "", (int)words[i].len, words[i].data);
        return gs_error_new(GS_EINVAL, "expected exactly 5 fields, found %zu: [%s]", n,
                            shown.data ? shown.data : "");
    }
    for (size_t i = 0; i < 5; i++) {
        struct gs_error *err = parse_field(words[i], &fields[i], values[i], &any[i]);
        if (err)
            return err;
    }
    c->any_day = any[2];
    c->any_weekday = any[4];
    return NULL;
}

static struct gs_error *parse_macro(struct gs_slice text, struct local_cron *c)
{
    static const struct {
        const char *name, *fields;
    } macros[] = {{"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
                  {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
                  {"@hourly", "0 * * * *"}};
    static const char every[] = "@every ";
    GS_AUTO_FREE char *shown = gs_slice_dup(text);
    int64_t ns = 0;

    for (size_t i = 0; i < GS_ARRAY_LEN(macros); i++)
        if (gs_slice_eq_str(text, macros[i].name))
            return parse_fields(gs_slice_of(macros[i].fields), c);
    if (!gs_slice_starts(text, every))
        return gs_error_new(GS_EINVAL, "unrecognized descriptor: %s", shown);
    struct gs_error *err = gs_parse_duration(
        gs_slice_make(text.data + sizeof(every) - 1, text.len - sizeof(every) + 1), &ns);
    if (err) {
        gs_error_free(err);
        return gs_error_new(GS_EINVAL, "failed to parse duration %s: time: invalid duration \"%s\"",
                            shown, shown + sizeof(every) - 1);
    }
    c->every_s = ns / GS_NS_PER_SEC > 0 ? ns / GS_NS_PER_SEC : 1;
    return NULL;
}

struct gs_error *local_cron_parse(struct gs_slice text, struct local_cron *ret)
{
    struct local_cron c = {0};
    struct gs_error *err;
    if (text.len == 0)
        return gs_error_new(GS_EINVAL, "empty spec string");
    if (text.len > MAX_TEXT)
        return gs_error_new(GS_EINVAL, "a schedule has at most %d characters", MAX_TEXT);
    if (memchr(text.data, '\0', text.len))
        return gs_error_new(GS_EINVAL, "a schedule has no NUL characters");
    err = *text.data == '@' ? parse_macro(text, &c) : parse_fields(text, &c);
    if (!err)
        *ret = c;
    return err;
}

// --- times ---

struct civil {
    int64_t days, year, second; // second: of the day
    int month, day;
};

static struct civil civil_at(const struct local_timezone *zone, int64_t unix_s)
{
    struct civil c;
    int64_t local = unix_s + local_timezone_offset(zone, unix_s);
    c.second = (local % DAY_S + DAY_S) % DAY_S;
    c.days = (local - c.second) / DAY_S;
    local_date_of(c.days, &c.year, &c.month, &c.day);
    return c;
}

static bool has(uint64_t bits, int64_t n)
{
    return (bits >> n) & 1;
}

static bool day_matches(const struct local_cron *c, const struct civil *t)
{
    bool day = has(c->days, t->day), weekday = has(c->weekdays, local_weekday_of(t->days));
    return c->any_day || c->any_weekday ? day && weekday : day || weekday;
}

// The first moment of a local day, which a change of the offset may have moved.
static int64_t start_of(const struct local_timezone *zone, int64_t days)
{
    int64_t guess = days * DAY_S - local_timezone_offset(zone, days * DAY_S);
    int64_t t = days * DAY_S - local_timezone_offset(zone, guess);
    while (civil_at(zone, t).days < days)
        t += 900;
    while (civil_at(zone, t - 900).days >= days)
        t -= 900;
    return t;
}

// Where clocks are set back, a day can begin twice.
static int64_t later(int64_t t, int64_t next)
{
    return next > t ? next : t + 60;
}

int64_t local_cron_next(const struct local_cron *c, const struct local_timezone *zone,
                        int64_t after_s)
{
    if (c->every_s > 0)
        return after_s + c->every_s;
    if (!c->minutes || !c->hours || !c->months || !(c->days | c->weekdays))
        return 0;
    int64_t t = after_s + 60 - (after_s % 60 + 60) % 60;
    int64_t last_year = civil_at(zone, t).year + YEARS;
    for (;;) {
        struct civil now = civil_at(zone, t);
        if (now.year > last_year)
            return 0;
        if (!has(c->months, now.month)) {
            int64_t first = now.month == 12 ? local_days_of(now.year + 1, 1, 1)
                                            : local_days_of(now.year, now.month + 1, 1);
            t = later(t, start_of(zone, first));
        } else if (!day_matches(c, &now)) {
            t = later(t, start_of(zone, now.days + 1));
        } else if (!has(c->hours, now.second / 3600)) {
            t += 3600 - now.second % 3600;
        } else if (!has(c->minutes, now.second / 60 % 60)) {
            t += 60 - now.second % 60;
        } else {
            return t;
        }
    }
}

int64_t local_cron_latest(const struct local_cron *c, const struct local_timezone *zone,
                          int64_t after_s, int64_t now_s, int64_t *ret_missed)
{
    int64_t first = local_cron_next(c, zone, after_s), latest = 0, missed = 0;
    *ret_missed = 0;
    if (!first || first > now_s)
        return 0;
    if (c->every_s > 0) {
        missed = (now_s - after_s) / c->every_s;
        *ret_missed = missed;
        return after_s + missed * c->every_s;
    }
    // From a moment shortly before now, since years may have passed.
    for (int64_t back = 3600; !latest; back *= 4) {
        int64_t from = now_s - back > after_s ? now_s - back : after_s;
        for (int64_t t = local_cron_next(c, zone, from); t && t <= now_s;
             t = local_cron_next(c, zone, t)) {
            latest = t;
            missed++;
        }
        if (from == after_s)
            break;
        if (latest)
            missed = missed * ((now_s - after_s) / back + 1);
    }
    *ret_missed = missed;
    return latest;
}
