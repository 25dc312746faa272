// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "base/clock.h"
#include "local/cron.h"
#include "unit.h"

static int64_t seconds_of(const char *time)
{
    int64_t ms;
    assert_ok(gs_parse_rfc3339(gs_slice_of(time), &ms));
    return ms / 1000;
}

// A zone whose rules are the TZ string alone.
static struct local_timezone *zone_of(const char *rule)
{
    static const char header[] = "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" // version 2
                                 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\1"
                                 "\0\0\0\0\0\0\0"; // one type: UTC
    struct local_timezone *z = NULL;
    GS_AUTO_BUF struct gs_buf file = {0};
    for (int i = 0; i < 2; i++)
        gs_buf_add(&file, header, sizeof(header) - 1);
    gs_buf_addf(&file, "\n%s\n", rule);
    assert_ok(local_timezone_parse(gs_slice_make(file.data, file.len), &z));
    return z;
}

static void check_next(const char *schedule, const struct local_timezone *z, const char *after,
                       const char *expected)
{
    struct local_cron c;
    char shown[GS_RFC3339_SIZE];
    assert_ok(local_cron_parse(gs_slice_of(schedule), &c));
    int64_t next = local_cron_next(&c, z, seconds_of(after));
    gs_format_rfc3339(next * 1000, shown);
    if (strcmp(shown, expected) != 0)
        fail_msg("%s after %s: %s instead of %s", schedule, after, shown, expected);
}

static void test_schedules_have_times(void **state)
{
    static const struct {
        const char *schedule, *after, *next;
    } cases[] = {
        {"* * * * *", "2026-03-01T10:00:00Z", "2026-03-01T10:01:00Z"},
        {"* * * * *", "2026-03-01T10:00:59Z", "2026-03-01T10:01:00Z"},
        {"*/15 * * * *", "2026-03-01T10:00:00Z", "2026-03-01T10:15:00Z"},
        {"5/15 * * * *", "2026-03-01T10:50:00Z", "2026-03-01T11:05:00Z"},
        {"0 0 * * *", "2026-12-31T12:00:00Z", "2027-01-01T00:00:00Z"},
        {"30 9 * * mon-fri", "2026-11-20T09:30:00Z", "2026-11-23T09:30:00Z"}, // a Friday
        {"0 0 29 feb *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
        {"0 0 31 2 *", "2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z"},    // never
        {"0 12 13 * fri", "2026-11-01T00:00:00Z", "2026-11-06T12:00:00Z"}, // either day
        {"0 12 13 * *", "2026-11-01T00:00:00Z", "2026-11-13T12:00:00Z"},
        {"0 12 ? * sun", "2026-11-02T00:00:00Z", "2026-11-08T12:00:00Z"},
        {"0,30 1-3,22 * JAN,Jul *", "2026-01-01T03:30:00Z", "2026-01-01T22:00:00Z"},
        {"@hourly", "2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z"},
        {"@daily", "2026-03-01T10:00:00Z", "2026-03-02T00:00:00Z"},
        {"@midnight", "2026-03-01T10:00:00Z", "2026-03-02T00:00:00Z"},
        {"@weekly", "2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"},
        {"@monthly", "2026-11-22T00:00:00Z", "2026-12-01T00:00:00Z"},
        {"@yearly", "2026-11-22T00:00:00Z", "2027-01-01T00:00:00Z"},
        {"@annually", "2026-11-22T00:00:00Z", "2027-01-01T00:00:00Z"},
        {"@every 1m30s", "2026-03-01T10:00:00Z", "2026-03-01T10:01:30Z"},
        {"@every 10ms", "2026-03-01T10:00:00Z", "2026-03-01T10:00:01Z"},
    };
    struct local_timezone *utc = NULL;
    assert_ok(local_timezone_load("UTC", &utc));
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        check_next(cases[i].schedule, utc, cases[i].after, cases[i].next);
    local_timezone_free(utc);
}

static void test_mistakes_are_named(void **state)
{
    static const struct {
        const char *schedule, *message;
    } cases[] = {
        {"", "empty spec string"},
        {"* * * *", "expected exactly 5 fields, found 4: [* * * *]"},
        {"* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"},
        {"60 * * * *", "end of range (60) above maximum (59): 60"},
        {"* * 0 * *", "beginning of range (0) below minimum (1): 0"},
        {"* * * * 7", "end of range (7) above maximum (6): 7"},
        {"5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"},
        {"1-2-3 * * * *", "too many hyphens: 1-2-3"},
        {"*/2/3 * * * *", "too many slashes: */2/3"},
        {"*/0 * * * *", "step of range should be a positive number: */0"},
        {"x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"},
        {"@fortnightly", "unrecognized descriptor: @fortnightly"},
        {"@every soon", "failed to parse duration @every soon"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct local_cron c;
        struct gs_error *err = local_cron_parse(gs_slice_of(cases[i].schedule), &c);
        assert_non_null(err);
        if (!strstr(gs_error_message(err), cases[i].message))
            fail_msg("%s: %s", cases[i].schedule, gs_error_message(err));
        gs_error_free(err);
    }
}

static void test_the_latest_time_is_found_after_years(void **state)
{
    struct local_timezone *utc = NULL;
    struct local_cron c;
    int64_t missed;
    assert_ok(local_timezone_load("UTC", &utc));
    assert_ok(local_cron_parse(gs_slice_of("0 0 1 * *"), &c));
    int64_t since = seconds_of("2000-01-01T00:00:00Z"), now = seconds_of("2026-11-22T12:00:00Z");
    assert_int_equal(local_cron_latest(&c, utc, since, now, &missed),
                     seconds_of("2026-11-01T00:00:00Z"));
    assert_true(missed > 100);
    assert_int_equal(local_cron_latest(&c, utc, seconds_of("2026-09-15T00:00:00Z"), now, &missed),
                     seconds_of("2026-11-01T00:00:00Z"));
    assert_int_equal(missed, 2);
    assert_int_equal(local_cron_latest(&c, utc, seconds_of("2026-11-01T00:00:00Z"), now, &missed),
                     0);
    assert_ok(local_cron_parse(gs_slice_of("@every 7s"), &c));
    assert_int_equal(local_cron_latest(&c, utc, now - 15, now, &missed), now - 1);
    assert_int_equal(missed, 2);
    local_timezone_free(utc);
}

static void test_time_zones_shift_schedules(void **state)
{
    struct local_timezone *z = zone_of("CET-1CEST,M3.5.0,M10.5.0/3");
    check_next("0 8 * * *", z, "2026-01-10T08:00:00Z", "2026-01-11T07:00:00Z");
    check_next("0 8 * * *", z, "2026-07-10T08:00:00Z", "2026-07-11T06:00:00Z");
    check_next("0 0 1 * *", z, "2026-07-10T08:00:00Z", "2026-07-31T22:00:00Z");
    // 02:30 does not exist on 2026-03-29, and comes twice on 2026-10-25.
    check_next("30 2 * * *", z, "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z");
    check_next("30 2 * * *", z, "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z");
    local_timezone_free(z);
    z = zone_of("<-03>3<-02>,M10.3.0/0,M2.3.0/0"); // the southern hemisphere
    check_next("0 12 * * *", z, "2026-01-10T00:00:00Z", "2026-01-10T14:00:00Z");
    check_next("0 12 * * *", z, "2026-06-10T00:00:00Z", "2026-06-10T15:00:00Z");
    // Midnight does not exist on 2026-10-18.
    check_next("0 1 18 10 *", z, "2026-06-10T00:00:00Z", "2026-10-18T03:00:00Z");
    local_timezone_free(z);
    z = zone_of("<+0530>-5:30");
    check_next("0 0 * * *", z, "2026-01-10T00:00:00Z", "2026-01-10T18:30:00Z");
    local_timezone_free(z);
    z = zone_of("EST5EDT,J60,300/-1:30");
    check_next("0 12 * * *", z, "2026-03-01T00:00:00Z", "2026-03-01T16:00:00Z");
    check_next("0 12 * * *", z, "2026-02-28T00:00:00Z", "2026-02-28T17:00:00Z");
    check_next("0 12 * * *", z, "2026-11-10T00:00:00Z", "2026-11-10T17:00:00Z");
    local_timezone_free(z);
}

static void test_unknown_time_zones_are_refused(void **state)
{
    static const char *const names[] = {
        "",  "Nowhere/City", "/etc/passwd", "../../etc/passwd", "Europe/", "Europe", "a//b",
        ".", "A B"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        struct local_timezone *z = NULL;
        struct gs_error *err = local_timezone_load(names[i], &z);
        assert_non_null(err);
        assert_true(gs_starts(gs_error_message(err), "unknown time zone "));
        gs_error_free(err);
    }
}

static void test_malformed_zone_files_are_refused(void **state)
{
    static const char *const texts[] = {"", "TZif",
                                        "not a zone file, but long enough for a header"};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        struct local_timezone *z = NULL;
        struct gs_error *err = local_timezone_parse(gs_slice_of(texts[i]), &z);
        assert_non_null(err);
        assert_true(gs_starts(gs_error_message(err), "malformed time zone file: "));
        gs_error_free(err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules_have_times),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_the_latest_time_is_found_after_years),
        cmocka_unit_test(test_time_zones_shift_schedules),
        cmocka_unit_test(test_unknown_time_zones_are_refused),
        cmocka_unit_test(test_malformed_zone_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
