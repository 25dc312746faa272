// SPDX-License-Identifier: Apache-2.0
// KEDA's external scaler, a gRPC service: the metadata of a trigger names a metric of an object,
// and the value is the one that the metrics API of the adapter has for it. A value that is absent
// is an error with its reason, because KEDA takes an empty list and 0 for idleness.
// https://keda.sh/docs/latest/concepts/external-scalers/
//
// Thread rule: all functions run on the thread of the loop.
#pragma once

#include "adapter/metric_changes/metric_changes.h"
#include "adapter/provider/provider.h"
#include "net/grpc/grpc.h"

struct keda_scaler;

// Of a server with this service: each ScaledObject has up to two streams, all on one connection.
// All connections together have no more.
enum { KEDA_SCALER_MAX_STREAMS = 20000, KEDA_SCALER_MAX_MESSAGE = 64 * 1024 };

struct keda_scaler_options {
    // The provider of the current configuration. Requests in progress may use it for 90 s more.
    struct provider *(*provider)(void *arg);
    const char *(*not_ready)(void *arg); // why values cannot be served yet; NULL: they can
    // Activity is pushed when a value of this source changes. Both NULL: it is read periodically.
    struct metric_changes *changes; // outlives the scaler, as the source
    struct source *source;
    void *arg;
};

// Adds the methods of the service to the server, which outlives no call of them: free the scaler
// after grpc_server_free() only.
struct keda_scaler *keda_scaler_new(uv_loop_t *loop, struct grpc_server *server,
                                    const struct keda_scaler_options *o);
void keda_scaler_free(struct keda_scaler *s); // accepts NULL
// Ends the streams and refuses new ones, so that clients connect to another replica.
void keda_scaler_end_streams(struct keda_scaler *s);

// Appends the metrics of the service in the text format.
void keda_scaler_write_metrics(const struct keda_scaler *s, struct gs_buf *out);
