// SPDX-License-Identifier: Apache-2.0
// The texts of alerts' labels and annotations: Go's text/template with Prometheus' functions.
// https://pkg.go.dev/text/template,
// https://prometheus.io/docs/prometheus/latest/configuration/template_reference/
// Bounded in output, steps, depth and memory: a template cannot hold the program up.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "metrics/labels.h"

#include <stdint.h>

struct template; // immutable

// name: what errors call it, "__alert_HighUtil". $labels, $externalLabels, $externalURL and $value
// are defined. Errors read as Go's: `template: NAME:1: function "foo" not defined`.
struct gs_error *template_parse(struct gs_slice text, const char *name, struct template **ret);
// Another dialect: its delimiters, two bytes each, and what is put in front of each text.
struct template_form {
    const char *open, *close, *prelude;
};
struct gs_error *template_parse_as(struct gs_slice text, const char *name,
                                   const struct template_form *form, struct template **ret);
void template_free(struct template *t);

struct template_sample {
    const struct metrics_label *labels;
    size_t n_labels;
    double value;
};

// A field of the root, in place of those of alerts.
struct template_field {
    const char *name;
    enum { TEMPLATE_RULE_FIELD_TEXT, TEMPLATE_RULE_FIELD_MAP, TEMPLATE_RULE_FIELD_LIST } kind;
    struct gs_slice text;
    const struct metrics_label *map; // sorted by name
    const struct gs_slice *list;
    size_t n; // of map or list
};

struct template_data {
    const struct template_field *fields; // not NULL: these n_fields are all there is
    size_t n_fields;
    const struct metrics_label *labels, *external_labels;
    size_t n_labels, n_external_labels;
    const char *external_url; // NULL: ""
    double value;
    // `query`: the vector of a PromQL text, in the arena. NULL: the function fails.
    struct gs_error *(*query)(void *arg, struct gs_slice expr, struct gs_arena *arena,
                              struct template_sample **ret, size_t *ret_n);
    void *query_arg;
    size_t max_output; // bytes; 0: 256 KiB
};

// Appends the text to out. On an error out has what came before it.
struct gs_error *template_expand(const struct template *t, const struct template_data *data,
                                 struct gs_buf *out);
