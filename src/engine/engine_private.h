// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the engine: steps of the wall clock, which are detected by comparing it
// with the time since boot, because that cannot be set, and the queries that fill the ledger of
// GPU hours.
#pragma once

#include "engine/engine.h"
#include "ledger/ledger.h"

#include <stdbool.h>
#include <stdint.h>

struct engine_clock_steps {
    int64_t wall_ms, boot_ms; // at the last check; boot_ms 0: no check yet
    int64_t grace_ms;         // how far ahead of the clock samples may be after a step
    int64_t grace_until_ms;   // in time since boot
    // in time since boot: until then samples ahead of the clock may arrive
    int64_t set_back_until_ms;
    uint64_t n;
};

// Returns how far the clock was set since the last check, in milliseconds. Steps of less than two
// seconds are 0.
int64_t engine_clock_steps_check(struct engine_clock_steps *c, int64_t wall_ms, int64_t boot_ms);
// True if the clock was set back recently.
bool engine_clock_steps_is_back(const struct engine_clock_steps *c, int64_t boot_ms);

// --- annotated_pods.c ---

// Scrapes pods with the annotation prometheus.io/scrape beside the jobs of a configuration, with
// its interval. own: the configuration of the job, which replaces the previous one. NULL: none, as
// the configuration has a job of the same name.
void engine_scrape_annotated_pods(struct scrape_manager *scrapes, const struct engine_config *c,
                                  struct engine_config **own);

// --- ledger_feed.c ---

struct engine_ledger;
// Errors: the owner label or the prices are wrong.
struct gs_error *engine_ledger_new(uv_loop_t *loop, struct tsdb *db,
                                   const struct engine_ledger_options *o,
                                   struct engine_ledger **ret);
void engine_ledger_start(struct engine_ledger *l, struct engine_api *api,
                         struct promql_engine *promql);
void engine_ledger_stop(struct engine_ledger *l); // before the API is freed; accepts NULL
void engine_ledger_free(struct engine_ledger *l); // accepts NULL
// Appends series of the ledger to /metrics. l may be NULL.
void engine_ledger_write_metrics(const struct engine_ledger *l, struct gs_buf *out);
// The function `report` of the API; arg: the ledger.
struct gs_error *engine_ledger_report(void *arg, const struct ledger_report_options *options,
                                      bool (*pause)(void *arg), void *pause_arg, json_t **ret);
