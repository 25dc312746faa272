// SPDX-License-Identifier: Apache-2.0
// The series of a selector, kept while the store's series stay the same. Private to the room.
#pragma once

#include "promql/cache.h"

struct promql_known { // all that match, whenever they had samples
    tsdb_ref *refs;
    struct tsdb_labels *labels;
    size_t n;
    uint32_t name;     // of all of them; TSDB_NO_SYMBOL: they differ
    uint64_t all;      // the number of this list
    uint64_t some;     // of the last other list of those that had a value; 0: none yet
    uint32_t *of_some; // its members, n_some
    size_t n_some;
    struct promql_entry *entry; // NULL: of this query alone
};

struct gs_error *promql_known_series(struct promql_eval *ev, const struct promql_node *selector,
                                     struct promql_known **ret);
// The number of the list of those members that have a value; 0 when nothing is kept.
uint64_t promql_known_number(struct promql_eval *ev, struct promql_known *k,
                             const uint32_t *members, size_t n);
