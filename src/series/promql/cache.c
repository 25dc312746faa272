// SPDX-License-Identifier: Apache-2.0
// The entries of the cache: their number and bytes are bounded, and those that were not used for
// the longest time make room for others. An entry that a query holds stays until the query ends.
#include "promql/label_cache.h"

#include "base/assert.h"
#include "base/mem.h"

#define DEFAULT_MAX_BYTES ((size_t)96 << 20)
#define MAX_ENTRIES       ((size_t)8192)

struct promql_cache {
    struct gs_hmap *entries;
    TAILQ_HEAD(, promql_entry) by_use; // the last used one first
    size_t bytes, max_bytes;
    uint64_t names_gone; // of the store, when the first entry was made
    uint64_t last_number;
};

struct promql_cache_view {
    struct promql_cache *cache;
    uint64_t names_gone, changes; // of the store, when the query started
    struct promql_entry **held;
    size_t n_held, held_cap;
};

struct promql_cache *promql_cache_new(size_t max_bytes)
{
    struct promql_cache *c = gs_alloc(sizeof(*c));
    c->max_bytes = max_bytes ? max_bytes : DEFAULT_MAX_BYTES;
    c->entries = gs_hmap_new(NULL);
    TAILQ_INIT(&c->by_use);
    return c;
}

static void entry_free(struct promql_entry *e)
{
    free(e->key);
    e->free(e);
}

static void remove_entry(struct promql_cache *c, struct promql_entry *e)
{
    TAILQ_REMOVE(&c->by_use, e, all);
    gs_hmap_remove(c->entries, gs_slice_make(e->key, e->key_len));
    c->bytes -= e->bytes;
    e->cached = false;
    if (!e->n_holds)
        entry_free(e);
}

static void remove_all(struct promql_cache *c)
{
    while (!TAILQ_EMPTY(&c->by_use))
        remove_entry(c, TAILQ_FIRST(&c->by_use));
    gs_assert_debug(!c->bytes && !gs_hmap_len(c->entries));
}

void promql_cache_free(struct promql_cache *c)
{
    remove_all(c);
    gs_hmap_free(c->entries);
    free(c);
}

struct promql_cache_view *promql_cache_hold(struct promql_cache *c, struct tsdb *db)
{
    if (c->names_gone != tsdb_names_gone(db))
        remove_all(c); // the order of names in label sets may be wrong
    c->names_gone = tsdb_names_gone(db);
    struct promql_cache_view *v = gs_alloc(sizeof(*v));
    *v = (struct promql_cache_view){
        .cache = c, .names_gone = c->names_gone, .changes = tsdb_changes_end(db)};
    return v;
}

void promql_cache_release(struct promql_cache_view *v)
{
    for (size_t i = 0; i < v->n_held; i++)
        if (--v->held[i]->n_holds == 0 && !v->held[i]->cached)
            entry_free(v->held[i]);
    free(v->held);
    free(v);
}

bool promql_cache_usable(const struct promql_cache_view *v)
{
    return v->names_gone == v->cache->names_gone;
}

uint64_t promql_cache_changes(const struct promql_cache_view *v)
{
    return v->changes;
}

uint64_t promql_cache_number(struct promql_cache_view *v)
{
    return ++v->cache->last_number;
}

static void hold_entry(struct promql_cache_view *v, struct promql_entry *e)
{
    gs_grow(&v->held, &v->held_cap, v->n_held, sizeof(struct promql_entry *));
    v->held[v->n_held++] = e;
    e->n_holds++;
}

struct promql_entry *promql_cache_get(struct promql_cache_view *v, const struct gs_buf *key)
{
    struct promql_cache *c = v->cache;
    struct promql_entry *e =
        promql_cache_usable(v) ? gs_hmap_get(c->entries, gs_buf_slice(key)) : NULL;
    if (!e)
        return NULL;
    TAILQ_REMOVE(&c->by_use, e, all);
    TAILQ_INSERT_HEAD(&c->by_use, e, all);
    hold_entry(v, e);
    return e;
}

static bool make_room(struct promql_cache *c, size_t bytes, size_t entries)
{
    struct promql_entry *e = TAILQ_LAST(&c->by_use, promql_entries), *before;
    for (;
         e && (c->bytes + bytes > c->max_bytes || gs_hmap_len(c->entries) + entries > MAX_ENTRIES);
         e = before) {
        before = TAILQ_PREV(e, promql_entries, all);
        if (!e->n_holds)
            remove_entry(c, e);
    }
    return c->bytes + bytes <= c->max_bytes && gs_hmap_len(c->entries) + entries <= MAX_ENTRIES;
}

bool promql_cache_has_room(struct promql_cache_view *v, size_t bytes)
{
    return promql_cache_usable(v) && bytes <= v->cache->max_bytes && make_room(v->cache, bytes, 1);
}

void promql_cache_put(struct promql_cache_view *v, const struct gs_buf *key, struct promql_entry *e)
{
    struct promql_cache *c = v->cache;
    struct promql_entry *old = gs_hmap_get(c->entries, gs_buf_slice(key));
    if (old)
        remove_entry(c, old);
    e->key_len = key->len;
    e->key = gs_alloc(key->len);
    memcpy(e->key, key->data, key->len);
    e->bytes += sizeof(*e) + key->len * 2;
    e->cached = true;
    c->bytes += e->bytes;
    TAILQ_INSERT_HEAD(&c->by_use, e, all);
    gs_hmap_put(c->entries, gs_buf_slice(key), e);
    hold_entry(v, e);
}

bool promql_entry_grow(struct promql_cache_view *v, struct promql_entry *e, size_t bytes)
{
    if (!e->cached || bytes > v->cache->max_bytes || !make_room(v->cache, bytes, 0))
        return false;
    e->bytes += bytes;
    v->cache->bytes += bytes;
    return true;
}

void promql_cache_retire(struct promql_cache_view *v, struct promql_entry *e)
{
    if (e->cached)
        remove_entry(v->cache, e);
}
