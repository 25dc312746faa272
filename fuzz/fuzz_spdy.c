// SPDX-License-Identifier: Apache-2.0
// Frames of a hostile SPDY client. Reading at once and in pieces must give the same replies and the
// same end. First byte: size of the pieces, and whether streams are given up at their first data.
#include "base/buf.h"
#include "base/mem.h"
#include "net/spdy/spdy.h"

#include <stdlib.h>

struct seen {
    struct gs_buf output;
    size_t bytes;
    unsigned streams, fins, resets, ends;
    bool give_up;
};

static void on_stream(void *arg, struct spdy_stream *s)
{
    struct seen *seen = arg;
    const char *type = spdy_stream_header(s, "streamtype");
    seen->streams++;
    if (type && !*type) {
        spdy_stream_free(s);
        return;
    }
    spdy_stream_accept(s);
    spdy_stream_write(s, GS_SLICE("hello"));
}

static void on_data(void *arg, struct spdy_stream *s, struct gs_slice bytes)
{
    struct seen *seen = arg;
    seen->bytes += bytes.len;
    if (seen->give_up)
        spdy_stream_free(s);
}

static void on_fin(void *arg, struct spdy_stream *s)
{
    ((struct seen *)arg)->fins++;
    spdy_stream_end(s);
}

static void on_reset(void *arg, struct spdy_stream *s)
{
    ((struct seen *)arg)->resets++;
    spdy_stream_free(s);
}

static void on_output(void *arg, struct gs_slice bytes)
{
    gs_buf_add_slice(&((struct seen *)arg)->output, bytes);
}

static void on_end(void *arg, const char *why)
{
    ((struct seen *)arg)->ends++;
}

static void read_frames(struct gs_slice bytes, size_t piece, struct seen *ret)
{
    static const struct spdy_callbacks callbacks = {on_stream, on_data,   on_fin,
                                                    on_reset,  on_output, on_end};
    struct spdy *s = spdy_new(&callbacks, ret);
    while (bytes.len) {
        size_t n = bytes.len < piece ? bytes.len : piece;
        spdy_feed(s, gs_slice_make(bytes.data, n));
        bytes = gs_slice_make(bytes.data + n, bytes.len - n);
    }
    spdy_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct seen whole = {.give_up = data[0] & 0x80}, pieces = whole;
    struct gs_slice bytes = gs_slice_make(data + 1, size - 1);
    read_frames(bytes, size, &whole);
    read_frames(bytes, data[0] % 16 + 1, &pieces);
    if (whole.ends > 1 || whole.ends != pieces.ends || whole.streams != pieces.streams ||
        whole.fins != pieces.fins || whole.resets != pieces.resets ||
        (!whole.give_up && whole.bytes != pieces.bytes) ||
        !gs_slice_eq(gs_buf_slice(&whole.output), gs_buf_slice(&pieces.output)))
        abort();
    gs_buf_finish(&whole.output);
    gs_buf_finish(&pieces.output);
    return 0;
}
