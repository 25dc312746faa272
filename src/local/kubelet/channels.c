// SPDX-License-Identifier: Apache-2.0
// Channels in the messages of a WebSocket: the first byte, or the first digit in the base64
// protocols, is the channel. Parts of a message are decoded as they arrive.
#include "local/kubelet/streaming.h"

#include "base/mem.h"
#include "codec/encoding.h"

enum { BASE64_GROUP = 4 }; // digits that make whole bytes

void kubelet_channels_init(struct kubelet_channels *c, struct websocket *websocket,
                           const char *protocol)
{
    *c = (struct kubelet_channels){.websocket = websocket,
                                   .base64 = protocol && strstr(protocol, "base64."),
                                   .channel = KUBELET_NO_CHANNEL};
}

void kubelet_channels_finish(struct kubelet_channels *c)
{
    gs_buf_finish(&c->digits);
    gs_buf_finish(&c->bytes);
}

void kubelet_channels_send(struct kubelet_channels *c, unsigned channel, struct gs_slice bytes)
{
    const char head = (char)(c->base64 ? channel + '0' : channel);
    if (!c->base64) {
        websocket_send(c->websocket, WEBSOCKET_BINARY, gs_slice_make(&head, 1), bytes);
        return;
    }
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_base64_encode(bytes, &text);
    websocket_send(c->websocket, WEBSOCKET_TEXT, gs_slice_make(&head, 1), gs_buf_slice(&text));
}

// The whole groups of digits that have arrived. The others wait for the next part of the message.
static bool decode(struct kubelet_channels *c, struct gs_slice *bytes)
{
    gs_buf_add_slice(&c->digits, *bytes);
    size_t whole = c->digits.len - c->digits.len % BASE64_GROUP;
    gs_buf_finish(&c->bytes);
    struct gs_error *err = codec_base64_decode(gs_slice_make(c->digits.data, whole), &c->bytes);
    if (err) {
        gs_error_free(err);
        c->channel = KUBELET_NO_CHANNEL; // the rest of the message is for nobody
        return false;
    }
    gs_buf_consume(&c->digits, whole);
    *bytes = gs_buf_slice(&c->bytes);
    return true;
}

bool kubelet_channels_receive(struct kubelet_channels *c, struct gs_slice part, bool first,
                              struct gs_slice *ret)
{
    if (first) {
        c->channel = KUBELET_NO_CHANNEL;
        c->headed = false;
        gs_buf_clear(&c->digits);
    }
    if (!c->headed && part.len) {
        unsigned head = (uint8_t)*part.data++;
        part.len--;
        c->headed = true;
        c->channel = !c->base64 ? head : head >= '0' ? head - '0' : KUBELET_NO_CHANNEL;
    }
    if (c->channel == KUBELET_NO_CHANNEL || (c->base64 && part.len && !decode(c, &part)))
        return false;
    *ret = part;
    return true;
}
