// SPDX-License-Identifier: Apache-2.0
// Interned strings: label names and values are 32-bit symbols, equal texts the same symbol, so that
// label sets compare, hash and group as integers. Counted: a symbol lives while something refers to
// it. Symbols do not sort; their texts do. One thread owns a table.
#pragma once

#include "base/slice.h"

#include <stdint.h>

#define TSDB_NO_SYMBOL    UINT32_MAX
#define TSDB_SYMBOL_EMPTY UINT32_C(0) // "" in every table
#define TSDB_SYMBOL_NAME  UINT32_C(1) // "__name__" in every table

struct tsdb_symbols;

struct tsdb_symbols *tsdb_symbols_new(void);
void tsdb_symbols_free(struct tsdb_symbols *s);
// Returns the symbol with one more reference for the caller.
uint32_t tsdb_symbol_intern(struct tsdb_symbols *s, struct gs_slice text);
// TSDB_NO_SYMBOL when nothing holds this text. No reference is taken.
uint32_t tsdb_symbol_find(const struct tsdb_symbols *s, struct gs_slice text);
void tsdb_symbol_ref(struct tsdb_symbols *s, uint32_t symbol);
void tsdb_symbol_unref(struct tsdb_symbols *s, uint32_t symbol);
// NUL-terminated behind its length. Valid while the symbol lives; tables never move a text.
struct gs_slice tsdb_symbol_text(const struct tsdb_symbols *s, uint32_t symbol);
size_t tsdb_symbols_len(const struct tsdb_symbols *s);
size_t tsdb_symbols_bytes(const struct tsdb_symbols *s);

// A label set as symbols: sorted by the text of the names, no empty values, the metric name is the
// label __name__.
struct tsdb_pair {
    uint32_t name, value;
};
struct tsdb_labels {
    const struct tsdb_pair *pairs;
    size_t n;
};

// TSDB_SYMBOL_EMPTY when the set has no such label.
static inline uint32_t tsdb_labels_get(struct tsdb_labels l, uint32_t name)
{
    for (size_t i = 0; i < l.n; i++)
        if (l.pairs[i].name == name)
            return l.pairs[i].value;
    return TSDB_SYMBOL_EMPTY;
}
