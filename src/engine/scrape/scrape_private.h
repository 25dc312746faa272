// SPDX-License-Identifier: Apache-2.0
// Between the files of this module.
#pragma once

#include "engine/config/config.h"
#include "engine/discovery/discovery.h"
#include "engine/scrape/scrape.h"
#include "net/http/client.h"

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

// --- shared use of the loop ---
//
// Tasks share the event loop's thread: a task that ingests a large page runs on a stack of its own
// and yields after some milliseconds.

struct scrape_scheduler;
struct gs_fiber;

// One piece of work; the owner's memory, zero before the first use.
struct scrape_task {
    void (*run)(void *arg);
    void (*done)(void *arg); // run has returned; not called by scrape_task_cancel()
    void *arg;

    // private
    struct scrape_scheduler *scheduler;
    struct gs_fiber *fiber; // NULL: nothing is under way
    int64_t begun_ns;       // of this time slice
    bool canceled;
    TAILQ_ENTRY(scrape_task) link;
};

struct scrape_scheduler *scrape_scheduler_new(uv_loop_t *loop);
void scrape_scheduler_free(struct scrape_scheduler *s); // when nothing is under way
// Runs it up to its first pause, or to its end. Without memory for a stack: to its end.
void scrape_scheduler_start(struct scrape_scheduler *s, struct scrape_task *t);
// From run alone, now and then: after some milliseconds it lets the loop go on. False: end.
bool scrape_task_yield(struct scrape_task *t);
// Lets run come to its end at once. Nothing happens when nothing is under way.
void scrape_task_cancel(struct scrape_task *t);

// --- labels of samples ---
//
// The labels of a scraped sample in the store.

struct scrape_sample_target {
    struct metrics_label *items;
    size_t n;
};

// Scraped labels (with __name__) and the target's, into b: with honor_labels the scraped ones win,
// else they go to exported_… .
void scrape_sample_labels_merge(const struct scrape_sample_target *target, bool honor_labels,
                                const struct metrics_label *scraped, size_t n,
                                struct engine_config_label_builder *b);
// label_limit, label_name_length_limit, label_value_length_limit, and that there is a name.
struct gs_error *scrape_sample_labels_check(const struct engine_config_scrape_config *cfg,
                                            const struct engine_config_label_builder *b);

// --- samples with timestamps ---
//
// Samples with timestamps of their own. They stay outside of the target's group, so their series do
// not end by themselves: with track_timestamps_staleness those end that are not seen any more.
//

struct scrape_timestamped_series {
    tsdb_ref ref;
    uint64_t id; // of its labels: a number may become another series'
};

// Ascending, each once, when it is of a scrape that has ended.
struct scrape_timestamped_set {
    struct scrape_timestamped_series *items;
    size_t n, cap;
};
void scrape_timestamped_set_finish(struct scrape_timestamped_set *s);

struct scrape_timestamped_sample {
    tsdb_ref ref;
    bool is_new; // the series, to the target
    int64_t t_ms;
    double value;
};

// Of a scrape under way.
struct scrape_timestamped_scrape {
    struct scrape_timestamped_sample *samples;
    size_t n, cap;
    struct scrape_timestamped_set seen;
};
void scrape_timestamped_scrape_finish(struct scrape_timestamped_scrape *p);

void scrape_timestamped_add(struct scrape_timestamped_scrape *p,
                            const struct scrape_timestamped_sample *s);
// A series that goes on without timestamps: no marker is to end it.
void scrape_timestamped_mark_seen(struct scrape_timestamped_scrape *p, const struct tsdb *db,
                                  tsdb_ref ref);
// Into the store; what it refuses is counted. track: the series that have got one are seen.
void scrape_timestamped_append(struct scrape_timestamped_scrape *p, struct tsdb *db, bool track,
                               struct scrape_ingest_counts *counts);
// Series of the scrape before that this one (NULL: none) has not seen end with a marker at t_ms;
// the set becomes this one's.
void scrape_timestamped_end_missing(struct scrape_timestamped_set *before,
                                    struct scrape_timestamped_scrape *p, struct tsdb *db,
                                    int64_t t_ms);

// --- target ---
//
// One target: its labels, and its scrape loop.

// What discovery and relabelling make of a discovered target.
struct scrape_target_spec {
    struct metrics_label *discovered; // before relabelling; copies in `arena`
    size_t n_discovered;
    struct metrics_label *labels; // of its series: without __…
    size_t n_labels;
    const char *invalid;     // why there is no such target; then there is none of what follows
    const char *url, *error; // error: why it cannot be scraped
    int64_t interval_ms, timeout_ms;
    bool dropped;
    uint64_t key; // equal for equal targets: labels, url, interval, timeout
};

// group: labels of the group; target: its own, which win. Everything in *ret lives in the arena.
void scrape_target_resolve(const struct engine_config_scrape_config *cfg,
                           const struct metrics_label *group, size_t n_group,
                           const struct metrics_label *target, size_t n_target,
                           struct gs_arena *arena, struct scrape_target_spec *ret);

struct scrape_target;

struct scrape_target_state {
    bool scraped, up;
    int64_t last_ms; // unix; of the last scrape
    double duration_s;
    const char *error; // NULL when up
    uint64_t scrapes;
};

struct scrape_target_hooks {
    void (*scraped)(void *arg); // after each scrape
    void *arg;
    struct scrape_scheduler *scheduler; // for large pages; borrowed. NULL: they are read in one go
};

// cfg and client are borrowed; spec is copied. The first scrape comes within the interval, at an
// offset that the target's key gives.
struct scrape_target *scrape_target_new(uv_loop_t *loop, struct tsdb *db,
                                        const struct engine_config_scrape_config *cfg,
                                        struct http_client *client,
                                        const struct scrape_target_spec *spec,
                                        const struct scrape_target_hooks *hooks);
// The same target under a new configuration.
void scrape_target_reconfigure(struct scrape_target *t,
                               const struct engine_config_scrape_config *cfg,
                               struct http_client *client);
// Scrapes fail with this text, nothing is sent; NULL: they go on.
void scrape_target_refuse(struct scrape_target *t, const char *why);
// end: its series end with staleness markers. The memory goes when the loop has closed its timer.
void scrape_target_free(struct scrape_target *t, bool end);
const struct scrape_target_spec *scrape_target_spec(const struct scrape_target *t);
void scrape_target_state(const struct scrape_target *t, struct scrape_target_state *ret);
const struct scrape_ingest *scrape_target_ingest(const struct scrape_target *t);

// --- job ---
//
// One scrape config: its discovery, its targets.

#define SCRAPE_JOB_MAX_DROPPED 1000 // kept to be shown
// libcurl looks through all connections of a client for each request: the targets share several.
#define SCRAPE_JOB_CLIENTS 16

struct scrape_job {
    uv_loop_t *loop;
    struct tsdb *db;
    const struct engine_config_scrape_config *cfg;
    struct http_client
        *clients[SCRAPE_JOB_CLIENTS]; // made when a target needs it; the first one at once
    struct endpoint_tokens *tokens;   // of all clients; NULL: none are needed
    char *error; // why the job cannot run (a certificate that cannot be read …), NULL
    struct scrape_target_hooks hooks;
    struct scrape_job_provider **providers;
    size_t n_providers;
    // Discovery of the configuration before, ended: its groups count until the new one has spoken.
    struct scrape_job_provider **leavers;
    size_t n_leavers;
    struct gs_hmap *targets; // 8 bytes of the key -> struct scrape_target
    struct gs_arena dropped_arena;
    struct scrape_target_spec *dropped; // up to SCRAPE_JOB_MAX_DROPPED
    size_t n_dropped, n_dropped_kept, dropped_cap;
    size_t n_invalid;
    char *invalid; // what was told last of such a target
};

struct scrape_job *scrape_job_new(const struct discovery_context *ctx, struct tsdb *db,
                                  const struct engine_config_scrape_config *cfg,
                                  const struct scrape_target_hooks *hooks, struct scrape_job *old);
size_t scrape_job_discovered(const struct scrape_job *j); // targets before relabelling
void scrape_job_free(struct scrape_job *j, bool end);

// --- manager ---
//
// Between the manager and its views.

struct scrape_set { // the configuration's jobs, or a named set beside it
    char *name;     // NULL: the configuration's
    struct scrape_job **jobs;
    size_t n;
    struct scrape_set *next;
};

struct scrape_manager {
    struct tsdb *db;
    struct discovery_context discovery;
    struct scrape_set *sets;
    struct scrape_scheduler *scheduler;
    void (*on_scrape)(void *arg);
    void *on_scrape_arg;
    uint64_t scrapes;
};
