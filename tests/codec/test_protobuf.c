// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "codec/protobuf.h"

static void test_fields_are_read_as_written(void **state)
{
    GS_AUTO_BUF struct gs_buf message = {0};
    codec_proto_add_varint(&message, 1, UINT64_MAX);
    codec_proto_add_bytes(&message, 2000, GS_SLICE("text"));
    codec_proto_add_double(&message, 3, 1.5);
    gs_buf_add(&message, "\x25\x01\x02\x03\x04", 5); // field 4 with 32 bits
    struct gs_slice rest = gs_buf_slice(&message);
    struct codec_proto_token t;
    assert_ok(codec_proto_next(&rest, &t));
    assert_int_equal(t.number, 1);
    assert_int_equal(t.wire, CODEC_PROTO_VARINT);
    assert_true(t.varint == UINT64_MAX);
    assert_ok(codec_proto_next(&rest, &t));
    assert_int_equal(t.number, 2000);
    assert_int_equal(t.wire, CODEC_PROTO_BYTES);
    assert_true(gs_slice_eq_str(t.bytes, "text"));
    assert_ok(codec_proto_next(&rest, &t));
    assert_int_equal(t.wire, CODEC_PROTO_64);
    double value = 0;
    memcpy(&value, t.bytes.data, sizeof(value));
    assert_true(value == 1.5);
    assert_ok(codec_proto_next(&rest, &t));
    assert_int_equal(t.number, 4);
    assert_int_equal(t.wire, CODEC_PROTO_32);
    assert_memory_equal(t.bytes.data, "\x01\x02\x03\x04", 4);
    assert_int_equal(rest.len, 0);
}

static void test_packed_numbers(void **state)
{
    GS_AUTO_BUF struct gs_buf list = {0};
    uint64_t n = 0;
    codec_proto_add_number(&list, 127);
    codec_proto_add_number(&list, 300);
    assert_int_equal(list.len, 3);
    struct gs_slice rest = gs_buf_slice(&list);
    assert_ok(codec_proto_varint(&rest, &n));
    assert_int_equal(n, 127);
    assert_ok(codec_proto_varint(&rest, &n));
    assert_int_equal(n, 300);
    assert_int_equal(rest.len, 0);
}

static void test_malformed_messages(void **state)
{
    static const struct {
        struct gs_slice message;
        const char *error;
    } cases[] = {
        {GS_SLICE("\x80"), "in the middle of a field"},
        {GS_SLICE("\x08"), "in the middle of a field"},
        {GS_SLICE("\x0a\x05text"), "in the middle of a field"}, // one byte less
        {GS_SLICE("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "in the middle of a field"},
        {GS_SLICE("\x09"
                  "1234567"),
         "in the middle of a field"},
        {GS_SLICE("\x0d"
                  "123"),
         "in the middle of a field"},
        {GS_SLICE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "longer than 64 bits"},
        {GS_SLICE("\x0b"), "wire type 3 is not known"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct gs_slice rest = cases[i].message;
        struct codec_proto_token t;
        assert_error(codec_proto_next(&rest, &t), GS_EPROTO, cases[i].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_are_read_as_written),
        cmocka_unit_test(test_packed_numbers),
        cmocka_unit_test(test_malformed_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
