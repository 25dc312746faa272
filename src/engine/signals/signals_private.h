// SPDX-License-Identifier: Apache-2.0
// Internals of this module: the table in memory, and the window of a percentile.
#pragma once

#include "engine/signals/signals.h"

#include "base/arena.h"
#include "base/hmap.h"

enum signals_over_ranks { SIGNALS_SUM, SIGNALS_MAX, SIGNALS_MIN };

// One name of one quantity of one engine.
struct signals_source {
    const char *name;                      // of the series; of a histogram without _bucket
    const char *match_label, *match_value; // NULL: all series of the name
    const char *without;                   // series with this label are parts of others; NULL: none
    const char *releases;                  // NULL: all
    const char *times_label[2]; // the value is the product of these labels; NULL: the sample
    double scale;               // a factor
    bool invert;                // 1 - value
    bool of_blocks;             // the value counts blocks; times the engine's tokens of a block
    enum signals_over_ranks over_ranks;
    // set after reading
    size_t engine;
    enum signals_quantity quantity; // SIGNALS_N_SOURCES: the tokens of a block
    size_t order;                   // among those of the quantity; the first present one is used
    struct signals_source *next;    // another source with the same name; NULL: none
};

struct signals_recognize {
    const char *prefix, *name; // one of them
    const char *label;         // with name: which the series must have; NULL: none
};

struct signals_texts {
    const char *const *items;
    size_t n;
};

struct signals_sources {
    struct signals_source *items;
    size_t n;
};

struct signals_engine {
    const char *name, *releases, *source;
    struct signals_recognize *recognize;
    size_t n_recognize;
    struct signals_texts model, role; // labels; the first present one is used
    struct signals_texts repeat;      // labels over which a value is repeated, not divided
    struct signals_texts paths, ports;
    struct signals_sources sources[SIGNALS_N_SOURCES + 1]; // the last one: tokens of a block
    const char *absent[SIGNALS_N_SOURCES];                 // reasons; NULL: none
    struct signals_retired *retired;
    size_t n_retired;
};

struct signals_table {
    struct gs_arena arena;
    struct signals_engine *engines;
    size_t n_engines;
    struct gs_hmap *names; // name of a series -> struct signals_source
};

// The part of a histogram that a series is.
enum signals_part { SIGNALS_VALUE, SIGNALS_BUCKET, SIGNALS_SUM_PART, SIGNALS_COUNT_PART };
// The sources of a series by its name. NULL: none.
const struct signals_source *signals_table_find(const struct signals_table *t, struct gs_slice name,
                                                enum signals_part *ret_part);
// The first engine that is recognized by this series. n_engines: none.
size_t signals_table_engine_of(const struct signals_table *t, struct gs_slice name,
                               const struct metrics_label *labels, size_t n_labels);

// --- window ---
// The increments of a histogram during the last 28 to 30 seconds, in slots of two seconds.

enum { SIGNALS_WINDOW_SLOTS = 15, SIGNALS_WINDOW_SLOT_MS = 2000, SIGNALS_MIN_SAMPLES = 20 };

struct signals_window {
    size_t n;        // bounds
    uint32_t *slots; // SIGNALS_WINDOW_SLOTS times n counts; not cumulative
    uint64_t *sums;  // of the slots, for each bound
    int64_t last;    // number of the newest slot
};
void signals_window_finish(struct signals_window *w);
// Begins again with n bounds.
void signals_window_reset(struct signals_window *w, size_t n);
// Drops what is older than the window.
void signals_window_advance(struct signals_window *w, int64_t t_ms);
// increments: cumulative, n of them.
void signals_window_add(struct signals_window *w, const double *increments);
uint64_t signals_window_count(const struct signals_window *w);
// The percentile by linear interpolation within its bucket, as histogram_quantile(). False: fewer
// than SIGNALS_MIN_SAMPLES.
bool signals_window_quantile(const struct signals_window *w, const double *bounds, double q,
                             double *ret);
