// SPDX-License-Identifier: Apache-2.0
// The environment of adapters in benchmarks and load tests: the simulated cluster, the certificate
// of a front proxy, and the adapter (gpuscale or prometheus-adapter) with the same flags.
#pragma once

#include "bench.h"
#include "cluster.h"
#include "wire.h"

struct adapter_bed {
    pid_t cluster;
    uint16_t kubernetes_port, source_port;
    char *kubeconfig, *ca; // files
    gnutls_certificate_credentials_t credentials;
};

// self: a program that runs cluster_serve() when its first arguments are --serve PODS.
void adapter_bed_start(struct adapter_bed *b, const char *self, int pods);
void adapter_bed_finish(struct adapter_bed *b); // its processes end with the program

// source_url NULL: the engine in the process. program: the arguments before the flags; extra: the
// arguments after them. Both end with NULL.
pid_t adapter_start(const struct adapter_bed *b, const char *log, const char *const *program,
                    uint16_t port, const char *source_url, const char *rules,
                    const char *const *extra);
// Connects like the front proxy, for the cluster's autoscaler. Ends the program on failure.
void adapter_connect(const struct adapter_bed *b, struct wire *w, uint16_t port);
bool adapter_try_connect(const struct adapter_bed *b, struct wire *w, uint16_t port);
