// SPDX-License-Identifier: Apache-2.0
// The labels of series without their metric names, each set once. Open addressing.
#include "tsdb/tsdb_private.h"

#include "base/hmap.h"
#include "base/mem.h"

static uint32_t hash_pairs(const struct tsdb_pair *pairs, size_t n)
{
    return n ? (uint32_t)gs_hash(pairs, n * sizeof(*pairs)) : 0;
}

uint64_t tsdb_labels_hash(struct tsdb_labels l)
{
    const uint64_t mixed = l.metric * UINT64_C(0x9e3779b97f4a7c15);
    return (l.n ? gs_hash(l.pairs, l.n * sizeof(*l.pairs)) : 0) ^ mixed;
}

static size_t find_place(const struct tsdb_label_sets *t, const struct tsdb_pair *pairs, size_t n,
                         uint32_t hash)
{
    size_t mask = t->cap - 1, at = hash & mask;
    for (; t->slots[at]; at = (at + 1) & mask) {
        const struct tsdb_label_set *set = t->slots[at];
        if (set->hash == hash && set->n == n &&
            (!n || memcmp(set->pairs, pairs, n * sizeof(*pairs)) == 0))
            break;
    }
    return at;
}

static void grow(struct tsdb_label_sets *t)
{
    size_t old_cap = t->cap;
    struct tsdb_label_set **old = t->slots;
    t->cap = old_cap ? old_cap * 2 : 256;
    t->slots = gs_alloc_array(t->cap, sizeof(*t->slots));
    for (size_t i = 0; i < old_cap; i++) {
        if (!old[i])
            continue;
        size_t at = old[i]->hash & (t->cap - 1);
        while (t->slots[at])
            at = (at + 1) & (t->cap - 1);
        t->slots[at] = old[i];
    }
    free(old);
}

static void unref_symbols(struct tsdb_symbols *symbols, const struct tsdb_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tsdb_symbol_unref(symbols, pairs[i].name);
        tsdb_symbol_unref(symbols, pairs[i].value);
    }
}

static size_t set_bytes(size_t n)
{
    return sizeof(struct tsdb_label_set) + n * sizeof(struct tsdb_pair);
}

static struct tsdb_label_set *new_set(const struct tsdb_symbols *symbols,
                                      const struct tsdb_pair *pairs, size_t n, uint32_t hash)
{
    struct tsdb_label_set *set = gs_alloc(set_bytes(n));
    *set = (struct tsdb_label_set){.refs = 1, .hash = hash, .n = (uint16_t)n};
    if (n)
        memcpy(set->pairs, pairs, n * sizeof(*pairs));
    while (set->before < n && gs_slice_compare(tsdb_symbol_text(symbols, pairs[set->before].name),
                                               GS_SLICE("__name__")) < 0)
        set->before++;
    return set;
}

struct tsdb_label_set *tsdb_label_set_take(struct tsdb *db, const struct tsdb_pair *pairs, size_t n)
{
    struct tsdb_label_sets *t = &db->label_sets;
    if ((t->n + 1) * 4 > t->cap * 3)
        grow(t);
    uint32_t hash = hash_pairs(pairs, n);
    size_t at = find_place(t, pairs, n, hash);
    if (t->slots[at]) {
        t->slots[at]->refs++;
        unref_symbols(db->symbols, pairs, n);
        return t->slots[at];
    }
    t->slots[at] = new_set(db->symbols, pairs, n, hash);
    t->n++;
    t->bytes += set_bytes(n);
    return t->slots[at];
}

const struct tsdb_label_set *tsdb_label_set_find(const struct tsdb *db,
                                                 const struct tsdb_pair *pairs, size_t n)
{
    const struct tsdb_label_sets *t = &db->label_sets;
    return t->cap ? t->slots[find_place(t, pairs, n, hash_pairs(pairs, n))] : NULL;
}

void tsdb_label_set_unref(struct tsdb *db, struct tsdb_label_set *set)
{
    struct tsdb_label_sets *t = &db->label_sets;
    if (--set->refs)
        return;
    size_t mask = t->cap - 1, hole = find_place(t, set->pairs, set->n, set->hash);
    t->slots[hole] = NULL;
    for (size_t at = (hole + 1) & mask; t->slots[at]; at = (at + 1) & mask) {
        size_t home = t->slots[at]->hash & mask;
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        t->slots[hole] = t->slots[at];
        t->slots[at] = NULL;
        hole = at;
    }
    t->n--;
    t->bytes -= set_bytes(set->n);
    unref_symbols(db->symbols, set->pairs, set->n);
    free(set);
}

size_t tsdb_label_sets_bytes(const struct tsdb_label_sets *t)
{
    return t->bytes + t->cap * sizeof(*t->slots);
}

void tsdb_label_sets_finish(struct tsdb_label_sets *t)
{
    for (size_t i = 0; i < t->cap; i++)
        free(t->slots[i]);
    free(t->slots);
}
