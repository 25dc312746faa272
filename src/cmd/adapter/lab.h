// SPDX-License-Identifier: Apache-2.0
// A source asked one question at a time, for verbs that look and print.
#pragma once

#include "adapter/provider/mapper.h"
#include "cmd/adapter/others.h"

struct lab {
    uv_loop_t loop;
    struct source *source;  // NULL: none was given
    struct source **others; // of the configuration; without a source none
    size_t n_others;
    struct provider_mapper *mapper;
    struct http_client *kube_http;
    struct kube_client *kube; // NULL: no cluster
};

// url NULL: no source; kubeconfig NULL: no cluster, Kubernetes' own resources are known. c: whose
// sources are opened with it.
struct gs_error *lab_open(const char *url, const char *kubeconfig, const struct adapter_config *c,
                          struct lab *ret);
void lab_close(struct lab *l);
// at: the source, as rules name it (config.h).
struct gs_error *lab_query(struct lab *l, size_t at, const char *promql,
                           struct source_result **ret);
struct gs_error *lab_series(struct lab *l, size_t at, const char *selector,
                            struct source_shapes **ret);
