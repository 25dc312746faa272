// SPDX-License-Identifier: Apache-2.0
// Label sets as symbols. The metric name is apart from the other labels: the series of one GPU, pod
// or node differ in nothing else, and share the memory of the others.
#pragma once

#include "metrics/labels.h"
#include "tsdb/symbols.h"

#include <stdbool.h>
#include <string.h>

struct tsdb_pair {
    uint32_t name, value;
};

struct tsdb_labels {
    // Sorted by the texts of the names, without __name__ and empty values.
    const struct tsdb_pair *pairs;
    uint32_t metric; // the value of __name__; TSDB_SYMBOL_EMPTY: none
    uint16_t n;      // pairs
    uint16_t before; // the pairs whose names sort before __name__; 0 without a metric name
};

enum { TSDB_LABELS_MAX_PAIRS = UINT16_MAX };

// With the metric name.
static inline size_t tsdb_labels_len(struct tsdb_labels l)
{
    return (size_t)l.n + (l.metric != TSDB_SYMBOL_EMPTY);
}

// All labels in the order of their names, with the metric name. i < tsdb_labels_len().
static inline struct tsdb_pair tsdb_labels_at(struct tsdb_labels l, size_t i)
{
    if (l.metric == TSDB_SYMBOL_EMPTY || i < l.before)
        return l.pairs[i];
    return i == l.before ? (struct tsdb_pair){TSDB_SYMBOL_NAME, l.metric} : l.pairs[i - 1];
}

static inline struct metrics_label tsdb_labels_text_at(const struct tsdb_symbols *symbols,
                                                       struct tsdb_labels l, size_t i)
{
    struct tsdb_pair pair = tsdb_labels_at(l, i);
    return (struct metrics_label){tsdb_symbol_text(symbols, pair.name),
                                  tsdb_symbol_text(symbols, pair.value)};
}

// TSDB_SYMBOL_EMPTY if the set does not contain the label.
static inline uint32_t tsdb_labels_get(struct tsdb_labels l, uint32_t name)
{
    if (name == TSDB_SYMBOL_NAME)
        return l.metric;
    for (size_t i = 0; i < l.n; i++)
        if (l.pairs[i].name == name)
            return l.pairs[i].value;
    return TSDB_SYMBOL_EMPTY;
}

static inline struct tsdb_labels tsdb_labels_without_metric(struct tsdb_labels l)
{
    return (struct tsdb_labels){.pairs = l.pairs, .n = l.n};
}

static inline bool tsdb_labels_equal(struct tsdb_labels a, struct tsdb_labels b)
{
    return a.metric == b.metric && a.n == b.n &&
           (a.pairs == b.pairs || !a.n || memcmp(a.pairs, b.pairs, a.n * sizeof(*a.pairs)) == 0);
}

// 64 bits; equal for equal sets.
uint64_t tsdb_labels_hash(struct tsdb_labels l);
