// SPDX-License-Identifier: Apache-2.0
#include "promql/series.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "unit.h"

// "1 2 _ 3": the values of a text, at most 40.
static char *values_of(const char *text)
{
    struct gs_arena arena = {0};
    struct promql_values values;
    struct gs_buf out = {0};
    assert_ok(promql_parse_values(gs_slice_of(text), &arena, &values));
    struct promql_values_reader r = {.values = &values};
    double v;
    bool omitted;
    char number[GS_DOUBLE_SIZE];
    for (int i = 0; i < 40 && promql_values_next(&r, &v, &omitted); i++)
        gs_buf_addf(&out, "%s%s", i ? " " : "", omitted ? "_" : gs_format_double(v, number));
    gs_arena_finish(&arena);
    return gs_buf_take(&out);
}

static void assert_values(const char *text, const char *wanted)
{
    char *got = values_of(text);
    assert_string_equal(got, wanted);
    free(got);
}

static void assert_refused(const char *text, const char *part)
{
    struct gs_arena arena = {0};
    struct promql_values values;
    struct gs_error *err = promql_parse_values(gs_slice_of(text), &arena, &values);
    assert_non_null(err);
    if (!strstr(gs_error_message(err), part))
        fail_msg("%s: %s", text, gs_error_message(err));
    gs_error_free(err);
    gs_arena_finish(&arena);
}

static void test_notation(void **state)
{
    assert_values("", "");
    assert_values(" \n\t", "");
    assert_values("1+1x2 _x2\n 5-0.5x1 0x1", "1 2 3 _ _ 5 4.5 0 0");
    assert_values("1_000 Inf -Inf", "1000 +Inf -Inf");
    assert_values("0.1+0.1x2", "0.1 0.2 0.30000000000000004"); // added up, as Prometheus
    (void)state;
}

// Values are created on demand.
static void test_long_runs(void **state)
{
    char *got = values_of("7x2147483647");
    assert_int_equal(strlen(got), 79);
    free(got);
    assert_refused("7x2147483648", "column 3: repetitions");
    assert_refused("7x99999999999999999999999", "column 3: repetitions");
    (void)state;
}

static void test_refused(void **state)
{
    assert_refused("1 2 three", "column 5: unexpected \"three\", expected a number, _ or stale");
    assert_refused("1x", "column 3: unexpected end of a value");
    assert_refused("1+1", "expected xN");
    assert_refused("1 {{schema:0 count:1}}", "column 3: native histograms are not supported");
    assert_refused("stalex3", "column 1");
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notation),
        cmocka_unit_test(test_long_runs),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
