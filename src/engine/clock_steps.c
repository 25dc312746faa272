// SPDX-License-Identifier: Apache-2.0
// Detects steps of the wall clock by comparing it with the boot-time clock. After a step forward,
// the retention is extended for ten minutes, so that a wrong clock deletes no data before it is
// corrected. All values are milliseconds.
#include "engine/engine_private.h"

#include <stdlib.h>

enum {
    LEAST_STEP_MS = 2000,
    // The time in which a wrong clock is corrected. No data is deleted before it has elapsed.
    GRACE_MS = 10 * 60 * 1000,
    // The time in which scrapes and evaluations that began before the step end.
    SET_BACK_MS = 15 * 1000,
};

int64_t engine_clock_steps_check(struct engine_clock_steps *c, int64_t wall_ms, int64_t boot_ms)
{
    int64_t step = c->boot_ms ? (wall_ms - c->wall_ms) - (boot_ms - c->boot_ms) : 0;
    c->wall_ms = wall_ms;
    c->boot_ms = boot_ms;
    if (c->grace_ms && boot_ms >= c->grace_until_ms)
        c->grace_ms = 0;
    if (llabs(step) < LEAST_STEP_MS)
        return 0;
    c->n++;
    c->grace_ms += step;
    if (c->grace_ms < 0)
        c->grace_ms = 0;
    if (step > 0)
        c->grace_until_ms = boot_ms + GRACE_MS;
    else
        c->set_back_until_ms = boot_ms + SET_BACK_MS;
    return step;
}

bool engine_clock_steps_is_back(const struct engine_clock_steps *c, int64_t boot_ms)
{
    return boot_ms < c->set_back_until_ms;
}
