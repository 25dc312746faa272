// SPDX-License-Identifier: Apache-2.0
// Between the files of this module: the state of the reader, and wide scans over a line.
#pragma once

#include "metrics/reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- reader ---
//
// The reader's insides, between its files.

struct metrics_reader_comment { // a line of metadata
    uint64_t hash;
    uint32_t len, family_at, family_len;
    enum metrics_type type;
    bool has_type;
};

struct metrics_reader {
    const char *next, *end; // what was not read yet
    const char *fetched;    // the caches were asked for what is before it
    bool om;                // OpenMetrics
    bool seen_eof;
    struct metrics_limits limits; // none of them 0 that has a default
    uint64_t seed;
    uint64_t expect_hash;
    size_t expect_len;
    size_t n_samples;

    struct gs_slice line; // the current one
    size_t number;
    size_t at; // cursor in line; where errors are

    struct gs_slice family; // of the last # TYPE
    enum metrics_type type;
    struct metrics_label *labels;
    size_t labels_cap;
    char *scratch; // unescaped texts of the line
    size_t scratch_len, scratch_cap;
    void (*on_metadata)(void *arg, const struct metrics_metadata *m);
    void *metadata_arg;
    bool (*on_long_run)(void *arg);
    void *long_run_arg;
    struct metrics_reader_comment
        *comments; // of the last text; those before comment_at of this one
    size_t n_comments, comments_cap, comment_at;
    bool comments_changed;
};

struct gs_error *metrics_reader_fail(const struct metrics_reader *r, const char *what) GS_MUST_USE;
static inline char metrics_reader_peek(const struct metrics_reader *r)
{
    return (char)(r->at < r->line.len ? r->line.data[r->at] : '\0');
}
static inline void
metrics_reader_skip_blanks(struct metrics_reader *r) // in OpenMetrics there are none
{
    if (!r->om)
        while (metrics_reader_peek(r) == ' ' || metrics_reader_peek(r) == '\t')
            r->at++;
}
// Empty when there is none at this place.
struct gs_slice metrics_reader_take_name(struct metrics_reader *r, bool colon);
struct gs_error *metrics_reader_comment(struct metrics_reader *r);
// The cursor behind the identity: value, timestamp, exemplar.
struct gs_error *metrics_reader_tail(struct metrics_reader *r, struct metrics_line *ret);
// At '{': the labels of an exemplar, checked.
struct gs_error *metrics_reader_exemplar_labels(struct metrics_reader *r);

// --- scans ---
//
// Wide scans over a line.

// The first '}' outside quotes in p..end, or end. p is outside quotes. A backslash within quotes
// takes the next byte with it. *ret_open: the text ends within quotes.
// What is readable ends at limit, not before end.
const char *metrics_scan_brace(const char *p, const char *end, const char *limit, bool *ret_open);
// The first byte of p..end that is not a letter, digit or '_' (nor, with colon, ':'), or end.
const char *metrics_scan_name(const char *p, const char *end, const char *limit, bool colon);
// The number at p, which ends at the first byte that cannot belong to it; NULL when it is not one
// that this can read exactly (then gs_parse_double decides).
const char *metrics_scan_number(const char *p, const char *end, double *ret);
bool metrics_utf8_ok(const char *p, size_t n);
