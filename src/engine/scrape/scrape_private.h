// SPDX-License-Identifier: Apache-2.0
// Internals of this module.
#pragma once

#include "engine/config/config.h"
#include "engine/discovery/discovery.h"
#include "engine/scrape/scrape.h"
#include "engine/signals/signals.h"
#include "net/http/client.h"

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

// --- shared use of the loop ---
// Tasks share the thread of the event loop. A task that ingests a large page has its own stack and
// yields after some milliseconds.

struct scrape_scheduler;
struct gs_fiber;

// A unit of work. The owner allocates it, zeroed before the first use.
struct scrape_task {
    void (*run)(void *arg);
    void (*done)(void *arg); // run has returned; not called by scrape_task_cancel()
    void *arg;

    // private
    struct scrape_scheduler *scheduler;
    struct gs_fiber *fiber; // NULL: idle
    int64_t begun_ns;       // of this time slice
    bool canceled;
    TAILQ_ENTRY(scrape_task) link;
};

struct scrape_scheduler *scrape_scheduler_new(uv_loop_t *loop);
void scrape_scheduler_free(struct scrape_scheduler *s); // must be idle
// Runs it up to its first pause or its end. If no stack can be allocated, it runs to its end.
void scrape_scheduler_start(struct scrape_scheduler *s, struct scrape_task *t);
// Called regularly by run: yields to the loop after some milliseconds. Returns false if run must
// end.
bool scrape_task_yield(struct scrape_task *t);
// Ends run immediately. No effect if the task is idle.
void scrape_task_cancel(struct scrape_task *t);

// --- labels of samples ---
//
// The labels of a scraped sample in the store.

struct scrape_sample_target {
    struct metrics_label *items;
    size_t n;
};

// Merges scraped labels (with __name__) and target labels into b. With honor_labels the scraped
// ones win, otherwise they are renamed to exported_….
void scrape_sample_labels_merge(const struct scrape_sample_target *target, bool honor_labels,
                                const struct metrics_label *scraped, size_t n,
                                struct engine_config_label_builder *b);
// Checks label_limit, label_name_length_limit, label_value_length_limit and that a metric name
// exists.
struct gs_error *scrape_sample_labels_check(const struct engine_config_scrape_config *cfg,
                                            const struct engine_config_label_builder *b);

// --- series over a limit of one series ---

// Those of a scrape. Lines are cached, so a target has the same series among them once.
struct scrape_refused {
    size_t n;
    char *first; // its beginning, and why
};
void scrape_refused_add(struct scrape_refused *r, size_t n, struct gs_slice first, const char *why);
// Logs them, at most each minute (logged_ns: of the target), and frees the text.
void scrape_refused_finish(struct scrape_refused *r, const struct scrape_sample_target *target,
                           int64_t *logged_ns);

// --- samples with timestamps ---
// Samples with explicit timestamps. They are not part of the target's group, so their series do not
// end automatically. With track_timestamps_staleness, series that are no longer exposed end.
//

struct scrape_timestamped_series {
    tsdb_ref ref;
    uint64_t id; // of its labels: series numbers are reused
};

// Ascending and unique after the scrape has ended.
struct scrape_timestamped_set {
    struct scrape_timestamped_series *items;
    size_t n, cap;
};
void scrape_timestamped_set_finish(struct scrape_timestamped_set *s);

struct scrape_timestamped_sample {
    tsdb_ref ref;
    bool is_new;   // of the series within the target
    bool rejected; // by the store
    int64_t t_ms;
    double value;
};

// During a scrape.
struct scrape_timestamped_scrape {
    struct scrape_timestamped_sample *samples;
    size_t n, cap;
    struct scrape_timestamped_set seen;
};
void scrape_timestamped_scrape_finish(struct scrape_timestamped_scrape *p);

void scrape_timestamped_add(struct scrape_timestamped_scrape *p,
                            const struct scrape_timestamped_sample *s);
// Removes a series that continues without timestamps, so that no marker ends it.
void scrape_timestamped_mark_seen(struct scrape_timestamped_scrape *p, const struct tsdb *db,
                                  tsdb_ref ref);
// Appends the samples to the store and counts rejected ones. track: records their series as seen.
void scrape_timestamped_append(struct scrape_timestamped_scrape *p, struct tsdb *db, bool track,
                               struct scrape_ingest_counts *counts);
// Ends the series of the previous scrape that this one (NULL: none) has not seen with a marker at
// t_ms, then replaces the set.
void scrape_timestamped_end_missing(struct scrape_timestamped_set *before,
                                    struct scrape_timestamped_scrape *p, struct tsdb *db,
                                    int64_t t_ms);

// --- exemplars ---
// The exemplars of a scrape in progress. They are stored when its samples are.

struct scrape_exemplar {
    tsdb_ref ref;
    size_t timed;         // index + 1 of its sample among those with timestamps; 0: not one of them
    int64_t t_ms;         // of the sample
    struct gs_slice text; // in the body of the response
};

struct scrape_exemplars {
    struct scrape_exemplar *items;
    size_t n, cap;
};
void scrape_exemplars_finish(struct scrape_exemplars *x);
void scrape_exemplars_add(struct scrape_exemplars *x, const struct scrape_exemplar *e);
// Stores them, except those of rejected samples. r: has read the body. go_on: called regularly;
// false: the others are not stored. NULL: never called.
void scrape_exemplars_append(const struct scrape_exemplars *x,
                             const struct scrape_timestamped_scrape *timed,
                             struct metrics_reader *r, struct tsdb *db,
                             struct scrape_ingest_counts *counts, bool (*go_on)(void *arg),
                             void *arg);

// --- target ---
//
// One target: its labels, and its scrape loop.

// The result of discovery and relabelling for one target.
struct scrape_target_spec {
    struct metrics_label *discovered; // before relabelling; copies in `arena`
    size_t n_discovered;
    struct metrics_label *labels; // of its series, without __… labels
    size_t n_labels;
    const char *invalid;     // why the target is dropped; the following fields are then unset
    const char *url, *error; // error: why the target cannot be scraped
    const char *unix_socket; // connect here instead of to the address; NULL: none
    int64_t interval_ms, timeout_ms;
    bool dropped;
    uint64_t key; // equal for equal targets: labels, url, interval, timeout
};

// group: labels of the group; target: labels of the target, which take precedence. *ret is
// allocated in the arena.
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
    // for large pages; borrowed. NULL: they are read without pauses
    struct scrape_scheduler *scheduler;
    struct scrape_signals_shared *signals; // borrowed; NULL: not wanted
    void (*changed)(void *arg);                // the targets of a job have changed; may be NULL
    bool (*taken)(void *arg, const char *url); // by a job that does not yield; may be NULL
};

// cfg and client are borrowed; spec is copied. The first scrape starts within one interval, at an
// offset that is derived from the key of the target.
struct scrape_target *scrape_target_new(uv_loop_t *loop, struct tsdb *db,
                                        const struct engine_config_scrape_config *cfg,
                                        struct http_client *client,
                                        const struct scrape_target_spec *spec,
                                        const struct scrape_target_hooks *hooks);
// Applies a new configuration to the same target.
void scrape_target_reconfigure(struct scrape_target *t,
                               const struct engine_config_scrape_config *cfg,
                               struct http_client *client);
// Makes scrapes fail with this text without a request; NULL: scrapes continue.
void scrape_target_refuse(struct scrape_target *t, const char *why);
// end: ends its series with staleness markers. The memory is freed after the loop has closed the
// timer.
void scrape_target_free(struct scrape_target *t, bool end);
const struct scrape_target_spec *scrape_target_spec(const struct scrape_target *t);
void scrape_target_state(const struct scrape_target *t, struct scrape_target_state *ret);
const struct scrape_ingest *scrape_target_ingest(const struct scrape_target *t);
// NULL: the target is not a pod.
struct scrape_signals *scrape_target_signals(const struct scrape_target *t);

// --- signals of inference engines ---
// Signals of a target that is a pod (engine/signals/signals.h), stored after each scrape.

struct scrape_signals_shared; // of all targets
struct scrape_signals;        // of one target

// table: borrowed.
struct scrape_signals_shared *scrape_signals_shared_new(struct tsdb *db,
                                                        const struct signals_table *table);
void scrape_signals_shared_free(struct scrape_signals_shared *s);
// NULL: the target is not a pod, or shared is NULL.
struct scrape_signals *scrape_signals_new(struct scrape_signals_shared *shared,
                                          const struct scrape_target_spec *spec);
void scrape_signals_free(struct scrape_signals *s); // without ending its series
struct signals_page *scrape_signals_page(const struct scrape_signals *s); // s may be NULL
void scrape_signals_pod(const struct scrape_signals *s, const char **ret_ns, const char **ret_pod);
// Stores what the page has. t_ms: of the scrape.
void scrape_signals_store(struct scrape_signals *s, int64_t t_ms);
void scrape_signals_failed(struct scrape_signals *s, int64_t t_ms); // the series end
void scrape_signals_end(struct scrape_signals *s, int64_t t_ms);    // of a removed target

// --- job ---
// One scrape config with its discovery and targets.

#define SCRAPE_JOB_MAX_DROPPED 1000 // kept for the API
// libcurl searches all connections of a client for each request, so the targets share several
// clients.
#define SCRAPE_JOB_CLIENTS 16

struct scrape_job {
    uv_loop_t *loop;
    struct tsdb *db;
    const struct engine_config_scrape_config *cfg;
    struct http_client
        *clients[SCRAPE_JOB_CLIENTS]; // created when a target needs it; the first one immediately
    struct gs_hmap *sockets;          // path -> struct http_client; NULL: no target has one
    struct endpoint_tokens *tokens;   // of all clients; NULL: none are needed
    char *error; // why the job cannot run (a certificate that cannot be read …), NULL
    struct scrape_target_hooks hooks;
    struct scrape_job_provider **providers;
    size_t n_providers;
    // Discovery of the previous configuration, ended: its groups are used until the new one
    // reports.
    struct scrape_job_provider **leavers;
    size_t n_leavers;
    struct gs_hmap *targets; // 8 bytes of the key -> struct scrape_target
    struct gs_arena dropped_arena;
    struct scrape_target_spec *dropped; // up to SCRAPE_JOB_MAX_DROPPED
    size_t n_dropped, n_dropped_kept, dropped_cap;
    size_t n_invalid;
    char *invalid; // the last logged error of such a target
};

struct scrape_job *scrape_job_new(const struct discovery_context *ctx, struct tsdb *db,
                                  const struct engine_config_scrape_config *cfg,
                                  const struct scrape_target_hooks *hooks, struct scrape_job *old);
void scrape_job_update(struct scrape_job *j);             // decides again what its targets are
size_t scrape_job_discovered(const struct scrape_job *j); // targets before relabelling
void scrape_job_free(struct scrape_job *j, bool end);

// --- manager ---
// The manager and its views.

struct scrape_set { // the jobs of the configuration or of a named set
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
    struct scrape_signals_shared *signals; // NULL: not wanted
    void (*on_scrape)(void *arg);
    void *on_scrape_arg;
    uint64_t scrapes;
    struct gs_hmap *taken;   // URLs of the jobs that do not yield; NULL: not known
    struct gs_timer *yields; // the jobs that yield decide again
};
