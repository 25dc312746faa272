// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "metrics/metrics_private.h"
#include "metrics/write.h"

#include <ctype.h>
#include <math.h>

static bool collect(void *arg, const struct metrics_sample *s)
{
    struct gs_buf *out = arg;
    gs_buf_add_slice(out, s->name);
    for (size_t i = 0; i < s->n_labels; i++) {
        gs_buf_add_char(out, i ? ',' : '{');
        gs_buf_add_slice(out, s->labels[i].name);
        gs_buf_add_char(out, '=');
        gs_buf_add_slice(out, s->labels[i].value);
    }
    gs_buf_addf(out, " %.17g", s->value);
    if (s->has_timestamp)
        gs_buf_addf(out, " @%lld", (long long)s->timestamp_ms);
    gs_buf_add_char(out, '\n');
    return true;
}

static void check(enum metrics_format f, const char *text, const char *expected)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    assert_ok(metrics_parse(gs_slice_of(text), f, NULL, collect, &out));
    gs_buf_add(&out, "", 0);
    assert_string_equal(out.data, expected);
}

static void refuse(enum metrics_format f, const char *text, const char *why)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    assert_error(metrics_parse(gs_slice_of(text), f, NULL, collect, &out), GS_EINVAL, why);
}

static void test_quoted_names(void **state)
{
    check(METRICS_TEXT, "{\"my.metric\",\"l.x\"=\"v\"} 1\n", "my.metric{l.x=v 1\n");
    check(METRICS_TEXT, "{\"my \\\"m\"} 1\n{a=\"1\",\"n\"} 2\n", "my \"m 1\nn{a=1 2\n");
    check(METRICS_TEXT, "# TYPE \"my.m\" counter\n{\"my.m\"} 1\n", "my.m 1\n");
    refuse(METRICS_TEXT, "{\"a\",\"b\"} 1\n", "line 1, column 9: a second metric name");
    refuse(METRICS_TEXT, "a{\"b\"} 1\n", "a second metric name");
    refuse(METRICS_TEXT, "{a=\"b\"} 1\n", "expected a metric name");
    refuse(METRICS_TEXT, "a{b=\"\xff\"} 1\n", "not UTF-8");
    refuse(METRICS_TEXT, "a{b=\"\xed\xa0\x80\"} 1\n", "not UTF-8");
    check(METRICS_TEXT, "a{b=\"\xc3\xa4 \xf0\x9f\x98\x80\"} 1\n",
          "a{b=\xc3\xa4 \xf0\x9f\x98\x80 1\n");
}

// The closing brace is searched from the end of the line. Errors of this search are still detected.
static void test_malformed_braces(void **state)
{
    refuse(METRICS_TEXT, "a{x=\"1\"} } 1\n", "line 1, column 9: the value is not a number");
    refuse(METRICS_TEXT, "a{x=\"1} 2\n", "not closed");
    refuse(METRICS_TEXT, "a{x=\"}\" 2\n", "line 1, column 7");
    refuse(METRICS_TEXT, "a } 2\n", "line 1, column 3: expected '{'");
    refuse(METRICS_TEXT, "a{} {} 2\n", "line 1, column 4: the value is not a number");
    refuse(METRICS_TEXT, "a 1 {x=\"1\"} 2\n", "line 1, column 3: expected '{'");
    refuse(METRICS_TEXT, "} 2\n", "line 1, column 1: expected a metric name");
    refuse(METRICS_TEXT, "a{x=\"1\"}\n", "the value is missing");
}

// As in Prometheus. OpenMetrics requires the comma.
static void test_missing_commas_between_labels(void **state)
{
    check(METRICS_TEXT, "a{x=\"1\" y=\"2\"} 3\n", "a{x=1,y=2 3\n");
    check(METRICS_TEXT, "a{x=\"1\"y=\"2\",} 3\n", "a{x=1,y=2 3\n");
    refuse(METRICS_TEXT, "a{x=\"1\" 2} 3\n", "line 1, column 9");
    refuse(METRICS_TEXT, "{\"a\" x=\"1\"} 3\n", "line 1");
    refuse(METRICS_OPENMETRICS, "a{x=\"1\" y=\"2\"} 3\n# EOF\n", "expected ',' or '}'");
}

static void test_openmetrics(void **state)
{
    check(METRICS_OPENMETRICS,
          "# TYPE a counter\n# UNIT b_seconds seconds\n# HELP a h\\n\na_total{x=\"1\"} 2 1.5 # "
          "{t=\"}\"} "
          "0.5 3.25\na_created 1.7e9\nb_seconds 1 # {} 1\n# EOF\n",
          "a_total{x=1 2 @1500\na_created 1700000000\nb_seconds 1\n");
    check(METRICS_OPENMETRICS, "# EOF", "");
    refuse(METRICS_OPENMETRICS, "a 1\n", "does not end with # EOF");
    refuse(METRICS_OPENMETRICS, "", "does not end with # EOF");
    refuse(METRICS_OPENMETRICS, "a 1", "does not end with # EOF");
    refuse(METRICS_OPENMETRICS, "# EOF\na 1\n", "after # EOF");
    refuse(METRICS_OPENMETRICS, "a  1\n# EOF\n", "line 1, column 3: the value is missing");
    refuse(METRICS_OPENMETRICS, "a 1\n\n# EOF\n", "an empty line");
    refuse(METRICS_OPENMETRICS, "a{ x=\"1\"} 1\n# EOF\n", "expected a label name");
    refuse(METRICS_OPENMETRICS, "a 1 NaN\n# EOF\n", "the timestamp");
    refuse(METRICS_OPENMETRICS, "a 1 # {\"x\"} 1\n# EOF\n", "expected '='");
    refuse(METRICS_OPENMETRICS, "a 1 # {x=\"1\"}\n# EOF\n", "expected a space");
    refuse(METRICS_OPENMETRICS, "# TYPE a untyped\n# EOF\n", "unknown metric type");
    refuse(METRICS_OPENMETRICS, "# UNIT a seconds\n# EOF\n", "the unit");
    refuse(METRICS_OPENMETRICS, "# UNIT aseconds seconds\n# EOF\n", "the unit");
    refuse(METRICS_OPENMETRICS, "# what\n# EOF\n", "expected HELP");
    refuse(METRICS_TEXT, "# TYPE a unknown\n", "unknown metric type");
}

static void test_bounds_have_one_form(void **state)
{
    check(METRICS_TEXT,
          "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"1000000\"} "
          "1\nh_bucket{le=\"+Inf\"} "
          "1\nh_bucket{le=\"0.25\"} 1\nh_bucket{le=\"250\"} 1\nh_bucket{le=\"x\"} 1\n"
          "# TYPE s summary\ns{quantile=\"0\"} 1\ns{le=\"1\"} 1\n",
          "h_bucket{le=1.0 1\nh_bucket{le=1e+06 1\nh_bucket{le=+Inf 1\nh_bucket{le=0.25 1\n"
          "h_bucket{le=250.0 1\nh_bucket{le=x 1\ns{quantile=0.0 1\ns{le=1 1\n");
}

static void test_numbers(void **state)
{
    static const char *const numbers[] = {"0",
                                          "-0",
                                          "0.1",
                                          "123456.789",
                                          "9007199254740991",
                                          "9007199254740993",
                                          "1e22",
                                          "1.5e-7",
                                          "0.3",
                                          ".5",
                                          "5.",
                                          "12345678901234567890123",
                                          "-2.50",
                                          "1e-320",
                                          "1e300",
                                          "0.000001",
                                          "3.141592653589793",
                                          "100000000000000000000",
                                          "+1",
                                          "4.35",
                                          "1.1",
                                          "0.1234567890123456789"};
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        GS_AUTO_FREE char *text = gs_format("a %s\n", numbers[i]);
        GS_AUTO_FREE char *want = gs_format("a %.17g\n", strtod(numbers[i], NULL));
        check(METRICS_TEXT, text, want);
    }
    refuse(METRICS_TEXT, "a -\n", "not a number");
    refuse(METRICS_TEXT, "a .\n", "not a number");
    refuse(METRICS_TEXT, "a 1_0\n", "not a number");
}

// Long label values with all that could deceive the scan for the closing brace, at each offset.
// All texts of digits, points and signs up to 9 characters long that a walk through them comes by,
// with other bytes behind: the number and where it ends are strtod's.
static void test_short_numbers(void **state)
{
    static const char alphabet[] = "0123456789.0123456789.-\n e/:";
    uint64_t seed = 7;
    for (int i = 0; i < 2000000; i++) {
        char text[24] = "";
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t bits = seed >> 8;
        size_t n = 1 + (seed >> 4) % 16;
        for (size_t k = 0; k < n; k++, bits = bits * 31 + 7)
            text[k] = alphabet[(bits >> 20) % (sizeof(alphabet) - 1)];
        double got = -1;
        const char *after = metrics_scan_number(text, text + n, &got);
        if (!after)
            continue;
        char number[24] = ""; // what follows may be an exponent or a hexadecimal number to strtod
        memcpy(number, text, (size_t)(after - text));
        char *end;
        double want = strtod(number, &end);
        assert_true(*end == '\0' && end > number);
        assert_memory_equal(&got, &want, sizeof(got));
        assert_true(after == text + n || !strchr("0123456789", *after) || !*after);
    }
    static const char *const none[] = {".",        ".       ", "-.      ", "",
                                       "        ", "-       ", "..1     "};
    for (size_t i = 0; i < GS_ARRAY_LEN(none); i++) {
        double v;
        assert_null(metrics_scan_number(none[i], none[i] + strlen(none[i]), &v));
    }
    (void)state;
}

// Each byte at each place of a name, in the middle of a buffer and at its end.
static void test_name_scan(void **state)
{
    (void)state;
    for (size_t at = 0; at < 40; at++)
        for (int c = 0; c < 256; c++) {
            char text[80];
            memset(text, 'x', sizeof(text));
            text[at] = (char)c;
            bool name = c == '_' || (c < 128 && isalnum(c));
            for (size_t n = at; n < 50; n += 7) {
                size_t plain = name || n < at ? n : at, metric = c == ':' ? n : plain;
                for (size_t more = 0; more <= 30; more += 15) {
                    const char *limit = text + n + more;
                    assert_ptr_equal(metrics_scan_name(text, text + n, limit, false), text + plain);
                    assert_ptr_equal(metrics_scan_name(text, text + n, limit, true), text + metric);
                }
            }
        }
}

static void test_wide_scan(void **state)
{
    for (int pad = 0; pad < 200; pad++) {
        GS_AUTO_FREE char *text =
            gs_format("a{x=\"%*s}\",y=\"\\\"}\\\\\",z=\"{},=\"} 7 8\n", pad, "");
        GS_AUTO_FREE char *want = gs_format("a{x=%*s},y=\"}\\,z={},= 7 @8\n", pad, "");
        check(METRICS_TEXT, text, want);
    }
}

struct known {
    uint64_t hash;
    size_t len;
    double value;
};

static size_t read_all(struct metrics_reader *r, const char *text, const struct known *expect,
                       size_t n_expect, struct known *ret)
{
    size_t n = 0;
    metrics_reader_start(r, gs_slice_of(text), METRICS_TEXT, NULL);
    for (bool more = true;; n++) {
        struct metrics_line line;
        if (n < n_expect)
            metrics_reader_expect(r, expect[n].hash, expect[n].len);
        assert_ok(metrics_reader_next(r, &line, &more));
        if (!more)
            return n;
        ret[n] = (struct known){line.hash, line.identity.len, line.value};
        const struct metrics_label *labels;
        size_t n_labels;
        assert_ok(metrics_reader_labels(r, &line, &labels, &n_labels));
    }
}

static void test_expected_lines(void **state)
{
    static const char *const first =
        "# HELP a b\na 1\nbb{x=\"12345678901234567890123456789012345678"
        "90123456789012345678901234567890\"} 2\n\nc 3\n";
    static const char *const second =
        "# HELP a b\na 4\nbb{x=\"1234567890123456789012345678901234567"
        "890123456789012345678901234567890\"} 5e1\n\na{x=\"\"} 6\n";
    struct metrics_reader *r = metrics_reader_new();
    struct known a[4], b[4];
    assert_int_equal(read_all(r, first, NULL, 0, a), 3);
    assert_int_equal(read_all(r, second, a, 3, b), 3);
    assert_true(a[0].hash == b[0].hash && a[1].hash == b[1].hash && a[2].hash != b[2].hash);
    assert_true(b[0].value == 4 && b[1].value == 50 && b[2].value == 6);
    // "a {…}" looks like the known "a" and a blank.
    assert_int_equal(read_all(r, "a {x=\"1\"} 9\n", a, 3, b), 1);
    assert_true(b[0].hash != a[0].hash && b[0].value == 9);
    metrics_reader_free(r);
}

// After the end, even the expected line is an error.
static void test_expected_after_eof(void **state)
{
    struct metrics_reader *r = metrics_reader_new();
    struct metrics_line line;
    bool more;
    (void)state;
    metrics_reader_start(r, GS_SLICE("b 2\n# EOF\n"), METRICS_OPENMETRICS, NULL);
    assert_ok(metrics_reader_next(r, &line, &more));
    metrics_reader_start(r, GS_SLICE("# EOF\nb 3\n"), METRICS_OPENMETRICS, NULL);
    metrics_reader_expect(r, line.hash, line.identity.len);
    assert_error(metrics_reader_next(r, &line, &more), GS_EINVAL,
                 "line 2, column 1: unexpected text after # EOF");
    metrics_reader_free(r);
}

static void note_metadata(void *arg, const struct metrics_metadata *m)
{
    gs_buf_addf(arg, "%.*s:%.*s:%.*s:%s\n", GS_SLICE_ARG(m->family), GS_SLICE_ARG(m->help),
                GS_SLICE_ARG(m->unit), m->type_name ? m->type_name : "");
}

static void test_metadata(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    struct metrics_reader *r = metrics_reader_new();
    struct metrics_line line;
    bool more;
    metrics_reader_on_metadata(r, note_metadata, &out);
    metrics_reader_start(
        r, GS_SLICE("# TYPE a_s gaugehistogram\n# UNIT a_s s\n# HELP a_s b  c\n# EOF\n"),
        METRICS_OPENMETRICS, NULL);
    assert_ok(metrics_reader_next(r, &line, &more));
    assert_false(more);
    metrics_reader_start(r, GS_SLICE("#  HELP  b  x y \n# HELP c\n#HELP d e\n# TYPE b untyped\n"),
                         METRICS_TEXT, NULL);
    assert_ok(metrics_reader_next(r, &line, &more));
    assert_string_equal(out.data, "a_s:::gaugehistogram\na_s::s:\na_s:b  c::\nb:x y ::\nc:::\n"
                                  "b:::unknown\n");
    metrics_reader_free(r);
}

// The changes of metadata between two texts.
static void expect_changes(struct metrics_reader *r, struct gs_buf *out, enum metrics_format f,
                           const char *text, bool changed, const char *calls)
{
    struct metrics_line line;
    bool more = true;
    gs_buf_clear(out);
    metrics_reader_start(r, gs_slice_of(text), f, NULL);
    while (more)
        assert_ok(metrics_reader_next(r, &line, &more));
    assert_int_equal(metrics_reader_metadata_changed(r), changed);
    assert_string_equal(out->data ? out->data : "", calls);
}

static void test_metadata_of_the_last_text(void **state)
{
    static const char plain[] = "# HELP a x\n# by hand\n# TYPE a gauge\na 1\n# TYPE b counter";
    static const char returns[] = "# HELP a x\r\n# TYPE a gauge\r\na 1\r\n";
    GS_AUTO_BUF struct gs_buf out = {0};
    struct metrics_reader *r = metrics_reader_new();
    metrics_reader_on_metadata(r, note_metadata, &out);
    expect_changes(r, &out, METRICS_TEXT, plain, true, "a:x::\na:::gauge\nb:::counter\n");
    expect_changes(r, &out, METRICS_TEXT, plain, false, "");
    expect_changes(r, &out, METRICS_TEXT, "# HELP a x\n# TYPE a gauge\na 2\n", true, "");
    expect_changes(r, &out, METRICS_TEXT, "# HELP a y\n# TYPE a gauge\na 2\n", true, "a:y::\n");
    expect_changes(r, &out, METRICS_TEXT, "# HELP a y\n# TYPE a gauge\n# HELP a y\na 2\n", true,
                   "a:y::\n");
    metrics_reader_forget_metadata(r);
    expect_changes(r, &out, METRICS_TEXT, returns, true, "a:x::\na:::gauge\n");
    expect_changes(r, &out, METRICS_TEXT, returns, false, "");
    // The other format has other rules.
    expect_changes(r, &out, METRICS_OPENMETRICS, "# TYPE a gauge\na 1\n# EOF\n", true,
                   "a:::gauge\n");
    expect_changes(r, &out, METRICS_OPENMETRICS, "# TYPE a gauge\na 1\n# EOF\n", false, "");
    expect_changes(r, &out, METRICS_TEXT, "# TYPE a gauge\na 1\n# EOF\n", true, "a:::gauge\n");
    metrics_reader_free(r);
    (void)state;
}

// The type of a skipped line still determines how the bounds of new series are written.
static void test_known_type_still_counts(void **state)
{
    static const char first[] = "# TYPE h histogram\nh_bucket{le=\"1\"} 2\n";
    struct metrics_reader *r = metrics_reader_new();
    struct metrics_line line;
    const struct metrics_label *labels;
    size_t n;
    bool more;
    for (int i = 0; i < 2; i++) {
        metrics_reader_start(r, gs_slice_of(first), METRICS_TEXT, NULL);
        assert_ok(metrics_reader_next(r, &line, &more));
        assert_ok(metrics_reader_labels(r, &line, &labels, &n));
        assert_true(gs_slice_eq_str(labels[1].value, "1.0"));
    }
    metrics_reader_free(r);
    (void)state;
}

static void test_formats(void **state)
{
    enum metrics_format f;
    assert_ok(metrics_format_of(NULL, &f));
    assert_int_equal(f, METRICS_TEXT);
    assert_ok(metrics_format_of("text/plain; version=0.0.4", &f));
    assert_int_equal(f, METRICS_TEXT);
    assert_ok(metrics_format_of("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", &f));
    assert_int_equal(f, METRICS_OPENMETRICS);
    assert_error(
        metrics_format_of("application/openmetrics-text; version=\"2.0.0\"; charset=utf-8", &f),
        GS_EPROTO, "OpenMetrics 2.0");
    assert_error(metrics_format_of("text/html", &f), GS_EPROTO, "text/html");
    assert_error(metrics_format_of("application/vnd.google.protobuf", &f), GS_EPROTO, "protobuf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quoted_names),
        cmocka_unit_test(test_openmetrics),
        cmocka_unit_test(test_malformed_braces),
        cmocka_unit_test(test_missing_commas_between_labels),
        cmocka_unit_test(test_bounds_have_one_form),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_short_numbers),
        cmocka_unit_test(test_wide_scan),
        cmocka_unit_test(test_name_scan),
        cmocka_unit_test(test_expected_lines),
        cmocka_unit_test(test_expected_after_eof),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_metadata_of_the_last_text),
        cmocka_unit_test(test_known_type_still_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
