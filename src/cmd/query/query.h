// SPDX-License-Identifier: Apache-2.0
// Between the files of `gpuscale query`.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"

#include <stdio.h>

// --- times (times.c) ---

// "now", "-1h" (from now), RFC 3339, or Unix seconds.
struct gs_error *query_parse_time(const char *text, int64_t now_ms, int64_t *ret_ms);
// "15s" or seconds; more than 0.
struct gs_error *query_parse_step(const char *text, int64_t *ret_ms);
// Prometheus' parameter: "1700000000.5".
void query_add_seconds(struct gs_buf *out, int64_t ms);

// --- asking (fetch.c) ---

struct query_peer {
    const char *url;              // "http://host:9090/prefix"; without a scheme: http
    const char *http_config_file; // NULL: none
    const char *const *headers;   // "Name: value"
    size_t n_headers;
    int64_t timeout_ms;
};

// parameters: "query=up&time=1", encoded. Asks, and waits for the answer. Long parameters are
// posted. The answer is the whole JSON object of status "success"; what the server calls wrong in
// the request is GS_EINVAL with its text.
struct gs_error *query_fetch(const struct query_peer *peer, const char *path,
                             struct gs_slice parameters, json_t **ret);

// A wrong expression's error with the line and a caret under the place that it names.
struct gs_error *query_point_at(struct gs_error *err, const char *expr);

// --- printing ---

enum query_kind { QUERY_VALUES, QUERY_SERIES, QUERY_LABELS, QUERY_METADATA };
enum query_format { QUERY_TABLE, QUERY_JSON, QUERY_CSV, QUERY_PROMQL };

struct query_print {
    enum query_kind kind;
    enum query_format format;
    bool bold; // headings of tables
};

// data: of the answer. False: there was nothing to print.
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

// Everything in the arena or in data.
struct gs_error *query_read_result(const json_t *data, struct gs_arena *arena,
                                   struct query_result *ret);
// Label sets alone, as /api/v1/series gives them.
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
void query_print_metadata(const struct query_print *p, const json_t *data, struct gs_arena *arena,
                          struct gs_buf *out);
void query_print_csv(const struct query_result *r, struct gs_arena *arena, bool values,
                     struct gs_buf *out);
void query_print_promql(const struct query_result *r, struct gs_buf *out);
void query_add_metric(struct gs_buf *out, const struct query_label *l, size_t n); // name{a="b"}
// For a terminal: control characters as \xNN, so that a label's value cannot write over the screen.
void query_add_visible(struct gs_buf *out, struct gs_slice s);
