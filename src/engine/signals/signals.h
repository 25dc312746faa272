// SPDX-License-Identifier: Apache-2.0
// Signals of inference engines: which engine writes a page, and its queue, cache and latencies
// under names that are the same for all engines and releases. A table, which is data, says what
// each engine calls them. A quantity that a page does not have is absent and has a reason; it is
// never zero. No I/O and no clock: pages and times in, values out. Objects belong to one thread.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"
#include "metrics/reader.h"

#include <stdbool.h>
#include <stdint.h>

// --- quantities ---

enum signals_quantity {
    SIGNALS_WAITING,
    SIGNALS_RUNNING,
    SIGNALS_KV_USED_RATIO, // 0 to 1
    SIGNALS_KV_CAPACITY_TOKENS,
    SIGNALS_SLEEPING, // 1: all ranks sleep
    SIGNALS_PROMPT_TOKENS_TOTAL,
    SIGNALS_GENERATION_TOKENS_TOTAL,
    SIGNALS_PREEMPTIONS_TOTAL,
    SIGNALS_REJECTIONS_TOTAL,
    SIGNALS_TTFT_SECONDS,  // histogram
    SIGNALS_ITL_SECONDS,   // histogram
    SIGNALS_E2E_SECONDS,   // histogram
    SIGNALS_QUEUE_SECONDS, // histogram
    SIGNALS_TTFT_P90_SECONDS,
    SIGNALS_ITL_P90_SECONDS,
    SIGNALS_E2E_P90_SECONDS,
    SIGNALS_QUEUE_P90_SECONDS,
    SIGNALS_N_QUANTITIES,
    SIGNALS_N_SOURCES =
        SIGNALS_TTFT_P90_SECONDS, // the table has these; the others follow from them
};
enum { SIGNALS_N_HISTOGRAMS = 4 };

// "waiting"; its series is gpuscale_inference_waiting.
const char *signals_quantity_name(enum signals_quantity q);
enum metrics_type signals_quantity_type(enum signals_quantity q);

#define SIGNALS_PREFIX "gpuscale_inference_"

// --- table ---
// Immutable. The default is share/inference-engines.yaml, which is part of the program.

struct signals_table;

// name: of the text, for errors such as "file:12:3: …". GS_EINVAL: the table is wrong.
struct gs_error *signals_table_parse(struct gs_slice text, const char *name,
                                     struct signals_table **ret);
struct gs_error *signals_table_load(const char *path, struct signals_table **ret); // NULL: default
void signals_table_free(struct signals_table *t);
GS_DEFINE_CLEANUP(struct signals_table *, signals_table_free)
// A regular expression for the names of all series that the table reads. Caller frees.
char *signals_table_names(const struct signals_table *t);
// The i-th path or port that is tried, over all engines, without repetition. NULL, 0: no more.
const char *signals_table_path(const struct signals_table *t, size_t i);
unsigned signals_table_port(const struct signals_table *t, size_t i);

// A name that an engine no longer writes, or never wrote.
struct signals_retired {
    const char *engine, *name;
    const char *since; // the first release without it
    const char *use;   // the name that replaces it; NULL: none
    const char *note;  // NULL: none
};
// By the name of the series, with or without _total, _bucket, _sum or _count. False: not retired.
bool signals_table_retired(const struct signals_table *t, const char *name,
                           struct signals_retired *ret);

// The quantity that a name of an engine, or of the family, stands for. Without its labels it may
// count more, as vllm:num_requests_waiting does. False: none.
bool signals_table_quantity(const struct signals_table *t, const char *name,
                            enum signals_quantity *ret);

// --- pages ---
// The pages of one target, one after another. A line of the previous page costs a search by its
// hash.

struct signals_page;

// table: borrowed.
struct signals_page *signals_page_new(const struct signals_table *table);
void signals_page_free(struct signals_page *p);
GS_DEFINE_CLEANUP(struct signals_page *, signals_page_free)

// t_ms: of the page; later than that of the last page.
void signals_page_begin(struct signals_page *p, int64_t t_ms);
// The current line of r. is_new: it may not be a line of the last complete page.
void signals_page_line(struct signals_page *p, struct metrics_reader *r,
                       const struct metrics_line *l, bool is_new);
void signals_page_end(struct signals_page *p);
// There was no page, or not a whole one: all values are absent until the next one.
void signals_page_failed(struct signals_page *p);
// begin, all lines, end. An error of the page: as signals_page_failed().
struct gs_error *signals_page_read(struct signals_page *p, struct gs_slice text,
                                   enum metrics_format format, int64_t t_ms);

// Results, until the next begin or failed. NULL: the page is not that of an engine.
const char *signals_page_engine(const struct signals_page *p);

struct signals_histogram {
    const double *bounds; // ascending; the last one is +Inf
    const double *counts; // cumulative, as on the page
    size_t n;
    double sum, count;
};

// A model of the engine with its values. Ranks are combined.
struct signals_row {
    struct gs_slice model, role; // empty: unknown
    bool present;                // on the last page
    bool has[SIGNALS_N_QUANTITIES];
    double value[SIGNALS_N_QUANTITIES]; // not of histograms
    struct signals_histogram histogram[SIGNALS_N_HISTOGRAMS];
};
// Rows keep their index while signals_page_version() is the same. NULL: no more.
const struct signals_row *signals_page_row(const struct signals_page *p, size_t i);
uint64_t signals_page_version(const struct signals_page *p);
// Why a quantity of a row is absent. Caller frees.
char *signals_page_absent(const struct signals_page *p, size_t row, enum signals_quantity q);
// {"engine", "models": [{"model", "role", "quantities": {"waiting": {"value", "from"} or
// {"absent"}}}]}, as a new reference. value: a number, of a histogram its count; left out if it is
// infinite. NULL: the page is not that of an engine.
json_t *signals_page_json(const struct signals_page *p);
