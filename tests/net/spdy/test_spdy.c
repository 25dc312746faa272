// SPDX-License-Identifier: Apache-2.0
#include "net/spdy/spdy.h"

#include "base/mem.h"
#include "net/spdy/spdy_private.h"
#include "unit.h"

struct peer {
    struct spdy *s;
    struct spdy_headers compression; // its `out` is the client's
    struct gs_buf out, data;
    struct spdy_stream *last;
    int streams, fins, resets, ends;
    bool free_on_data;
};

static void on_stream(void *arg, struct spdy_stream *s)
{
    struct peer *p = arg;
    p->streams++;
    p->last = s;
}

static void on_data(void *arg, struct spdy_stream *s, struct gs_slice bytes)
{
    struct peer *p = arg;
    gs_buf_add_slice(&p->data, bytes);
    spdy_stream_consumed(s, bytes.len);
    if (p->free_on_data)
        spdy_stream_free(s);
}

static void on_fin(void *arg, struct spdy_stream *s)
{
    ((struct peer *)arg)->fins++;
}

static void on_reset(void *arg, struct spdy_stream *s)
{
    ((struct peer *)arg)->resets++;
}

static void on_output(void *arg, struct gs_slice bytes)
{
    gs_buf_add_slice(&((struct peer *)arg)->out, bytes);
}

static void on_end(void *arg, const char *why)
{
    ((struct peer *)arg)->ends++;
}

static const struct spdy_callbacks callbacks = {on_stream, on_data,   on_fin,
                                                on_reset,  on_output, on_end};

static int setup(void **state)
{
    struct peer *p = gs_alloc(sizeof(*p));
    p->s = spdy_new(&callbacks, p);
    assert_true(spdy_headers_init(&p->compression));
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct peer *p = *state;
    spdy_free(p->s);
    spdy_headers_finish(&p->compression);
    gs_buf_finish(&p->out);
    gs_buf_finish(&p->data);
    free(p);
    return 0;
}

static void add32(struct gs_buf *b, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        gs_buf_add_char(b, (char)(v >> shift));
}

static void control(struct peer *p, unsigned type, unsigned flags, struct gs_slice payload)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    add32(&b, 0x80030000u | type);
    add32(&b, flags << 24 | (uint32_t)payload.len);
    gs_buf_add_slice(&b, payload);
    spdy_feed(p->s, gs_buf_slice(&b));
}

static void data(struct peer *p, uint32_t id, unsigned flags, struct gs_slice payload)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    add32(&b, id);
    add32(&b, flags << 24 | (uint32_t)payload.len);
    gs_buf_add_slice(&b, payload);
    spdy_feed(p->s, gs_buf_slice(&b));
}

static void compress_block(struct peer *p, struct gs_slice block, struct gs_buf *ret)
{
    char chunk[4096];
    z_stream *z = &p->compression.out;
    z->next_in = (Bytef *)(uintptr_t)block.data;
    z->avail_in = (uInt)block.len;
    do {
        z->next_out = (Bytef *)chunk;
        z->avail_out = sizeof(chunk);
        deflate(z, Z_SYNC_FLUSH);
        gs_buf_add(ret, chunk, sizeof(chunk) - z->avail_out);
    } while (!z->avail_out);
}

static void syn_stream(struct peer *p, uint32_t id, unsigned flags, struct gs_slice block)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    add32(&b, id);
    add32(&b, 0);
    gs_buf_add(&b, "\0\0", 2);
    compress_block(p, block, &b);
    control(p, 1, flags, gs_buf_slice(&b));
}

static void open_stream(struct peer *p, uint32_t id)
{
    GS_AUTO_BUF struct gs_buf block = {0};
    add32(&block, 2);
    add32(&block, 10);
    gs_buf_add_str(&block, "streamtype");
    add32(&block, 5);
    gs_buf_add_str(&block, "error");
    add32(&block, 4);
    gs_buf_add_str(&block, "port");
    add32(&block, 4);
    gs_buf_add_str(&block, "8000");
    syn_stream(p, id, 0, gs_buf_slice(&block));
}

static void pair(struct peer *p, unsigned type, uint32_t a, uint32_t b)
{
    GS_AUTO_BUF struct gs_buf payload = {0};
    add32(&payload, a);
    add32(&payload, b);
    control(p, type, 0, gs_buf_slice(&payload));
}

static unsigned out_type(const struct peer *p) // of the first frame
{
    assert_true(p->out.len >= 8);
    return (uint8_t)p->out.data[3];
}

static void assert_violation(struct peer *p)
{
    assert_int_equal(p->ends, 1);
    assert_int_equal((uint8_t)p->out.data[p->out.len - 13], 7); // GOAWAY
    size_t sent = p->out.len;
    open_stream(p, 999);
    assert_int_equal(p->out.len, sent);
}

static void test_streams_have_their_headers(void **state)
{
    struct peer *p = *state;
    for (uint32_t id = 1; id < 20; id += 2) {
        open_stream(p, id);
        assert_int_equal(spdy_stream_id(p->last), id);
        assert_string_equal(spdy_stream_header(p->last, "streamtype"), "error");
        assert_string_equal(spdy_stream_header(p->last, "port"), "8000");
        assert_null(spdy_stream_header(p->last, "requestid"));
    }
    assert_int_equal(p->streams, 10);
    spdy_stream_accept(p->last);
    assert_int_equal(out_type(p), 2);
}

static void test_a_reply_is_a_block_without_headers(void **state)
{
    struct peer *p = *state;
    GS_AUTO_BUF struct gs_buf block = {0};
    open_stream(p, 1);
    spdy_stream_accept(p->last);
    assert_true(spdy_headers_inflate(&p->compression,
                                     gs_slice_make(p->out.data + 12, p->out.len - 12), &block));
    assert_int_equal(block.len, 4);
    assert_memory_equal(block.data, "\0\0\0\0", 4);
}

static void test_data_and_ends_go_both_ways(void **state)
{
    struct peer *p = *state;
    open_stream(p, 1);
    data(p, 1, 0, GS_SLICE("hel"));
    data(p, 1, 1, GS_SLICE("lo"));
    assert_string_equal(p->data.data, "hello");
    assert_int_equal(p->fins, 1);
    data(p, 1, 0, GS_SLICE("after the end"));
    assert_string_equal(p->data.data, "hello");
    spdy_stream_write(p->last, GS_SLICE("bye"));
    spdy_stream_end(p->last);
    assert_int_equal(p->out.len, 8 + 3 + 8);
    assert_memory_equal(p->out.data, "\0\0\0\1\0\0\0\3bye\0\0\0\1\1\0\0\0", 19);
    gs_buf_clear(&p->out);
    spdy_stream_free(p->last); // both directions have ended: no reset
    assert_int_equal(p->out.len, 0);
}

static void test_a_freed_stream_is_reset(void **state)
{
    struct peer *p = *state;
    open_stream(p, 1);
    p->free_on_data = true;
    data(p, 1, 1, GS_SLICE("x"));
    assert_int_equal(out_type(p), 3);
    assert_int_equal(p->fins, 0);
    data(p, 1, 0, GS_SLICE("dropped"));
    assert_string_equal(p->data.data, "x");
}

static void test_frames_may_arrive_byte_by_byte(void **state)
{
    struct peer *p = *state;
    GS_AUTO_BUF struct gs_buf b = {0};
    add32(&b, 0x80030006);
    add32(&b, 4);
    add32(&b, 1);
    for (size_t i = 0; i < b.len; i++)
        spdy_feed(p->s, gs_slice_make(b.data + i, 1));
    assert_int_equal(p->out.len, b.len);
    assert_memory_equal(p->out.data, b.data, b.len);
}

static void test_a_peer_without_windows_gets_everything(void **state)
{
    struct peer *p = *state;
    GS_AUTO_FREE char *block = gs_alloc(1000000);
    open_stream(p, 1);
    spdy_stream_write(p->last, gs_slice_make(block, 1000000));
    assert_true(p->out.len > 1000000);
}

static void test_windows_of_a_peer_are_obeyed(void **state)
{
    struct peer *p = *state;
    GS_AUTO_FREE char *block = gs_alloc(5000);
    GS_AUTO_BUF struct gs_buf settings = {0};
    add32(&settings, 1);
    add32(&settings, 7);
    add32(&settings, 1000);
    control(p, 4, 0, gs_buf_slice(&settings));
    open_stream(p, 1);
    spdy_stream_write(p->last, gs_slice_make(block, 5000));
    spdy_stream_end(p->last);
    assert_int_equal(p->out.len, 8 + 1000);
    assert_int_equal(spdy_stream_held(p->last), 4000);
    pair(p, 9, 1, 10000);
    assert_int_equal(p->out.len, 8 + 1000 + 8 + 4000 + 8);
    assert_int_equal(spdy_stream_held(p->last), 0);
}

static void test_a_window_that_overflows_resets(void **state)
{
    struct peer *p = *state;
    open_stream(p, 1);
    pair(p, 9, 1, 0x7fffffff);
    assert_int_equal(p->resets, 1);
    assert_int_equal(out_type(p), 3);
    assert_int_equal(p->ends, 0);
}

static void test_taken_data_is_reported(void **state)
{
    struct peer *p = *state;
    char block[16384] = {0};
    open_stream(p, 1);
    for (int i = 0; i < 2; i++)
        data(p, 1, 0, gs_slice_make(block, sizeof(block)));
    assert_int_equal(out_type(p), 9);
}

static void test_a_reset_is_told_once(void **state)
{
    struct peer *p = *state;
    open_stream(p, 1);
    pair(p, 3, 1, 5);
    pair(p, 3, 1, 5);
    assert_int_equal(p->resets, 1);
    spdy_stream_write(p->last, GS_SLICE("nobody reads"));
    spdy_stream_end(p->last);
    assert_int_equal(p->out.len, 0);
}

static void test_too_many_streams_are_refused(void **state)
{
    struct peer *p = *state;
    for (uint32_t i = 0; i < SPDY_MAX_STREAMS + 10; i++)
        open_stream(p, 2 * i + 1);
    assert_int_equal(p->streams, SPDY_MAX_STREAMS);
    assert_int_equal(p->out.len, 10 * 16);
    assert_int_equal(out_type(p), 3);
    assert_int_equal(p->ends, 0);
}

static void test_headers_that_grow_without_end_are_refused(void **state)
{
    struct peer *p = *state;
    GS_AUTO_FREE char *zeros = gs_alloc(4 * 1024 * 1024);
    syn_stream(p, 1, 0, gs_slice_make(zeros, 4 * 1024 * 1024));
    assert_int_equal(p->streams, 0);
    assert_violation(p);
}

static void test_broken_compression_is_refused(void **state)
{
    struct peer *p = *state;
    control(p, 1, 0, GS_SLICE("\0\0\0\1\0\0\0\0\0\0nonsense"));
    assert_violation(p);
}

static void test_lengths_beyond_the_block_reset_the_stream(void **state)
{
    struct peer *p = *state;
    syn_stream(p, 1, 0, GS_SLICE("\0\0\0\1\xff\xff\xff\xff"));
    assert_int_equal(p->streams, 0);
    assert_int_equal(out_type(p), 3);
    open_stream(p, 3); // the session goes on
    assert_int_equal(p->streams, 1);
}

static void test_huge_control_frames_are_refused(void **state)
{
    struct peer *p = *state;
    spdy_feed(p->s, GS_SLICE("\x80\x03\x00\x01\x00\xff\xff\xff"));
    assert_violation(p);
}

static void test_identifiers_must_grow(void **state)
{
    struct peer *p = *state;
    open_stream(p, 5);
    open_stream(p, 3);
    assert_violation(p);
}

static void test_another_version_is_refused(void **state)
{
    struct peer *p = *state;
    spdy_feed(p->s, GS_SLICE("\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01"));
    assert_violation(p);
}

static void test_wrong_settings_are_refused(void **state)
{
    struct peer *p = *state;
    control(p, 4, 0, GS_SLICE("\xff\xff\xff\xff"));
    assert_violation(p);
}

static void test_a_flood_of_pings_is_refused(void **state)
{
    struct peer *p = *state;
    for (int i = 0; i < 2000 && !p->ends; i++)
        control(p, 6, 0, GS_SLICE("\0\0\0\1"));
    assert_violation(p);
}

static void test_the_peer_may_go_away(void **state)
{
    struct peer *p = *state;
    pair(p, 7, 0, 0);
    assert_int_equal(p->ends, 1);
    assert_int_equal(p->out.len, 0);
}

int main(void)
{
#define SPDY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        SPDY_TEST(test_streams_have_their_headers),
        SPDY_TEST(test_a_reply_is_a_block_without_headers),
        SPDY_TEST(test_data_and_ends_go_both_ways),
        SPDY_TEST(test_a_freed_stream_is_reset),
        SPDY_TEST(test_frames_may_arrive_byte_by_byte),
        SPDY_TEST(test_a_peer_without_windows_gets_everything),
        SPDY_TEST(test_windows_of_a_peer_are_obeyed),
        SPDY_TEST(test_a_window_that_overflows_resets),
        SPDY_TEST(test_taken_data_is_reported),
        SPDY_TEST(test_a_reset_is_told_once),
        SPDY_TEST(test_too_many_streams_are_refused),
        SPDY_TEST(test_headers_that_grow_without_end_are_refused),
        SPDY_TEST(test_broken_compression_is_refused),
        SPDY_TEST(test_lengths_beyond_the_block_reset_the_stream),
        SPDY_TEST(test_huge_control_frames_are_refused),
        SPDY_TEST(test_identifiers_must_grow),
        SPDY_TEST(test_another_version_is_refused),
        SPDY_TEST(test_wrong_settings_are_refused),
        SPDY_TEST(test_a_flood_of_pings_is_refused),
        SPDY_TEST(test_the_peer_may_go_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
