// SPDX-License-Identifier: Apache-2.0
// Notices when the wall clock is set. The time since the machine started is what it is compared
// with: nobody sets that.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine_clock_steps {
    int64_t wall_ms, boot_ms;  // at the last look; boot_ms 0: none yet
    int64_t grace_ms;          // how far the clock was set forward and may be ahead
    int64_t grace_until_ms;    // since the start of the machine
    int64_t set_back_until_ms; // likewise: what is ahead of the clock may still come
    uint64_t n;
};

// How far the clock was set since the last look, in milliseconds: 0 for less than two seconds.
int64_t engine_clock_steps_check(struct engine_clock_steps *c, int64_t wall_ms, int64_t boot_ms);
// It was set back a moment ago.
bool engine_clock_steps_is_back(const struct engine_clock_steps *c, int64_t boot_ms);
