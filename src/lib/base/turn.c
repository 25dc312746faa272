// SPDX-License-Identifier: Apache-2.0
// The length of a turn. Threads read it, so it is atomic.
#include "base/turn.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/num.h"

#include <stdatomic.h>
#include <stdlib.h>

#define DEFAULT_NS (5 * GS_NS_PER_MS)
#define UNKNOWN_NS (-1)

static _Atomic int64_t turn_ns = UNKNOWN_NS;

// A text that is not a whole number of milliseconds counts as no text.
static int64_t initial_ns(void)
{
    const char *text = getenv("GPUSCALE_TEST_TURN_MS");
    int64_t ms = DEFAULT_NS / GS_NS_PER_MS;
    if (text)
        gs_error_free(gs_parse_i64(gs_slice_of(text), 0, GS_TURN_NEVER_ENDS / GS_NS_PER_MS, &ms));
    return ms * GS_NS_PER_MS;
}

int64_t gs_turn_ns(void)
{
    int64_t ns = atomic_load_explicit(&turn_ns, memory_order_relaxed);
    if (ns == UNKNOWN_NS) {
        ns = initial_ns();
        atomic_store_explicit(&turn_ns, ns, memory_order_relaxed);
    }
    return ns;
}

void gs_turn_set_ns(int64_t ns)
{
    gs_assert(ns >= 0 && ns <= GS_TURN_NEVER_ENDS);
    atomic_store_explicit(&turn_ns, ns, memory_order_relaxed);
}
