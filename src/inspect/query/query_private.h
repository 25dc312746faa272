// SPDX-License-Identifier: Apache-2.0
// Internals of this module: parsing and printing of results.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"
#include "query/query.h"

#include <stdio.h>

// "15s" or seconds; more than 0.
struct gs_error *query_parse_step(const char *text, int64_t *ret_ms);

// Which metrics of the expression the server does not have, with similar names that it has. NULL:
// it has all. The caller frees it. Sends a request.
char *query_absent_names(const struct query_peer *peer, const char *expr);

// --- printing ---

enum query_kind { QUERY_VALUES, QUERY_SERIES, QUERY_LABELS, QUERY_METADATA };
enum query_format { QUERY_TABLE, QUERY_JSON, QUERY_CSV, QUERY_PROMQL };

struct query_print {
    enum query_kind kind;
    enum query_format format;
    bool bold;             // headings of tables
    const char *absent_of; // the expression, whose absent names are searched; NULL: none
};

// data: of the response. *ret_any is false if there was nothing to print.
struct gs_error *query_print(const struct query_print *p, const json_t *data, FILE *out,
                             bool *ret_any);

// --- results in their parts (result.c) ---

struct query_label {
    const char *name, *value;
};
struct query_point {
    int64_t t_ms;
    const char *value; // as the server wrote it
};
struct query_series {
    struct query_label *labels; // sorted, with __name__
    size_t n_labels;
    struct query_point *points;
    size_t n_points;
};
struct query_result {
    enum { QUERY_VECTOR, QUERY_MATRIX, QUERY_SCALAR, QUERY_STRING } type;
    struct query_series *series; // a scalar or string: one without labels
    size_t n;
};

// All memory belongs to the arena or to data.
struct gs_error *query_read_result(const json_t *data, struct gs_arena *arena,
                                   struct query_result *ret);
// Reads the label sets of /api/v1/series.
struct gs_error *query_read_series(const json_t *data, struct gs_arena *arena,
                                   struct query_result *ret);
const char *query_label_of(const struct query_series *s, const char *name); // NULL: none
// The sorted names of all labels.
struct query_names {
    const char **items;
    size_t n;
};
struct query_names query_label_names(const struct query_result *r, struct gs_arena *arena);

// --- printers, each to a buffer ---

void query_print_table(const struct query_print *p, const struct query_result *r,
                       struct gs_arena *arena, struct gs_buf *out);
void query_print_metadata(const struct query_print *p, const json_t *data, struct gs_buf *out);
void query_print_csv(const struct query_result *r, struct gs_arena *arena, bool values,
                     struct gs_buf *out);
void query_print_promql(const struct query_result *r, struct gs_buf *out);
void query_add_metric(struct gs_buf *out, const struct query_label *l, size_t n); // name{a="b"}
// Prints control characters as \xNN, so that a label value cannot control the terminal.
void query_add_visible(struct gs_buf *out, struct gs_slice s);
