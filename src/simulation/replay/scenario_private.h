// SPDX-License-Identifier: Apache-2.0
// Reading (scenario.c) and changing (settings.c) a scenario.
#pragma once

#include "base/arena.h"
#include "codec/yaml_reader.h"
#include "replay/replay.h"

#define REPLAY_T0_MS           INT64_C(1700000000000) // start of a run, as Unix time
#define REPLAY_MAX_REPLICAS    10000
#define REPLAY_MAX_DURATION_MS (INT64_C(366) * 24 * 3600 * 1000)

struct replay_scenario_file { // a scenario with its texts
    struct replay_scenario s;
    struct gs_arena arena;
};

struct gs_error *replay_scenario_check(const struct replay_scenario *s);
// Sets the prices of the scenario from its GPU and instance type.
struct gs_error *replay_scenario_find_prices(struct replay_scenario *s);

// A number of at least 0. 0 after an error.
double replay_read_number(struct codec_reader *r, const json_t *v);
// [[0s, 10], [5m, 200]]
void replay_read_curve(struct codec_reader *r, const json_t *list, struct replay_curve *c);
// What a metric that the scenario does not name shows.
enum replay_source replay_default_source(const struct replay_scenario *s, const char *name);
// A workload of a scenario with pools, without nodes of its own. typed: the same mapping, with
// types. Its texts are in the reader's arena. Never NULL: r->err says whether it may be used.
struct replay_scenario *replay_scenario_read_entry(struct codec_reader *r, const json_t *texts,
                                                   const json_t *typed, int64_t duration_ms);
