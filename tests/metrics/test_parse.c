// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "metrics/write.h"

#include <math.h>

// Writes each sample back as "name|label=value;…|value|timestamp|type\n".
static bool collect(void *arg, const struct metrics_sample *s)
{
    struct gs_buf *out = arg;
    gs_buf_add_slice(out, s->name);
    gs_buf_add_char(out, '|');
    for (size_t i = 0; i < s->n_labels; i++) {
        gs_buf_add_slice(out, s->labels[i].name);
        gs_buf_add_char(out, '=');
        gs_buf_add_slice(out, s->labels[i].value);
        gs_buf_add_char(out, ';');
    }
    gs_buf_addf(out, "|%g", s->value);
    if (s->has_timestamp)
        gs_buf_addf(out, "|%lld", (long long)s->timestamp_ms);
    gs_buf_addf(out, "|%d\n", s->type);
    return true;
}

static void check(const char *text, const char *expected)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    assert_ok(metrics_parse_text(gs_slice_of(text), NULL, collect, &out));
    gs_buf_add(&out, "", 0);
    assert_string_equal(out.data, expected);
}

static void refuse(const char *text, const char *why)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    assert_error(metrics_parse_text(gs_slice_of(text), NULL, collect, &out), GS_EINVAL, why);
}

static void test_samples(void **state)
{
    check("a 1\n", "a||1|0\n");
    check("a 1", "a||1|0\n");
    check("a{x=\"1\",y=\"two words\"} 2.5 1700000000000\n",
          "a|x=1;y=two words;|2.5|1700000000000|0\n");
    check("  a:b_c { x = \"1\" , } \t-3e2\r\n\n", "a:b_c|x=1;|-300|0\n");
    check("a{} NaN\nb +Inf\nc -Inf\n", "a||nan|0\nb||inf|0\nc||-inf|0\n");
    check("a{x=\"q\\\"b\\\\s\\nn\\t\",y=\"z\\\\\"} 1\n", "a|x=q\"b\\s\nn\\t;y=z\\;|1|0\n");
    check("a{x=\"1\" y=\"2\"} 1\n", "a|x=1;y=2;|1|0\n"); // as Prometheus reads it
    check("a{x=\"},{\"} 1\n", "a|x=},{;|1|0\n");
}

static void test_types(void **state)
{
    check("# HELP g some help\n# TYPE g gauge\ng 1\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\n"
          "h_sum 3\nhx 4\n#just a comment\n",
          "g||1|2\nh_bucket|le=1.0;|2|3\nh_sum||3|3\nhx||4|0\n");
}

static void test_errors_have_line_and_column(void **state)
{
    refuse("a 1\nb\n", "line 2, column 2: the value is missing");
    refuse("a x\n", "line 1, column 3: the value is not a number");
    refuse("a 0x10\n", "line 1, column 3: the value is not a number");
    refuse("{x=\"1\"} 1\n", "line 1, column 1: expected a metric name");
    refuse("9a 1\n", "line 1, column 1: expected a metric name");
    refuse("a{x=1} 1\n", "line 1, column 5: expected '\"'");
    refuse("a{x=\"1} 1\n", "not closed");
    refuse("a{x=\"1\",x=\"2\"} 1\n", "repeated");
    refuse("a{x:y=\"1\"} 1\n", "expected '='");
    refuse("a 1 1.5\n", "line 1, column 5: the timestamp");
    refuse("a 1 2 3\n", "unexpected text");
    refuse("a{x=\"1\\\"} 1\n", "not closed");
}

static bool ignore(void *arg, const struct metrics_sample *s)
{
    return true;
}

static void test_limits(void **state)
{
    const struct metrics_limits limits = {.max_line = 20, .max_labels = 2, .max_samples = 2};
    assert_error(
        metrics_parse_text(GS_SLICE("aaaaaaaaaaaaaaaaaaaaaaaa 1\n"), &limits, ignore, NULL),
        GS_ELIMIT, "longer than 20 bytes");
    assert_error(metrics_parse_text(GS_SLICE("a{x=\"\",y=\"\",z=\"\"} 1"), &limits, ignore, NULL),
                 GS_ELIMIT, "more than 2 labels");
    assert_error(metrics_parse_text(GS_SLICE("a 1\nb 2\nc 3\n"), &limits, ignore, NULL), GS_ELIMIT,
                 "more than 2 samples");
}

static bool add_name(void *arg, const struct metrics_sample *s)
{
    gs_buf_add_slice(arg, s->name);
    return true;
}

static void test_lines_over_a_limit_can_be_skipped(void **state)
{
    const struct metrics_limits limits = {
        .max_line = 20, .max_labels = 2, .skip_over_limits = true};
    static const char text[] = "a 1\n"
                               "# HELP b a long text about the family\n"
                               "b{x=\"0123456789abc\"} 2\n"
                               "d{x=\"\",y=\"\",z=\"\"} 3\n"
                               "c 4\n";
    GS_AUTO_BUF struct gs_buf names = {0};
    assert_ok(metrics_parse_text(gs_slice_of(text), &limits, add_name, &names));
    assert_string_equal(names.data, "ac");
    gs_buf_clear(&names);
    GS_AUTO_FREE char *om = gs_format("%s# EOF\n", text);
    assert_ok(metrics_parse(gs_slice_of(om), METRICS_OPENMETRICS, &limits, add_name, &names));
    assert_string_equal(names.data, "ac");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_errors_have_line_and_column),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_lines_over_a_limit_can_be_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
