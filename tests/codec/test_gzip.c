// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "codec/encoding.h"

#include <limits.h>

static void test_round_trip(void **state)
{
    GS_AUTO_BUF struct gs_buf text = {0}, packed = {0}, back = {0};
    for (int i = 0; i < 20000; i++)
        gs_buf_addf(&text, "line %d\n", i);
    assert_ok(codec_gzip(gs_buf_slice(&text), NULL, NULL, &packed));
    assert_true(packed.len < text.len);
    assert_ok(codec_gunzip(gs_buf_slice(&packed), text.len, NULL, NULL, &back));
    assert_true(gs_slice_eq(gs_buf_slice(&text), gs_buf_slice(&back)));
}

static void test_limits_and_damage(void **state)
{
    GS_AUTO_BUF struct gs_buf zeros = {0}, packed = {0};
    for (int i = 0; i < 100000; i++)
        gs_buf_add_char(&zeros, 0);
    assert_ok(codec_gzip(gs_buf_slice(&zeros), NULL, NULL, &packed));
    struct gs_buf out = {0};
    assert_error(codec_gunzip(gs_buf_slice(&packed), 1000, NULL, NULL, &out), GS_ELIMIT, "1000");
    assert_error(
        codec_gunzip(gs_slice_make(packed.data, packed.len / 2), 1000000, NULL, NULL, &out),
        GS_EINVAL, "corrupt or truncated");
    assert_error(codec_gunzip(GS_SLICE("not gzip"), 1000, NULL, NULL, &out), GS_EINVAL, "corrupt");
}

static bool count_down(void *arg)
{
    return --*(int *)arg > 0;
}

static void test_slowly(void **state)
{
    GS_AUTO_BUF struct gs_buf text = {0}, packed = {0}, back = {0};
    for (int i = 0; i < 500000; i++)
        gs_buf_addf(&text, "line %d\n", i);
    assert_ok(codec_gzip(gs_buf_slice(&text), NULL, NULL, &packed));
    int calls = INT_MAX;
    assert_ok(codec_gunzip(gs_buf_slice(&packed), text.len, count_down, &calls, &back));
    assert_true(gs_slice_eq(gs_buf_slice(&text), gs_buf_slice(&back)));
    assert_true(INT_MAX - calls >= 10);
    calls = 3;
    struct gs_buf none = {0};
    assert_error(codec_gunzip(gs_buf_slice(&packed), text.len, count_down, &calls, &none),
                 GS_ECONFLICT, "stopped");
    assert_int_equal(calls, 0);
    assert_null(none.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_slowly),
                                       cmocka_unit_test(test_limits_and_damage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
