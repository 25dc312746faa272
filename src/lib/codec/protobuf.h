// SPDX-License-Identifier: Apache-2.0
// The wire format of protobuf: fields of a message, without knowledge of its type.
// Source: https://protobuf.dev/programming-guides/encoding/
//
// Messages are read in place. Nothing here keeps state. Any thread may call.
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <stdint.h>

enum codec_proto_wire {
    CODEC_PROTO_VARINT = 0,
    CODEC_PROTO_64 = 1,
    CODEC_PROTO_BYTES = 2,
    CODEC_PROTO_32 = 5,
};

struct codec_proto_token {
    uint64_t number; // of the field
    enum codec_proto_wire wire;
    uint64_t varint;       // CODEC_PROTO_VARINT
    struct gs_slice bytes; // otherwise; borrowed from the message
};

// Reads one field and moves the start of the message behind it. Call it while the message is not
// empty. GS_EPROTO: the message is malformed.
struct gs_error *codec_proto_next(struct gs_slice *message, struct codec_proto_token *ret);

// Reads a number, as of a packed list, and moves the start of the text behind it. GS_EPROTO.
struct gs_error *codec_proto_varint(struct gs_slice *text, uint64_t *ret);

// Adds a number without a field, as of a packed list.
void codec_proto_add_number(struct gs_buf *out, uint64_t value);
void codec_proto_add_varint(struct gs_buf *out, uint64_t number, uint64_t value);
// NaNs keep all bits.
void codec_proto_add_double(struct gs_buf *out, uint64_t number, double value);
void codec_proto_add_bytes(struct gs_buf *out, uint64_t number, struct gs_slice bytes);
