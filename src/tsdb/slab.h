// SPDX-License-Identifier: Apache-2.0
// Bytes of blocks that are complete, one behind the other in slabs. Blocks come in the order of
// time and go in about that order too, past the retention or into a file, so slabs become empty as
// a whole and are the operating system's again. In the heap the holes between what stays would be
// more than what stays. Private to the room.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct tsdb_slabs { // zeros: empty
    struct tsdb_slab *open;
};

// A copy of the data, 1 to 65535 bytes, until tsdb_slabs_drop() with the same length.
const uint8_t *tsdb_slabs_put(struct tsdb_slabs *s, const uint8_t *data, size_t len);
void tsdb_slabs_drop(struct tsdb_slabs *s, const uint8_t *data, size_t len);
void tsdb_slabs_finish(struct tsdb_slabs *s); // all was dropped
