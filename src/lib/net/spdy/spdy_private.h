// SPDX-License-Identifier: Apache-2.0
// The compression of header blocks, one state per direction for a whole session.
#pragma once

#include "base/buf.h"
#include "net/spdy/spdy.h"

#include <zlib.h>

#define SPDY_MAX_BLOCK (32u * 1024) // decompressed

struct spdy_headers {
    z_stream in, out;
    bool has_in, has_out;
};

bool spdy_headers_init(struct spdy_headers *h);
void spdy_headers_finish(struct spdy_headers *h);
// Appends the decompressed block to *ret. False: not zlib's format, or larger than SPDY_MAX_BLOCK;
// the state of the session is lost.
bool spdy_headers_inflate(struct spdy_headers *h, struct gs_slice block, struct gs_buf *ret);
// The compressed form of a block without headers.
void spdy_headers_empty(struct spdy_headers *h, struct gs_buf *ret);
