// SPDX-License-Identifier: Apache-2.0
// The command line client of the HTTP API of an engine or a Prometheus, as promtool's query
// commands. Blocks until the response has arrived.
// https://prometheus.io/docs/prometheus/latest/querying/api/
#pragma once

#include "base/buf.h"
#include "base/option.h"
#include "codec/json.h"

#define QUERY_DEFAULT_URL "http://localhost:9090"

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

// --- for other clients of that API ---

struct query_peer {
    const char *url;              // "http://host:9090/prefix"; without a scheme: http
    const char *http_config_file; // NULL: none
    const char *const *headers;   // "Name: value"
    size_t n_headers;
    int64_t timeout_ms;
};

// Sends a request and waits for its response. parameters: "query=up&time=1", encoded; long ones are
// sent by POST. Returns the whole JSON object of status "success". GS_EINVAL with the server's text
// if the request is wrong.
struct gs_error *query_fetch(const struct query_peer *peer, const char *path,
                             struct gs_slice parameters, json_t **ret);
// Adds to the error of a wrong expression its line and a caret under the position. Takes err.
struct gs_error *query_point_at(struct gs_error *err, const char *expr);
// "now", "-1h" (from now), RFC 3339, or Unix seconds.
struct gs_error *query_parse_time(const char *text, int64_t now_ms, int64_t *ret_ms);
// Appends a parameter of a request: "&NAME=VALUE", encoded.
void query_add_param(struct gs_buf *out, const char *name, struct gs_slice value);
// The API's format of a time: "1700000000.500".
void query_add_seconds(struct gs_buf *out, int64_t ms);
