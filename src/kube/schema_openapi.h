// SPDX-License-Identifier: Apache-2.0
// The OpenAPI documents that kubectl reads, made from the table of types: version 3 a group-version
// (kubectl from 1.24: server-side validation, apply, explain), version 2 as a whole (older ones:
// client-side validation, apply, explain) in JSON and in the protobuf form that kubectl asks for.
// Kinds without a type are described as free-form. The documents are large: make them once and keep
// the bytes.
#pragma once

#include "base/buf.h"
#include "kube/schema.h"

// What kubectl accepts, and what the reply must be called: the former is not a valid media type.
#define KUBE_OPENAPI_V2_ACCEPT "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
#define KUBE_OPENAPI_V2_TYPE   "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

// A resource that the API serves in one version; subresources need no entry.
struct kube_openapi_resource {
    const char *group; // "" for core
    const char *version, *plural, *kind;
    bool namespaced;
};

// {"paths": {"apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=…"}}} of all
// group-versions among the resources. The hash changes with the document.
json_t *kube_openapi_v3_index(const struct kube_openapi_resource *r, size_t n);
// The document of one group-version; resources of others are skipped.
json_t *kube_openapi_v3(const char *group, const char *version,
                        const struct kube_openapi_resource *r, size_t n);

json_t *kube_openapi_v2(const struct kube_openapi_resource *r, size_t n);
// gnostic's openapi.v2.Document of a document made by kube_openapi_v2().
void kube_openapi_v2_encode(const json_t *document, struct gs_buf *out);
