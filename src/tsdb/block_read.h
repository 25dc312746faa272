// SPDX-License-Identifier: Apache-2.0
// Values of a block's passes from its bytes (their form is in stream.h). Private to the room; the
// hot path of functions of ranges.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { // first bytes of a value
    TSDB_BLOCK_REPEATS = 112,
    TSDB_BLOCK_WIDE = 0xf8,
    TSDB_BLOCK_PLACES,
    TSDB_BLOCK_RAW,
    TSDB_BLOCK_STALE,
    TSDB_BLOCK_ABSENT,
};

// Where reading stopped.
struct tsdb_block_place {
    const uint8_t *at;
    int64_t number; // the last one
    unsigned places;
    size_t pending; // passes beyond, of repeats or absents
};

// Values of the passes from <= i < until into ret, which has room for them; tsdb_stream_absent()
// for none. A pass takes at most TSDB_DECIMAL_MAX_BYTES: so many must be there. ret_place may be
// NULL.
void tsdb_block_read(const uint8_t *data, size_t from, size_t until, double *ret,
                     struct tsdb_block_place *ret_place);
