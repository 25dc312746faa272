// SPDX-License-Identifier: Apache-2.0
// Detects steps of the wall clock by comparing it with the time since boot, which cannot be set.
#pragma once

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
