// SPDX-License-Identifier: Apache-2.0
// Expositions, read: a parser with a callback, and a reader line by line that recognizes lines of
// the previous text.
#pragma once

#include "base/error.h"
#include "metrics/labels.h"

#include <stdint.h>

// --- parser ---
//
// Prometheus text exposition format 0.0.4, read. Allocation-free per sample: the callback gets
// slices into the input (escaped label values are unescaped into scratch memory that lives until it
// returns).

enum metrics_type {
    METRICS_UNTYPED,
    METRICS_COUNTER,
    METRICS_GAUGE,
    METRICS_HISTOGRAM,
    METRICS_SUMMARY,
};

struct metrics_sample {
    struct gs_slice name;
    const struct metrics_label *labels; // in input order, without __name__
    size_t n_labels;
    double value;
    bool has_timestamp;
    int64_t timestamp_ms;
    enum metrics_type type; // of the family, METRICS_UNTYPED when not declared
};

struct metrics_limits {
    size_t max_line;            // bytes, 0: 64 KiB
    size_t max_labels;          // 0: 64
    size_t max_samples;         // 0: none
    size_t max_name, max_value; // bytes of a label's name and value, 0: none
};

// Returns false from on_sample to stop early. A malformed line is GS_EINVAL "line 12, column 7: …".
struct gs_error *metrics_parse_text(struct gs_slice text, const struct metrics_limits *limits,
                                    bool (*on_sample)(void *arg, const struct metrics_sample *s),
                                    void *arg);

// --- reader ---
//
// Expositions, read line by line: Prometheus text 0.0.4 and OpenMetrics 1.0. The fast path gives of
// a sample line only its identity (the raw bytes of name and labels), a hash of it and the value;
// who has seen the identity before needs no more. Nothing is allocated per sample.

enum metrics_format {
    METRICS_TEXT,        // text/plain; version=0.0.4 (and 1.0.0: quoted UTF-8 names)
    METRICS_OPENMETRICS, // application/openmetrics-text; version=1.0.0: ends with # EOF
};

// From a Content-Type header; METRICS_TEXT when it is absent or another text type.
// GS_EPROTO for what is no text exposition (protobuf, html).
struct gs_error *metrics_format_of(const char *content_type, enum metrics_format *ret);

struct metrics_line {
    struct gs_slice identity; // raw bytes: name and label part, as written
    uint64_t hash;            // of identity
    double value;
    int64_t timestamp_ms;
    bool has_timestamp;
    bool has_exemplar; // OpenMetrics; passed over
    size_t number;     // 1-based line
};

struct metrics_metadata {
    struct gs_slice family, help, unit; // raw help (unescape on use)
    enum metrics_type type;
    const char *type_name; // "gauge", "unknown" …
};

struct metrics_reader;

struct metrics_reader *metrics_reader_new(void); // reusable: keeps its scratch memory
void metrics_reader_free(struct metrics_reader *r);
// Starts over on a text (borrowed until the next start). limits NULL: the defaults.
void metrics_reader_start(struct metrics_reader *r, struct gs_slice text, enum metrics_format f,
                          const struct metrics_limits *limits);
// NULL with *ret_more false at the end of the text. A malformed line: GS_EINVAL "line 12, column 7:
// …". The value is checked here, the identity only by metrics_reader_labels (one seen before
// was checked then).
struct gs_error *metrics_reader_next(struct metrics_reader *r, struct metrics_line *ret,
                                     bool *ret_more);
// What the next line is thought to be: the line at this place of the last text. When it is, it
// costs a hash of len bytes and no search. Forgotten by _next. len 0: nothing known.
void metrics_reader_expect(struct metrics_reader *r, uint64_t hash, size_t len);
// The labels of the current line, __name__ first, unescaped; valid until the next call. Names and
// values must be UTF-8; duplicates refused; max_labels and the length limits apply.
// As in Prometheus 3, le of a histogram and quantile of a summary are put in one form ("1.0").
struct gs_error *metrics_reader_labels(struct metrics_reader *r, const struct metrics_line *line,
                                       const struct metrics_label **ret, size_t *ret_n);
// Called by _next for # HELP, # TYPE and # UNIT, unless the line is the one at its place among
// those of the last text: who reads the same target again hears of changes only. NULL: none.
void metrics_reader_on_metadata(struct metrics_reader *r,
                                void (*fn)(void *arg, const struct metrics_metadata *m), void *arg);
// Called by _next within long runs of lines that are no samples; false ends the text with
// GS_ECONFLICT. NULL: none.
void metrics_reader_on_long_run(struct metrics_reader *r, bool (*fn)(void *arg), void *arg);
// At the end of a text: whether any was called for, or is gone, since this was asked last.
bool metrics_reader_metadata_changed(struct metrics_reader *r);
void metrics_reader_forget_metadata(struct metrics_reader *r); // the next text has only new ones

// As metrics_parse_text, in either format.
struct gs_error *metrics_parse(struct gs_slice text, enum metrics_format format,
                               const struct metrics_limits *limits,
                               bool (*on_sample)(void *arg, const struct metrics_sample *s),
                               void *arg);
