// SPDX-License-Identifier: Apache-2.0
// The command line client of the HTTP API of an engine or a Prometheus, as promtool's query
// commands. Blocks until the response has arrived.
// https://prometheus.io/docs/prometheus/latest/querying/api/
#pragma once

#include "base/buf.h"
#include "base/option.h"
#include "codec/json.h"
#include "net/endpoint/endpoint.h"

// Texts are borrowed; NULL: not given.
struct query_options {
    const char *url, *time, *start, *end, *step, *output, *http_config_file;
    struct gs_opt_list match, headers;
    int64_t timeout_ns;
    bool format; // only prints the expression, without a request
};

// Runs a command: [instant|range|series|labels|metadata] [URL] ARG…, with at least one argument.
// options: a struct query_options. Prints the result to stdout and warnings to stderr. GS_EINVAL: a
// wrong argument or expression; other codes: the server cannot be reached or fails.
struct gs_error *query_run(const void *options, int argc, char **argv, int *ret_exit);

// Prints the expression with a matcher set in all selectors. op: =, !=, =~ or !~; NULL: deletes the
// matchers of this label.
struct gs_error *query_edit_matchers(const char *expr, const char *name, const char *op,
                                     const char *value);

// --- for other clients of that API ---

struct query_peer {
    const char *url;              // "http://host:9090/prefix"; without a scheme: http
    const char *http_config_file; // NULL: none
    // Used without http_config_file, for a Service behind an API server; NULL: none.
    const struct endpoint_settings *settings;
    const char *const *headers; // "Name: value"
    size_t n_headers;
    int64_t timeout_ms;
};

// Sends a request and waits for its response. parameters: "query=up&time=1", encoded; long ones are
// sent by POST. Returns the whole JSON object of status "success". GS_EINVAL with the server's text
// if the request is wrong.
struct gs_error *query_fetch(const struct query_peer *peer, const char *path,
                             struct gs_slice parameters, json_t **ret);
// Requests a page, such as /-/ready, and prints it to stderr like promtool check ready. Returns an
// error if the status is not 200.
struct gs_error *query_check_page(const struct query_peer *peer, const char *path);
// Adds to the error of a wrong expression its line and a caret under the position. Takes err.
struct gs_error *query_point_at(struct gs_error *err, const char *expr);
// "now", "-1h" (from now), RFC 3339, or Unix seconds.
struct gs_error *query_parse_time(const char *text, int64_t now_ms, int64_t *ret_ms);
// Appends a parameter of a request: "&NAME=VALUE", encoded.
void query_add_param(struct gs_buf *out, const char *name, struct gs_slice value);
// The API's format of a time: "1700000000.500".
void query_add_seconds(struct gs_buf *out, int64_t ms);

// Prints how many buckets of the histograms of each selector are in use, as promtool query analyze.
struct query_analysis {
    const char *type; // "histogram"
    const char *time; // NULL: now
    int64_t duration_ns;
    const struct gs_opt_list *match;
};
struct gs_error *query_analyze(const struct query_peer *peer, const struct query_analysis *o);
