// SPDX-License-Identifier: Apache-2.0
// Shared by what reads a scenario and what changes one. Private to the room.
#pragma once

#include "base/arena.h"
#include "replay/replay.h"

#define REPLAY_MAX_REPLICAS 10000

struct replay_scenario_own { // a scenario with its texts
    struct replay_scenario s;
    struct gs_arena arena;
};

struct gs_error *replay_scenario_check(const struct replay_scenario *s);
// What the names of a GPU and of an instance stand for in the table of prices.
struct gs_error *replay_scenario_look_up(struct replay_scenario *s);
