// SPDX-License-Identifier: Apache-2.0
// Values of passes as bytes of a block (their form is in stream.h). Private to the room; the hot
// path of appending.
#pragma once

#include "tsdb/stream.h"

// What one call writes at most, and the bytes behind it that are written over as well.
#define TSDB_BLOCK_RUN_BYTES (TSDB_STREAM_RUN * (TSDB_DECIMAL_MAX_BYTES + 2) + 2 + 8)

// Values of 1 to TSDB_STREAM_RUN passes, the first and the last of which have one, behind `gap`
// passes without. Returns how many bytes they take in out. The block's state says that they are in
// it; its bytes and their length are the caller's to change. When the block ended in a count of
// repeats, that byte was taken away before (last_repeats stays), as there may be more of them.
size_t tsdb_block_write(struct tsdb_block *b, size_t gap, const double *values, size_t n,
                        uint8_t out[TSDB_BLOCK_RUN_BYTES]);
