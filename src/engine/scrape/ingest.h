// SPDX-License-Identifier: Apache-2.0
// One target's scrapes into the store: target labels and metric_relabel_configs applied to series
// that are new, the known ones by a hash of their line; limits, staleness, and the series about the
// scrape itself (up, scrape_duration_seconds …), as Prometheus has them.
#pragma once

#include "engine/config/config.h"
#include "engine/scrape/metadata.h"
#include "tsdb/tsdb.h"

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
