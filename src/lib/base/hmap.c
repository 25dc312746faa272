// SPDX-License-Identifier: Apache-2.0
// Open addressing. The full hash is kept beside each key, so that a rehash and most mismatches read
// no key. A free function for values runs when a value is replaced or the table is cleared.
#include "base/hmap.h"

#include "base/mem.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

// Slots are probed linearly; a removed entry leaves a tombstone (key set, value NULL) until the
// next rehash. The table is kept at most 3/4 full, tombstones included.
struct slot {
    char *key;
    size_t key_len;
    uint64_t hash;
    void *value;
};

struct gs_hmap {
    struct slot *slots;
    size_t cap; // power of two, 0 before the first put
    size_t len;
    size_t used; // len + tombstones
    void (*free_value)(void *);
};

uint64_t gs_hash(const void *data, size_t len)
{
    return XXH3_64bits(data, len);
}

struct gs_hmap *gs_hmap_new(void (*free_value)(void *))
{
    struct gs_hmap *m = gs_alloc(sizeof(*m));
    m->free_value = free_value;
    return m;
}

void gs_hmap_clear(struct gs_hmap *m)
{
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slots[i].value && m->free_value)
            m->free_value(m->slots[i].value);
        free(m->slots[i].key);
    }
    free(m->slots);
    m->slots = NULL;
    m->cap = m->len = m->used = 0;
}

void gs_hmap_free(struct gs_hmap *m)
{
    if (!m)
        return;
    gs_hmap_clear(m);
    free(m);
}

size_t gs_hmap_len(const struct gs_hmap *m)
{
    return m->len;
}

// The slot that holds the key, or NULL.
static struct slot *find_slot(const struct gs_hmap *m, struct gs_slice key, uint64_t hash)
{
    if (!m->cap)
        return NULL;
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct slot *s = &m->slots[i];
        if (!s->key)
            return NULL;
        if (s->value && s->hash == hash && s->key_len == key.len &&
            (key.len == 0 || memcmp(s->key, key.data, key.len) == 0))
            return s;
    }
}

static void insert_new(struct slot *slots, size_t cap, struct slot item)
{
    size_t i = item.hash & (cap - 1);
    while (slots[i].key)
        i = (i + 1) & (cap - 1);
    slots[i] = item;
}

// Full tables double, and those of tombstones keep their size.
static void rehash(struct gs_hmap *m)
{
    size_t cap = 16;
    while (cap * 3 / 4 <= m->len + m->len / 3)
        cap *= 2;
    struct slot *slots = gs_alloc_array(cap, sizeof(*slots));
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slots[i].value)
            insert_new(slots, cap, m->slots[i]);
        else
            free(m->slots[i].key);
    }
    free(m->slots);
    m->slots = slots;
    m->cap = cap;
    m->used = m->len;
}

void *gs_hmap_get(const struct gs_hmap *m, struct gs_slice key)
{
    struct slot *s = find_slot(m, key, gs_hash(key.data, key.len));
    return s ? s->value : NULL;
}

void *gs_hmap_get_str(const struct gs_hmap *m, const char *key)
{
    return gs_hmap_get(m, gs_slice_of(key));
}

void gs_hmap_put(struct gs_hmap *m, struct gs_slice key, void *value)
{
    uint64_t hash = gs_hash(key.data, key.len);
    struct slot *s = find_slot(m, key, hash);
    if (s) {
        if (m->free_value && s->value != value)
            m->free_value(s->value);
        s->value = value;
        return;
    }
    if (m->used + 1 > m->cap * 3 / 4)
        rehash(m);
    insert_new(m->slots, m->cap, (struct slot){gs_slice_dup(key), key.len, hash, value});
    m->len++;
    m->used++;
}

void gs_hmap_put_str(struct gs_hmap *m, const char *key, void *value)
{
    gs_hmap_put(m, gs_slice_of(key), value);
}

void *gs_hmap_remove(struct gs_hmap *m, struct gs_slice key)
{
    struct slot *s = find_slot(m, key, gs_hash(key.data, key.len));
    if (!s)
        return NULL;
    void *value = s->value;
    s->value = NULL;
    m->len--;
    return value;
}

void *gs_hmap_remove_str(struct gs_hmap *m, const char *key)
{
    return gs_hmap_remove(m, gs_slice_of(key));
}

bool gs_hmap_next(const struct gs_hmap *m, size_t *pos, struct gs_slice *ret_key, void **ret_value)
{
    while (*pos < m->cap) {
        struct slot *s = &m->slots[(*pos)++];
        if (!s->value)
            continue;
        if (ret_key)
            *ret_key = (struct gs_slice){s->key, s->key_len};
        if (ret_value)
            *ret_value = s->value;
        return true;
    }
    return false;
}
