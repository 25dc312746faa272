// SPDX-License-Identifier: Apache-2.0
// Stores samples that others push with remote write 1.0 and 2.0, and with OTLP:
// https://prometheus.io/docs/specs/prw/remote_write_spec/ and
// https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/. Statuses and texts are those of
// Prometheus. Valid samples of a request are stored also if others of it are refused. Native
// histograms are counted and not stored, and so are exemplars if the store keeps none. All
// functions are called on the thread of the loop.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "engine/config/config.h"
#include "tsdb/tsdb.h"

struct remote_receiver;

// Messages: a set of these.
enum {
    REMOTE_MESSAGE_V1 = 1,   // prometheus.WriteRequest
    REMOTE_MESSAGE_V2 = 2,   // io.prometheus.write.v2.Request
    REMOTE_MESSAGE_OTLP = 4, // ExportMetricsServiceRequest
};
// Adds the message of this name to *set. GS_EINVAL: unknown.
struct gs_error *remote_message_of(const char *name, unsigned *set);

// retention_ms: older samples are out of bounds; 0: none. lookback_ms: of queries; 0: 5 minutes.
struct remote_receiver *remote_receiver_new(struct tsdb *db, unsigned messages,
                                            int64_t retention_ms, int64_t lookback_ms);
void remote_receiver_free(struct remote_receiver *r);

struct remote_receiver_request {
    const char *peer;                            // for the log
    const char *content_type, *content_encoding; // NULL: absent
    struct gs_slice body;
    // Called after a turn of work (base/turn.h), and may let others use the store. False: the peer
    // has disconnected, the body is gone, and the request ends. NULL: the request runs to its end.
    bool (*go_on)(void *arg);
    void *arg;
};

struct remote_receiver_reply {
    int status;                // 0: go_on returned false
    struct gs_buf text;        // of a status other than 204
    bool has_counts;           // the headers X-Prometheus-Remote-Write-*-Written are sent
    size_t samples, exemplars; // stored; histograms are always 0
    const char *type;          // of text; NULL: plain text
};
// Reentrant: a request can begin while others pause. 429: too much is in progress; a retry helps.
void remote_receiver_write(struct remote_receiver *r, const struct remote_receiver_request *q,
                           struct remote_receiver_reply *ret);
// The same for metrics in OTLP (https://opentelemetry.io/docs/specs/otlp/#otlphttp), with protobuf
// or JSON. They become series as in Prometheus. Exponential histograms are counted and not stored.
void remote_receiver_otlp(struct remote_receiver *r, const struct remote_receiver_request *q,
                          struct remote_receiver_reply *ret);
// Requests that begin later use these settings, which are copied.
void remote_receiver_set_otlp(struct remote_receiver *r, const struct engine_config_otlp *o);
// Appends the metrics about received samples in the text format.
void remote_receiver_write_metrics(const struct remote_receiver *r, struct gs_buf *out);
