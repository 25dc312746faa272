// SPDX-License-Identifier: Apache-2.0
// Shared by the files of src/adapter/metric_changes only.
#pragma once

#include "adapter/metric_changes/metric_changes.h"
#include "base/hmap.h"
#include "base/timer.h"

#include <sys/queue.h>

struct metric_changes_stream;
TAILQ_HEAD(metric_changes_requests, metric_changes_follower);

struct metric_changes {
    uv_loop_t *loop;
    void (*on_change)(void *arg);
    void *arg;
    struct gs_hmap *by_key;
    struct metric_changes_requests watched; // the least recently answered first
    struct metric_changes_requests followers;
    struct gs_buf key; // scratch
    // The round: queries of all watched requests and followers. next: the first that has not been
    // started.
    struct gs_timer *round;
    struct metric_changes_follower *next;
    size_t n_pending;
    bool running, again;                           // again: samples arrived during the round
    int64_t round_ns, round_cpu_ns, next_round_ns; // gs_mono_ns(), gs_thread_cpu_ns()
    struct metric_changes_stream *streams;
    size_t n_streams;
    struct gs_timer *alive;
    uint64_t n_queries, n_events;
};

// --- metric_changes.c ---
void metric_changes_forget(struct metric_changes *c); // all requests

// --- stream.c ---
// ns: of the metric; NULL: for all streams.
void metric_changes_send(struct metric_changes *c, const char *ns, const char *event);
void metric_changes_end_streams(struct metric_changes *c);
