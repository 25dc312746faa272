// SPDX-License-Identifier: Apache-2.0
// The serving certificate: given, found in a folder or made there; exchanged when files change or,
// of one that was made, before it ends.
#pragma once

#include "net/http/server.h"

struct serving;

struct serving_options {
    const char *cert_file, *key_file; // both, or neither
    const char *cert_dir;
    bool handed; // comes by serving_take; until then one that nobody trusts is served
};
struct gs_error *serving_new(const struct serving_options *o, struct serving **ret);
void serving_free(struct serving *s);
void serving_apply(const struct serving *s, struct http_server_config *cfg);
// Where a certificate that is exchanged is served. NULL: not yet.
void serving_set_server(struct serving *s, struct http_server *server);
// Serves another certificate, from the place with this name; nothing happens when it is the same.
struct gs_error *serving_take(struct serving *s, const char *cert, const char *key,
                              const char *from);
// Reads files that changed; call each few seconds. A certificate that is expired, not valid yet or
// broken does not replace a valid one.
void serving_poll(struct serving *s);
int64_t serving_expiry(const struct serving *s); // seconds of Unix time
