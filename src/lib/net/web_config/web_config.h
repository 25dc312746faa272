// SPDX-License-Identifier: Apache-2.0
// --web.config.file: TLS and basic authentication of the server, in the exporter toolkit's format
// (https://prometheus.io/docs/prometheus/latest/configuration/https/).
#pragma once

#include "codec/json.h"
#include "net/http/server.h"

struct web_config;

// path NULL: plain HTTP without authentication. Unknown keys are errors (GS_EINVAL).
struct gs_error *web_config_load(const char *path, struct web_config **ret);
// Reads the file again and applies it to the servers, which web_config_apply() configured. Users,
// headers and the certificate may change. TLS itself and the verification of client certificates
// may not. On an error nothing changes.
struct gs_error *web_config_renew(struct web_config *w, const char *path,
                                  struct http_server *const *servers, size_t n);
void web_config_free(struct web_config *w);
// The files of the certificate and key, for a file watch. NULL: none.
const char *web_config_cert_file(const struct web_config *w);
const char *web_config_key_file(const struct web_config *w);
bool web_config_tls(const struct web_config *w);
// Sets the server's options. Their texts are borrowed from w.
void web_config_apply(const struct web_config *w, struct http_server_config *server);
// An http_handler before `next`: 401 without a valid user and password.
void web_config_guard(struct web_config *w, http_handler next, void *ctx);
void web_config_handle(void *w, struct http_exchange *x);
