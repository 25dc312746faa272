// SPDX-License-Identifier: Apache-2.0
// What depends only on label sets (the series of a selector, groups, matches of a join) is cached
// across queries. Births and deaths of series change it by as much as they concern:
// - A selector has a list of series, which is changed by the series that came and went. Series that
//   ended are apart, so that a query only visits those that ended within its window.
// - A label table numbers the label sets that a rule makes (by, without, on, ignoring, dropping of
//   names, results of a join). They are symbols, and it does not matter whether series have them.
// - A memo has the number of each series, or of each label set of another table, in a table. It
//   forgets a series whose number in the store was given to another one.
// The bytes of all entries together are limited. The least recently used ones make room. A query
// holds the entries that it uses until it ends, also if they are replaced meanwhile.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "promql/eval_private.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct promql_cache;
struct promql_cache *promql_cache_new(size_t max_bytes); // 0: 96 MB
void promql_cache_free(struct promql_cache *c);
// The cache as one query uses it, from its start until its result is finished.
struct promql_cache_view;
struct promql_cache_view *promql_cache_hold(struct promql_cache *c, struct tsdb *db);
void promql_cache_release(struct promql_cache_view *v);
// False: a label name vanished since the query started. It cannot use the cache any more.
bool promql_cache_usable(const struct promql_cache_view *v);
uint64_t promql_cache_changes(const struct promql_cache_view *v); // of series, before the query
uint64_t promql_cache_number(struct promql_cache_view *v);        // a new one, not 0

struct promql_entry { // begins each object in the cache
    void (*free)(struct promql_entry *e);
    size_t bytes;
    // private
    char *key;
    size_t key_len, n_holds;
    bool cached;
    TAILQ_ENTRY(promql_entry) all;
};
TAILQ_HEAD(promql_entries, promql_entry);
// NULL: not cached. The query holds it.
struct promql_entry *promql_cache_get(struct promql_cache_view *v, const struct gs_buf *key);
// Makes room for a new entry. False: it does not fit, or the cache cannot be used now.
bool promql_cache_has_room(struct promql_cache_view *v, size_t bytes);
// Adds or replaces an entry, for which there was room. The cache owns it, the query holds it.
void promql_cache_put(struct promql_cache_view *v, const struct gs_buf *key,
                      struct promql_entry *e);
// Before an entry of the cache gets more bytes. False: there is no room.
bool promql_entry_grow(struct promql_cache_view *v, struct promql_entry *e, size_t bytes);
void promql_cache_retire(struct promql_cache_view *v, struct promql_entry *e); // from the cache

#define PROMQL_NO_NUMBER UINT32_MAX

struct promql_label_table {
    struct promql_entry entry;
    uint64_t number;            // of the table
    struct tsdb_labels *labels; // by number; their pairs stay in place
    size_t n;
    // private
    size_t cap, most_used, n_next;
    uint32_t *hashes, *slots; // slots: number + 1; 0: empty; open addressing
    struct gs_arena arena;
};
// Gets or creates the table; NULL: the cache has no room.
struct promql_label_table *promql_label_table(struct promql_cache_view *v,
                                              const struct gs_buf *key);
// The number of the label set, which is added if it is new. PROMQL_NO_NUMBER: no room.
uint32_t promql_label_number(struct promql_cache_view *v, struct promql_label_table *t,
                             struct tsdb_labels l);
// A query used n of the label sets.
void promql_label_table_used(struct promql_cache_view *v, struct promql_label_table *t, size_t n);

// Small: the series of a metric are few of those of a target, and only their pages exist.
#define PROMQL_MEMO_PAGE 64u

struct promql_label_memo {
    struct promql_entry entry;
    // private
    uint32_t **pages; // of PROMQL_MEMO_PAGE elements
    size_t n_pages;
    uint64_t changes; // of the store that it knows
};
// Gets or creates the memo of a table (NULL: of the series of the store) for a purpose, which one
// or two numbers of tables identify. NULL: the cache has no room. Pausing ends its validity.
struct promql_label_memo *promql_label_memo(struct promql_eval *ev,
                                            const struct promql_label_table *from,
                                            const uint64_t to[2]);
uint32_t *promql_label_memo_page(struct promql_cache_view *v, struct promql_label_memo *m,
                                 size_t page);
// Where a memo has the number + 1 of an element; 0: unknown. NULL: no room.
static inline uint32_t *promql_label_memo_at(struct promql_cache_view *v,
                                             struct promql_label_memo *m, uint32_t element)
{
    size_t page = element / PROMQL_MEMO_PAGE;
    uint32_t *at = page < m->n_pages ? m->pages[page] : NULL;
    if (!at)
        at = promql_label_memo_page(v, m, page);
    return at ? at + element % PROMQL_MEMO_PAGE : NULL;
}

// The series of a matrix are elements of a table or of the store.
struct promql_set {
    const struct promql_label_table *table; // NULL: of the store
    const uint32_t *elements;               // of each series: the number, or tsdb_ref
};
struct gs_error *promql_eval_set(struct promql_eval *ev, const struct promql_label_table *table,
                                 const uint32_t *elements, struct promql_matrix *m);
