// SPDX-License-Identifier: Apache-2.0
// The serving certificate: from files, made in a folder, or from a Secret that all replicas share.
// It is replaced while the server runs, when the files change or before it expires.
#pragma once

#include "kube/client.h"
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

// --- a certificate in a Secret ---

// The adapter renews it; the APIServices that name the Service get its CA.
struct serving_rotation;

struct serving_rotation_options {
    struct kube_client *kube; // borrowed, as all below
    struct serving *serving;
    const char *service; // "NAMESPACE/NAME"; the Secret is NAME-tls
    int64_t period_ms;   // between two checks; 0: a minute
};

// GS_EINVAL for another form of service.
struct gs_error *serving_check_service(const char *service);
// The first check is started.
struct serving_rotation *serving_rotation_new(uv_loop_t *loop,
                                              const struct serving_rotation_options *o);
void serving_rotation_free(struct serving_rotation *r); // NULL is fine
// Why there is no certificate that clients trust yet; NULL: there is one.
const char *serving_rotation_error(const struct serving_rotation *r);
