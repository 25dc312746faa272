// SPDX-License-Identifier: Apache-2.0
// Request bodies in Kubernetes' protobuf encoding. Newer versions of kubectl and client-go send it
// for built-in kinds. Replies are always JSON, which these clients accept. Private to the API
// server.
#pragma once

#include "kube/proto.h"

#define LOCAL_API_PROTO_MEDIA_TYPE "application/vnd.kubernetes.protobuf"

// Decodes a body with its envelope (magic "k8s", runtime.Unknown). GS_ENOTSUP: unknown kind or
// field. GS_EPROTO: invalid message.
struct gs_error *local_api_proto_decode(struct gs_slice body, json_t **ret);

// --- proto_types.c ---
// Types of bodies that are requests, not objects: DeleteOptions, Eviction, Binding, reviews.
const struct kube_type *local_api_proto_request_type(const char *api_version, const char *kind);
