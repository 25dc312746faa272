// SPDX-License-Identifier: Apache-2.0
// Kubernetes' protobuf form of request bodies, which newer kubectl and client-go send for built-in
// kinds ("application/vnd.kubernetes.protobuf"), to JSON. Replies are always JSON, which such
// clients accept. Private to the API server.
#pragma once

#include "kube/schema.h"

#define LOCAL_API_PROTO_MEDIA_TYPE "application/vnd.kubernetes.protobuf"

// The numbers of a type's fields, as text: see proto_fields.c. Sorted by name.
struct local_api_proto_type {
    const char *name, *fields;
};
extern const struct local_api_proto_type local_api_proto_types[];
extern const size_t local_api_n_proto_types;

// A body with its envelope (magic "k8s", runtime.Unknown). A kind or a field that is not known is
// GS_ENOTSUP; GS_EPROTO: not such a message.
struct gs_error *local_api_proto_decode(struct gs_slice body, json_t **ret);
