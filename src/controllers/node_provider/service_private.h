// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the gRPC service. They include the generated externalgrpc.pb-c.h.
#pragma once

#include "net/grpc/grpc.h"
#include "node_provider/externalgrpc.pb-c.h"
#include "node_provider/node_provider_private.h"

static inline void node_provider_free_message(void *p)
{
    ProtobufCMessage *m = *(ProtobufCMessage **)p;
    if (m)
        protobuf_c_message_free_unpacked(m, NULL);
}
#define NODE_PROVIDER_AUTO_MESSAGE GS_CLEANUP(node_provider_free_message)

// Answers the call with the message.
void node_provider_answer(struct grpc_call *call, const ProtobufCMessage *message);
// NULL: the request is malformed, and the call is answered.
void *node_provider_read_request(struct grpc_call *call, const ProtobufCMessageDescriptor *type,
                                 struct gs_slice request);
// The pool with this name, or of a request whose only field is the name. NULL: the call is
// answered.
struct node_provider_pool *node_provider_find_group(struct node_provider_fleet *f,
                                                    struct grpc_call *call, const char *id);
struct node_provider_pool *node_provider_read_group(struct node_provider_fleet *f,
                                                    struct grpc_call *call,
                                                    struct gs_slice request);
// NULL: not a machine of this provider.
struct node_provider_machine *node_provider_machine_of(const struct node_provider_fleet *f,
                                                       const Externalgrpc__Node *node);

void node_provider_handle_template(void *ctx, struct grpc_call *call, struct gs_slice request);
void node_provider_handle_options(void *ctx, struct grpc_call *call, struct gs_slice request);
void node_provider_handle_node_price(void *ctx, struct grpc_call *call, struct gs_slice request);
void node_provider_handle_pod_price(void *ctx, struct grpc_call *call, struct gs_slice request);
