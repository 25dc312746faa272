// SPDX-License-Identifier: Apache-2.0
// Encodings of bytes: base64, gzip, Snappy, HTML and UTF-8.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"

// --- base64 ---
//
// Standard base64 with padding (RFC 4648 section 4).

void codec_base64_encode(struct gs_slice in, struct gs_buf *out);
// white space is skipped
struct gs_error *codec_base64_decode(struct gs_slice in, struct gs_buf *ret);

// The alphabet for URLs without padding (RFC 4648 section 5), as in JSON Web Tokens. Decoding
// accepts nothing else.
void codec_base64url_encode(struct gs_slice in, struct gs_buf *out);
struct gs_error *codec_base64url_decode(struct gs_slice in, struct gs_buf *ret);

// --- gzip ---
// gzip members (RFC 1952). The decompressed size is limited against decompression bombs.

// Compresses with the fastest level: for responses, time matters more than the last 10 % of size.
// go_on (may be NULL) is called regularly and may pause the fiber. GS_ECONFLICT: go_on returned
// false.
struct gs_error *codec_gzip(struct gs_slice in, bool (*go_on)(void *arg), void *arg,
                            struct gs_buf *ret);
// Writes at most max bytes to *ret; GS_ELIMIT if there are more. go_on is that of codec_gzip().
struct gs_error *codec_gunzip(struct gs_slice in, size_t max, bool (*go_on)(void *arg), void *arg,
                              struct gs_buf *ret);

// --- Snappy ---
// Blocks of https://github.com/google/snappy/blob/main/format_description.txt.

// The size of the decompressed block, as the block states it. GS_EINVAL: corrupt.
struct gs_error *codec_snappy_size(struct gs_slice in, size_t *ret);
// Decompresses a block of at most max bytes. GS_ELIMIT: it states a larger size. GS_EINVAL:
// corrupt. go_on is that of codec_gzip().
struct gs_error *codec_unsnappy(struct gs_slice in, size_t max, bool (*go_on)(void *arg), void *arg,
                                struct gs_buf *ret);

// --- HTML ---
// Text for an element or a quoted attribute, as Go's html/template escapes it. A zero byte becomes
// U+FFFD.

void codec_html_escape(struct gs_slice s, struct gs_buf *out);

// --- UTF-8 ---
//
// UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing past U+10FFFF.

// Returns the offset of the first byte that is not part of a valid character, or s.len.
size_t codec_utf8_valid_prefix(struct gs_slice s);
