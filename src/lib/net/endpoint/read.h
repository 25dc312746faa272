// SPDX-License-Identifier: Apache-2.0
// Reads HTTP client settings from YAML, with the keys and the checks of Prometheus' http_config:
// basic_auth, authorization, bearer tokens, oauth2, tls_config, proxies and headers.
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/#http_config
// What is read belongs to the reader's arena. Errors are kept in the reader.
#pragma once

#include "codec/yaml_reader.h"
#include "net/endpoint/endpoint.h"

extern const struct codec_field endpoint_fields[]; // of struct endpoint_settings at offset 0
void endpoint_defaults(struct endpoint_settings *h);
// Reads a mapping with the fields of a table, which are members of out, and the HTTP settings.
// what: for errors.
void endpoint_read_with(struct codec_reader *r, const json_t *obj, const struct codec_field *fields,
                        const char *what, void *out, struct endpoint_settings *http);

// Reads the section tls_config. http: a struct endpoint_settings.
codec_read_fn endpoint_read_tls;
// Checks the names in a mapping of headers. authorization: the error for the header Authorization.
void endpoint_check_headers(struct codec_reader *r, const json_t *value, const char *authorization);
#define ENDPOINT_AUTHORIZATION_ELSEWHERE                                                           \
    "authorization header must be changed via the basic_auth, authorization, oauth2, sigv4, "      \
    "azuread or google_iam parameter"

// A file with only HTTP settings, as for promtool's --http.config.file. Unsupported settings are
// errors. The settings live as long as the file.
struct endpoint_file;
struct gs_error *endpoint_file_load(const char *path, struct endpoint_file **ret);
const struct endpoint_settings *endpoint_file_settings(const struct endpoint_file *f);
void endpoint_file_free(struct endpoint_file *f); // accepts NULL
