// SPDX-License-Identifier: Apache-2.0
#include "net/websocket/websocket.h"

#include "base/mem.h"
#include "unit.h"

struct peer {
    struct websocket *w;
    struct gs_buf out, message;
    unsigned parts, messages, ends, code;
    enum websocket_opcode opcode;
};

static void on_message(void *arg, enum websocket_opcode opcode, struct gs_slice part, bool first,
                       bool last)
{
    struct peer *p = arg;
    if (first)
        gs_buf_clear(&p->message);
    gs_buf_add_slice(&p->message, part);
    p->parts++;
    p->messages += last;
    p->opcode = opcode;
}

static void on_output(void *arg, struct gs_slice bytes)
{
    gs_buf_add_slice(&((struct peer *)arg)->out, bytes);
}

static void on_end(void *arg, unsigned code)
{
    struct peer *p = arg;
    p->ends++;
    p->code = code;
}

static const struct websocket_callbacks callbacks = {on_message, on_output, on_end};

static int setup(void **state)
{
    struct peer *p = gs_alloc(sizeof(*p));
    p->w = websocket_new(&callbacks, p);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct peer *p = *state;
    websocket_free(p->w);
    gs_buf_finish(&p->out);
    gs_buf_finish(&p->message);
    free(p);
    return 0;
}

// A client's frame.
static void add_frame(struct gs_buf *b, unsigned first_byte, struct gs_slice payload)
{
    static const uint8_t mask[4] = {1, 2, 3, 250};
    gs_buf_add_char(b, (char)first_byte);
    if (payload.len < 126) {
        gs_buf_add_char(b, (char)(0x80 | payload.len));
    } else if (payload.len <= UINT16_MAX) {
        gs_buf_add_char(b, (char)(0x80 | 126));
        gs_buf_add_char(b, (char)(payload.len >> 8));
        gs_buf_add_char(b, (char)payload.len);
    } else {
        gs_buf_add_char(b, (char)(0x80 | 127));
        for (int shift = 56; shift >= 0; shift -= 8)
            gs_buf_add_char(b, (char)((uint64_t)payload.len >> shift));
    }
    gs_buf_add(b, mask, 4);
    for (size_t i = 0; i < payload.len; i++)
        gs_buf_add_char(b, (char)(payload.data[i] ^ mask[i & 3]));
}

static void feed(struct peer *p, unsigned first_byte, struct gs_slice payload)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    add_frame(&b, first_byte, payload);
    websocket_feed(p->w, gs_buf_slice(&b));
}

static void assert_violation(struct peer *p)
{
    assert_int_equal(p->ends, 1);
    assert_int_equal(p->code, WEBSOCKET_PROTOCOL_ERROR);
    assert_true(p->out.len > 4);
    assert_int_equal((uint8_t)p->out.data[0], 0x88);
    assert_memory_equal(p->out.data + 2, "\x03\xea", 2);
    size_t sent = p->out.len;
    feed(p, 0x82, GS_SLICE("nothing more is read"));
    websocket_send(p->w, WEBSOCKET_BINARY, GS_SLICE("x"), GS_SLICE("y"));
    assert_int_equal(p->messages, 0);
    assert_int_equal(p->out.len, sent);
}

static void test_messages_of_all_lengths_arrive(void **state)
{
    static const size_t lengths[] = {0, 1, 125, 126, 65535, 65536, 200000};
    struct peer *p = *state;
    GS_AUTO_FREE char *text = gs_alloc(200001);
    for (size_t i = 0; i < 200000; i++)
        text[i] = (char)(i * 7);
    for (size_t i = 0; i < GS_ARRAY_LEN(lengths); i++) {
        feed(p, 0x82, gs_slice_make(text, lengths[i]));
        assert_int_equal(p->messages, i + 1);
        assert_int_equal(p->message.len, lengths[i]);
        assert_true(!lengths[i] || memcmp(p->message.data, text, lengths[i]) == 0);
    }
}

static void test_bytes_may_arrive_one_by_one(void **state)
{
    struct peer *p = *state;
    GS_AUTO_BUF struct gs_buf b = {0};
    add_frame(&b, 0x01, GS_SLICE("Hel"));
    add_frame(&b, 0x89, GS_SLICE("ping")); // between the fragments
    add_frame(&b, 0x00, GS_SLICE(""));
    add_frame(&b, 0x80, GS_SLICE("lo"));
    for (size_t i = 0; i < b.len; i++)
        websocket_feed(p->w, gs_slice_make(b.data + i, 1));
    assert_int_equal(p->messages, 1);
    assert_int_equal(p->opcode, WEBSOCKET_TEXT);
    assert_string_equal(p->message.data, "Hello");
    assert_int_equal(p->out.len, 6);
    assert_memory_equal(p->out.data, "\x8a\x04ping", 6);
}

static void test_sent_frames_have_the_shortest_length(void **state)
{
    struct peer *p = *state;
    GS_AUTO_FREE char *text = gs_alloc(70000);
    websocket_send(p->w, WEBSOCKET_BINARY, GS_SLICE("\x01"), GS_SLICE("abc"));
    assert_memory_equal(p->out.data,
                        "\x82\x04\x01"
                        "abc",
                        6);
    gs_buf_clear(&p->out);
    websocket_send(p->w, WEBSOCKET_BINARY, GS_SLICE("\x01"), gs_slice_make(text, 125));
    assert_memory_equal(p->out.data, "\x82\x7e\x00\x7e\x01", 5);
    gs_buf_clear(&p->out);
    websocket_send(p->w, WEBSOCKET_BINARY, GS_SLICE(""), gs_slice_make(text, 65536));
    assert_memory_equal(p->out.data, "\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 10);
    assert_int_equal(p->out.len, 10 + 65536);
}

static void test_a_close_frame_is_answered_with_its_code(void **state)
{
    struct peer *p = *state;
    feed(p, 0x88, GS_SLICE("\x03\xe8 bye"));
    assert_int_equal(p->ends, 1);
    assert_int_equal(p->code, WEBSOCKET_NORMAL);
    assert_int_equal(p->out.len, 4);
    assert_memory_equal(p->out.data, "\x88\x02\x03\xe8", 4);
}

static void test_a_close_frame_without_a_code_is_answered(void **state)
{
    struct peer *p = *state;
    feed(p, 0x88, GS_SLICE(""));
    assert_int_equal(p->code, WEBSOCKET_NO_CODE);
    assert_memory_equal(p->out.data, "\x88\x00", 2);
}

static void test_only_one_close_frame_is_sent(void **state)
{
    struct peer *p = *state;
    websocket_close(p->w, WEBSOCKET_NORMAL, "done");
    size_t sent = p->out.len;
    feed(p, 0x88, GS_SLICE("\x03\xe8"));
    assert_int_equal(p->ends, 1);
    assert_int_equal(p->out.len, sent);
}

static void test_a_long_reason_is_cut(void **state)
{
    struct peer *p = *state;
    GS_AUTO_FREE char *reason = gs_alloc(500);
    memset(reason, 'x', 499);
    websocket_close(p->w, WEBSOCKET_INTERNAL_ERROR, reason);
    assert_int_equal(p->out.len, 2 + 125);
}

static void test_frames_without_a_mask_are_refused(void **state)
{
    struct peer *p = *state;
    websocket_feed(p->w, GS_SLICE("\x82\x01x"));
    assert_violation(p);
}

static void test_reserved_bits_are_refused(void **state)
{
    struct peer *p = *state;
    feed(p, 0xc2, GS_SLICE("x"));
    assert_violation(p);
}

static void test_unknown_opcodes_are_refused(void **state)
{
    struct peer *p = *state;
    feed(p, 0x83, GS_SLICE("x"));
    assert_violation(p);
}

static void test_fragmented_control_frames_are_refused(void **state)
{
    struct peer *p = *state;
    feed(p, 0x09, GS_SLICE("x"));
    assert_violation(p);
}

static void test_long_control_frames_are_refused(void **state)
{
    struct peer *p = *state;
    char text[126] = {0};
    feed(p, 0x89, gs_slice_make(text, sizeof(text)));
    assert_violation(p);
}

static void test_a_continuation_without_a_message_is_refused(void **state)
{
    struct peer *p = *state;
    feed(p, 0x80, GS_SLICE("x"));
    assert_violation(p);
}

static void test_a_message_inside_another_is_refused(void **state)
{
    struct peer *p = *state;
    feed(p, 0x02, GS_SLICE("x"));
    feed(p, 0x82, GS_SLICE("y"));
    assert_int_equal(p->ends, 1);
    assert_int_equal(p->code, WEBSOCKET_PROTOCOL_ERROR);
    assert_int_equal(p->messages, 0);
}

static void test_lengths_in_a_long_form_are_refused(void **state)
{
    struct peer *p = *state;
    websocket_feed(p->w, GS_SLICE("\x82\xfe\x00\x05"
                                  "mask"));
    assert_violation(p);
}

static void test_a_negative_length_is_refused(void **state)
{
    struct peer *p = *state;
    websocket_feed(p->w, GS_SLICE("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                                  "mask"));
    assert_violation(p);
}

// 2^62 bytes: they are passed on as they come, and nothing is reserved for them.
static void test_a_huge_length_costs_no_memory(void **state)
{
    struct peer *p = *state;
    websocket_feed(p->w, GS_SLICE("\x82\xff\x40\x00\x00\x00\x00\x00\x00\x00"
                                  "\x00\x00\x00\x00"
                                  "abc"));
    assert_int_equal(p->ends, 0);
    assert_int_equal(p->messages, 0);
    assert_string_equal(p->message.data, "abc");
}

static void test_a_close_code_that_is_reserved_is_refused(void **state)
{
    struct peer *p = *state;
    feed(p, 0x88, GS_SLICE("\x03\xed")); // 1005
    assert_violation(p);
}

int main(void)
{
#define WEBSOCKET_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        WEBSOCKET_TEST(test_messages_of_all_lengths_arrive),
        WEBSOCKET_TEST(test_bytes_may_arrive_one_by_one),
        WEBSOCKET_TEST(test_sent_frames_have_the_shortest_length),
        WEBSOCKET_TEST(test_a_close_frame_is_answered_with_its_code),
        WEBSOCKET_TEST(test_a_close_frame_without_a_code_is_answered),
        WEBSOCKET_TEST(test_only_one_close_frame_is_sent),
        WEBSOCKET_TEST(test_a_long_reason_is_cut),
        WEBSOCKET_TEST(test_frames_without_a_mask_are_refused),
        WEBSOCKET_TEST(test_reserved_bits_are_refused),
        WEBSOCKET_TEST(test_unknown_opcodes_are_refused),
        WEBSOCKET_TEST(test_fragmented_control_frames_are_refused),
        WEBSOCKET_TEST(test_long_control_frames_are_refused),
        WEBSOCKET_TEST(test_a_continuation_without_a_message_is_refused),
        WEBSOCKET_TEST(test_a_message_inside_another_is_refused),
        WEBSOCKET_TEST(test_lengths_in_a_long_form_are_refused),
        WEBSOCKET_TEST(test_a_negative_length_is_refused),
        WEBSOCKET_TEST(test_a_huge_length_costs_no_memory),
        WEBSOCKET_TEST(test_a_close_code_that_is_reserved_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
