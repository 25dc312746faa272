// SPDX-License-Identifier: Apache-2.0
// The serving certificate. It comes from files, is created in a directory, or comes from a Secret
// that all replicas share. It is replaced without a restart when the files change or before it
// expires. All functions run on the thread of the server's loop.
#pragma once

#include "kube/client.h"
#include "net/http/server.h"

struct serving;

struct serving_options {
    const char *cert_file, *key_file; // both, or neither
    const char *cert_dir;
    bool handed; // serving_take() supplies it; a self-signed one is served until then
};
struct gs_error *serving_new(const struct serving_options *o, struct serving **ret);
void serving_free(struct serving *s);
void serving_apply(const struct serving *s, struct http_server_config *cfg);
// Sets the server that later certificates are installed in. NULL: none yet.
void serving_set_server(struct serving *s, struct http_server *server);
// Installs another certificate (PEM). Does nothing if it is the same. from: its origin for
// messages.
struct gs_error *serving_take(struct serving *s, const char *cert, const char *key,
                              const char *from);
// Reads changed files. Call it every few seconds. A valid certificate is never replaced by one that
// is expired, not yet valid or broken.
void serving_poll(struct serving *s);
int64_t serving_expiry(const struct serving *s); // seconds of Unix time

// --- rotation ---

// Renews a certificate in a Secret and writes its CA to the APIServices that name the Service.
struct serving_rotation;

struct serving_rotation_options {
    struct kube_client *kube; // borrowed, as the members below
    struct serving *serving;
    const char *service; // "NAMESPACE/NAME"; the Secret is NAME-tls
    int64_t period_ms;   // interval of checks; 0: one minute
};

// GS_EINVAL: service is not NAMESPACE/NAME.
struct gs_error *serving_check_service(const char *service);
// Starts the first check.
struct serving_rotation *serving_rotation_new(uv_loop_t *loop,
                                              const struct serving_rotation_options *o);
void serving_rotation_free(struct serving_rotation *r); // NULL is fine
// Returns why no certificate that clients trust is served yet. NULL: one is served.
const char *serving_rotation_error(const struct serving_rotation *r);
