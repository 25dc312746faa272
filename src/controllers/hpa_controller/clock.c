// SPDX-License-Identifier: Apache-2.0
// Steps of the wall clock: windows and holds measure elapsed time, so what is remembered with times
// of the wall clock is shifted when it was set.
#include "hpa_controller/controller_private.h"

#include "base/clock.h"

// A larger difference between wall clock and elapsed time means that the clock was set.
#define CLOCK_STEP_MS 1000

int64_t hpa_clock_step(struct hpa_clock *c, int64_t unix_ms)
{
    int64_t mono_ms = gs_mono_ns() / GS_NS_PER_MS;
    int64_t step = (unix_ms - c->unix_ms) - (mono_ms - c->mono_ms);
    bool was_set = c->mono_ms && (step > CLOCK_STEP_MS || step < -CLOCK_STEP_MS);
    c->unix_ms = unix_ms;
    c->mono_ms = mono_ms;
    return was_set ? step : 0;
}
