// SPDX-License-Identifier: Apache-2.0
// Frames of a hostile WebSocket client. Reading at once and in pieces must give the same messages,
// the same replies and the same end. First byte: size of the pieces.
#include "base/mem.h"
#include "net/websocket/websocket.h"

#include <stdlib.h>

struct seen {
    struct gs_buf messages, output;
    unsigned ends, code;
    bool open;
};

static void on_message(void *arg, enum websocket_opcode opcode, struct gs_slice part, bool first,
                       bool last)
{
    struct seen *s = arg;
    if (s->ends || first == s->open)
        abort();
    s->open = !last;
    if (first)
        gs_buf_addf(&s->messages, "%d:", (int)opcode);
    gs_buf_add_slice(&s->messages, part);
    if (last)
        gs_buf_add_char(&s->messages, '\n');
}

static void on_output(void *arg, struct gs_slice bytes)
{
    gs_buf_add_slice(&((struct seen *)arg)->output, bytes);
}

static void on_end(void *arg, unsigned code)
{
    struct seen *s = arg;
    s->ends++;
    s->code = code;
}

static void read_frames(struct gs_slice bytes, size_t piece, struct seen *ret)
{
    static const struct websocket_callbacks callbacks = {on_message, on_output, on_end};
    struct websocket *w = websocket_new(&callbacks, ret);
    while (bytes.len) {
        size_t n = bytes.len < piece ? bytes.len : piece;
        websocket_feed(w, gs_slice_make(bytes.data, n));
        bytes = gs_slice_make(bytes.data + n, bytes.len - n);
    }
    websocket_free(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole = {0}, pieces = {0};
    if (!size)
        return 0;
    struct gs_slice bytes = gs_slice_make(data + 1, size - 1);
    read_frames(bytes, size, &whole);
    read_frames(bytes, data[0] % 16 + 1, &pieces);
    if (whole.ends > 1 || whole.ends != pieces.ends || whole.code != pieces.code ||
        !gs_slice_eq(gs_buf_slice(&whole.messages), gs_buf_slice(&pieces.messages)) ||
        !gs_slice_eq(gs_buf_slice(&whole.output), gs_buf_slice(&pieces.output)))
        abort();
    gs_buf_finish(&whole.messages);
    gs_buf_finish(&whole.output);
    gs_buf_finish(&pieces.messages);
    gs_buf_finish(&pieces.output);
    return 0;
}
