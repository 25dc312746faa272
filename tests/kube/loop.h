// SPDX-License-Identifier: Apache-2.0
// An event loop for tests: turns until a condition holds, and an end that shows leaked handles.
#pragma once

#include "patience.h"
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <uv.h>

enum { LOOP_LEAST_TURNS = 100 };

static inline void loop_wake(uv_timer_t *t)
{
    (void)t;
}

// Runs the loop until expr is true; fails the test when that does not come.
#define loop_until(loop, expr)                                                                     \
    do {                                                                                           \
        int64_t loop_end_ = gs_mono_ns() + WAIT_NS;                                                \
        uv_timer_t *loop_t_ = calloc(1, sizeof(*loop_t_));                                         \
        uv_timer_init((loop), loop_t_);                                                            \
        uv_timer_start(loop_t_, loop_wake, 20, 20);                                                \
        bool loop_ok_;                                                                             \
        while (!(loop_ok_ = (expr)) && gs_mono_ns() < loop_end_)                                   \
            uv_run((loop), UV_RUN_ONCE);                                                           \
        uv_close((uv_handle_t *)loop_t_, (uv_close_cb)(void (*)(void))free);                       \
        if (!loop_ok_)                                                                             \
            fail_msg("%s:%d: did not come true: %s", __FILE__, __LINE__, #expr);                   \
    } while (0)

// Lets the loop turn for a while, to see that something does not happen, and to let what happens in
// this process happen: also where the machine stands still the whole time, there are some turns.
static inline void loop_for_ms(uv_loop_t *loop, int ms)
{
    int64_t end = gs_mono_ns() + ms * GS_NS_PER_MS;
    for (int turns = 0; turns < LOOP_LEAST_TURNS || gs_mono_ns() < end; turns++) {
        uv_run(loop, UV_RUN_NOWAIT);
        uv_sleep(turns < LOOP_LEAST_TURNS ? 0 : 1);
    }
}

// All owners of handles are freed: their closing is what is left.
static inline void loop_finish(uv_loop_t *loop)
{
    int64_t end = gs_mono_ns() + WAIT_NS;
    while (uv_run(loop, UV_RUN_NOWAIT) && gs_mono_ns() < end)
        ;
    assert_int_equal(uv_loop_close(loop), 0);
}
