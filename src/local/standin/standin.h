// SPDX-License-Identifier: Apache-2.0
// Stand-ins: what a pod shows when `gpuscale up` itself has the function of its image. A container
// runs the small process `gpuscale pod-standin ROLE [ARGUMENTS]`, which prints what runs in its
// place and does what `up` orders; `up` listens on the container's ports while the process lives.
//
// The process connects to the Unix socket of `up` and sends one line of JSON:
//   {"role", "args": [], "namespace", "pod", "uid", "container", "address", "ports", "env": {},
//    "files": {}, "absent": []}
// `address` is the pod's, `ports` the list of its moved ports ("80=8080"), `env` its environment
// without what the role does not need, and `files` has the contents of the files that the arguments
// name, such as those of a certificate, and `absent` the paths among them that do not exist. `up`
// answers with one JSON object for each line:
//   {"log": TEXT}      the process prints the line
//   {"exit": CODE}     it ends
//   {"exec": [WORDS]}  it becomes this program; flags that the program's --help does not list are
//                      left out if "checked" is true
//   {"write": PATH, "text": TEXT}  it writes the file; without "text" it removes it
//   {"watch": FOLDER}  it sends an empty line whenever a file in the folder changes
// The end of the connection is the end of both. `up` sends lines of at most 8 MiB, the
// process one of at most 2 MiB.
#pragma once

#include "local/cluster.h"
#include "local/services.h"
#include "net/http/server.h"
#include "net/tls/tls.h"

// --- the process ---

// The main function of `gpuscale pod-standin`. It has no loop and loads nothing of the other parts.
int standin_main(int argc, char **argv);

// --- the part of `up` ---

struct standin_server;

// A part of this program that answers requests, or NULL.
struct standin_part {
    http_handler handle;
    void *ctx;
};

// All is borrowed until standin_server_free().
struct standin_config {
    struct local_cluster *cluster;
    struct local_services *services;
    const char *socket_path;
    const char *self_exe;      // this program, for containers that become another command of it
    const struct tls_pair *ca; // signs the certificates of containers that bring none
    // How APIs authenticate: the users of the API server.
    struct http_server_config api_server;
    const char *front_proxy_authority; // of the client that checks and asks APIs; NULL: none
    struct standin_part api, web;      // web: all of the engine's server
    uint16_t engine_port;              // of 127.0.0.1
    // Append a Prometheus exposition. NULL: there is none.
    void (*write_kube_state)(void *arg, struct gs_buf *out);
    void (*write_autoscaler)(void *arg, struct gs_buf *out);
    // Of the pools of machines, one line each. NULL: none.
    void (*write_pools)(void *arg, struct gs_buf *out);
    void (*reload)(void *arg); // the configuration of the engine
    void *arg;
};

// GS_EIO: the socket cannot be created.
struct gs_error *standin_server_new(const struct standin_config *cfg, struct standin_server **ret);
// Ends all sessions. Accepts NULL. Run the loop afterwards.
void standin_server_free(struct standin_server *s);
