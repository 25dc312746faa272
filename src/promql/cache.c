// SPDX-License-Identifier: Apache-2.0
#include "promql/eval_private.h"

#include "base/mem.h"

#define MAX_BYTES   ((size_t)96 << 20)
#define MAX_ENTRIES ((size_t)1024)

struct promql_cache_view {
    struct gs_hmap *entries;
    size_t bytes, n_results; // that read it
};

struct kept {
    struct promql_entry entry;
    void *data;
};

struct promql_cache {
    struct promql_cache_view *now;
    uint64_t generation; // of the store's series, of `now`
    uint64_t last_set;
};

static void free_kept(void *p)
{
    struct kept *k = p;
    gs_arena_finish(&k->entry.arena);
    free(k);
}

static struct promql_cache_view *view_new(void)
{
    struct promql_cache_view *v = gs_alloc(sizeof(*v));
    v->entries = gs_hmap_new(free_kept);
    return v;
}

static void view_free(struct promql_cache_view *v)
{
    gs_hmap_free(v->entries);
    free(v);
}

struct promql_cache *promql_cache_new(void)
{
    struct promql_cache *c = gs_alloc(sizeof(*c));
    c->now = view_new();
    return c;
}

void promql_cache_free(struct promql_cache *c)
{
    view_free(c->now);
    free(c);
}

static void renew_view(struct promql_cache *c, const struct tsdb *db)
{
    struct promql_cache_view *old = c->now;
    bool full = old->bytes > MAX_BYTES / 2 || gs_hmap_len(old->entries) > MAX_ENTRIES / 2;
    if (c->generation == tsdb_generation(db) && !full)
        return;
    c->generation = tsdb_generation(db);
    // A view in use belongs to the old series, even if it is empty.
    if (!gs_hmap_len(old->entries) && !old->n_results)
        return;
    c->now = view_new();
    if (!old->n_results)
        view_free(old);
}

struct promql_cache_view *promql_cache_hold(struct promql_cache *c, const struct tsdb *db)
{
    renew_view(c, db);
    c->now->n_results++;
    return c->now;
}

void promql_cache_release(struct promql_cache *c, struct promql_cache_view *v)
{
    if (--v->n_results == 0 && v != c->now)
        view_free(v);
}

uint64_t promql_cache_number(struct promql_cache *c)
{
    return ++c->last_set;
}

void *promql_cache_get(const struct promql_cache_view *v, const struct gs_buf *key)
{
    struct kept *k = gs_hmap_get(v->entries, gs_buf_slice(key));
    return k ? k->data : NULL;
}

struct promql_entry *promql_entry_new(struct promql_cache_view *v)
{
    if (v->bytes >= MAX_BYTES || gs_hmap_len(v->entries) >= MAX_ENTRIES)
        return NULL;
    struct kept *k = gs_alloc(sizeof(*k));
    k->entry.arena.limit = MAX_BYTES - v->bytes;
    return &k->entry;
}

void promql_entry_free(struct promql_entry *e)
{
    free_kept(GS_CONTAINER_OF(e, struct kept, entry));
}

void promql_cache_put(struct promql_cache_view *v, const struct gs_buf *key, struct promql_entry *e,
                      void *data)
{
    struct kept *k = GS_CONTAINER_OF(e, struct kept, entry);
    k->data = data;
    v->bytes += e->arena.used + sizeof(*k) + key->len;
    gs_hmap_put(v->entries, gs_buf_slice(key), k);
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
