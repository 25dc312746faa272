// SPDX-License-Identifier: Apache-2.0
// Request paths of an aggregated API server: which API and object is meant, and how Kubernetes
// reads the same path for authorisation.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define ADAPTER_API_CUSTOM   "custom.metrics.k8s.io"
#define ADAPTER_API_EXTERNAL "external.metrics.k8s.io"
#define ADAPTER_API_RESOURCE "metrics.k8s.io"

enum adapter_api_kind {
    ADAPTER_API_OTHER,    // not below a group's version, or no group of ours
    ADAPTER_API_GROUP,    // /apis/G
    ADAPTER_API_LIST,     // /apis/G/V
    ADAPTER_API_METRIC,   // an object's metric, custom or external
    ADAPTER_API_USAGE,    // nodes and pods of metrics.k8s.io
    ADAPTER_API_BAD_PATH, // 400
    ADAPTER_API_NO_ROUTE, // 404
};

enum { ADAPTER_API_MAX_SEGMENTS = 12 };

struct adapter_api_path {
    enum adapter_api_kind kind;
    const char *group, *version;
    // As Kubernetes' RequestInfo. resource NULL: a non-resource request.
    const char *ns, *resource, *name, *subresource;
    // ADAPTER_API_METRIC: whose and which. object_ns NULL: root-scoped.
    const char *object_ns, *object_resource, *object_name, *metric;
    char *segments[ADAPTER_API_MAX_SEGMENTS]; // private: what the strings point to
    size_t n_segments;
};

// GS_EINVAL on bad escapes. The result is to be finished in any case.
struct gs_error *adapter_api_path_read(const char *raw, struct adapter_api_path *ret);
void adapter_api_path_finish(struct adapter_api_path *p);
