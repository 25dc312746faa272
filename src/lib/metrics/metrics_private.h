// SPDX-License-Identifier: Apache-2.0
// Internals of this module: the state of the reader, and fast scans of a line.
#pragma once

#include "metrics/reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- reader ---
// The state of the reader.

struct metrics_reader_comment { // a line of metadata
    uint64_t hash;
    uint32_t len, family_at, family_len;
    enum metrics_type type;
    bool has_type;
};

struct metrics_reader {
    const char *next, *end; // the unread rest
    const char *fetched;    // everything before this was prefetched
    bool om;                // OpenMetrics
    bool seen_eof;
    struct metrics_limits limits; // with the defaults applied
    uint64_t seed;
    uint64_t expect_hash;
    size_t expect_len;
    size_t n_samples;

    struct gs_slice line;    // the current line
    struct gs_slice skipped; // the first of n_skipped long lines
    size_t n_skipped;
    size_t number;
    size_t at; // cursor in line; the position of errors

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
        *comments; // of the last text; those before comment_at belong to this text
    size_t n_comments, comments_cap, comment_at;
    bool comments_changed;
};

struct gs_error *metrics_reader_fail(const struct metrics_reader *r, const char *what) GS_MUST_USE;
static inline char metrics_reader_peek(const struct metrics_reader *r)
{
    return (char)(r->at < r->line.len ? r->line.data[r->at] : '\0');
}
static inline void
metrics_reader_skip_blanks(struct metrics_reader *r) // OpenMetrics does not allow any
{
    if (!r->om)
        while (metrics_reader_peek(r) == ' ' || metrics_reader_peek(r) == '\t')
            r->at++;
}
// Empty if there is no name at the cursor.
struct gs_slice metrics_reader_take_name(struct metrics_reader *r, bool colon);
struct gs_error *metrics_reader_comment(struct metrics_reader *r);
// Reads value, timestamp and exemplar. The cursor is after the identity.
struct gs_error *metrics_reader_tail(struct metrics_reader *r, struct metrics_line *ret);
// Reads the labels of an exemplar. The cursor is at '{'.
struct gs_error *metrics_reader_exemplar_labels(struct metrics_reader *r,
                                                struct metrics_exemplar *ret);

// --- scans ---
// Vectorized scans of a line.

// Returns the first '}' outside quotes in p..end, or end. p is outside quotes. A backslash within
// quotes escapes the next byte. *ret_open: the text ends within quotes. Memory is readable up to
// limit, which is not before end.
const char *metrics_scan_brace(const char *p, const char *end, const char *limit, bool *ret_open);
// Returns the first byte of p..end that is not a letter, digit or '_' (or ':' if colon is set), or
// end.
const char *metrics_scan_name(const char *p, const char *end, const char *limit, bool colon);
// Reads the number at p and returns its end. NULL: this function cannot read it exactly; use
// gs_parse_double.
const char *metrics_scan_number(const char *p, const char *end, double *ret);
bool metrics_utf8_ok(const char *p, size_t n);
