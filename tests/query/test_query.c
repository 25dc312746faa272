// SPDX-License-Identifier: Apache-2.0
#include "query/query_private.h"

#include "base/mem.h"
#include "unit.h"

static void assert_time(const char *text, int64_t wanted)
{
    int64_t got = 0;
    assert_ok(query_parse_time(text, 1000000, &got));
    assert_int_equal(got, wanted);
}

static void test_times(void **state)
{
    int64_t ms = 7;
    assert_time("now", 1000000);
    assert_time("-1m30s", 910000);
    assert_time("now-1h", -2600000);
    assert_time("+5s", 1005000);
    assert_time("1700000000.25", 1700000000250);
    assert_time("-5", -5000); // Unix seconds
    assert_time("2026-01-02T03:04:05Z", 1767323045000);
    assert_time("2026-01-02T03:04:05+01:00", 1767319445000);
    assert_error(query_parse_time("yesterday", 0, &ms), GS_EINVAL, "cannot read the time");
    assert_error(query_parse_time("", 0, &ms), GS_EINVAL, "cannot read the time");
    assert_error(query_parse_time("-1x", 0, &ms), GS_EINVAL, "cannot read the time");
    assert_error(query_parse_time("NaN", 0, &ms), GS_EINVAL, "cannot read the time");
    assert_error(query_parse_time("1e300", 0, &ms), GS_EINVAL, "cannot read the time");
    (void)state;
}

static void test_steps(void **state)
{
    int64_t ms = 0;
    assert_ok(query_parse_step("15s", &ms));
    assert_int_equal(ms, 15000);
    assert_ok(query_parse_step("0.5", &ms));
    assert_int_equal(ms, 500);
    assert_error(query_parse_step("0", &ms), GS_EINVAL, "cannot read the step");
    assert_error(query_parse_step("-1", &ms), GS_EINVAL, "cannot read the step");
    assert_error(query_parse_step("1 fortnight", &ms), GS_EINVAL, "cannot read the step");
    (void)state;
}

static char *printed(enum query_kind kind, enum query_format format, const char *data, bool *any)
{
    char *text = NULL;
    size_t n = 0;
    json_t *parsed = NULL;
    FILE *out = open_memstream(&text, &n);
    const struct query_print p = {.kind = kind, .format = format};
    assert_ok(codec_json_parse(gs_slice_of(data), true, &parsed));
    assert_ok(query_print(&p, parsed, out, any));
    assert_int_equal(fclose(out), 0);
    json_decref(parsed);
    return text;
}

static void assert_printed(enum query_kind kind, enum query_format format, const char *data,
                           const char *wanted)
{
    bool any = false;
    char *got = printed(kind, format, data, &any);
    assert_string_equal(got, wanted);
    assert_true(any);
    free(got);
}

static const char *const vector =
    "{\"resultType\":\"vector\",\"result\":["
    "{\"metric\":{\"__name__\":\"util\",\"gpu\":\"0\",\"job\":\"a,b\"},"
    "\"value\":[1700000000.022,\"7\"]},"
    "{\"metric\":{\"__name__\":\"util\",\"gpu\":\"10\",\"job\":\"a,b\",\"pod\":\"x\\\"y\"},"
    "\"value\":[1700000000.022,\"1e+21\"]}]}";
static const char *const matrix =
    "{\"resultType\":\"matrix\",\"result\":["
    "{\"metric\":{\"gpu\":\"0\",\"uuid\":\"GPU-1\"},"
    "\"values\":[[1700000000,\"1\"],[1700000001,\"2\"]]},"
    "{\"metric\":{\"gpu\":\"1\",\"uuid\":\"GPU-2\"},\"values\":[[1700000001,\"2.5\"]]}]}";

static void test_vectors(void **state)
{
    assert_printed(QUERY_VALUES, QUERY_TABLE, vector,
                   "util{job=\"a,b\"} at 2023-11-14T22:13:20.022Z\n"
                   "gpu  pod  VALUE\n"
                   "0    -        7\n"
                   "10   x\"y  1e+21\n");
    assert_printed(QUERY_VALUES, QUERY_CSV, vector,
                   "time,__name__,gpu,job,pod,value\n"
                   "1700000000.022,util,0,\"a,b\",,7\n"
                   "1700000000.022,util,10,\"a,b\",\"x\"\"y\",1e+21\n");
    assert_printed(QUERY_VALUES, QUERY_PROMQL, vector,
                   "util{gpu=\"0\", job=\"a,b\"} => 7 @[1700000000.022]\n"
                   "util{gpu=\"10\", job=\"a,b\", pod=\"x\\\"y\"} => 1000000000000000000000 "
                   "@[1700000000.022]\n");
    bool any;
    char *json = printed(QUERY_VALUES, QUERY_JSON, vector, &any);
    assert_true(gs_starts(json, "[{\"metric\":{\"__name__\":\"util\",\"gpu\":\"0\",\"job\":\"a,b\"}"
                                ",\"value\":[1700000000.022,\"7\"]},"));
    free(json);
    (void)state;
}

static void test_ranges(void **state)
{
    assert_printed(QUERY_VALUES, QUERY_TABLE, matrix,
                   "{}\n"
                   "TIME                  gpu=\"0\"  gpu=\"1\"\n"
                   "2023-11-14T22:13:20Z        1        -\n"
                   "2023-11-14T22:13:21Z        2      2.5\n");
    assert_printed(QUERY_VALUES, QUERY_CSV, matrix,
                   "time,gpu,uuid,value\n"
                   "1700000000.000,0,GPU-1,1\n"
                   "1700000001.000,0,GPU-1,2\n"
                   "1700000001.000,1,GPU-2,2.5\n");
    assert_printed(QUERY_VALUES, QUERY_PROMQL, matrix,
                   "{gpu=\"0\", uuid=\"GPU-1\"} =>\n1 @[1700000000]\n2 @[1700000001]\n"
                   "{gpu=\"1\", uuid=\"GPU-2\"} =>\n2.5 @[1700000001]\n");
    (void)state;
}

static void test_others(void **state)
{
    assert_printed(QUERY_VALUES, QUERY_PROMQL,
                   "{\"resultType\":\"scalar\",\"result\":[1.5,\"-1.25e-7\"]}",
                   "scalar: -0.000000125 @[1.5]\n");
    assert_printed(QUERY_VALUES, QUERY_TABLE,
                   "{\"resultType\":\"string\",\"result\":[1,\"a\\u001b[2Jb\\u009bc\"]}",
                   "a\\x1b[2Jb\\x9bc\n");
    assert_printed(QUERY_SERIES, QUERY_TABLE, "[{\"__name__\":\"up\",\"job\":\"a\"}]",
                   "up{job=\"a\"}\n");
    assert_printed(QUERY_SERIES, QUERY_PROMQL, "[{\"__name__\":\"up\",\"job\":\"a\"}]",
                   "{__name__=\"up\", job=\"a\"}\n");
    assert_printed(QUERY_LABELS, QUERY_TABLE, "[\"a\",\"b\"]", "a\nb\n");
    assert_printed(QUERY_METADATA, QUERY_TABLE,
                   "{\"up\":[{\"type\":\"gauge\",\"help\":\"Is it?\",\"unit\":\"\"}]}",
                   "METRIC  TYPE   UNIT  HELP\n"
                   "up      gauge  -     Is it?\n");
    assert_printed(QUERY_METADATA, QUERY_CSV,
                   "{\"up\":[{\"type\":\"gauge\",\"help\":\"Is it?\",\"unit\":\"\"}]}",
                   "metric,type,unit,help\nup,gauge,,Is it?\n");
    (void)state;
}

static void test_nothing(void **state)
{
    bool any = true;
    char *got =
        printed(QUERY_VALUES, QUERY_TABLE, "{\"resultType\":\"vector\",\"result\":[]}", &any);
    assert_false(any);
    assert_true(!got || !*got);
    free(got);
    (void)state;
}

// Responses that no Prometheus sends.
static void test_strange_answers(void **state)
{
    static const char *const all[] = {
        "{}",
        "[]",
        "null",
        "{\"resultType\":\"vector\"}",
        "{\"resultType\":\"vector\",\"result\":[{}]}",
        "{\"resultType\":\"vector\",\"result\":[{\"metric\":{\"a\":1},\"value\":[1,\"1\"]}]}",
        "{\"resultType\":\"vector\",\"result\":[{\"metric\":{},\"value\":[\"1\",\"1\"]}]}",
        "{\"resultType\":\"vector\",\"result\":[{\"metric\":{},\"value\":[1e300,\"1\"]}]}",
        "{\"resultType\":\"scalar\",\"result\":[]}",
        "{\"resultType\":\"cube\",\"result\":[]}",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(all); i++) {
        const struct query_print p = {.kind = QUERY_VALUES, .format = QUERY_JSON};
        json_t *parsed = json_loads(all[i], JSON_DECODE_ANY, NULL);
        bool any;
        assert_non_null(parsed);
        assert_error(query_print(&p, parsed, stdout, &any), GS_EPROTO, "the response lacks a ");
        json_decref(parsed);
    }
    (void)state;
}

static void assert_points(const char *message, const char *expr, const char *wanted)
{
    struct gs_error *err = query_point_at(gs_error_new(GS_EINVAL, "%s", message), expr);
    assert_string_equal(gs_error_message(err), wanted);
    gs_error_free(err);
}

static void test_caret(void **state)
{
    assert_points("bad_data: 1:5: parse error: x", "sum(",
                  "bad_data: 1:5: parse error: x\n"
                  "    sum(\n"
                  "        ^");
    assert_points("2:3: parse error: x", "sum\n\t(y)",
                  "2:3: parse error: x\n"
                  "     (y)\n"
                  "      ^");
    assert_points("1:6: parse error: x", "\"é\" y",
                  "1:6: parse error: x\n"
                  "    \"é\" y\n"
                  "        ^");
    assert_points("1:60: parse error: x", "y", "1:60: parse error: x");
    assert_points("3:1: parse error: x", "y", "3:1: parse error: x");
    assert_points("no place", "y", "no place");
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),           cmocka_unit_test(test_steps),
        cmocka_unit_test(test_vectors),         cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_others),          cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_strange_answers), cmocka_unit_test(test_caret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
