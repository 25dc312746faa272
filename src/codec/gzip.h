// SPDX-License-Identifier: Apache-2.0
// gzip members (RFC 1952), bounded on the way in against decompression bombs.
#pragma once

#include "base/buf.h"
#include "base/error.h"

struct gs_error *codec_gzip(struct gs_slice in, struct gs_buf *ret);
// The fastest level: for replies, where time counts more than the last tenth of size.
struct gs_error *codec_gzip_fast(struct gs_slice in, struct gs_buf *ret);
// max: bytes that *ret may get; GS_ELIMIT above.
struct gs_error *codec_gunzip(struct gs_slice in, size_t max, struct gs_buf *ret);
// As codec_gunzip. go_on, called now and then, may take its time; when it returns false the result
// is GS_ECONFLICT.
struct gs_error *codec_gunzip_slowly(struct gs_slice in, size_t max, bool (*go_on)(void *arg),
                                     void *arg, struct gs_buf *ret);
