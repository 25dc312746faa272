// SPDX-License-Identifier: Apache-2.0
// Answers remote reads with samples (prometheus.ReadRequest and ReadResponse of
// https://prometheus.io/docs/prometheus/latest/querying/remote_read_api/). Chunks are not streamed:
// clients that accept nothing else are refused.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "metrics/labels.h"
#include "tsdb/tsdb.h"

struct remote_read_options {
    struct tsdb *db;
    // Sorted. Matchers of them are ignored, and series without such a label get it.
    const struct metrics_label *external_labels;
    size_t n_external_labels;
    // Called after each few milliseconds of work; others may use the store meanwhile. False: the
    // client has disconnected. NULL: the request runs to its end.
    bool (*go_on)(void *arg);
    void *arg;
};

// body: compressed with Snappy; it may be gone after go_on. *ret: the compressed response.
// GS_EINVAL: the request is wrong. GS_ELIMIT: it has too many parts or samples. GS_ECONFLICT: go_on
// returned false.
struct gs_error *remote_read(const struct remote_read_options *o, struct gs_slice body,
                             struct gs_buf *ret);
