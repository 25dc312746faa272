// SPDX-License-Identifier: Apache-2.0
// Memory for sealed chunks, which are freed about in the order of their age: regions of 1 MiB,
// each freed when its last chunk is. There is no overhead per chunk.
#include "tsdb/chunk.h"

#include "base/mem.h"

#include <string.h>

// Regions are aligned to their size, so the address of a chunk gives its region.
#define REGION_BYTES ((size_t)1 << 20)

struct tsdb_region {
    size_t used, live; // bytes; live: without removed chunks
    uint8_t data[];
};

const uint8_t *tsdb_regions_put(struct tsdb_regions *s, const uint8_t *data, size_t len)
{
    if (!s->open || REGION_BYTES - sizeof(*s->open) - s->open->used < len)
        s->open = gs_alloc_pages(REGION_BYTES);
    uint8_t *at = s->open->data + s->open->used;
    memcpy(at, data, len);
    s->open->used += len;
    s->open->live += len;
    return at;
}

void tsdb_regions_drop(struct tsdb_regions *s, const uint8_t *data, size_t len)
{
    struct tsdb_region *region =
        (struct tsdb_region *)((uintptr_t)data & ~(uintptr_t)(REGION_BYTES - 1));
    region->live -= len;
    if (region->live)
        return;
    if (region == s->open)
        region->used = 0;
    else
        gs_free_pages(region, REGION_BYTES);
}

void tsdb_regions_finish(struct tsdb_regions *s)
{
    gs_free_pages(s->open, REGION_BYTES);
    s->open = NULL;
}
