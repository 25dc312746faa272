// SPDX-License-Identifier: Apache-2.0
// gzip members (RFC 1952), bounded on the way in against decompression bombs.
#pragma once

#include "base/buf.h"
#include "base/error.h"

struct gs_error *gs_gzip(struct gs_slice in, struct gs_buf *ret);
// The fastest level: for replies, where time counts more than the last tenth of size.
struct gs_error *gs_gzip_fast(struct gs_slice in, struct gs_buf *ret);
struct gs_error *gs_gunzip(struct gs_slice in, size_t max, struct gs_buf *ret);
