// SPDX-License-Identifier: Apache-2.0
// Kubernetes' protobuf encoding of objects: bodies of API requests
// ("application/vnd.kubernetes.protobuf"), and Nodes and Pods in the plug-ins of the Cluster
// Autoscaler. The types are those of kube/schema.h, with the field numbers of the generated.proto
// files of k8s.io/api. Source: https://protobuf.dev/programming-guides/encoding/
//
// Messages are read in place. Nothing here keeps state. Any thread may call.
#pragma once

#include "codec/protobuf.h"
#include "kube/schema.h"

// Nesting of objects, and values of one object. An object of the API server has at most 3 MiB.
#define KUBE_PROTO_MAX_DEPTH  64
#define KUBE_PROTO_MAX_VALUES 200000

struct kube_proto_options {
    bool skip_unknown; // ignore fields that the table does not have, otherwise GS_ENOTSUP
    // Names of fields that are ignored at any depth, NULL at the end. NULL: none.
    const char *const *omit;
    // Values that may still be read, for several messages together; reduced by those of this one.
    // NULL: only the limit of one object.
    size_t *budget;
};

// Adds the fields of a message to obj, which may be partly filled on failure. Go's encoder writes
// every field that is not a pointer, also when it is zero, and JSON would leave such a field out:
// so zeros count as given only where Go has a pointer. GS_EPROTO: malformed, or a text is not
// UTF-8. GS_ELIMIT.
struct gs_error *kube_proto_decode(const struct kube_type *type, struct gs_slice message,
                                   const struct kube_proto_options *o, json_t *obj);

// Appends the message of an object. Members that the table does not have, and free-form ones
// (managed fields), are left out. GS_EINVAL: a value has the wrong type; out is partly filled.
struct gs_error *kube_proto_encode(const struct kube_type *type, const json_t *obj,
                                   struct gs_buf *out);
