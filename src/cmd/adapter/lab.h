// SPDX-License-Identifier: Apache-2.0
// A source asked one question at a time, for verbs that look and print.
#pragma once

#include "adapter/provider/mapper.h"
#include "adapter/source/source.h"

struct lab {
    uv_loop_t loop;
    struct source *source; // NULL: none was given
    struct mapper *mapper;
    struct http_client *kube_http;
    struct kube_client *kube; // NULL: no cluster
};

// url NULL: no source; kubeconfig NULL: no cluster, Kubernetes' own resources are known.
struct gs_error *lab_open(const char *url, const char *kubeconfig, struct lab *ret);
void lab_close(struct lab *l);
struct gs_error *lab_query(struct lab *l, const char *promql, struct source_result **ret);
struct gs_error *lab_series(struct lab *l, const char *selector, struct source_shapes **ret);
