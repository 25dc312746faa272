// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "codec/encoding.h"

// The vectors of RFC 4648 section 10.
static void test_vectors(void **state)
{
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(pairs); i++) {
        GS_AUTO_BUF struct gs_buf text = {0}, back = {0};
        codec_base64_encode(gs_slice_of(pairs[i][0]), &text);
        gs_buf_add(&text, "", 0);
        assert_string_equal(text.data, pairs[i][1]);
        assert_ok(codec_base64_decode(gs_buf_slice(&text), &back));
        assert_string_equal(back.data, pairs[i][0]);
    }
}

static void test_refusals(void **state)
{
    static const char *const bad[] = {"Zg=", "Z", "Zg==Zg==", "Z*==", "====", "Zg=a"};
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        struct gs_buf out = {0};
        assert_error(codec_base64_decode(gs_slice_of(bad[i]), &out), GS_EINVAL, "base64");
    }
}

static void test_the_alphabet_of_urls(void **state)
{
    static const char *const pairs[][2] = {
        {"", ""}, {"f", "Zg"}, {"fo", "Zm8"}, {"foo", "Zm9v"}, {"\xfb\xff\xfe", "-__-"}};
    static const char *const bad[] = {"Zg==", "+//+", "Z", "Zm 8", "Zg\n"};
    for (size_t i = 0; i < GS_ARRAY_LEN(pairs); i++) {
        GS_AUTO_BUF struct gs_buf text = {0}, back = {0};
        codec_base64url_encode(gs_slice_of(pairs[i][0]), &text);
        gs_buf_add(&text, "", 0);
        assert_string_equal(text.data, pairs[i][1]);
        assert_ok(codec_base64url_decode(gs_buf_slice(&text), &back));
        assert_string_equal(back.data, pairs[i][0]);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        struct gs_buf out = {0};
        assert_error(codec_base64url_decode(gs_slice_of(bad[i]), &out), GS_EINVAL, "base64");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_the_alphabet_of_urls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
