// SPDX-License-Identifier: Apache-2.0
// Builds requests of remote write 2.0, for tests of the receiver.
#pragma once

#include "codec/protobuf.h"
#include "engine/remote/remote_private.h"

#define V2_TYPE "application/x-protobuf;proto=io.prometheus.write.v2.Request"

static inline void add_symbols(struct gs_buf *message, const char *const *symbols, size_t n)
{
    for (size_t i = 0; i < n; i++)
        codec_proto_add_bytes(message, 4, gs_slice_of(symbols[i]));
}

static inline void add_sample(struct gs_buf *series, int64_t t_ms, double v)
{
    GS_AUTO_BUF struct gs_buf sample = {0};
    gs_buf_add_char(&sample, 9);
    gs_buf_add(&sample, &v, sizeof(v)); // little endian, like the machines on which the tests run
    codec_proto_add_varint(&sample, 2, (uint64_t)t_ms);
    codec_proto_add_bytes(series, 2, gs_buf_slice(&sample));
}

static inline void add_refs(struct gs_buf *series, const char *refs, size_t n)
{
    codec_proto_add_bytes(series, 1, gs_slice_make(refs, n));
}

static inline void add_series(struct gs_buf *message, const struct gs_buf *series)
{
    codec_proto_add_bytes(message, 5, gs_buf_slice(series));
}
