// SPDX-License-Identifier: Apache-2.0
// The custom metrics API (custom.metrics.k8s.io v1beta1 and v1beta2) over the series store. First
// form: every series that carries a pod and namespace label (pod/namespace, or
// PodName/NamespaceName) is served for pods and namespaces, without rules.
#pragma once

#include "kube/cache.h"
#include "net/http/http.h"
#include "tsdb/tsdb.h"

struct adapter;

// Lists pods for "pods/*" requests: the cache. Borrowed: db and pods.
struct adapter *adapter_new(struct tsdb *db, struct kube_cache *pods);
void adapter_free(struct adapter *a);
// Handler for everything below /apis/custom.metrics.k8s.io
void adapter_handle(void *adapter, struct http_exchange *x);
// The APIGroup document for /apis.
json_t *adapter_group(void);
