// SPDX-License-Identifier: Apache-2.0
// What answers the questions of a source: a server's HTTP API (remote.c), or the engine in this
// process. Sharing, ages and statistics are the source's.
#pragma once

#include "adapter/source/source.h"

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
