// SPDX-License-Identifier: Apache-2.0
// One target: its labels, and its scrape loop. Private to the room.
#pragma once

#include "engine/config/relabel.h"
#include "engine/scrape/ingest.h"
#include "engine/scrape/turns.h"
#include "net/http/client.h"

#include <uv.h>

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
    struct scrape_turns *turns; // for large pages; borrowed. NULL: they are read in one go
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
