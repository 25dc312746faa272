// SPDX-License-Identifier: Apache-2.0
// What follows from label sets alone (the series of a selector, groups, partners of a join) is kept
// from query to query, while the store's series stay the same. A matrix whose series are known has
// a number, `set`: equal numbers, the same series with the same labels in the same order.
#pragma once

#include "promql/eval_private.h"

struct promql_cache;
struct promql_cache *promql_cache_new(void);
void promql_cache_free(struct promql_cache *c);
// What is kept of the store's series as they are now, for one query and its result. Queries between
// which no series comes or goes share it.
struct promql_cache_view;
struct promql_cache_view *promql_cache_hold(struct promql_cache *c, const struct tsdb *db);
void promql_cache_release(struct promql_cache *c, struct promql_cache_view *v);
uint64_t promql_cache_number(struct promql_cache *c); // a new one
void *promql_cache_get(const struct promql_cache_view *v, const struct gs_buf *key);
// Memory for a new entry; NULL: the cache is full. Ends with _put, or is freed.
struct promql_entry {
    struct gs_arena arena;
};
struct promql_entry *promql_entry_new(struct promql_cache_view *v);
void promql_entry_free(struct promql_entry *e);
void promql_cache_put(struct promql_cache_view *v, const struct gs_buf *key, struct promql_entry *e,
                      void *data);
// Copies into the entry; NULL: no memory.
void *promql_entry_copy(struct promql_entry *e, const void *data, size_t n, size_t size);
// Copies of the label sets too; l is read with a stride of `stride` bytes.
struct tsdb_labels *promql_entry_copy_labels(struct promql_entry *e, const struct tsdb_labels *l,
                                             size_t stride, size_t n);

// keys.c: what tells rules apart
void promql_eval_rule_key(const struct promql_key_rule *rule, struct gs_buf *key);
