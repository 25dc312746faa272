// SPDX-License-Identifier: Apache-2.0
// Scrapes targets into the store: interval and timeout per target, target labels merged in (a
// conflict becomes exported_<name>, unless honor_labels), `up` and scrape_duration_seconds,
// staleness markers when a series or the target goes.
#pragma once

#include "tsdb/ring.h"

#include <uv.h>

struct engine_scraper;

struct engine_target {
    const char *url;         // "http://127.0.0.1:9400/metrics"
    const char *unix_socket; // or NULL
    int64_t interval_ms, timeout_ms;
    const struct metrics_label *labels; // job, instance …
    size_t n_labels;
    bool honor_labels;
};

struct engine_target_state {
    bool up;
    int64_t last_scrape_ms; // unix, 0: never
    double duration_s;
    size_t samples;
    const char *error; // NULL when up
};

struct engine_scraper *engine_scraper_new(uv_loop_t *loop, struct ring *db);
void engine_scraper_free(struct engine_scraper *s);
struct gs_error *engine_scraper_add(struct engine_scraper *s, const struct engine_target *t,
                                    size_t *ret_id);
void engine_scraper_remove(struct engine_scraper *s, size_t id);
bool engine_scraper_state(const struct engine_scraper *s, size_t id,
                          struct engine_target_state *ret);
// Called after each scrape of any target (for react-on-data later and for tests). May be NULL.
void engine_scraper_on_scrape(struct engine_scraper *s, void (*fn)(void *arg, size_t id),
                              void *arg);
