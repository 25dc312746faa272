// SPDX-License-Identifier: Apache-2.0
// The sync period of one object, by its annotations.
#include "unit.h"

#include "hpa_controller/controller.h"

static json_t *object_with(const char *seconds, const char *duration)
{
    json_t *o = json_pack("{s:{s:s}}", "metadata", "name", "web");
    if (seconds)
        codec_json_set(o, json_string(seconds), "metadata", "annotations",
                       HPA_SYNC_SECONDS_ANNOTATION, NULL);
    if (duration)
        codec_json_set(o, json_string(duration), "metadata", "annotations",
                       HPA_SYNC_PERIOD_ANNOTATION, NULL);
    return o;
}

static void test_period_of_an_object(void **state)
{
    static const struct {
        const char *seconds, *duration;
        int64_t want_ms;
    } rows[] = {{NULL, NULL, 15000}, {"1", NULL, 1000},     {"3600", NULL, 3600000},
                {NULL, "1s", 1000},  {NULL, "1h", 3600000}, {NULL, "2500ms", 2500}};
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        CODEC_AUTO_JSON json_t *o = object_with(rows[i].seconds, rows[i].duration);
        int64_t ms = 15000;
        assert_ok(hpa_sync_period(o, &ms));
        assert_int_equal(ms, rows[i].want_ms);
    }
}

static void test_wrong_periods_are_named_and_have_no_effect(void **state)
{
    static const struct {
        const char *seconds, *duration, *why;
    } rows[] = {{"0", NULL, "a whole number from 1 to 3600"},
                {"3601", NULL, "a whole number from 1 to 3600"},
                {"5s", NULL, "a whole number from 1 to 3600"},
                {"", NULL, "a whole number from 1 to 3600"},
                {NULL, "5", "a duration from 1s to 1h"},
                {NULL, "999ms", "a duration from 1s to 1h"},
                {NULL, "61m", "a duration from 1s to 1h"},
                {"5", "5s", "want one of them"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        CODEC_AUTO_JSON json_t *o = object_with(rows[i].seconds, rows[i].duration);
        int64_t ms = 15000;
        assert_error(hpa_sync_period(o, &ms), GS_EINVAL, rows[i].why);
        assert_int_equal(ms, 15000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_period_of_an_object),
        cmocka_unit_test(test_wrong_periods_are_named_and_have_no_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
