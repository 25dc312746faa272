// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_written_reads_back_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
