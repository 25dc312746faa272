// SPDX-License-Identifier: Apache-2.0
// Tables that give label sets numbers, and memos: the number that each series of the store, or each
// label set of another table, has in a table. They are built as queries need them. Since series
// come and go, a memo forgets the numbers of the store that were given to another series.
#include "promql/label_cache.h"

#include "base/mem.h"
#include "promql/eval_private.h"

#define FEW ((size_t)4096) // label sets; tables below are never built again

// --- tables ---

static void table_free(struct promql_entry *e)
{
    struct promql_label_table *t = GS_CONTAINER_OF(e, struct promql_label_table, entry);
    gs_arena_finish(&t->arena);
    free(t->slots);
    free(t->hashes);
    free(t->labels);
    free(t);
}

struct promql_label_table *promql_label_table(struct promql_cache_view *v, const struct gs_buf *key)
{
    struct promql_entry *e = promql_cache_get(v, key);
    if (e)
        return GS_CONTAINER_OF(e, struct promql_label_table, entry);
    struct promql_label_table *t;
    if (!promql_cache_has_room(v, sizeof(*t)))
        return NULL;
    t = gs_alloc(sizeof(*t));
    t->entry.free = table_free;
    t->entry.bytes = sizeof(*t);
    t->number = promql_cache_number(v);
    t->n_next = FEW;
    promql_cache_put(v, key, &t->entry);
    return t;
}

static bool grow_table(struct promql_cache_view *v, struct promql_label_table *t)
{
    size_t cap = t->cap ? t->cap * 2 : 16, n_slots = cap * 2, mask = n_slots - 1;
    size_t each = sizeof(*t->labels) + sizeof(*t->hashes) + 2 * sizeof(*t->slots);
    if (!promql_entry_grow(v, &t->entry, (cap - t->cap) * each))
        return false;
    t->labels = gs_realloc_array(t->labels, cap, sizeof(*t->labels));
    t->hashes = gs_realloc_array(t->hashes, cap, sizeof(*t->hashes));
    free(t->slots);
    t->slots = gs_alloc_array(n_slots, sizeof(*t->slots));
    for (size_t i = 0; i < t->n; i++) {
        size_t at = t->hashes[i] & mask;
        while (t->slots[at])
            at = (at + 1) & mask;
        t->slots[at] = (uint32_t)i + 1;
    }
    t->cap = cap;
    return true;
}

uint32_t promql_label_number(struct promql_cache_view *v, struct promql_label_table *t,
                             struct tsdb_labels l)
{
    size_t bytes = l.n * sizeof(*l.pairs);
    uint32_t hash = (uint32_t)tsdb_labels_hash(l);
    if (t->n == t->cap && !grow_table(v, t))
        return PROMQL_NO_NUMBER;
    size_t mask = t->cap * 2 - 1, at = hash & mask;
    for (; t->slots[at]; at = (at + 1) & mask) {
        uint32_t i = t->slots[at] - 1;
        if (t->hashes[i] == hash && tsdb_labels_equal(t->labels[i], l))
            return i;
    }
    if (!promql_entry_grow(v, &t->entry, bytes + 16))
        return PROMQL_NO_NUMBER;
    struct tsdb_pair *pairs = gs_arena_alloc(&t->arena, bytes ? bytes : 1);
    if (l.n)
        memcpy(pairs, l.pairs, bytes);
    l.pairs = pairs;
    t->labels[t->n] = l;
    t->hashes[t->n] = hash;
    t->slots[at] = (uint32_t)++t->n;
    return (uint32_t)t->n - 1;
}

// Label sets of series that ended stay in the table. When they are most of it, the next query
// begins a new one.
void promql_label_table_used(struct promql_cache_view *v, struct promql_label_table *t, size_t n)
{
    if (n > t->most_used)
        t->most_used = n;
    if (t->n < t->n_next)
        return;
    if (t->n / 4 > t->most_used)
        promql_cache_retire(v, &t->entry);
    t->n_next = t->n * 2;
    t->most_used = 0;
}

// --- memos ---

static void memo_free(struct promql_entry *e)
{
    struct promql_label_memo *m = GS_CONTAINER_OF(e, struct promql_label_memo, entry);
    for (size_t i = 0; i < m->n_pages; i++)
        free(m->pages[i]);
    free(m->pages);
    free(m);
}

static void forget_changed(struct tsdb *db, struct promql_label_memo *m)
{
    uint64_t end = tsdb_changes_end(db);
    bool kept = tsdb_changes_kept(db, m->changes);
    for (uint64_t i = m->changes; kept && i < end; i++) {
        tsdb_ref ref = tsdb_change_at(db, i);
        if (ref / PROMQL_MEMO_PAGE < m->n_pages && m->pages[ref / PROMQL_MEMO_PAGE])
            m->pages[ref / PROMQL_MEMO_PAGE][ref % PROMQL_MEMO_PAGE] = 0;
    }
    for (size_t i = 0; !kept && i < m->n_pages; i++)
        if (m->pages[i])
            memset(m->pages[i], 0, PROMQL_MEMO_PAGE * sizeof(**m->pages));
    m->changes = end;
}

struct promql_label_memo *promql_label_memo(struct promql_eval *ev,
                                            const struct promql_label_table *from,
                                            const uint64_t to[2])
{
    GS_AUTO_BUF struct gs_buf key = {0};
    struct promql_label_memo *m;
    uint64_t numbers[3] = {from ? from->number : 0, to[0], to[1]};
    gs_buf_add_char(&key, 'M');
    gs_buf_add(&key, numbers, sizeof(numbers));
    struct promql_entry *e = promql_cache_get(ev->view, &key);
    if (e) {
        m = GS_CONTAINER_OF(e, struct promql_label_memo, entry);
        if (!from)
            forget_changed(ev->engine->db, m);
        return m;
    }
    if (!promql_cache_has_room(ev->view, sizeof(*m)))
        return NULL;
    m = gs_alloc(sizeof(*m));
    m->entry.free = memo_free;
    m->entry.bytes = sizeof(*m);
    m->changes = tsdb_changes_end(ev->engine->db);
    promql_cache_put(ev->view, &key, &m->entry);
    return m;
}

uint32_t *promql_label_memo_page(struct promql_cache_view *v, struct promql_label_memo *m,
                                 size_t page)
{
    if (page < m->n_pages && m->pages[page])
        return m->pages[page];
    size_t n = page < m->n_pages ? m->n_pages : page + 1 + page / 2;
    size_t more = (n - m->n_pages) * sizeof(*m->pages) + PROMQL_MEMO_PAGE * sizeof(**m->pages);
    if (!promql_entry_grow(v, &m->entry, more))
        return NULL;
    if (n > m->n_pages) {
        m->pages = gs_realloc_array(m->pages, n, sizeof(*m->pages));
        memset(m->pages + m->n_pages, 0, (n - m->n_pages) * sizeof(*m->pages));
        m->n_pages = n;
    }
    return m->pages[page] = gs_alloc_array(PROMQL_MEMO_PAGE, sizeof(**m->pages));
}
