// SPDX-License-Identifier: Apache-2.0
#include "promql/cache.h"

#include "base/mem.h"

#define MAX_BYTES   ((size_t)96 << 20)
#define MAX_ENTRIES ((size_t)1024)

struct generation { // of the store's series
    struct gs_hmap *entries;
    struct generation *older;
};

struct kept {
    struct promql_entry entry;
    void *data;
};

struct promql_cache {
    struct generation *now; // behind it those that results still read
    uint64_t number, last_set;
    size_t bytes, n_results;
};

static void free_kept(void *p)
{
    struct kept *k = p;
    gs_arena_finish(&k->entry.arena);
    free(k);
}

static void begin_generation(struct promql_cache *c)
{
    struct generation *g = gs_alloc(sizeof(*g));
    g->entries = gs_hmap_new(free_kept);
    g->older = c->now;
    c->now = g;
    c->bytes = 0;
}

struct promql_cache *promql_cache_new(void)
{
    struct promql_cache *c = gs_alloc(sizeof(*c));
    begin_generation(c);
    return c;
}

static void free_older(struct promql_cache *c)
{
    struct generation *g = c->now->older;
    c->now->older = NULL;
    while (g) {
        struct generation *older = g->older;
        gs_hmap_free(g->entries);
        free(g);
        g = older;
    }
}

void promql_cache_free(struct promql_cache *c)
{
    free_older(c);
    gs_hmap_free(c->now->entries);
    free(c->now);
    free(c);
}

void promql_cache_renew(struct promql_cache *c, const struct tsdb *db)
{
    bool full = c->bytes > MAX_BYTES / 2 || gs_hmap_len(c->now->entries) > MAX_ENTRIES / 2;
    if (c->number == tsdb_generation(db) && !full)
        return;
    c->number = tsdb_generation(db);
    if (gs_hmap_len(c->now->entries))
        begin_generation(c);
    if (!c->n_results)
        free_older(c);
}

void promql_cache_hold(struct promql_cache *c)
{
    c->n_results++;
}

void promql_cache_release(struct promql_cache *c)
{
    if (--c->n_results == 0)
        free_older(c);
}

uint64_t promql_cache_number(struct promql_cache *c)
{
    return ++c->last_set;
}

void *promql_cache_get(const struct promql_cache *c, const struct gs_buf *key)
{
    struct kept *k = gs_hmap_get(c->now->entries, gs_buf_slice(key));
    return k ? k->data : NULL;
}

struct promql_entry *promql_entry_new(struct promql_cache *c)
{
    if (c->bytes >= MAX_BYTES || gs_hmap_len(c->now->entries) >= MAX_ENTRIES)
        return NULL;
    struct kept *k = gs_alloc(sizeof(*k));
    k->entry.arena.limit = MAX_BYTES - c->bytes;
    return &k->entry;
}

void promql_entry_free(struct promql_entry *e)
{
    free_kept(GS_CONTAINER_OF(e, struct kept, entry));
}

void promql_cache_put(struct promql_cache *c, const struct gs_buf *key, struct promql_entry *e,
                      void *data)
{
    struct kept *k = GS_CONTAINER_OF(e, struct kept, entry);
    k->data = data;
    c->bytes += e->arena.used + sizeof(*k) + key->len;
    gs_hmap_put(c->now->entries, gs_buf_slice(key), k);
}

void *promql_entry_copy(struct promql_entry *e, const void *data, size_t n, size_t size)
{
    void *p = gs_arena_alloc(&e->arena, n ? n * size : 1);
    if (p && n)
        memcpy(p, data, n * size);
    return p;
}

struct tsdb_labels *promql_entry_copy_labels(struct promql_entry *e, const struct tsdb_labels *l,
                                             size_t stride, size_t n)
{
    struct tsdb_labels *out = gs_arena_alloc(&e->arena, n ? n * sizeof(*out) : 1);
    size_t total = 0, at = 0;
    const char *from = (const char *)l;
    for (size_t i = 0; i < n; i++)
        total += ((const struct tsdb_labels *)(const void *)(from + i * stride))->n;
    struct tsdb_pair *pairs = gs_arena_alloc(&e->arena, total ? total * sizeof(*pairs) : 1);
    if (!out || !pairs)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const struct tsdb_labels *one = (const void *)(from + i * stride);
        if (one->n)
            memcpy(pairs + at, one->pairs, one->n * sizeof(*pairs));
        out[i] = (struct tsdb_labels){pairs + at, one->n};
        at += one->n;
    }
    return out;
}
