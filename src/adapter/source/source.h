// SPDX-License-Identifier: Apache-2.0
// A source answers instant queries and lists of series. It is a Prometheus-compatible server
// (https://prometheus.io/docs/prometheus/latest/querying/api/) or the engine in this process. All
// functions run on the thread of its loop. No function calls a callback before it returns.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "metrics/labels.h"
#include "net/endpoint/endpoint.h"

#include <stdint.h>
#include <uv.h>

struct source;

// --- instant queries ---

struct source_sample {
    const struct metrics_label *labels; // in the order of the response
    size_t n_labels;
    double value;
    int64_t t_ms;
};

// Returns the value of a label, or "" if the sample does not have it. A view of the sample.
struct gs_slice source_sample_label(const struct source_sample *s, struct gs_slice name);

enum source_type { SOURCE_VECTOR, SOURCE_SCALAR, SOURCE_MATRIX, SOURCE_STRING };

// Immutable and reference-counted: equal queries share one.
struct source_result {
    unsigned refs; // private
    struct gs_arena arena;
    char *text; // private: storage of the strings
    enum source_type type;
    const struct source_sample *samples; // vectors and scalars only
    size_t n;
    int64_t until_ns; // gs_mono_ns() until which it is shared; 0: not shared
};
struct source_result *source_result_ref(struct source_result *r);
void source_result_unref(struct source_result *r);

// r: borrowed; NULL with an error (owned by the callee). Error codes: GS_EUNAVAIL the server cannot
// be reached, GS_ETIMEOUT, GS_EINVAL the server rejects the query, GS_EPROTO the response is not
// one of Prometheus, GS_EPERM status 401 or 403, others: the server fails.
typedef void (*source_vector_fn)(void *arg, struct source_result *r, struct gs_error *err);

struct source_op;
// time_ms: Unix time of the query; 0: now.
struct source_op *source_query(struct source *s, const char *promql, int64_t time_ms,
                               source_vector_fn cb, void *arg);

// --- series ---

// A shape is the set of series with the same metric name and the same label names.
struct source_shape {
    struct gs_slice name;
    const struct gs_slice *labels; // label names without __name__, sorted
    size_t n_labels;
    size_t series;    // number of series
    size_t last_seen; // position of its last series in the list; the later shape wins a name
    // The selector finds these series under another name, too: a list of metrics need not have
    // this one.
    bool alias;
};
struct source_shapes {
    struct gs_arena arena;
    struct source_shape *items;
    size_t n;
    size_t series;
};
void source_shapes_free(struct source_shapes *s);
void source_shapes_sort(struct source_shapes *s); // by name

// The callee owns shapes.
typedef void (*source_shapes_fn)(void *arg, struct source_shapes *shapes, struct gs_error *err);
// Lists series that match the selector and have samples since start_ms (Unix time).
struct source_op *source_series(struct source *s, const char *selector, int64_t start_ms,
                                source_shapes_fn cb, void *arg);
// Lists only the names of these series: a shape for each name, sorted, without labels. It is much
// cheaper for a remote server.
struct source_op *source_names(struct source *s, const char *selector, int64_t start_ms,
                               source_shapes_fn cb, void *arg);

// --- aliases ---

// With aliases, queries and lists also use the series of the other names of GPU metrics
// (aliases/aliases.h). Which names the source has is known from its lists of series. Off at first.
void source_set_aliases(struct source *s, bool wanted);
// The query that is sent in place of this one, and which names it reads, as aliases_read() reports
// them. Empty: it is sent as it is.
void source_aliased_query(const struct source *s, const char *promql, struct gs_buf *ret_query,
                          struct gs_buf *ret_notes);

// --- metadata ---

// type: "counter", "gauge", …; NULL: the source does not know it. Valid during the call. The callee
// owns err.
typedef void (*source_type_fn)(void *arg, const char *type, struct gs_error *err);
// Reads the type of a metric as its targets state it. It is not shared.
struct source_op *source_type_of(struct source *s, const char *metric, source_type_fn cb,
                                 void *arg);

void source_cancel(struct source_op *op); // no callback afterwards; NULL is fine

// --- creating sources ---

struct source_options {
    const char *url;
    struct endpoint_settings endpoint;
    bool post;          // send queries by POST; long queries are always posted
    int64_t timeout_ms; // of queries; 0: 30 s
    int64_t max_age_ms; // how long a response is shared; 0: only while it is pending
};
struct gs_error *source_new_remote(uv_loop_t *loop, const struct source_options *o,
                                   struct source **ret);

// Uses a borrowed client. prefix: the start of request paths.
struct source *source_new_client(uv_loop_t *loop, struct http_client *client, const char *prefix,
                                 const struct source_options *o);
// Frees expired responses. Call it every few seconds.
void source_forget_old(struct source *s);
// Frees all responses that are shared: there are newer samples.
void source_expire(struct source *s);
void source_free(struct source *s); // cancels all calls

// Returns the source with the index that rules have (adapter_config_rule.source): 0 is the default
// source.
static inline struct source *source_pick(struct source *first, struct source *const *extra_sources,
                                         size_t i)
{
    return i ? extra_sources[i - 1] : first;
}

// Returns a number that changes with the set of series. 0: unknown, as for all remote servers.
uint64_t source_series_version(const struct source *s);
bool source_is_near(const struct source *s);     // true: it is in this process
const char *source_name(const struct source *s); // URL without secrets, for messages

struct source_stats {
    uint64_t queries, failures, shared; // sent; failed; served from a shared response
    int64_t last_ok_ms;                 // Unix time of the last successful response; 0: none yet
    int64_t last_ok_ns;                 // the same time as gs_mono_ns()
    const char *last_error;             // of the last call; NULL: it succeeded
    double seconds;                     // total duration of all calls
};
void source_stats(const struct source *s, struct source_stats *ret);

// --- backend ---
//
// A backend executes the calls of a source: over a server's HTTP API (remote.c), or in the engine
// of this process. The source itself shares responses and keeps statistics.

struct source_backend;

// Called once, in a later turn of the loop, unless the call is cancelled. The callee owns r and
// err. Errors name the server; the codes are those of source_vector_fn.
typedef void (*source_backend_result_fn)(void *arg, struct source_result *r, struct gs_error *err);

struct source_backend_ops {
    const char *(*name)(const struct source_backend *b); // for messages
    // Returns a handle for cancel. It is valid until the callback.
    void *(*query)(struct source_backend *b, const char *promql, int64_t time_ms,
                   source_backend_result_fn done, void *arg);
    void *(*series)(struct source_backend *b, const char *selector, int64_t start_ms,
                    source_shapes_fn done, void *arg);
    void *(*names)(struct source_backend *b, const char *selector, int64_t start_ms,
                   source_shapes_fn done, void *arg); // see source_names()
    // See source_type_of(). NULL: types are unknown, and source_type_of() is not called.
    void *(*type)(struct source_backend *b, const char *metric, source_type_fn done, void *arg);
    void (*cancel)(struct source_backend *b, void *call);
    void (*free)(struct source_backend *b); // after all calls have ended
    // See source_series_version(). NULL: unknown.
    uint64_t (*series_version)(const struct source_backend *b);
};

struct source_backend {
    const struct source_backend_ops *ops;
    bool near; // true: in this process
};

// Takes ownership of the backend.
struct source *source_new(uv_loop_t *loop, struct source_backend *backend, int64_t max_age_ms);

// --- probe ---
//
// Checks a source: it sends a query that needs no series every few seconds, so that it detects a
// source that fails or hangs even if no other calls are sent.

struct source_probe;

struct source_probe_options {
    struct source *source; // borrowed; freed after the probe
    int64_t period_ms;     // interval of queries; 0: 5 s
    int64_t timeout_ms;    // of one query; 0: 5 s
    int64_t silence_ms;    // maximum time without a successful response; 0: 30 s
};

// Sends the first query.
struct source_probe *source_probe_new(uv_loop_t *loop, const struct source_probe_options *o);
void source_probe_free(struct source_probe *p);
// Returns why the source counts as down: it has never responded, or no query has succeeded for
// silence_ms. NULL: it is up. Valid until the next call.
const char *source_probe_wrong(struct source_probe *p);
