// SPDX-License-Identifier: Apache-2.0
// Decompression of blocks of Snappy. libsnappy compresses them.
#include "unit.h"

#include "base/mem.h"
#include "codec/encoding.h"

#include <snappy-c.h>

static void compress(struct gs_slice text, struct gs_buf *ret)
{
    size_t len = snappy_max_compressed_length(text.len);
    char *room = gs_buf_room(ret, len + 1);
    assert_int_equal(snappy_compress(text.data, text.len, room, &len), SNAPPY_OK);
    ret->len = len;
}

static void check_round_trip(const struct gs_buf *text)
{
    GS_AUTO_BUF struct gs_buf packed = {0}, back = {0};
    size_t size;
    compress(gs_buf_slice(text), &packed);
    assert_ok(codec_snappy_size(gs_buf_slice(&packed), &size));
    assert_int_equal(size, text->len);
    assert_ok(codec_unsnappy(gs_buf_slice(&packed), text->len, NULL, NULL, &back));
    assert_true(gs_slice_eq(gs_buf_slice(text), gs_buf_slice(&back)));
}

static void test_round_trip(void **state)
{
    (void)state;
    GS_AUTO_BUF struct gs_buf text = {0};
    check_round_trip(&text);
    for (int i = 0; i < 300; i++) // overlapping copies
        gs_buf_add_char(&text, 'a');
    check_round_trip(&text);
    for (int i = 0; i < 20000; i++) // copies at short and long distances
        gs_buf_addf(&text, "line %d\n", i);
    check_round_trip(&text);
    uint32_t random = 1;
    for (int i = 0; i < 200000; i++) { // long literals
        random = random * 1664525 + 1013904223;
        gs_buf_add_char(&text, (char)(random >> 24));
    }
    check_round_trip(&text);
}

static void assert_corrupt(const char *bytes, size_t len)
{
    struct gs_buf out = {0};
    assert_error(codec_unsnappy(gs_slice_make(bytes, len), 1 << 20, NULL, NULL, &out), GS_EINVAL,
                 "snappy: corrupt input");
}

static void test_corrupt_blocks(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
    } blocks[] = {
        {"", 0},                         // no size
        {"\xff\xff\xff\xff\xff\x01", 6}, // a size of more than 32 bits
        {"\x80\x80\x80\x80\x80\x80", 6}, // a size without an end
        {"\x04", 1},                     // no data
        {"\x04\x0c"
         "abc",
         5}, // a short literal
        {"\x02\x0c"
         "abcd",
         6}, // more data than stated
        {"\x05\x0c"
         "abcd",
         6}, // less data than stated
        {"\x0a\x00"
         "a\x01\x00",
         5}, // a copy from the same place
        {"\x0a\x00"
         "a\x01\x02",
         5}, // a copy from before the start
        {"\x0a\x00"
         "a\x02\x01",
         5},             // a truncated distance
        {"\x0a\xf0", 2}, // a literal without a length
        {"\xff\xff\x3f\x00"
         "a",
         5}, // more than such a block can hold
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(blocks); i++)
        assert_corrupt(blocks[i].bytes, blocks[i].len);
}

static bool count_down(void *arg)
{
    return --*(int *)arg > 0;
}

static void test_limit_and_stop(void **state)
{
    (void)state;
    GS_AUTO_BUF struct gs_buf text = {0}, packed = {0};
    struct gs_buf out = {0};
    for (int i = 0; i < 1000000; i++)
        gs_buf_add_char(&text, (char)i);
    compress(gs_buf_slice(&text), &packed);
    assert_error(codec_unsnappy(gs_buf_slice(&packed), 999999, NULL, NULL, &out), GS_ELIMIT,
                 "999999");
    int calls = 5;
    assert_error(codec_unsnappy(gs_buf_slice(&packed), 1000000, count_down, &calls, &out),
                 GS_ECONFLICT, "stopped");
    assert_int_equal(calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_corrupt_blocks),
        cmocka_unit_test(test_limit_and_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
