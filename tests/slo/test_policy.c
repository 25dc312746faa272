// SPDX-License-Identifier: Apache-2.0
// The annotation of a latency target.
#include "base/mem.h"
#include "slo/slo.h"
#include "unit.h"

static void test_targets_and_defaults(void **state)
{
    (void)state;
    struct slo_policy p;
    assert_ok(slo_policy_parse("ttft=1s,itl=50ms", &p));
    assert_true(p.seconds[SLO_TTFT] == 1);
    assert_true(p.seconds[SLO_ITL] == 0.05);
    assert_true(p.seconds[SLO_E2E] == 0);
    assert_int_equal(p.percent, 90);
    assert_false(p.shadow);
    assert_string_equal(slo_policy_series(&p, SLO_TTFT), "gpuscale_inference_ttft_seconds");
    assert_string_equal(slo_latency_name(&p, SLO_ITL), "itl");
}

static void test_all_keys(void **state)
{
    (void)state;
    struct slo_policy p;
    assert_ok(slo_policy_parse(" e2e = 1m30s , queue=0.25s,http_request_duration_seconds=2s,"
                               "p=99,mode=shadow,peer=llm-decode,ratio=0.5..4",
                               &p));
    assert_true(p.seconds[SLO_E2E] == 90);
    assert_true(p.seconds[SLO_QUEUE] == 0.25);
    assert_true(p.seconds[SLO_OTHER] == 2);
    assert_string_equal(p.other, "http_request_duration_seconds");
    assert_string_equal(slo_latency_name(&p, SLO_OTHER), "http_request_duration_seconds");
    assert_int_equal(p.percent, 99);
    assert_true(p.shadow);
    assert_string_equal(p.peer, "llm-decode");
    assert_true(p.ratio_min == 0.5 && p.ratio_max == 4);
}

static void test_mistakes_name_their_key(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "want key=value"},
        {"ttft", "\"ttft\": want key=value"},
        {"ttft=", "want key=value"},
        {"tftt=1s", "unknown key \"tftt\""},
        {"ttft=1", "ttft=1: want a duration"},
        {"ttft=1 s", "ttft=1 s: want a duration"},
        {"ttft=-1s", "ttft=-1s: want a duration"},
        {"ttft=nans", "want a duration"},
        {"ttft=0s", "ttft=0s: want 1ms to 1h"},
        {"ttft=2h", "ttft=2h: want 1ms to 1h"},
        {"ttft=1s,ttft=2s", "ttft is given twice"},
        {"ttft=1s,p=90,p=90", "p is given twice"},
        {"ttft=1s,p=49", "p=49: want a whole number from 50 to 99"},
        {"ttft=1s,p=99.9", "p=99.9: want a whole number"},
        {"ttft=1s,mode=off", "mode=off: want active or shadow"},
        {"ttft=1s,mode=shadow,mode=shadow", "mode is given twice"},
        {"p=90", "no target"},
        {"mode=shadow", "no target"},
        {"ttft=1s,", "want key=value"},
        {"ttft=1s,a_seconds=1s,b_seconds=1s", "only one histogram by name"},
        {"ttft=1s,ratio=1..2", "peer and ratio are given together"},
        {"ttft=1s,peer=x,ratio=3..2", "ratio=3..2: want the minimum"},
        {"ttft=1s,peer=x,ratio=0..2", "ratio=0..2: want the minimum"},
        {"ttft=1s,peer=../x,ratio=1..2", "peer=../x: want the name"},
        {"ttft=1s\n", "control character"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct slo_policy p = {.percent = 7};
        assert_error(slo_policy_parse(cases[i].text, &p), GS_EINVAL, cases[i].error);
        assert_int_equal(p.percent, 7); // unchanged
    }
}

static void test_long_texts_are_refused(void **state)
{
    (void)state;
    char text[SLO_TEXT_MAX + 2];
    struct slo_policy p;
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_error(slo_policy_parse(text, &p), GS_EINVAL, "513 bytes; at most 512");
    text[SLO_TEXT_MAX] = '\0';
    assert_error(slo_policy_parse(text, &p), GS_EINVAL, "want key=value");
    char name[200];
    snprintf(name, sizeof(name), "%.140s_seconds=1s", text);
    assert_error(slo_policy_parse(name, &p), GS_EINVAL, "at most 127 bytes");
}

static void test_the_query_has_all_series(void **state)
{
    (void)state;
    struct slo_policy p;
    GS_AUTO_BUF struct gs_buf query = {0};
    assert_ok(slo_policy_parse("http_request_duration_seconds=2s", &p));
    slo_policy_query(&p, "namespace=\"ml\",pod=~\"api-.*\"", &query);
    assert_non_null(strstr(query.data, "gpuscale_inference_(waiting|running|"));
    assert_non_null(strstr(query.data, "|http_request_duration_seconds_(bucket|sum)\""));
    assert_non_null(strstr(query.data, "\",namespace=\"ml\",pod=~\"api-.*\"}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets_and_defaults),
        cmocka_unit_test(test_all_keys),
        cmocka_unit_test(test_mistakes_name_their_key),
        cmocka_unit_test(test_long_texts_are_refused),
        cmocka_unit_test(test_the_query_has_all_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
