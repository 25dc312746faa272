// SPDX-License-Identifier: Apache-2.0
// Reading checks each length against the message, so malformed messages are errors and no value is
// read beyond the end. Fixed-size values are the machine's own bytes: gpuscale runs on
// little-endian machines only.
#include "codec/protobuf.h"

// --- reading ---

static struct gs_error *truncated(void)
{
    return gs_error_new(GS_EPROTO, "the protobuf message ends in the middle of a field");
}

struct gs_error *codec_proto_varint(struct gs_slice *s, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (s->len == 0)
            return truncated();
        unsigned char c = (unsigned char)s->data[0];
        s->data++;
        s->len--;
        value |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) {
            *ret = value;
            return NULL;
        }
    }
    return gs_error_new(GS_EPROTO, "a protobuf number is longer than 64 bits");
}

static struct gs_error *take(struct gs_slice *s, uint64_t n, struct gs_slice *ret)
{
    if (n > s->len)
        return truncated();
    *ret = gs_slice_make(s->data, (size_t)n);
    s->data += n;
    s->len -= (size_t)n;
    return NULL;
}

struct gs_error *codec_proto_next(struct gs_slice *s, struct codec_proto_token *ret)
{
    struct codec_proto_token t = {0};
    uint64_t key = 0, len = 0;

    struct gs_error *err = codec_proto_varint(s, &key);
    if (err)
        return err;
    t.number = key >> 3;
    t.wire = (enum codec_proto_wire)(key & 7);
    switch (t.wire) {
    case CODEC_PROTO_VARINT:
        err = codec_proto_varint(s, &t.varint);
        break;
    case CODEC_PROTO_BYTES:
        err = codec_proto_varint(s, &len);
        if (!err)
            err = take(s, len, &t.bytes);
        break;
    case CODEC_PROTO_64:
        err = take(s, sizeof(uint64_t), &t.bytes);
        break;
    case CODEC_PROTO_32:
        err = take(s, sizeof(uint32_t), &t.bytes);
        break;
    default:
        err = gs_error_new(GS_EPROTO, "protobuf wire type %d is not known", (int)t.wire);
    }
    if (!err)
        *ret = t;
    return err;
}

// --- writing ---

void codec_proto_add_number(struct gs_buf *out, uint64_t v)
{
    while (v >= 0x80) {
        gs_buf_add_char(out, (char)(v | 0x80));
        v >>= 7;
    }
    gs_buf_add_char(out, (char)v);
}

void codec_proto_add_varint(struct gs_buf *out, uint64_t number, uint64_t value)
{
    codec_proto_add_number(out, number << 3 | CODEC_PROTO_VARINT);
    codec_proto_add_number(out, value);
}

void codec_proto_add_bytes(struct gs_buf *out, uint64_t number, struct gs_slice bytes)
{
    codec_proto_add_number(out, number << 3 | CODEC_PROTO_BYTES);
    codec_proto_add_number(out, bytes.len);
    gs_buf_add_slice(out, bytes);
}

void codec_proto_add_double(struct gs_buf *out, uint64_t number, double value)
{
    codec_proto_add_number(out, number << 3 | CODEC_PROTO_64);
    gs_buf_add(out, &value, sizeof(value));
}
