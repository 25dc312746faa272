// SPDX-License-Identifier: Apache-2.0
// Encodings of bytes: base64, gzip and UTF-8.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"

// --- base64 ---
//
// Standard base64 with padding (RFC 4648 section 4).

void codec_base64_encode(struct gs_slice in, struct gs_buf *out);
struct gs_error *codec_base64_decode(struct gs_slice in, struct gs_buf *ret); // blanks are skipped

// --- gzip ---
//
// gzip members (RFC 1952), bounded on the way in against decompression bombs.

struct gs_error *codec_gzip(struct gs_slice in, struct gs_buf *ret);
// The fastest level: for replies, where time counts more than the last tenth of size.
struct gs_error *codec_gzip_fast(struct gs_slice in, struct gs_buf *ret);
// max: bytes that *ret may get; GS_ELIMIT above.
struct gs_error *codec_gunzip(struct gs_slice in, size_t max, struct gs_buf *ret);
// As codec_gunzip. go_on, called now and then, may take its time; when it returns false the result
// is GS_ECONFLICT.
struct gs_error *codec_gunzip_slowly(struct gs_slice in, size_t max, bool (*go_on)(void *arg),
                                     void *arg, struct gs_buf *ret);

// --- UTF-8 ---
//
// UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing past U+10FFFF.

// The offset of the first byte that is not part of a valid character; s.len when all are.
size_t codec_utf8_valid_prefix(struct gs_slice s);
