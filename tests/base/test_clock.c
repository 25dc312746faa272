// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/clock.h"

static void test_rfc3339(void **state)
{
    char buf[GS_RFC3339_SIZE];
    int64_t ms;
    assert_string_equal(gs_format_rfc3339(0, buf), "1970-01-01T00:00:00Z");
    assert_string_equal(gs_format_rfc3339(1735787045678, buf), "2025-01-02T03:04:05Z");
    assert_string_equal(gs_format_rfc3339_micro(1735787045678901, buf),
                        "2025-01-02T03:04:05.678901Z");
    assert_string_equal(gs_format_rfc3339(-1, buf), "1969-12-31T23:59:59Z");
    assert_ok(gs_parse_rfc3339(GS_SLICE("2025-01-02T03:04:05Z"), &ms));
    assert_true(ms == 1735787045000);
    assert_ok(gs_parse_rfc3339(GS_SLICE("2025-01-02T03:04:05.678901234+01:30"), &ms));
    assert_true(ms == 1735787045678 - 5400000);
    assert_ok(gs_parse_rfc3339(GS_SLICE("2024-02-29T00:00:00Z"), &ms));
    assert_true(ms == 1709164800000);
    static const char *const bad[] = {"",
                                      "2025-01-02",
                                      "2025-13-02T03:04:05Z",
                                      "2025-02-29T03:04:05Z",
                                      "1900-02-29T03:04:05Z",
                                      "2025-04-31T03:04:05Z",
                                      "2025-01-02T03:04:05",
                                      "2025-01-02T03:04:05.Z",
                                      "2025-01-02T03:04:05Zx"};
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        assert_error(gs_parse_rfc3339(gs_slice_of(bad[i]), &ms), GS_EINVAL, "RFC 3339");
}

static void test_durations(void **state)
{
    static const struct {
        const char *text, *printed;
        int64_t ns;
    } cases[] = {{"30s", "30s", 30 * GS_NS_PER_SEC},
                 {"5m", "5m0s", 300 * GS_NS_PER_SEC},
                 {"1h30m", "1h30m0s", 5400 * GS_NS_PER_SEC},
                 {"250ms", "250ms", 250 * GS_NS_PER_MS},
                 {"1.5s", "1.5s", 1500 * GS_NS_PER_MS},
                 {"1d", "24h0m0s", 86400 * GS_NS_PER_SEC},
                 {"0", "0s", 0},
                 {"-10s", "-10s", -10 * GS_NS_PER_SEC}};
    char buf[GS_RFC3339_SIZE];
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        int64_t ns;
        assert_ok(gs_parse_duration(gs_slice_of(cases[i].text), &ns));
        assert_true(ns == cases[i].ns);
        assert_string_equal(gs_format_duration(ns, buf), cases[i].printed);
    }
    static const char *const bad[] = {"", "5", "s", "5 m", "1h30", "5mm", "x5s", "999999999999h",
                                      "-"};
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        int64_t ns;
        assert_error(gs_parse_duration(gs_slice_of(bad[i]), &ns), GS_EINVAL, "not a duration");
    }
}

static void test_units(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1ms"},
        {300000, "5m"},
        {7200000, "2h"},
        {5400000, "1h30m"},
        {1500, "1s500ms"},
        {86400000, "1d"},
        {1296000000, "15d"},
        {604800000, "1w"},
        {691200000, "8d"},
        {-90000, "-1m30s"},
        {90061001, "1d1h1m1s1ms"},
        {INT64_C(31536000000), "1y"},
    };
    char buf[GS_RFC3339_SIZE];
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        assert_string_equal(gs_format_units(cases[i].ms * GS_NS_PER_MS, buf), cases[i].text);
    assert_non_null(gs_format_units(INT64_MIN, buf));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rfc3339),
                                       cmocka_unit_test(test_durations),
                                       cmocka_unit_test(test_units)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
