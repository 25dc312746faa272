// SPDX-License-Identifier: Apache-2.0
// Credential plug-ins of kubeconfigs (user.exec), which EKS, GKE and AKS use: a program prints an
// ExecCredential with a token or a client certificate. The result is kept until it expires, by all
// users of the same entry in this process. A token is renewed in the background before that.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
//
// One thread only. The program runs with this process' environment and standard error.
#pragma once

#include "base/error.h"
#include "codec/json.h"

struct kube_exec_credential;

// The server for which a credential is wanted. Texts may be NULL.
struct kube_exec_cluster {
    const char *server, *ca_pem, *server_name, *proxy_url;
    bool insecure;
    const json_t *config; // the cluster's extension for plug-ins; NULL: none
};

// exec: the member of the user; dir: the folder of its kubeconfig, for relative paths of programs.
// Runs the program unless a valid credential is known, and blocks until it ends, at most two
// minutes, or ten if it may ask the user on the terminal. *ret is valid until the process ends.
// GS_EINVAL: the entry or the answer is wrong. GS_ENOTFOUND: the program is not installed.
// GS_EUNAVAIL: it failed. GS_ETIMEOUT.
struct gs_error *kube_exec_credential_get(const json_t *exec, const char *dir,
                                          const struct kube_exec_cluster *cluster,
                                          struct kube_exec_credential **ret);

// The token; NULL: it has a certificate only. arg: a struct kube_exec_credential. A token that
// expires soon is renewed: the program runs meanwhile, and a later call returns the new token. The
// text is valid until the next call. The type is that of struct endpoint_secret.
const char *kube_exec_credential_token(void *arg);
// PEM; NULL: none. Not renewed.
const char *kube_exec_credential_cert(const struct kube_exec_credential *c);
const char *kube_exec_credential_key(const struct kube_exec_credential *c);
