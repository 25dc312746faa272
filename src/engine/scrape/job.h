// SPDX-License-Identifier: Apache-2.0
// One scrape config: its discovery, its targets. Private to the room.
#pragma once

#include "engine/discovery/provider.h"
#include "engine/scrape/target.h"

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
