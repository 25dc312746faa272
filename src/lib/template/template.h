// SPDX-License-Identifier: Apache-2.0
// Go's text/template with Prometheus' functions, for labels and annotations of alerts and for the
// adapter's queries.
// https://pkg.go.dev/text/template,
// https://prometheus.io/docs/prometheus/latest/configuration/template_reference/
// Output, steps, depth and memory have limits, so no template blocks the program.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "metrics/labels.h"

#include <stdint.h>

struct template_program; // immutable

// name: for errors, "__alert_HighUtil". $labels, $externalLabels, $externalURL and $value are
// defined. Errors have Go's format: `template: NAME:1: function "foo" not defined`.
struct gs_error *template_parse(struct gs_slice text, const char *name,
                                struct template_program **ret);
// Parses another syntax with its own delimiters, two bytes each, and a text that is put before each
// template.
struct template_syntax {
    const char *open, *close, *prelude;
};
struct gs_error *template_parse_with(struct gs_slice text, const char *name,
                                     const struct template_syntax *form,
                                     struct template_program **ret);
void template_free(struct template_program *t);

struct template_sample {
    const struct metrics_label *labels;
    size_t n_labels;
    double value;
};

// A field of the root object, instead of those of alerts.
struct template_field {
    const char *name;
    enum { TEMPLATE_FIELD_TEXT, TEMPLATE_FIELD_MAP, TEMPLATE_FIELD_LIST } kind;
    struct gs_slice text;
    const struct metrics_label *map; // sorted by name
    const struct gs_slice *list;
    size_t n; // of map or list
};

struct template_data {
    const struct template_field *fields; // NULL: the fields of alerts below
    size_t n_fields;
    const struct metrics_label *labels, *external_labels;
    size_t n_labels, n_external_labels;
    const char *external_url; // NULL: ""
    int64_t now_ms;           // result of `now`; 0: the current time
    double value;
    // Implements `query`: returns the vector of a PromQL expression in the arena. NULL: the
    // function fails.
    struct gs_error *(*query)(void *arg, struct gs_slice expr, struct gs_arena *arena,
                              struct template_sample **ret, size_t *ret_n);
    void *query_arg;
    size_t max_output; // bytes; 0: 256 KiB
};

// Appends the result to out. On an error, out has the text before the failed action.
struct gs_error *template_expand(const struct template_program *t, const struct template_data *data,
                                 struct gs_buf *out);

// Implements tableLink: "/graph?g0.expr=EXPR&g0.tab=1", the page of an expression.
void template_table_link(struct gs_slice expr, struct gs_buf *out);
