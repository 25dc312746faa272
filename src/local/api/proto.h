// SPDX-License-Identifier: Apache-2.0
// Converts request bodies from Kubernetes' protobuf encoding to JSON. Newer versions of kubectl and
// client-go send it for built-in kinds ("application/vnd.kubernetes.protobuf"). Replies are always
// JSON, which these clients accept. Private to the API server.
#pragma once

#include "kube/schema.h"

#define LOCAL_API_PROTO_MEDIA_TYPE "application/vnd.kubernetes.protobuf"

// Field numbers of a type as text (proto_fields.c). The table is sorted by name.
struct local_api_proto_type {
    const char *name, *fields;
};
extern const struct local_api_proto_type local_api_proto_types[];
extern const size_t local_api_n_proto_types;

// Decodes a body with its envelope (magic "k8s", runtime.Unknown). GS_ENOTSUP: unknown kind or
// field. GS_EPROTO: invalid message.
struct gs_error *local_api_proto_decode(struct gs_slice body, json_t **ret);

// --- proto_types.c ---
// Types of bodies that are requests, not objects: DeleteOptions, Eviction, Binding, reviews.
const struct kube_type *local_api_proto_request_type(const char *api_version, const char *kind);
