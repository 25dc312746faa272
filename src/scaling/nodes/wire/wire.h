// SPDX-License-Identifier: Apache-2.0
// Nodes and Pods as the plug-ins of the Cluster Autoscaler exchange them: the bare protobuf message
// of k8s.io.api.core.v1.Node or Pod, without Kubernetes' envelope. Nothing here keeps state. Any
// thread may call.
//
// Fields that are not known are skipped, so newer peers are understood. What does not influence
// scheduling is skipped, too: volumes, environment, commands, probes, security contexts, managed
// fields, images of the node.
#pragma once

#include "base/buf.h"
#include "codec/json.h"

// An object of the API server has at most 1.5 MiB, the limit of etcd.
#define WIRE_MAX_OBJECT (2u * 1024 * 1024)

// *ret has apiVersion and kind. GS_EPROTO: malformed, or a text is not UTF-8. GS_ELIMIT: more than
// WIRE_MAX_OBJECT bytes, KUBE_PROTO_MAX_VALUES values, or nested too deeply.
struct gs_error *wire_read_node(struct gs_slice message, json_t **ret);
struct gs_error *wire_read_pod(struct gs_slice message, json_t **ret);
// Many pods of one peer: *budget is the number of values that may still be read, and is reduced.
struct gs_error *wire_read_pod_within(struct gs_slice message, size_t *budget, json_t **ret);

// Appends the message, with all fields that the object has. GS_EINVAL: a value has the wrong type.
struct gs_error *wire_write_node(const json_t *node, struct gs_buf *out);
struct gs_error *wire_write_pod(const json_t *pod, struct gs_buf *out);
