// SPDX-License-Identifier: Apache-2.0
// Reports which metrics have changed, so that an autoscaler reads a value when it arrives and not
// at the next period. The queries of answered requests are evaluated again, in this process, after
// each scrape; a result that differs from the reported one becomes an event of all open streams.
// Nothing is kept or evaluated while no stream is open.
//
// All functions are called on the thread of the loop.
#pragma once

#include "adapter/source/source.h"
#include "base/buf.h"
#include "net/http/http.h"

#include <uv.h>

struct metric_changes;

// The last segment of the paths of the stream: /apis/custom.metrics.k8s.io/v1beta1/changes?watch=1
// and /apis/custom.metrics.k8s.io/v1beta1/namespaces/NS/changes?watch=1
#define METRIC_CHANGES_RESOURCE "changes"

// on_change: values that are cached for requests are outdated; called before an event is sent. May
// be NULL.
struct metric_changes *metric_changes_new(uv_loop_t *loop, void (*on_change)(void *arg), void *arg);
// Ends the streams. Accepts NULL.
void metric_changes_free(struct metric_changes *c);

// What a request was answered with. Texts are copied.
struct metric_changes_answer {
    const char *ns;             // NULL: root-scoped
    const char *resource;       // "pods"; NULL: an external metric
    const char *name;           // of the object, or "*"; NULL: an external metric
    const char *metric;         // its name in the API
    const char *label_selector; // for objects; NULL: all
    const char *selector;       // for series; NULL: all
    const char *query;          // of the source
    struct source *source;      // in this process; outlives the object
    double sum;                 // of the values
    size_t n;                   // values
};
// Remembers the request, for an hour after its last answer, and of at most 1024 requests.
void metric_changes_answered(struct metric_changes *c, const struct metric_changes_answer *a);
// The sources have new samples.
void metric_changes_new_samples(struct metric_changes *c);

// Answers with a stream of watch events, one JSON object per line:
//   {"type":"MODIFIED","object":{"kind":"MetricChange","apiVersion":"custom.metrics.k8s.io/v1beta1",
//    "metadata":{"namespace":NS},"resource":"pods","name":"*","metric":M,"selector":S,
//    "sum":90,"items":1}}
// sum and items: of the values of the result. resource and name are absent for external metrics.
// Every 30 s, an event of the type BOOKMARK proves that the stream works. ns: only its metrics;
// NULL: all.
void metric_changes_open(struct metric_changes *c, struct http_exchange *x, const char *ns);

// --- followers in this process ---
//
// A query that is evaluated after each scrape, too, without a stream. There is no limit of their
// number: that of the callers counts.

struct metric_changes_follower;
// The result of the first evaluation, and each that differs from the previous one. sum: of its
// finite values; n: their number. The function may free the follower.
typedef void (*metric_changes_fn)(void *arg, double sum, size_t n);
// The query is copied. source: in this process; outlives the follower.
struct metric_changes_follower *metric_changes_follow(struct metric_changes *c,
                                                      struct source *source, const char *query,
                                                      metric_changes_fn fn, void *arg);
// Accepts NULL. All followers are freed before the object.
void metric_changes_unfollow(struct metric_changes_follower *f);

// Appends the metrics of the object in the text format.
void metric_changes_write_metrics(const struct metric_changes *c, struct gs_buf *out);
