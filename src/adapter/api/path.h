// SPDX-License-Identifier: Apache-2.0
// Request paths of an aggregated API server: which API and object is meant, and how Kubernetes
// reads the same path for authorisation.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define API_CUSTOM   "custom.metrics.k8s.io"
#define API_EXTERNAL "external.metrics.k8s.io"
#define API_RESOURCE "metrics.k8s.io"

enum api_kind {
    API_OTHER,    // not below a group's version, or no group of ours
    API_GROUP,    // /apis/G
    API_LIST,     // /apis/G/V
    API_METRIC,   // an object's metric, custom or external
    API_USAGE,    // nodes and pods of metrics.k8s.io
    API_BAD_PATH, // 400
    API_NO_ROUTE, // 404
};

enum { API_MAX_SEGMENTS = 12 };

struct api_path {
    enum api_kind kind;
    const char *group, *version;
    // As Kubernetes' RequestInfo. resource NULL: a non-resource request.
    const char *ns, *resource, *name, *subresource;
    // API_METRIC: whose and which. object_ns NULL: root-scoped.
    const char *object_ns, *object_resource, *object_name, *metric;
    char *segments[API_MAX_SEGMENTS]; // private: what the strings point to
    size_t n_segments;
};

// GS_EINVAL on bad escapes. The result is to be finished in any case.
struct gs_error *api_path_read(const char *raw, struct api_path *ret);
void api_path_finish(struct api_path *p);
