// SPDX-License-Identifier: Apache-2.0
// All scrape targets of a configuration: discovery → relabelling → one scrape loop a target →
// store. A reload keeps the loops of targets that did not change.
#pragma once

#include "engine/config/config.h"
#include "tsdb/tsdb.h"

#include <uv.h>

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
