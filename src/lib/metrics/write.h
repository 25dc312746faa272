// SPDX-License-Identifier: Apache-2.0
// Writes expositions in Prometheus' text format 0.0.4. Label values and help texts are escaped.
// Names outside [a-zA-Z_:][a-zA-Z0-9_:]* are quoted, as in Prometheus 3.
#pragma once

#include "base/buf.h"
#include "metrics/reader.h"

void metrics_write_family(struct gs_buf *out, const char *name, enum metrics_type type,
                          const char *help);
// Writes labels in the given order and the value in the shortest form that parses to the same
// number.
void metrics_write_sample(struct gs_buf *out, const char *name, const struct metrics_label *labels,
                          size_t n_labels, double value);
// Writes a family whose only sample has no labels.
void metrics_write_single(struct gs_buf *out, const char *name, enum metrics_type type,
                          const char *help, double value);
void metrics_write_label_value(struct gs_buf *out, struct gs_slice value); // escaped, unquoted

// --- for servers ---

// Returns the q value of one element of an Accept header ("text/plain;version=0.0.4;q=0.5"), in
// thousandths.
int metrics_accept_quality(struct gs_slice element);

// How names that are not [a-zA-Z_:][a-zA-Z0-9_:]* are escaped for clients that request it
// (https://prometheus.io/docs/instrumenting/escaping_schemes/).
enum metrics_escaping {
    METRICS_ESCAPE_NONE, // quoted UTF-8
    METRICS_ESCAPE_UNDERSCORES,
    METRICS_ESCAPE_DOTS,
    METRICS_ESCAPE_VALUES,
};
enum metrics_escaping metrics_escaping_for(const char *accept);  // of an Accept header; NULL: none
const char *metrics_escaping_name(enum metrics_escaping scheme); // for the Content-Type
bool metrics_escaping_of(struct gs_slice name, enum metrics_escaping *ret);
void metrics_escape_name(enum metrics_escaping scheme, struct gs_slice name, struct gs_buf *out);
bool metrics_is_plain_name(struct gs_slice name);
bool metrics_is_plain_label(struct gs_slice name); // without colons

// --- protocols of scrapes ---
// Prometheus' scrape_protocols as an Accept header.

enum metrics_protocol {
    METRICS_OPENMETRICS_2_0_0, // accepted by name, but never requested, as METRICS_PROTOBUF
    METRICS_OPENMETRICS_1_0_0,
    METRICS_OPENMETRICS_0_0_1,
    METRICS_TEXT_1_0_0,
    METRICS_TEXT_0_0_4,
    METRICS_PROTOBUF, // accepted by name, but never requested
};
#define METRICS_N_PROTOCOLS 6

bool metrics_protocol_of(const char *name, enum metrics_protocol *ret); // "PrometheusText0.0.4"
// Prometheus' header for protocols in the order of preference, at most METRICS_N_PROTOCOLS.
// escaping is added to protocols that allow UTF-8 names.
void metrics_accept(const enum metrics_protocol *wanted, size_t n, enum metrics_escaping escaping,
                    struct gs_buf *out);
