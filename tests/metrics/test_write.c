// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "metrics/write.h"

struct seen {
    const struct metrics_label *labels;
    size_t n;
    double value;
    int count;
};

static bool compare(void *arg, const struct metrics_sample *s)
{
    struct seen *want = arg;
    assert_int_equal(s->n_labels, want->n);
    for (size_t i = 0; i < want->n; i++) {
        assert_true(gs_slice_eq(s->labels[i].name, want->labels[i].name));
        assert_true(gs_slice_eq(s->labels[i].value, want->labels[i].value));
    }
    assert_true(s->value == want->value);
    assert_int_equal(s->type, METRICS_GAUGE);
    want->count++;
    return true;
}

static void test_what_is_written_reads_back_the_same(void **state)
{
    const struct metrics_label labels[] = {
        {GS_SLICE("a"), GS_SLICE("plain")},
        {GS_SLICE("b"), GS_SLICE("quote \" back \\ line\nend")},
    };
    static const double values[] = {0, -1.5, 0.1, 1e300, 123456789012345680.0, 5e-324};
    for (size_t i = 0; i < GS_ARRAY_LEN(values); i++) {
        GS_AUTO_BUF struct gs_buf out = {0};
        metrics_write_family(&out, "m", METRICS_GAUGE, "help with \\ and\nline");
        metrics_write_sample(&out, "m", labels, 2, values[i]);
        struct seen want = {labels, 2, values[i], 0};
        assert_ok(metrics_parse_text(gs_buf_slice(&out), NULL, compare, &want));
        assert_int_equal(want.count, 1);
    }
}

// The results of Prometheus' common library.
static void test_escaped_names(void **state)
{
    static const char *const cases[][4] = {
        {"plain_name:x9", "plain_name:x9", "plain__name:x9", "plain_name:x9"},
        {"http.status-code", "http_status_code", "http_dot_status__code",
         "U__http_2e_status_2d_code"},
        {"9lives_left", "_lives_left", "__lives__left", "U___39_lives__left"},
        {"gr\xc3\xb6\xc3\x9f e", "gr___e", "gr______e", "U__gr_f6__df__20_e"},
        {"\xf0\x9f\x99\x82", "_", "__", "U___1f642_"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        for (int scheme = METRICS_ESCAPE_UNDERSCORES; scheme <= METRICS_ESCAPE_VALUES; scheme++) {
            struct gs_buf out = {0};
            metrics_escape_name((enum metrics_escaping)scheme, gs_slice_of(cases[i][0]), &out);
            GS_AUTO_FREE char *text = gs_buf_take(&out);
            assert_string_equal(text, cases[i][scheme]);
        }
    assert_int_equal(metrics_escaping_for(NULL), METRICS_ESCAPE_UNDERSCORES);
    assert_int_equal(metrics_escaping_for("text/plain;version=0.0.4"), METRICS_ESCAPE_UNDERSCORES);
    assert_int_equal(metrics_escaping_for("text/plain; version=0.0.4; escaping=values, */*"),
                     METRICS_ESCAPE_VALUES);
    assert_int_equal(metrics_escaping_for("text/plain;q=0.5, application/openmetrics-text;"
                                          "version=1.0.0;escaping=dots;q=0.8"),
                     METRICS_ESCAPE_DOTS);
    assert_int_equal(metrics_escaping_for("text/plain;q=0.9, application/openmetrics-text;"
                                          "version=1.0.0;escaping=dots;q=0.8"),
                     METRICS_ESCAPE_UNDERSCORES);
}

// Texts of Prometheus 3.16.
static void test_accept(void **state)
{
    static const enum metrics_protocol usual[] = {METRICS_OPENMETRICS_1_0_0,
                                                  METRICS_OPENMETRICS_0_0_1, METRICS_TEXT_1_0_0,
                                                  METRICS_TEXT_0_0_4};
    static const enum metrics_protocol text_first[] = {METRICS_PROTOBUF, METRICS_TEXT_1_0_0,
                                                       METRICS_TEXT_0_0_4};
    GS_AUTO_BUF struct gs_buf out = {0};
    metrics_accept(usual, 4, METRICS_ESCAPE_NONE, &out);
    assert_string_equal(out.data,
                        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.7,"
                        "application/openmetrics-text;version=0.0.1;q=0.6,"
                        "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,"
                        "text/plain;version=0.0.4;q=0.4,*/*;q=0.3");
    assert_int_equal(metrics_escaping_for(out.data), METRICS_ESCAPE_NONE);
    gs_buf_clear(&out);
    // Without protobuf, which is first in the list.
    metrics_accept(text_first, 3, METRICS_ESCAPE_DOTS, &out);
    assert_string_equal(out.data, "text/plain;version=1.0.0;escaping=dots;q=0.6,"
                                  "text/plain;version=0.0.4;q=0.5,*/*;q=0.4");
    assert_int_equal(metrics_escaping_for(out.data), METRICS_ESCAPE_DOTS);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_reads_back_the_same),
        cmocka_unit_test(test_escaped_names),
        cmocka_unit_test(test_accept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
