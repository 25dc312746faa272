// SPDX-License-Identifier: Apache-2.0
// kubeconfig files, read (KUBECONFIG, in-cluster service account, ~/.kube/config) and written.
#pragma once

#include "kube/exec_credential.h"
#include "net/endpoint/endpoint.h"

struct kube_config {
    char *server; // "https://127.0.0.1:6443"
    char *ca_pem, *client_cert_pem, *client_key_pem, *token;
    char *token_file; // source of token, reread because it changes; NULL: none
    // The credential plug-in of the user and the folder of its file; NULL: none. login: its result,
    // which kube_config_login() sets.
    json_t *exec, *exec_config; // exec_config: the cluster's extension for plug-ins; NULL: none
    char *exec_dir;
    struct kube_exec_credential *login;
    char *ns; // of the context, "default" if unset
    int insecure;
    char *server_name;               // that the certificate must have; NULL: the host of server
    char *proxy_url;                 // NULL: that of the environment
    struct endpoint_header *headers; // of impersonation
    size_t n_headers;
    // What gpuscale up adds; NULL: none. Stored as an extension of the cluster, which kubectl
    // keeps.
    char *engine_url;     // "http://127.0.0.1:9090"
    char *simulated_gpus; // name of the set
    // The data directory of the running `gpuscale up`, if no setting named the cluster. Not stored.
    char *up_dir;
};
void kube_config_finish(struct kube_config *c); // wipes secrets

// path NULL: KUBECONFIG, then the service account of the pod in which the program runs, or outside
// a pod ~/.kube/config, or the file of this user's `gpuscale up`.
struct gs_error *kube_config_load(const char *path, const char *context, struct kube_config *ret);
// Calls fn for the name of each context. path: as above. A file that cannot be read has none.
void kube_config_each_context(const char *path, void (*fn)(void *arg, const char *name), void *arg);
// The file of the `gpuscale up` that runs in this user's default folder. NULL: none runs. The
// caller frees it.
char *kube_config_of_up(void);
// Runs the credential plug-in, if the user has one and did not log in yet. It can block for
// minutes: see kube_exec_credential_get(). Not part of kube_config_load(), because not all readers
// connect.
struct gs_error *kube_config_login(struct kube_config *c);
// Returns the connection settings of the server, after kube_config_login(). Borrows the texts.
struct endpoint_settings kube_config_endpoint(const struct kube_config *c);
#define KUBE_CONFIG_REFRESH_MS 60000 // tokens of service accounts expire after an hour
// Of one client, except watches. An autoscaler with thousands of objects would otherwise open a
// connection with TLS for each of them.
#define KUBE_CONFIG_MAX_REQUESTS 64
// Logs in, and returns a client of the server. user_agent may be NULL.
struct gs_error *kube_config_connect(struct kube_config *c, uv_loop_t *loop, const char *user_agent,
                                     struct http_client **ret);
// Writes the file with mode 0600 atomically. name: of cluster, user and context.
struct gs_error *kube_config_write(const char *path, const char *name, const struct kube_config *c);

// --- in a file with entries of other programs ---

// The name of gpuscale's extensions in a kubeconfig.
#define KUBE_CONFIG_EXTENSION "gpuscale"

// The file that kind and kubectl change: the first of KUBECONFIG that exists, or its last one, or
// ~/.kube/config. except: a file that is not changed. The caller frees it.
char *kube_config_file_to_change(const char *except);
// Adds the cluster, its user and its context under this name, or replaces those of an earlier call,
// and makes the context the current one. owner: the data directory. The file is written atomically,
// with its mode, under the lock file of kubectl; it is created if necessary. Blocks for at most 3
// s. GS_EEXIST: the name is of another program, or of another gpuscale up that runs; the lock is
// taken. GS_EINVAL: the file is no kubeconfig. After an error it is unchanged.
struct gs_error *kube_config_merge(const char *file, const char *name, const char *owner,
                                   const struct kube_config *c);
// Removes what kube_config_merge() added for this owner, and makes the previous context the current
// one again if ours is. Nothing to remove is no error.
struct gs_error *kube_config_unmerge(const char *file, const char *name, const char *owner);
