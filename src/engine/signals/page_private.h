// SPDX-License-Identifier: Apache-2.0
// The pages of a target in memory: cached lines, the cells that they fill, and a row for each
// model.
#pragma once

#include "engine/signals/signals_private.h"

// A series of the engine, without labels over which its value is repeated.
struct signals_cell {
    const struct signals_source *source;
    uint64_t identity; // hash of the labels
    uint32_t row;
    enum signals_part part;
    union {
        double bound;  // of a bucket
        double factor; // of others: the product of labels; negative: the sample is the value
    };
    double value, before;       // on this page, and on the page before it
    uint32_t seen, seen_before; // epochs of these values; 0: none
};

struct signals_cached_line {
    uint64_t hash;
    uint32_t to; // a cell or, with a flag, an engine
    bool used;
};

struct signals_model {
    char *model, *role;
    struct signals_row view;
    const struct signals_source *from[SIGNALS_N_SOURCES + 1]; // in use; NULL: the value is absent
    bool has_block_tokens;
    double block_tokens;
    double carry[SIGNALS_N_SOURCES]; // of counters: what ranks had counted before they restarted
    uint64_t samples[SIGNALS_N_HISTOGRAMS]; // in the window
    double *bounds[SIGNALS_N_HISTOGRAMS], *counts[SIGNALS_N_HISTOGRAMS];
    size_t bounds_cap[SIGNALS_N_HISTOGRAMS];
    struct signals_window windows[SIGNALS_N_HISTOGRAMS];
};

struct signals_page {
    const struct signals_table *table;
    size_t engine;         // of the last page; n_engines: none
    uint32_t *engine_seen; // epochs
    uint32_t epoch;        // number of the page; a page a second is enough for 136 years
    uint32_t last_epoch;   // of the last whole page
    int64_t t_ms, last_ms; // times of these pages
    bool limited;          // series were left out
    struct signals_cached_line *lines;
    size_t n_lines, lines_cap, n_seen;
    struct signals_cell *cells; // as many as there are: a fleet has many pages
    size_t n_cells;
    struct signals_model **rows;
    size_t n_rows, rows_cap;
    uint64_t version;
};

// The row of a model, which is created if it is new. UINT32_MAX: there are too many.
uint32_t signals_page_find_row(struct signals_page *p, struct gs_slice model, struct gs_slice role);
// The values of the rows from the cells of the current page.
void signals_page_combine(struct signals_page *p);
