// SPDX-License-Identifier: Apache-2.0
// The server side of WebSocket (RFC 6455) after the handshake. There is no I/O here: the caller
// feeds bytes. Payloads are passed on in parts as they arrive, so no message is held in memory.
#include "net/websocket/websocket.h"

#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>

enum {
    CONTINUATION = 0,
    CLOSE = 8,
    PING = 9,
    PONG = 10,
    MAX_HEAD = 14,     // two bytes, a length of eight, a mask of four
    MAX_CONTROL = 125, // payload of a control frame
};

struct websocket {
    struct websocket_callbacks cb;
    void *arg;
    // The head of the current frame, until it is complete.
    uint8_t head[MAX_HEAD];
    size_t head_len;
    // The frame.
    bool in_frame, fin;
    unsigned frame_opcode; // of the message for continuations
    uint64_t left;         // bytes of payload that are missing
    uint8_t mask[4];
    size_t mask_at;
    uint8_t control[MAX_CONTROL]; // payload of a control frame
    size_t control_len;
    // The message.
    unsigned message; // its opcode; 0: none is open
    bool begun;       // its first part was passed on
    bool close_sent, ended;
};

struct websocket *websocket_new(const struct websocket_callbacks *cb, void *arg)
{
    struct websocket *w = gs_alloc(sizeof(*w));
    w->cb = *cb;
    w->arg = arg;
    return w;
}

void websocket_free(struct websocket *w)
{
    free(w);
}

// --- sending ---

static size_t put_head(uint8_t head[10], unsigned opcode, uint64_t len)
{
    size_t n = 2;
    head[0] = (uint8_t)(0x80 | opcode);
    if (len < 126) {
        head[1] = (uint8_t)len;
        return n;
    }
    size_t bytes = len <= UINT16_MAX ? 2 : 8;
    head[1] = bytes == 2 ? 126 : 127;
    for (size_t i = bytes; i-- > 0;)
        head[n++] = (uint8_t)(len >> (8 * i));
    return n;
}

static void send_frame(struct websocket *w, unsigned opcode, struct gs_slice head,
                       struct gs_slice body)
{
    uint8_t bytes[10];
    if (w->close_sent)
        return;
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_add(&out, bytes, put_head(bytes, opcode, (uint64_t)head.len + body.len));
    gs_buf_add_slice(&out, head);
    gs_buf_add_slice(&out, body);
    w->cb.on_output(w->arg, gs_buf_slice(&out));
}

void websocket_send(struct websocket *w, enum websocket_opcode opcode, struct gs_slice head,
                    struct gs_slice body)
{
    send_frame(w, opcode, head, body);
}

void websocket_close(struct websocket *w, enum websocket_code code, const char *reason)
{
    const uint8_t number[2] = {(uint8_t)(code >> 8), (uint8_t)code};
    struct gs_slice text = gs_slice_of(reason);
    if (text.len > MAX_CONTROL - sizeof(number))
        text.len = MAX_CONTROL - sizeof(number);
    if (code == WEBSOCKET_NO_CODE)
        send_frame(w, CLOSE, (struct gs_slice){0}, (struct gs_slice){0});
    else
        send_frame(w, CLOSE, gs_slice_make(number, sizeof(number)), text);
    w->close_sent = true;
}

// --- receiving ---

static void end_reading(struct websocket *w, unsigned code)
{
    w->ended = true;
    w->cb.on_end(w->arg, code);
}

static bool violate(struct websocket *w, const char *why)
{
    websocket_close(w, WEBSOCKET_PROTOCOL_ERROR, why);
    end_reading(w, WEBSOCKET_PROTOCOL_ERROR);
    return false;
}

static size_t head_length(const struct websocket *w)
{
    size_t len = w->head[1] & 0x7f;
    return 2 + (len == 126 ? 2 : len == 127 ? 8 : 0) + 4;
}

// What section 5 allows of the first two bytes.
static const char *head_fault(const struct websocket *w)
{
    unsigned opcode = w->head[0] & 0x0f;
    bool fin = w->head[0] & 0x80;
    size_t len = w->head[1] & 0x7f;
    if (w->head[0] & 0x70)
        return "reserved bits are set";
    if (!(w->head[1] & 0x80))
        return "a frame of a client must be masked";
    if (opcode > PONG || (opcode > WEBSOCKET_BINARY && opcode < CLOSE))
        return "unknown opcode";
    if (opcode >= CLOSE && (!fin || len > MAX_CONTROL))
        return "a control frame is fragmented or longer than 125 bytes";
    if (opcode == CONTINUATION && !w->message)
        return "a continuation without a message";
    if (opcode && opcode < CLOSE && w->message)
        return "a new message inside a fragmented one";
    return NULL;
}

static bool begin_frame(struct websocket *w)
{
    size_t n = head_length(w) - 4;
    uint64_t len = w->head[1] & 0x7f;
    if (len >= 126) {
        len = 0;
        for (size_t i = 2; i < n; i++)
            len = len << 8 | w->head[i];
        if (len < 126 || (n == 10 && (len <= UINT16_MAX || len >> 63)))
            return violate(w, "the length of a frame is not in its shortest form");
    }
    memcpy(w->mask, w->head + n, 4);
    w->mask_at = 0;
    w->fin = w->head[0] & 0x80;
    w->frame_opcode = w->head[0] & 0x0f;
    w->left = len;
    w->in_frame = true;
    w->head_len = w->control_len = 0;
    if (w->frame_opcode && w->frame_opcode < CLOSE) {
        w->message = w->frame_opcode;
        w->begun = false;
    }
    return true;
}

static bool take_head(struct websocket *w, struct gs_slice *rest)
{
    while (rest->len) {
        w->head[w->head_len++] = (uint8_t)*rest->data++;
        rest->len--;
        const char *fault = w->head_len == 2 ? head_fault(w) : NULL;
        if (fault)
            return violate(w, fault);
        if (w->head_len > 2 && w->head_len == head_length(w))
            return begin_frame(w);
    }
    return true;
}

static bool is_valid_code(unsigned code)
{
    return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
           (code >= 3000 && code <= 4999);
}

static bool take_close(struct websocket *w)
{
    unsigned code = WEBSOCKET_NO_CODE;
    if (w->control_len >= 2)
        code = (unsigned)w->control[0] << 8 | w->control[1];
    if (w->control_len == 1 || (w->control_len && !is_valid_code(code)))
        return violate(w, "the code of a close frame is not valid");
    websocket_close(w, (enum websocket_code)code, NULL);
    end_reading(w, code);
    return false;
}

static bool end_control(struct websocket *w)
{
    w->in_frame = false;
    if (w->frame_opcode == CLOSE)
        return take_close(w);
    if (w->frame_opcode == PING)
        send_frame(w, PONG, gs_slice_make(w->control, w->control_len), (struct gs_slice){0});
    return true;
}

static void unmask(struct websocket *w, const char *from, uint8_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)from[i] ^ w->mask[(w->mask_at + i) & 3];
    w->mask_at = (w->mask_at + n) & 3;
}

static void pass_on(struct websocket *w, struct gs_slice *rest)
{
    uint8_t part[16 * 1024];
    do {
        size_t n = rest->len < sizeof(part) ? rest->len : sizeof(part);
        n = w->left < n ? (size_t)w->left : n;
        unmask(w, rest->data, part, n);
        rest->data += n;
        rest->len -= n;
        w->left -= n;
        enum websocket_opcode opcode = (enum websocket_opcode)w->message;
        bool last = !w->left && w->fin, first = !w->begun;
        w->begun = true;
        w->in_frame = w->left > 0;
        if (last)
            w->message = 0;
        if (n || first || last)
            w->cb.on_message(w->arg, opcode, gs_slice_make(part, n), first, last);
    } while (w->left && rest->len && !w->ended);
}

static bool take_payload(struct websocket *w, struct gs_slice *rest)
{
    if (w->frame_opcode < CLOSE) {
        pass_on(w, rest);
        return true;
    }
    size_t n = w->left < rest->len ? (size_t)w->left : rest->len;
    unmask(w, rest->data, w->control + w->control_len, n);
    w->control_len += n;
    w->left -= n;
    rest->data += n;
    rest->len -= n;
    return w->left || end_control(w);
}

void websocket_feed(struct websocket *w, struct gs_slice rest)
{
    while (!w->ended && (rest.len || (w->in_frame && !w->left)))
        if (!(w->in_frame ? take_payload(w, &rest) : take_head(w, &rest)))
            return;
}
