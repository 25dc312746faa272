// SPDX-License-Identifier: Apache-2.0
// Pushes expositions in the text format by remote write 1.0, as promtool push metrics does. Blocks
// until the receiver has answered. https://prometheus.io/docs/specs/prw/remote_write_spec/
#pragma once

#include <stddef.h>
#include <stdint.h>

// Texts are borrowed.
struct remote_push_options {
    const char *url;              // "http://host:9090"; without a scheme: http
    const char *path;             // of the receiver, after the URL: "/api/v1/write"
    const char *http_config_file; // NULL: none
    const char *const *labels;    // "name=value", added to each series; those of a sample win
    size_t n_labels;
    const char *const *headers; // "Name=value"
    size_t n_headers;
    int64_t timeout_ms;
};

// Pushes each file, or the standard input if n_files is 0, and prints promtool's lines. Samples
// without a time get the current one. Returns the exit code: 1 if a file was not accepted.
int remote_push_files(const struct remote_push_options *o, int n_files, char **files);
