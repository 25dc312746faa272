// SPDX-License-Identifier: Apache-2.0
// The serving certificate: given, found in a folder or made there; exchanged when files change or,
// of one that was made, before it ends.
#pragma once

#include "net/http_server.h"

struct serving;

struct serving_options {
    const char *cert_file, *key_file; // both, or neither
    const char *cert_dir;
};
struct gs_error *serving_new(const struct serving_options *o, struct serving **ret);
void serving_free(struct serving *s);
void serving_apply(const struct serving *s, struct http_server_config *cfg);
// Looks at the files; call each few seconds.
void serving_poll(struct serving *s, struct http_server *server);
