// SPDX-License-Identifier: Apache-2.0
// Scraping: discovery → relabelling → one scrape loop for each target → store. All functions are
// called on the thread of the loop.
#pragma once

#include "engine/config/config.h"
#include "engine/signals/signals.h"
#include "metrics/reader.h"
#include "tsdb/tsdb.h"

#include <uv.h>

// --- metadata of a target ---
// The metadata of a target: # HELP, # TYPE and # UNIT.

struct scrape_metadata; // of one target

// texts: keeps the texts of all targets; borrowed.
struct scrape_metadata *scrape_metadata_new(struct tsdb_symbols *texts);
void scrape_metadata_free(struct scrape_metadata *m);
// Fields that m does not have (help, unit, type_name) keep their values.
void scrape_metadata_set(struct scrape_metadata *m, const struct metrics_metadata *part);
// Remove old families: those that are not set between the two calls are dropped.
void scrape_metadata_begin_sweep(struct scrape_metadata *m);
void scrape_metadata_sweep(struct scrape_metadata *m);
// In unspecified order. help and unit are unescaped; type_name is never NULL ("unknown").
void scrape_metadata_each(const struct scrape_metadata *m,
                          void (*fn)(void *arg, const struct metrics_metadata *m), void *arg);
// The metadata of the family that the series of this name belong to ("a_bucket" to the histogram
// "a"), as above; the texts are borrowed. False: there is none.
bool scrape_metadata_find(const struct scrape_metadata *m, struct gs_slice series,
                          struct metrics_metadata *ret);

// --- ingestion ---
// Stores the scrapes of one target. Target labels and metric_relabel_configs are applied to new
// series; cached series are found by a hash of their line. Limits, staleness and the series about
// the scrape itself (up, scrape_duration_seconds …) are as in Prometheus.

struct scrape_ingest;

// cfg: honor_labels, honor_timestamps, track_staleness, metric_relabel and the limits are used; it
// is borrowed and must outlive the object. target_labels (with job and instance, without __meta_…)
// are copied.
struct scrape_ingest *scrape_ingest_new(struct tsdb *db,
                                        const struct engine_config_scrape_config *cfg,
                                        const struct metrics_label *target_labels, size_t n);
// go_on is called during long texts and may let others use the store before it returns. If it
// returns false, the scrape is discarded with GS_ECONFLICT. NULL: texts are read without pauses.
void scrape_ingest_on_pause(struct scrape_ingest *in, bool (*go_on)(void *arg), void *arg);
// page also reads the lines of each text, before relabeling. The caller begins and ends it.
// Borrowed; NULL: none.
void scrape_ingest_read_signals(struct scrape_ingest *in, struct signals_page *page);
void scrape_ingest_free(struct scrape_ingest *in); // without ending its series
// Applies a new configuration to the same target (metric_relabel changed): the cache is cleared,
// the series continue.
void scrape_ingest_reconfigure(struct scrape_ingest *in,
                               const struct engine_config_scrape_config *cfg);

// Returns the time for a scrape that starts now. It is after the last one, even if the clock was
// set back.
int64_t scrape_ingest_time(const struct scrape_ingest *in, int64_t now_ms);
// Stores a response (already decompressed). t_ms: start of the scrape and time of the samples; must
// be newer than in the last call. duration_s: until the body was received. content_type NULL: none.
// On an error (malformed body, exceeded limit, no text format) nothing is stored, the series of the
// target end and up is 0; the error is for lastError.
struct gs_error *scrape_ingest_text(struct scrape_ingest *in, struct gs_slice body,
                                    const char *content_type, int64_t t_ms, double duration_s);
// Records a failed scrape (refused, timeout, HTTP status): the series end and up is 0.
void scrape_ingest_failed(struct scrape_ingest *in, int64_t t_ms, double duration_s);
// Ends all series of a removed target, including those about the scrape.
void scrape_ingest_end(struct scrape_ingest *in, int64_t t_ms);

struct scrape_ingest_counts {
    // Of the last scrape, as its scrape_samples_… series.
    size_t scraped, post_relabeling, series_added;
    // Since the start; prometheus_target_scrapes_sample_…_total.
    uint64_t duplicates, out_of_order, limit_failures, exemplars_out_of_order;
    uint64_t series_refused; // since the start: over a limit of one series
    size_t known;            // cached identities
};
void scrape_ingest_counts(const struct scrape_ingest *in, struct scrape_ingest_counts *ret);
const struct scrape_metadata *scrape_ingest_metadata(const struct scrape_ingest *in);

// --- check ---

// What becomes of a discovered target, as promtool check service-discovery prints it:
// discoveredLabels, labels after relabeling without __meta_… (none: it is dropped), and error. The
// labels of the target take precedence over those of the group.
json_t *scrape_target_check(const struct engine_config_scrape_config *cfg,
                            const struct metrics_label *group, size_t n_group,
                            const struct metrics_label *target, size_t n_target);

// --- scrape manager ---
// Manages all scrape targets of a configuration. A reload keeps the loops of unchanged targets.

struct scrape_manager;
struct kube_client;
struct discovery_stats;

struct scrape_manager_config {
    struct kube_client *kube;         // for kubernetes_sd_configs without an api_server; NULL: none
    struct discovery_stats *sd_stats; // counters to update; NULL: none
    const struct signals_table *signals; // inference engines to recognize; NULL: none. Borrowed
};

struct scrape_manager *scrape_manager_new(uv_loop_t *loop, struct tsdb *db,
                                          const struct scrape_manager_config *cfg);
void scrape_manager_free(struct scrape_manager *m);
// Applies the scrape configs. The caller keeps the config alive until the next apply or free.
// Cannot fail: parsing has checked everything.
void scrape_manager_apply(struct scrape_manager *m, const struct engine_config *cfg);

// Applies a named set of jobs in addition to the configuration's, for `gpuscale up` and
// ServiceMonitors. Applying the same name replaces the set; NULL removes it.
void scrape_manager_apply_extra(struct scrape_manager *m, const char *name,
                                const struct engine_config_scrape_config *scrapes, size_t n);

// Return the data of /api/v1/targets (state: "active", "dropped", "any"; pool NULL: all),
// /api/v1/targets/metadata and /api/v1/metadata as new references.
json_t *scrape_targets_json(const struct scrape_manager *m, const char *state, const char *pool);
json_t *scrape_metadata_json(const struct scrape_manager *m, const char *metric, int64_t limit,
                             int64_t limit_per_metric);
json_t *scrape_targets_metadata_json(const struct scrape_manager *m,
                                     const struct tsdb_matcher *matchers, size_t n_matchers,
                                     const char *metric, int64_t limit);
// The metadata of the first target that has some for the series of this name. The texts are
// borrowed until the next scrape. False: there is none.
bool scrape_manager_find_metadata(const struct scrape_manager *m, struct gs_slice series,
                                  struct metrics_metadata *ret);
// Calls fn for each target that is a pod, except those of a named set. engine: whose page it has;
// NULL: none, or not known yet.
void scrape_manager_each_pod(const struct scrape_manager *m, const char *except_set,
                             void (*fn)(void *arg, const char *ns, const char *pod, const char *url,
                                        const char *engine),
                             void *arg);
// The targets that are inference engines, as an array: scrapePool, scrapeUrl, health, lastError,
// lastScrape, namespace, pod, and what signals_page_json() describes. New reference.
json_t *scrape_signals_json(const struct scrape_manager *m);
json_t *scrape_pools_json(const struct scrape_manager *m);
// The configuration of the job with this name, borrowed until the next reload. NULL: there is none.
const struct engine_config_scrape_config *scrape_pool_config(const struct scrape_manager *m,
                                                             const char *name);
// Each target has been scraped at least once, or cannot be. Targets that are not discovered yet do
// not count.
bool scrape_manager_settled(const struct scrape_manager *m);
// Called after each committed scrape. NULL: none.
void scrape_manager_on_scrape(struct scrape_manager *m, void (*fn)(void *arg), void *arg);
// Calls this function: samples that did not come by a scrape were stored.
void scrape_manager_fed(const struct scrape_manager *m);
// Appends the metrics about scraping (prometheus_target_*) in the text format.
void scrape_manager_write_metrics(const struct scrape_manager *m, struct gs_buf *out);
