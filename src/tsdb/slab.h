// SPDX-License-Identifier: Apache-2.0
// Bytes of blocks that are complete, one behind the other in slabs. Blocks come in the order of
// time and go in about that order too, past the retention or into a file, so slabs become empty as
// a whole and are the operating system's again. In the heap the holes between what stays would be
// more than what stays. Private to the room.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct slabs { // zeros: empty
    struct slab *open;
};

// A copy of the data, 1 to 65535 bytes, until slabs_drop() with the same length.
const uint8_t *slabs_put(struct slabs *s, const uint8_t *data, size_t len);
void slabs_drop(struct slabs *s, const uint8_t *data, size_t len);
void slabs_finish(struct slabs *s); // all was dropped
