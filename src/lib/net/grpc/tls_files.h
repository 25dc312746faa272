// SPDX-License-Identifier: Apache-2.0
// The certificate, key and client CA of a gRPC server from PEM files. They are read again when they
// change, as certificates are that cert-manager or the kubelet renews. A valid certificate is never
// replaced by one that is broken, expired or not yet valid. Only the thread of the loop may use it.
#pragma once

#include "net/grpc/grpc.h"

struct grpc_tls_files;

struct grpc_tls_paths {
    const char *cert_file, *key_file;
    const char *client_ca_file; // NULL: any client may call
};

// Reads the files, gives them to the server and watches them. Freed before the server.
struct gs_error *grpc_tls_files_new(uv_loop_t *loop, struct grpc_server *server,
                                    const struct grpc_tls_paths *paths,
                                    struct grpc_tls_files **ret);
void grpc_tls_files_free(struct grpc_tls_files *f); // accepts NULL
