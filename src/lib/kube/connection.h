// SPDX-License-Identifier: Apache-2.0
// The connection of a program to the Kubernetes API of its cluster, from a kubeconfig or the
// service account of its pod.
#pragma once

#include "kube/client.h"

#include <stdbool.h>

struct kube_connection {
    struct http_client *http;
    struct kube_client *client; // NULL: not connected
    char *server;               // its URL, for the log
    char *ns;                   // of the kubeconfig's context
};

// kubeconfig, context: as of kube_config_load(). program: for the user agent gpuscale-PROGRAM.
// Nothing is sent yet. Errors: the file is wrong or absent; *ret is unchanged.
struct gs_error *kube_connection_open(uv_loop_t *loop, const char *kubeconfig, const char *context,
                                      const char *program, struct kube_connection *ret);
// Cancels all requests. Accepts a connection of zeros, which it is afterwards.
void kube_connection_close(struct kube_connection *c);

// Whether a program that works without a cluster, too, connects to one: the flag names it, or the
// program runs in a pod. A kubeconfig in a home directory must not change what a service does.
bool kube_connection_wanted(const char *kubeconfig);
