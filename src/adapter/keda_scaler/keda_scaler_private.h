// SPDX-License-Identifier: Apache-2.0
// Shared by the files of src/adapter/keda_scaler only: message.c (bytes), trigger.c (metadata),
// read.c (one value), watch.c (a stream), keda_scaler.c (the methods).
#pragma once

#include "adapter/keda_scaler/keda_scaler.h"
#include "base/timer.h"

#include <stdbool.h>
#include <sys/queue.h>

// --- message.c: the messages of externalscaler.proto ---

enum { KEDA_SCALER_MAX_METADATA = 64 };

struct keda_scaler_pair {
    struct gs_slice key, value;
};

// ScaledObjectRef, and the metric of GetMetricsRequest. Borrowed from the message.
struct keda_scaler_request {
    struct gs_slice name, ns;
    struct keda_scaler_pair metadata[KEDA_SCALER_MAX_METADATA];
    size_t n_metadata;
    struct gs_slice metric;
};

// GS_EPROTO: malformed. GS_ELIMIT: more metadata than the limit.
struct gs_error *keda_scaler_read_ref(struct gs_slice message, struct keda_scaler_request *ret);
struct gs_error *keda_scaler_read_metrics_request(struct gs_slice message,
                                                  struct keda_scaler_request *ret);
void keda_scaler_write_active(bool active, struct gs_buf *out);
void keda_scaler_write_spec(struct gs_slice metric, double target, struct gs_buf *out);
void keda_scaler_write_value(struct gs_slice metric, double value, struct gs_buf *out);

// --- trigger.c: what a trigger selects ---

struct keda_scaler_trigger {
    char *ns, *signal;
    char *resource, *name; // of the object; NULL: an external metric
    char *metric;          // the signal in the characters that KEDA allows in a name
    bool named;            // the metadata names the object
    struct kube_selector selector;
    double threshold, activation;
};

// GS_EINVAL: the metadata is wrong.
struct gs_error *keda_scaler_trigger_read(const struct keda_scaler_request *rq,
                                          struct keda_scaler_trigger *ret);
void keda_scaler_trigger_finish(struct keda_scaler_trigger *t);

// --- read.c ---

struct keda_scaler_value {
    enum grpc_status status; // GRPC_OK: there is a value
    const char *why;         // otherwise; borrowed
    double value;
    const char *query; // that the value is from; NULL: none. Borrowed
    struct source *source;
    bool starting; // the adapter cannot serve values yet
};

typedef void (*keda_scaler_value_fn)(void *arg, const struct keda_scaler_value *v);
struct keda_scaler_read;
// The trigger is borrowed until the callback. May call fn before it returns, and returns NULL in
// this case.
struct keda_scaler_read *keda_scaler_read_value(struct keda_scaler *s,
                                                const struct keda_scaler_trigger *t,
                                                keda_scaler_value_fn fn, void *arg);
void keda_scaler_read_cancel(struct keda_scaler_read *r); // accepts NULL

// --- watch.c: StreamIsActive ---

struct keda_scaler_watch;
TAILQ_HEAD(keda_scaler_watches, keda_scaler_watch);
// Takes the trigger.
void keda_scaler_watch_new(struct keda_scaler *s, struct grpc_call *call,
                           struct keda_scaler_trigger *t);
void keda_scaler_watch_end(struct keda_scaler_watch *w); // ends the stream, too

// --- keda_scaler.c ---

enum keda_scaler_method {
    KEDA_SCALER_IS_ACTIVE,
    KEDA_SCALER_STREAM_IS_ACTIVE,
    KEDA_SCALER_GET_METRIC_SPEC,
    KEDA_SCALER_STREAM_METRIC_SPEC,
    KEDA_SCALER_GET_METRICS,
    KEDA_SCALER_N_METHODS,
};

struct keda_scaler_call;
TAILQ_HEAD(keda_scaler_calls, keda_scaler_call);

struct keda_scaler {
    uv_loop_t *loop;
    struct keda_scaler_options o;
    struct keda_scaler_calls calls; // unary ones, and streams of specifications
    struct keda_scaler_watches watches;
    size_t n_watches, n_spec_streams;
    bool stopping; // new streams are refused
    uint64_t requests[KEDA_SCALER_N_METHODS], failures[KEDA_SCALER_N_METHODS];
    uint64_t n_pushed;
};
