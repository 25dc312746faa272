// SPDX-License-Identifier: Apache-2.0
#include "tsdb/slab.h"

#include "base/mem.h"

#include <string.h>

#define SLAB_BYTES                                                                                 \
    ((size_t)1 << 20) // and its place is a multiple: a block's address tells its slab

struct tsdb_slab {
    size_t used, live; // bytes, of data those that were put and those not dropped
    uint8_t data[];
};

const uint8_t *tsdb_slabs_put(struct tsdb_slabs *s, const uint8_t *data, size_t len)
{
    if (!s->open || SLAB_BYTES - sizeof(*s->open) - s->open->used < len)
        s->open = gs_alloc_pages(SLAB_BYTES);
    uint8_t *at = s->open->data + s->open->used;
    memcpy(at, data, len);
    s->open->used += len;
    s->open->live += len;
    return at;
}

void tsdb_slabs_drop(struct tsdb_slabs *s, const uint8_t *data, size_t len)
{
    struct tsdb_slab *slab = (struct tsdb_slab *)((uintptr_t)data & ~(uintptr_t)(SLAB_BYTES - 1));
    slab->live -= len;
    if (slab->live)
        return;
    if (slab == s->open)
        slab->used = 0;
    else
        gs_free_pages(slab, SLAB_BYTES);
}

void tsdb_slabs_finish(struct tsdb_slabs *s)
{
    gs_free_pages(s->open, SLAB_BYTES);
    s->open = NULL;
}
