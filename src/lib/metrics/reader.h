// SPDX-License-Identifier: Apache-2.0
// Reads expositions: a parser with a callback, and a reader by line that recognizes lines of the
// previous text. https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include "base/error.h"
#include "metrics/labels.h"

#include <stdint.h>

// --- parser ---
// Reads Prometheus' text format 0.0.4 without an allocation per sample. The callback gets slices of
// the input; label values with escapes are in scratch memory that is valid until it returns.

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
    enum metrics_type type; // of the family; METRICS_UNTYPED if not declared
};

struct metrics_limits {
    size_t max_line;            // bytes, 0: 64 KiB
    size_t max_labels;          // 0: 64
    size_t max_samples;         // 0: none
    size_t max_name, max_value; // bytes of a label's name and value, 0: none
    // Lines over max_line are left out and counted; metrics_parse also leaves out those with more
    // than max_labels. Otherwise they are errors.
    bool skip_over_limits;
};

// on_sample returns false to stop. A malformed line is GS_EINVAL "line 12, column 7: …".
struct gs_error *metrics_parse_text(struct gs_slice text, const struct metrics_limits *limits,
                                    bool (*on_sample)(void *arg, const struct metrics_sample *s),
                                    void *arg);

// --- reader ---
// Reads expositions line by line: Prometheus text 0.0.4 and OpenMetrics 1.0. The fast path returns
// only the identity of a sample line (the raw bytes of name and labels), its hash and the value,
// which is enough for cached identities. Nothing is allocated per sample.

enum metrics_format {
    METRICS_TEXT,        // text/plain; version=0.0.4 (and 1.0.0: quoted UTF-8 names)
    METRICS_OPENMETRICS, // application/openmetrics-text; version=1.0.0: ends with # EOF
};

// From a Content-Type header; METRICS_TEXT when it is absent or another text type. GS_EPROTO if it
// is not a text exposition (protobuf, html).
struct gs_error *metrics_format_of(const char *content_type, enum metrics_format *ret);

struct metrics_line {
    struct gs_slice identity; // raw bytes: name and label part, as written
    uint64_t hash;            // of identity
    double value;
    int64_t timestamp_ms;
    bool has_timestamp;
    struct gs_slice exemplar; // its text, checked, apart from the label names; empty: none
    size_t number;            // 1-based line
};

struct metrics_exemplar {
    const struct metrics_label *labels; // in input order; names can repeat
    size_t n_labels;
    double value;
    bool has_timestamp;
    int64_t timestamp_ms;
};

struct metrics_metadata {
    struct gs_slice family, help, unit; // help is not unescaped
    bool escaped_quotes;                // OpenMetrics: help has \" for a quote
    enum metrics_type type;
    const char *type_name; // "gauge", "unknown" …
    size_t number;         // 1-based line
};

struct metrics_reader;

struct metrics_reader *metrics_reader_new(void); // reusable: keeps its scratch memory
void metrics_reader_free(struct metrics_reader *r);
void metrics_reader_trim(struct metrics_reader *r); // frees scratch memory; not during a text
// Starts to read a text (borrowed until the next start). limits NULL: the defaults.
void metrics_reader_start(struct metrics_reader *r, struct gs_slice text, enum metrics_format f,
                          const struct metrics_limits *limits);
// Reads the next sample line. *ret_more is false at the end of the text. A malformed line is
// GS_EINVAL "line 12, column 7: …". The identity is checked only by metrics_reader_labels, because
// a cached identity was checked before. GS_ELIMIT: a line over max_line, more than max_samples.
struct gs_error *metrics_reader_next(struct metrics_reader *r, struct metrics_line *ret,
                                     bool *ret_more);
// Sets the expected identity of the next line, from the same position of the last text. If it
// matches, the line costs a hash of len bytes and no search. Valid for one call of
// metrics_reader_next. len 0: none.
void metrics_reader_expect(struct metrics_reader *r, uint64_t hash, size_t len);
// The labels of the current line, __name__ first, unescaped; valid until the next call. Names and
// values must be UTF-8; duplicates are an error; the length limits apply. GS_ELIMIT: more than
// max_labels; the reader can continue with the next line. As in
// Prometheus 3, le of a histogram and quantile of a summary are normalized ("1.0").
struct gs_error *metrics_reader_labels(struct metrics_reader *r, const struct metrics_line *line,
                                       const struct metrics_label **ret, size_t *ret_n);
// Reads an exemplar of a line of the current text; valid until the next call. The labels of the
// current line can no longer be read.
struct gs_error *metrics_reader_exemplar(struct metrics_reader *r, struct gs_slice text,
                                         struct metrics_exemplar *ret);
// Called for # HELP, # TYPE and # UNIT lines that differ from the line at the same position of the
// last text, so repeated reads of a target report only changes. NULL: none.
void metrics_reader_on_metadata(struct metrics_reader *r,
                                void (*fn)(void *arg, const struct metrics_metadata *m), void *arg);
// Reads a whole text in the text format with the default limits: calls on_sample for each line and
// its labels, and on_metadata (may be NULL) for each # HELP, # TYPE and # UNIT line.
struct gs_error *metrics_read_text(struct gs_slice text,
                                   void (*on_metadata)(void *arg, const struct metrics_metadata *m),
                                   void (*on_sample)(void *arg, const struct metrics_line *line,
                                                     const struct metrics_label *labels, size_t n),
                                   void *arg);
// The number of lines of the text that skip_over_limits has left out. *ret_first: the first of
// them, if there is one.
size_t metrics_reader_skipped(const struct metrics_reader *r, struct gs_slice *ret_first);
// Called during long runs of lines that are not samples; false ends the text with GS_ECONFLICT.
// NULL: none.
void metrics_reader_on_long_run(struct metrics_reader *r, bool (*fn)(void *arg), void *arg);
// At the end of a text: true if metadata lines were added, changed or removed since the last call.
bool metrics_reader_metadata_changed(struct metrics_reader *r);
// all metadata of the next text is new
void metrics_reader_forget_metadata(struct metrics_reader *r);

// As metrics_parse_text, in either format.
struct gs_error *metrics_parse(struct gs_slice text, enum metrics_format format,
                               const struct metrics_limits *limits,
                               bool (*on_sample)(void *arg, const struct metrics_sample *s),
                               void *arg);
