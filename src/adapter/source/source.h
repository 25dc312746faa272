// SPDX-License-Identifier: Apache-2.0
// Where the adapter's numbers come from: instant queries and lists of series, asked of a
// Prometheus-compatible server or of the engine in this process. Everything runs on one loop; no
// callback is called from inside the function that it was given to.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "metrics/labels.h"
#include "net/endpoint/endpoint.h"

#include <stdint.h>
#include <uv.h>

struct source;

// --- instant queries ---

struct source_sample {
    const struct metrics_label *labels; // in the order of the answer
    size_t n_labels;
    double value;
    int64_t t_ms;
};

// The value of a label; "" if the sample has none of this name. A view of the sample.
struct gs_slice source_sample_label(const struct source_sample *s, struct gs_slice name);

enum source_type { SOURCE_VECTOR, SOURCE_SCALAR, SOURCE_MATRIX, SOURCE_STRING };

// Immutable and counted: waiting requests share one.
struct source_result {
    unsigned refs; // private
    struct gs_arena arena;
    char *text; // private: the answer that the strings point into
    enum source_type type;
    const struct source_sample *samples; // of vectors and scalars
    size_t n;
    int64_t until_ns; // gs_mono_ns() up to which others that ask are given it; 0: nobody is
};
struct source_result *source_result_ref(struct source_result *r);
void source_result_unref(struct source_result *r);

// Borrowed result, NULL with an error (owned by the callee). Codes: GS_EUNAVAIL not reached,
// GS_ETIMEOUT, GS_EINVAL the server calls the query wrong, GS_EPROTO not Prometheus' protocol,
// GS_EPERM 401 and 403, else the server's failure.
typedef void (*source_vector_fn)(void *arg, struct source_result *r, struct gs_error *err);

struct source_op;
// time_ms 0: now.
struct source_op *source_query(struct source *s, const char *promql, int64_t time_ms,
                               source_vector_fn cb, void *arg);

// --- series ---

// Series with the same metric name and the same label names are one shape.
struct source_shape {
    struct gs_slice name;
    const struct gs_slice *labels; // names without __name__, sorted
    size_t n_labels;
    size_t series;    // how many
    size_t last_seen; // position of the last one among all: the later wins where names collide
};
struct source_shapes {
    struct gs_arena arena;
    struct source_shape *items;
    size_t n;
    size_t series;
};
void source_shapes_free(struct source_shapes *s);

// The callee owns shapes.
typedef void (*source_shapes_fn)(void *arg, struct source_shapes *shapes, struct gs_error *err);
// Series that match the selector and have samples since start_ms.
struct source_op *source_series(struct source *s, const char *selector, int64_t start_ms,
                                source_shapes_fn cb, void *arg);

void source_cancel(struct source_op *op); // no callback afterwards; NULL is fine

// --- kinds of sources ---

struct source_options {
    const char *url;
    struct endpoint_settings endpoint;
    bool post;          // the verb of queries; long ones are posted in any case
    int64_t timeout_ms; // of queries; 0: 30 s
    int64_t max_age_ms; // answers are shared for so long; 0: only while they are under way
};
struct gs_error *source_new_remote(uv_loop_t *loop, const struct source_options *o,
                                   struct source **ret);

// Over a client that somebody else owns (the loopback to an engine in this process).
struct source *source_new_client(uv_loop_t *loop, struct http_client *client, const char *prefix,
                                 const struct source_options *o);
void source_forget_old(struct source *s); // answers that are given to nobody any more; now and then
// Cancels what is under way.
void source_free(struct source *s);

// 0: first; else one of others: as rules name their sources (config.h).
static inline struct source *source_pick(struct source *first, struct source *const *others,
                                         size_t i)
{
    return i ? others[i - 1] : first;
}

// Another number when the set of series has changed; 0: not known (servers cannot be asked so
// often).
uint64_t source_series_version(const struct source *s);
bool source_is_near(const struct source *s);     // in this process
const char *source_name(const struct source *s); // its URL without secrets, for messages

struct source_stats {
    uint64_t queries, failures, shared; // asked of the server; failed; answered by another's answer
    int64_t last_ok_ms;                 // Unix time of the last good answer; 0: none yet
    int64_t last_ok_ns;                 // the same on gs_mono_ns(), which no set clock changes
    const char *last_error;             // of the last call; NULL: it was good
    double seconds;                     // waited for answers, in sum
};
void source_stats(const struct source *s, struct source_stats *ret);

// --- backend ---
//
// What answers the questions of a source: a server's HTTP API (remote.c), or the engine in this
// process. Sharing, ages and statistics are the source's.

struct source_backend;

// Told once, in a later turn of the loop, unless cancelled. The callee owns what it is given.
// Errors name who was asked; codes as those of source_vector_fn.
typedef void (*source_backend_result_fn)(void *arg, struct source_result *r, struct gs_error *err);

struct source_backend_ops {
    const char *(*name)(const struct source_backend *b); // for messages
    // The call's handle, for cancel; gone with the answer.
    void *(*query)(struct source_backend *b, const char *promql, int64_t time_ms,
                   source_backend_result_fn done, void *arg);
    void *(*series)(struct source_backend *b, const char *selector, int64_t start_ms,
                    source_shapes_fn done, void *arg);
    void (*cancel)(struct source_backend *b, void *call);
    void (*free)(struct source_backend *b); // nothing is under way
    // Another number when the set of series has changed. NULL: not known.
    uint64_t (*series_version)(const struct source_backend *b);
};

struct source_backend {
    const struct source_backend_ops *ops;
    bool near; // in this process
};

// Takes the backend.
struct source *source_new(uv_loop_t *loop, struct source_backend *backend, int64_t max_age_ms);

// --- probe ---
//
// Whether a source answers: a query that needs no series is sent every few seconds, so that a
// source that fails or hangs is noticed also when nothing else queries it.

struct source_probe;

struct source_probe_options {
    struct source *source; // borrowed; freed after the probe
    int64_t period_ms;     // between two queries; 0: 5 s
    int64_t timeout_ms;    // of one query; 0: 5 s
    int64_t silence_ms;    // how long a source may give no good answer; 0: 30 s
};

struct source_probe *
source_probe_new(uv_loop_t *loop, const struct source_probe_options *o); // the first query is sent
void source_probe_free(struct source_probe *p);
// Why the source counts as down: it has never answered, or has given no good answer to any query
// for silence_ms. NULL: it is up. Valid until the next call.
const char *source_probe_wrong(struct source_probe *p);
