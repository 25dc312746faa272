// SPDX-License-Identifier: Apache-2.0
// Interned strings. Label names and values are 32-bit symbols, and equal strings have the same
// symbol, so that label sets are compared, hashed and grouped as integers. Symbols are
// reference-counted and have no order; their strings have. One thread owns a table.
#pragma once

#include "base/slice.h"

#include <stdint.h>

#define TSDB_NO_SYMBOL    UINT32_MAX
#define TSDB_SYMBOL_EMPTY UINT32_C(0) // "" in every table
#define TSDB_SYMBOL_NAME  UINT32_C(1) // "__name__" in every table

struct tsdb_symbols;

struct tsdb_symbols *tsdb_symbols_new(void);
void tsdb_symbols_free(struct tsdb_symbols *s);
// Returns the symbol with a reference for the caller.
uint32_t tsdb_symbol_intern(struct tsdb_symbols *s, struct gs_slice text);
// TSDB_NO_SYMBOL if the string is not in the table. Takes no reference.
uint32_t tsdb_symbol_find(const struct tsdb_symbols *s, struct gs_slice text);
void tsdb_symbol_ref(struct tsdb_symbols *s, uint32_t symbol);
void tsdb_symbol_unref(struct tsdb_symbols *s, uint32_t symbol);
// NUL-terminated. Valid while the symbol exists; strings never move.
struct gs_slice tsdb_symbol_text(const struct tsdb_symbols *s, uint32_t symbol);
uint32_t tsdb_symbols_end(const struct tsdb_symbols *s); // all symbols are below it
size_t tsdb_symbols_len(const struct tsdb_symbols *s);
size_t tsdb_symbols_bytes(const struct tsdb_symbols *s);
size_t tsdb_symbols_text_bytes(const struct tsdb_symbols *s); // of the texts that are in use
