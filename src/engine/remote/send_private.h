// SPDX-License-Identifier: Apache-2.0
// The sender of remote write: what is to be sent (remote_write.c), requests (send.c), their log
// (send_log.c), the metadata of metrics (send_metadata.c) and counters (send_metrics.c).
#pragma once

#include "engine/remote/remote_private.h"
#include "engine/remote/remote_write.h"
#include "metrics/reader.h"
#include "net/http/client.h"

// --- remote write 2.0 ---
// Writes io.prometheus.write.v2.Request in protobuf's wire format.
// https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/#protobuf-message

struct remote_encoder { // zero: none begun; private
    struct gs_buf all, symbols, series, part, refs;
    struct gs_hmap *numbers; // symbol -> its number + 1
    size_t n_symbols;
};

void remote_encoder_begin(struct remote_encoder *e);
// Begins a TimeSeries. labels are sorted by name. Its parts follow in this order: samples by time,
// exemplars, metadata.
void remote_encoder_begin_series(struct remote_encoder *e, const struct metrics_label *labels,
                                 size_t n);
void remote_encoder_sample(struct remote_encoder *e, int64_t t_ms, double v);
void remote_encoder_exemplar(struct remote_encoder *e, const struct tsdb_exemplar *x);
void remote_encoder_metadata(struct remote_encoder *e, const struct metrics_metadata *m);
void remote_encoder_end_series(struct remote_encoder *e);
bool remote_encoder_is_empty(const struct remote_encoder *e); // no series
// Compresses the message. Replaces the content of ret.
void remote_encoder_end(struct remote_encoder *e, struct gs_buf *ret);
void remote_encoder_finish(struct remote_encoder *e);

// --- metadata ---

struct remote_metadata {
    remote_write_metadata_fn find; // NULL: none
    void *arg;
    struct gs_hmap *items; // metric -> struct metrics_metadata
    int64_t until_ns;      // the items are valid until then
};

// The metadata of the series of a metric; NULL: none. Valid until the next call. An answer is used
// for a minute.
const struct metrics_metadata *remote_metadata_of(struct remote_metadata *m,
                                                  struct gs_slice metric);
void remote_metadata_finish(struct remote_metadata *m);

// --- sender ---

struct remote_sent {
    uint64_t id; // hash of the labels, because numbers of series are reused
    int64_t t_ms;
};

struct remote_mark {
    tsdb_ref ref;
    struct remote_sent to;
};

struct remote_sent_counts {
    uint64_t sent, failed, retried, dropped, old;
};

// The version of the protocol, if the configuration selects 2.0.
enum remote_negotiation {
    REMOTE_AS_CONFIGURED,
    REMOTE_TRIES_V1,  // the receiver does not seem to read 2.0; the batch is sent again in 1.0
    REMOTE_AGREED_V1, // it has accepted 1.0 instead; until the configuration changes
};

// Why the receiver did not write samples, for a metric.
enum remote_refusal {
    REMOTE_BAD_REQUEST,       // 400
    REMOTE_UNAUTHORIZED,      // 401, 403, 407
    REMOTE_NOT_FOUND,         // 404, 405, 410
    REMOTE_TOO_LARGE,         // 413
    REMOTE_UNSUPPORTED,       // 406, 415
    REMOTE_TOO_MANY_REQUESTS, // 429 without retry_on_http_429
    REMOTE_NOT_WRITTEN,       // a success that reports fewer samples
    REMOTE_OTHER_STATUS,
    REMOTE_N_REFUSALS,
};

// --- log ---
// At most one line a minute for each receiver and kind.

struct remote_log_line {
    int64_t logged_ns;                     // 0: never
    uint64_t requests, samples, exemplars; // since then
};

struct remote_log {
    struct remote_log_line retries, refusals;
};

// A request that is repeated.
void remote_log_retry(struct remote_log *l, const char *url, const char *why);
// Samples that are given up. text: of the response, or the reason.
void remote_log_refusal(struct remote_log *l, const char *url, int status, size_t samples,
                        size_t exemplars, struct gs_slice text);

struct remote_write {
    uv_loop_t *loop;
    struct tsdb *db;
    const struct engine_config_remote_write_config *cfg;
    const struct metrics_label *external;
    size_t n_external;
    int64_t start_ms; // older samples are not sent
    struct gs_timer *timer;
    struct http_client *client;
    struct http_op *op;

    struct remote_sent *sent; // indexed by series number
    size_t sent_cap;
    struct tsdb_refs refs; // series of the current sync
    double *values;        // buffer of the current sync
    int64_t *newest;
    size_t turn_cap;
    size_t at; // index in refs
    uint64_t generation;
    bool in_turn;
    bool full; // the sync has sent a full batch

    enum remote_negotiation negotiation;
    int refused_v2;                // the status that began it
    bool batch_v2;                 // the version of the batch
    struct gs_buf raw;             // the batch; 1.0
    struct remote_encoder encoder; // 2.0
    struct gs_buf body;            // the batch, compressed; empty: no batch
    struct remote_mark *marks;
    size_t n_marks, marks_cap;
    size_t batch_samples, batch_exemplars;
    size_t written_samples, written_exemplars; // of the batch, as the receiver reports
    struct tsdb_samples samples;
    uint64_t next_exemplar, batch_next_exemplar; // their numbers, before and after the batch
    uint64_t end_exemplar;                       // of the current sync
    // Exemplars from this number on that the current sync has sent with the samples of their
    // series: a bit for each.
    uint64_t taken_from;
    unsigned char *taken;
    size_t taken_cap;          // bytes
    int64_t batch_exemplar_ms; // time of the newest
    struct metrics_label *own; // of a series
    size_t own_cap;
    struct metrics_label *labels;
    size_t labels_cap;
    struct engine_config_label_builder builder;
    struct remote_metadata metadata;
    int64_t backoff_ms;         // the last delay; 0: the last request succeeded
    bool new_client;            // the configuration changed: the next request uses a new client
    bool last_turn;             // the current sync sends all samples that a flush requires
    void (*flushed)(void *arg); // NULL: no flush was requested
    void *flushed_arg;
    struct remote_log log;
    uint64_t bytes_sent;
    struct remote_sent_counts n_samples, n_exemplars;
    // Before the batch: it can be written again.
    struct remote_sent_counts samples_before, exemplars_before;
    uint64_t refused[REMOTE_N_REFUSALS]; // samples
    int64_t newest_sent_ms;
};

// Sends the batch, and again until the receiver has accepted or rejected it.
void remote_write_send(struct remote_write *w);
// The batch is over: marks its samples as sent.
void remote_write_acknowledge(struct remote_write *w);
// Forgets the batch. Its samples are written again.
void remote_write_discard(struct remote_write *w);
// A time to wait from the configuration, in which 0 would make a loop without a pause.
static inline int64_t remote_write_wait(int64_t ms)
{
    return ms > 10 ? ms : 10;
}
// Continues after this time.
void remote_write_arm(struct remote_write *w, int64_t ms);
