// SPDX-License-Identifier: Apache-2.0
// What adapters run on in measurements and load tests: the stand-in for a cluster, a front proxy's
// certificate, and the program itself, ours or prometheus-adapter, with the same flags.
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

// source_url NULL: none, the engine in the process. program: the words in front of the flags;
// extra: those behind. Both end with NULL.
pid_t adapter_start(const struct adapter_bed *b, const char *log, const char *const *program,
                    uint16_t port, const char *source_url, const char *rules,
                    const char *const *extra);
// As the front proxy that speaks for the cluster's autoscaler. Fails the program.
void adapter_connect(const struct adapter_bed *b, struct wire *w, uint16_t port);
bool adapter_try_connect(const struct adapter_bed *b, struct wire *w, uint16_t port);
