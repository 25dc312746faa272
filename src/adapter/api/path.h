// SPDX-License-Identifier: Apache-2.0
// Request paths of an aggregated API server: the API and the object that a path names, and the
// attributes that Kubernetes derives from it for authorization.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define ADAPTER_API_CUSTOM   "custom.metrics.k8s.io"
#define ADAPTER_API_EXTERNAL "external.metrics.k8s.io"
#define ADAPTER_API_RESOURCE "metrics.k8s.io"

enum adapter_api_kind {
    ADAPTER_API_OTHER,    // no path of a metrics API
    ADAPTER_API_GROUP,    // /apis/G
    ADAPTER_API_LIST,     // /apis/G/V
    ADAPTER_API_METRIC,   // a custom or external metric
    ADAPTER_API_USAGE,    // nodes and pods of metrics.k8s.io
    ADAPTER_API_CHANGES,  // the stream of changed metrics
    ADAPTER_API_BAD_PATH, // 400
    ADAPTER_API_NO_ROUTE, // 404
};

enum { ADAPTER_API_MAX_SEGMENTS = 12 };

struct adapter_api_path {
    enum adapter_api_kind kind;
    const char *group, *version;
    // As Kubernetes' RequestInfo. resource NULL: a non-resource request.
    const char *ns, *resource, *name, *subresource;
    // ADAPTER_API_METRIC: the object and its metric. object_ns NULL: root-scoped.
    const char *object_ns, *object_resource, *object_name, *metric;
    char *segments[ADAPTER_API_MAX_SEGMENTS]; // private: storage of the strings
    size_t n_segments;
};

// GS_EINVAL on bad escapes. Call adapter_api_path_finish() also on an error.
struct gs_error *adapter_api_path_read(const char *raw, struct adapter_api_path *ret);
void adapter_api_path_finish(struct adapter_api_path *p);
