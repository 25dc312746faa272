// SPDX-License-Identifier: Apache-2.0
// Scraping: discovery → relabelling → one scrape loop for each target → store.
#pragma once

#include "engine/config/config.h"
#include "metrics/reader.h"
#include "tsdb/tsdb.h"

#include <uv.h>

// --- metadata of a target ---
//
// What a target says of its metric families in # HELP, # TYPE and # UNIT.

struct scrape_metadata; // of one target

struct scrape_metadata *scrape_metadata_new(void);
void scrape_metadata_free(struct scrape_metadata *m);
// Parts that m does not have (help, unit, type_name) leave what is known as it is.
void scrape_metadata_set(struct scrape_metadata *m, const struct metrics_metadata *part);
// Families that are gone: what is set between the two calls stays, the rest is forgotten.
void scrape_metadata_begin_sweep(struct scrape_metadata *m);
void scrape_metadata_sweep(struct scrape_metadata *m);
// In unspecified order. help and unit are unescaped; type_name is never NULL ("unknown").
void scrape_metadata_each(const struct scrape_metadata *m,
                          void (*fn)(void *arg, const struct metrics_metadata *m), void *arg);
size_t scrape_metadata_len(const struct scrape_metadata *m);

// --- ingestion ---
//
// One target's scrapes into the store: target labels and metric_relabel_configs applied to series
// that are new, the known ones by a hash of their line; limits, staleness, and the series about the
// scrape itself (up, scrape_duration_seconds …), as Prometheus has them.

struct scrape_ingest;

// cfg: honor_labels, honor_timestamps, track_staleness, metric_relabel and the limits are used; it
// is borrowed and must live as long. target_labels (with job and instance, without __meta_…) are
// copied.
struct scrape_ingest *scrape_ingest_new(struct tsdb *db,
                                        const struct engine_config_scrape_config *cfg,
                                        const struct metrics_label *target_labels, size_t n);
// go_on is called within long texts, and may let others use the store before it returns. False ends
// the scrape as if it had not begun: GS_ECONFLICT. NULL: texts are read without a pause.
void scrape_ingest_on_pause(struct scrape_ingest *in, bool (*go_on)(void *arg), void *arg);
void scrape_ingest_free(struct scrape_ingest *in); // without ending its series
// The same target under a new configuration (metric_relabel changed): what was learnt of series is
// forgotten, the series go on.
void scrape_ingest_reconfigure(struct scrape_ingest *in,
                               const struct engine_config_scrape_config *cfg);

// The time of a scrape that begins now: after the last one, also where the clock was set back.
int64_t scrape_ingest_time(const struct scrape_ingest *in, int64_t now_ms);
// An answer (already decompressed). t_ms: start of the scrape, the samples' time; duration_s: until
// the body was there. content_type NULL: none. All or nothing: on an error (malformed body, a limit
// passed, no text format) the target's series end and up is 0, both done here; the error is for
// lastError. t_ms must be newer than that of the last call.
struct gs_error *scrape_ingest_text(struct scrape_ingest *in, struct gs_slice body,
                                    const char *content_type, int64_t t_ms, double duration_s);
// No answer (refused, timeout, HTTP status): series end, up is 0.
void scrape_ingest_failed(struct scrape_ingest *in, int64_t t_ms, double duration_s);
// The target was removed: all series end, up and the others about the scrape too.
void scrape_ingest_end(struct scrape_ingest *in, int64_t t_ms);

struct scrape_ingest_counts {
    // Of the last scrape, as its scrape_samples_… series.
    size_t scraped, post_relabeling, series_added;
    // Since the start; prometheus_target_scrapes_sample_…_total.
    uint64_t duplicates, out_of_order, limit_failures;
    size_t known; // identities remembered
};
void scrape_ingest_counts(const struct scrape_ingest *in, struct scrape_ingest_counts *ret);
const struct scrape_metadata *scrape_ingest_metadata(const struct scrape_ingest *in);

// --- scrape manager ---
//
// All scrape targets of a configuration: discovery → relabelling → one scrape loop a target →
// store. A reload keeps the loops of targets that did not change.

struct scrape_manager;
struct kube_client;
struct discovery_stats;

struct scrape_manager_config {
    struct kube_client *kube;         // for kubernetes_sd_configs without an api_server; NULL: none
    struct discovery_stats *sd_stats; // counted into; NULL: nowhere
};

struct scrape_manager *scrape_manager_new(uv_loop_t *loop, struct tsdb *db,
                                          const struct scrape_manager_config *cfg);
void scrape_manager_free(struct scrape_manager *m);
// Takes over the scrape configs (keeps a reference to nothing: what it needs is copied, or the
// config is kept alive by the caller until the next apply or free). Cannot fail: everything was
// checked by the parse.
void scrape_manager_apply(struct scrape_manager *m, const struct engine_config *cfg);

// For embedding (gpuscale up, ServiceMonitors): a set of jobs beside the configuration's. name
// identifies the set; applying it again replaces it; NULL takes it away.
void scrape_manager_apply_extra(struct scrape_manager *m, const char *name,
                                const struct engine_config_scrape_config *scrapes, size_t n);

// /api/v1/targets' data (state: "active", "dropped", "any"; pool: NULL all),
// /api/v1/targets/metadata and /api/v1/metadata. New references.
json_t *scrape_targets_json(const struct scrape_manager *m, const char *state, const char *pool);
json_t *scrape_metadata_json(const struct scrape_manager *m, const char *metric, int64_t limit,
                             int64_t limit_per_metric);
json_t *scrape_targets_metadata_json(const struct scrape_manager *m,
                                     const struct tsdb_matcher *matchers, size_t n_matchers,
                                     const char *metric, int64_t limit);
json_t *scrape_pools_json(const struct scrape_manager *m);
// Called after each committed scrape. NULL: none.
void scrape_manager_on_scrape(struct scrape_manager *m, void (*fn)(void *arg), void *arg);
// Own metrics (prometheus_target_* names) in the text format.
void scrape_manager_write_metrics(const struct scrape_manager *m, struct gs_buf *out);
