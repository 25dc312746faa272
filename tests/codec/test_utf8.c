// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "codec/encoding.h"

static void test_boundaries(void **state)
{
    static const char *const good[] = {"",
                                       "ascii",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xe2\x82",
                                      "\xff"};
    for (size_t i = 0; i < GS_ARRAY_LEN(good); i++)
        assert_int_equal(codec_utf8_valid_prefix(gs_slice_of(good[i])), strlen(good[i]));
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        assert_int_equal(codec_utf8_valid_prefix(gs_slice_of(bad[i])), 0);
    assert_int_equal(codec_utf8_valid_prefix(GS_SLICE("ab\xff")), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_boundaries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
