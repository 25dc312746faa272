// SPDX-License-Identifier: Apache-2.0
// Internals of this module.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "codec/protobuf.h"
#include "engine/config/config.h"
#include "engine/remote/receiver.h"
#include "metrics/labels.h"
#include "tsdb/exemplars.h"

#include <stdint.h>

// --- sender ---
// Writes prometheus.WriteRequest in protobuf's wire format.
// https://prometheus.io/docs/specs/prw/remote_write_spec/#protocol.

// Appends a TimeSeries. labels are sorted by name.
void remote_encode_series(struct gs_buf *out, const struct metrics_label *labels, size_t n_labels,
                          const int64_t *t, const double *v, size_t n_samples);
// Appends a TimeSeries with one exemplar and no samples. labels are sorted by name.
void remote_encode_exemplar(struct gs_buf *out, const struct metrics_label *labels, size_t n_labels,
                            const struct tsdb_exemplar *e);
// Compresses in Snappy's block format. Replaces the content of ret.
void remote_compress(struct gs_slice raw, struct gs_buf *ret);

// --- receiver ---
// Reads the messages of remote write 1.0 and 2.0. Texts are borrowed from the message.

#define REMOTE_MAX_LABELS  TSDB_MAX_LABELS
#define REMOTE_MAX_SYMBOLS ((size_t)1000000)

struct remote_decoder {
    struct gs_slice rest; // of the message
    bool v2;
    struct gs_slice *symbols; // of 2.0
    size_t n_symbols, symbols_cap;
    size_t steps;
    bool (*go_on)(void *arg);
    void *arg;
    bool stopped; // go_on has returned false; it is not called again
};

struct remote_decoder_series {
    struct metrics_label labels[REMOTE_MAX_LABELS]; // in the order of the message
    size_t n_labels;                                // of the message, may be more
    size_t n_samples, n_histograms, n_exemplars;
    // 2.0: references outside of the symbols. The labels or the metadata are then incomplete.
    struct gs_error *labels_error, *metadata_error;
    bool has_metadata;

    // private: the message after the last sample, and the last exemplar, read
    struct gs_slice samples, exemplars;
};

struct remote_decoder_exemplar {
    int64_t t_ms;
    double value;
    struct gs_slice message; // private
};

// Checks the whole message and collects its symbols. GS_EPROTO: malformed. GS_ELIMIT: more than
// REMOTE_MAX_SYMBOLS. GS_ECONFLICT: go_on returned false. go_on is called regularly; NULL: never.
struct gs_error *remote_decoder_init(struct remote_decoder *d, bool v2, struct gs_slice message,
                                     bool (*go_on)(void *arg), void *arg);
void remote_decoder_finish(struct remote_decoder *d);
// Reads the next series. *ret_more false: there is none. Release ret with
// remote_decoder_series_finish(), also before the next call. GS_ECONFLICT: go_on returned false.
struct gs_error *remote_decoder_next(struct remote_decoder *d, struct remote_decoder_series *ret,
                                     bool *ret_more);
// Reads the next sample of the series. False: there is none, or go_on returned false.
bool remote_decoder_sample(struct remote_decoder *d, struct remote_decoder_series *s,
                           int64_t *ret_t, double *ret_v);
// The same for exemplars.
bool remote_decoder_exemplar(struct remote_decoder *d, struct remote_decoder_series *s,
                             struct remote_decoder_exemplar *ret);
// The labels of an exemplar of the current series. *ret_n may be more than REMOTE_MAX_LABELS; the
// others are not read. GS_EINVAL: 2.0: references outside of the symbols. GS_ECONFLICT: go_on
// returned false.
struct gs_error *remote_decoder_exemplar_labels(struct remote_decoder *d,
                                                const struct remote_decoder_exemplar *e,
                                                struct metrics_label ret[REMOTE_MAX_LABELS],
                                                size_t *ret_n);
void remote_decoder_series_finish(struct remote_decoder_series *s);
void remote_sort_labels(struct metrics_label *labels, size_t n);
// For qsort: by time.
int remote_compare_exemplars(const void *a, const void *b);

// --- requests ---

#define REMOTE_MAX_DECODED     ((size_t)32 << 20) // bytes of a request, as in Prometheus
#define REMOTE_MAX_IN_PROGRESS ((size_t)64 << 20) // bytes of all requests
#define REMOTE_MAX_ERRORS      20                 // in a reply
#define REMOTE_MAX_EXEMPLARS   ((size_t)10000)    // of a series or an OTLP point in a request

struct remote_otlp_settings;

struct remote_receiver {
    struct tsdb *db;
    unsigned messages;
    int64_t retention_ms, lookback_ms;
    struct remote_otlp_settings *otlp; // NULL: the defaults
    size_t in_progress;                // decoded bytes
    int64_t logged_ns;                 // 0: never
    uint64_t unlogged;                 // requests with refused samples since then
    uint64_t samples, refused, invalid_labels, without_metadata, histograms, exemplars;
};

// A request in progress.
struct remote_incoming {
    struct remote_receiver *r;
    const struct remote_receiver_request *q;
    struct remote_receiver_reply *reply;
    struct remote_decoder decoder;
    struct remote_decoder_series series; // OTLP uses its labels
    bool v2;
    bool paused; // since the series was looked up
    int64_t now_ms;
    int64_t turn_ns;
    size_t n_errors, max_errors;
};

// Pauses after a turn. False: the request ends. arg: struct remote_incoming.
bool remote_incoming_go_on(void *arg);
// Adds an error to the reply, if it does not have max_errors.
void remote_incoming_refuse(struct remote_incoming *w, const char *fmt, ...) GS_PRINTF(2, 3);
// Logs, at most once per minute, that parts of the request are refused.
void remote_incoming_log(struct remote_receiver *r, const struct remote_incoming *w);
// Appends to the series with the labels w->series. *ref is kept between calls for this series;
// w->paused must be true before the first.
struct gs_error *remote_incoming_append(struct remote_incoming *w, tsdb_ref *ref, int64_t t_ms,
                                        double v);
// Adds an exemplar to the same series, with the same rules for *ref.
enum tsdb_exemplar_result remote_incoming_exemplar(struct remote_incoming *w, tsdb_ref *ref,
                                                   const struct tsdb_exemplar *e);
// {__name__="m", a="b"}; free the text.
char *remote_labels_text(const struct remote_decoder_series *s);
bool remote_labels_valid(const struct remote_decoder_series *s);
bool remote_within_limits(struct remote_incoming *w); // false: an error was added
void remote_reply(struct remote_receiver_reply *ret, int status, const char *fmt, ...)
    GS_PRINTF(3, 4);

// --- OTLP ---

void remote_otlp_settings_unref(struct remote_otlp_settings *s);

// ExportMetricsServiceRequest of opentelemetry/proto/collector/metrics/v1: numbers of fields.
enum {
    OTLP_RESOURCE_METRICS = 1,
    OTLP_RESOURCE = 1,
    OTLP_SCOPE_METRICS = 2,
    OTLP_RESOURCE_ATTRIBUTES = 1,
    OTLP_SCOPE = 1,
    OTLP_METRICS = 2,
    OTLP_SCHEMA_URL = 3,
    OTLP_SCOPE_NAME = 1,
    OTLP_SCOPE_VERSION = 2,
    OTLP_SCOPE_ATTRIBUTES = 3,
    OTLP_METRIC_NAME = 1,
    OTLP_METRIC_UNIT = 3,
    OTLP_GAUGE = 5,
    OTLP_SUM = 7,
    OTLP_HISTOGRAM = 9,
    OTLP_EXPONENTIAL = 10,
    OTLP_SUMMARY = 11,
    OTLP_POINTS = 1,
    OTLP_TEMPORALITY = 2,
    OTLP_MONOTONIC = 3,
    OTLP_POINT_TIME = 3,
    OTLP_NUMBER_DOUBLE = 4,
    OTLP_NUMBER_EXEMPLARS = 5,
    OTLP_NUMBER_INT = 6,
    OTLP_NUMBER_ATTRIBUTES = 7,
    OTLP_NUMBER_FLAGS = 8,
    OTLP_HISTOGRAM_COUNT = 4,
    OTLP_HISTOGRAM_SUM = 5,
    OTLP_HISTOGRAM_COUNTS = 6,
    OTLP_HISTOGRAM_BOUNDS = 7,
    OTLP_HISTOGRAM_EXEMPLARS = 8,
    OTLP_HISTOGRAM_ATTRIBUTES = 9,
    OTLP_HISTOGRAM_FLAGS = 10,
    OTLP_SUMMARY_COUNT = 4,
    OTLP_SUMMARY_SUM = 5,
    OTLP_SUMMARY_QUANTILES = 6,
    OTLP_SUMMARY_ATTRIBUTES = 7,
    OTLP_SUMMARY_FLAGS = 8,
    OTLP_QUANTILE = 1,
    OTLP_QUANTILE_VALUE = 2,
    OTLP_EXEMPLAR_TIME = 2,
    OTLP_EXEMPLAR_DOUBLE = 3,
    OTLP_EXEMPLAR_SPAN = 4,
    OTLP_EXEMPLAR_TRACE = 5,
    OTLP_EXEMPLAR_INT = 6,
    OTLP_EXEMPLAR_ATTRIBUTES = 7,
    OTLP_KEY = 1,
    OTLP_VALUE = 2,
    OTLP_STRING = 1,
    OTLP_BOOL = 2,
    OTLP_INT = 3,
    OTLP_DOUBLE = 4,
    OTLP_ARRAY = 5,
    OTLP_MAP = 6,
    OTLP_BYTES = 7,
    OTLP_ITEMS = 1, // of arrays and maps
};
#define REMOTE_OTLP_CUMULATIVE 2
#define REMOTE_OTLP_NO_VALUE   1u // flag of a point
#define REMOTE_OTLP_MAX_DEPTH  64 // of messages

// Checks the whole message. After that its fields have the right types. GS_EPROTO: malformed.
// GS_ECONFLICT: go_on returned false.
struct gs_error *remote_otlp_check(struct gs_slice message, bool (*go_on)(void *arg), void *arg);
// Converts the message from JSON. The result is not larger than max (GS_ELIMIT). Unknown members
// are skipped.
struct gs_error *remote_otlp_of_json(struct gs_slice json, size_t max, bool (*go_on)(void *arg),
                                     void *arg, struct gs_buf *ret);

enum remote_otlp_kind {
    REMOTE_OTLP_OTHER,
    REMOTE_OTLP_GAUGE,
    REMOTE_OTLP_COUNTER, // a monotonic sum
};
// Append the name of a metric or a label, as otlptranslator of Prometheus. GS_EINVAL: it has none.
struct gs_error *remote_otlp_metric_name(const struct engine_config_otlp *o, struct gs_slice name,
                                         struct gs_slice unit, enum remote_otlp_kind kind,
                                         struct gs_buf *out);
struct gs_error *remote_otlp_label_name(const struct engine_config_otlp *o, struct gs_slice name,
                                        struct gs_buf *out);
// Appends an AnyValue of a checked message as text: strings as they are, arrays and maps as JSON.
void remote_otlp_add_value(struct gs_buf *out, struct gs_slice value);
// A bound or quantile: without an exponent.
void remote_otlp_add_number(struct gs_buf *out, double v);

// A copy, because a request can outlast a configuration.
struct remote_otlp_settings {
    size_t refs;
    struct engine_config_otlp o;
    const char *names[];
};

#define REMOTE_OTLP_ARENA ((size_t)4 << 20) // names and values of a point, a resource and a scope

struct remote_attribute {
    struct gs_slice key, value; // value: an AnyValue
};

struct remote_attributes {
    struct remote_attribute items[REMOTE_MAX_LABELS];
    size_t n; // may be more
};

struct remote_label_set {
    struct metrics_label items[REMOTE_MAX_LABELS];
    size_t n;
    bool full;
};

// A request in progress.
struct remote_otlp {
    struct remote_incoming w;
    struct remote_otlp_settings *settings;
    struct gs_arena arena, scope_arena; // of the labels of a point, of the resource and scope
    struct remote_attributes resource, scope, point;
    struct remote_label_set identity, resource_labels, scope_labels; // identity: job and instance
    struct remote_label_set base;                                    // of a point, without its name
    struct gs_buf name;                                              // of the metric
    struct gs_buf series_name, number; // of the last sample, used by w.series
    struct gs_buf counts, bounds;
    struct remote_decoder_exemplar *exemplars; // of the point; message: an Exemplar
    size_t n_exemplars, exemplars_cap;
    struct gs_arena exemplar_arena; // of the labels of an exemplar
    struct remote_label_set exemplar_labels;
    size_t n_target_info, steps;
    uint64_t min_time, max_time; // of the points of the resource
    uint64_t rejected;           // points of exponential histograms
    bool storage_error;          // the status is 400, otherwise 500
    bool stopped;
};

// Fields of a message that has been checked. They pause from time to time. next: false: there is
// none, or the request has ended (x->stopped).
bool remote_otlp_next(struct remote_otlp *x, struct gs_slice *message,
                      struct codec_proto_token *ret);
struct gs_slice remote_otlp_field_of(struct remote_otlp *x, struct gs_slice message,
                                     unsigned number); // the last
uint64_t remote_otlp_bits_of(struct gs_slice bytes);   // of a number of 64 bits
double remote_otlp_double_of(struct gs_slice bytes);

void remote_otlp_read_attributes(struct remote_otlp *x, struct gs_slice message, unsigned number,
                                 struct remote_attributes *ret);
const struct remote_attribute *remote_otlp_find_attribute(const struct remote_attributes *a,
                                                          const char *key);
struct gs_slice *remote_otlp_get_label(struct remote_label_set *s, struct gs_slice name);
// An empty value removes the label.
void remote_otlp_set_label(struct remote_label_set *s, struct gs_slice name, struct gs_slice value);
// Adds labels. keep_old: labels that are there stay.
void remote_otlp_merge(struct remote_label_set *into, const struct remote_label_set *from,
                       bool keep_old);
// The text of an AnyValue, in the arena. GS_ELIMIT: too long.
struct gs_error *remote_otlp_value(struct gs_arena *a, struct gs_slice value, struct gs_slice *ret);
// The labels of attributes of a point, or of the resource for target_info. ignored ends with NULL.
// GS_ELIMIT: too many. GS_EINVAL: a key has no name.
struct gs_error *remote_otlp_attribute_labels(struct remote_otlp *x, struct remote_attributes *a,
                                              const char *const *ignored,
                                              struct remote_label_set *ret);
// Read the labels that all points of a resource or a scope have.
struct gs_error *remote_otlp_read_resource(struct remote_otlp *x, struct gs_slice message);
struct gs_error *remote_otlp_read_scope(struct remote_otlp *x, struct gs_slice scope_metrics);

// --- exemplars of OTLP ---
// Those of one point at a time, at most REMOTE_MAX_EXEMPLARS. What is not stored is counted.

void remote_otlp_exemplars_clear(struct remote_otlp *x);
void remote_otlp_exemplars_collect(struct remote_otlp *x, struct gs_slice message);
// By value, for histograms.
void remote_otlp_exemplars_sort(struct remote_otlp *x);
// The index of the first exemplar from from on with a value above the bound, after sorting.
size_t remote_otlp_exemplars_up_to(const struct remote_otlp *x, size_t from, double bound);
// Stores [from, to) for the series of the last sample. Overwrites x->point.
void remote_otlp_exemplars_store(struct remote_otlp *x, size_t from, size_t to);
