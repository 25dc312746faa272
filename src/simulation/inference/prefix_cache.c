// SPDX-License-Identifier: Apache-2.0
// A map of block names to places in a list by use.
#include "inference/prefix_cache.h"

#include "base/hmap.h"
#include "base/mem.h"

#include <sys/queue.h>

struct block {
    uint64_t name;
    TAILQ_ENTRY(block) link;
};

struct inference_prefix_cache {
    struct gs_hmap *by_name;
    TAILQ_HEAD(block_list, block) by_use; // the least recently used one first
    uint32_t max;
};

static struct gs_slice key_of(const uint64_t *name)
{
    return gs_slice_make(name, sizeof(*name));
}

struct inference_prefix_cache *inference_prefix_cache_new(uint32_t blocks)
{
    struct inference_prefix_cache *c = gs_alloc(sizeof(*c));
    c->by_name = gs_hmap_new(free);
    c->max = blocks;
    TAILQ_INIT(&c->by_use);
    return c;
}

void inference_prefix_cache_free(struct inference_prefix_cache *c)
{
    if (!c)
        return;
    gs_hmap_free(c->by_name);
    free(c);
}

static void use(struct inference_prefix_cache *c, struct block *b)
{
    TAILQ_REMOVE(&c->by_use, b, link);
    TAILQ_INSERT_TAIL(&c->by_use, b, link);
}

size_t inference_prefix_cache_find(struct inference_prefix_cache *c, const uint64_t *blocks,
                                   size_t n)
{
    size_t found = 0;
    for (struct block *b; found < n && (b = gs_hmap_get(c->by_name, key_of(&blocks[found])));
         found++)
        use(c, b);
    return found;
}

static void add_block(struct inference_prefix_cache *c, uint64_t name)
{
    struct block *b = gs_hmap_get(c->by_name, key_of(&name));
    if (b) {
        use(c, b);
        return;
    }
    if (gs_hmap_len(c->by_name) < c->max) {
        b = gs_alloc(sizeof(*b));
    } else {
        b = TAILQ_FIRST(&c->by_use);
        TAILQ_REMOVE(&c->by_use, b, link);
        gs_hmap_remove(c->by_name, key_of(&b->name));
    }
    b->name = name;
    gs_hmap_put(c->by_name, key_of(&name), b);
    TAILQ_INSERT_TAIL(&c->by_use, b, link);
}

// From the last block on, so that the end of a prompt is replaced before its beginning.
void inference_prefix_cache_add(struct inference_prefix_cache *c, const uint64_t *blocks, size_t n)
{
    while (n && c->max)
        add_block(c, blocks[--n]);
}

size_t inference_prefix_blocks(struct gs_slice text, size_t block_bytes, uint64_t **ret)
{
    size_t n = text.len / block_bytes;
    uint64_t *names = gs_alloc_array(n + 1, sizeof(*names));
    for (size_t i = 0; i < n; i++) {
        uint64_t parts[2] = {i ? names[i - 1] : 0,
                             gs_hash(text.data + i * block_bytes, block_bytes)};
        names[i] = gs_hash(parts, sizeof(parts));
    }
    *ret = names;
    return n;
}
