// SPDX-License-Identifier: Apache-2.0
// A libuv timer on the heap that may be freed at any time, also in its own callback. libuv closes
// the handle after gs_timer_free() has returned and does not use the callback's argument meanwhile.
// Only the thread of the loop may use the timer.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct gs_timer;
typedef void (*gs_timer_fn)(void *arg);

// Every callback receives arg.
struct gs_timer *gs_timer_new(uv_loop_t *loop, void *arg);
void gs_timer_free(struct gs_timer *t); // accepts NULL
// Like gs_timer_free, and calls closed(arg) in a later turn of the loop, so that an owner can be
// freed that functions on the stack still use.
void gs_timer_close(struct gs_timer *t, void (*closed)(void *arg));
// An active timer keeps uv_run() from returning, unless it is unreferenced.
void gs_timer_unref(struct gs_timer *t);

// Calls fn once from the loop, ms from now. Replaces a previous start. A callback that starts its
// own timer again waits at least 1 ms, so that a duration of 0 from a configuration cannot end the
// work of the others.
void gs_timer_start(struct gs_timer *t, gs_timer_fn fn, uint64_t ms);
// Calls fn first_ms from now, then every period_ms, at least 1 ms.
void gs_timer_repeat(struct gs_timer *t, gs_timer_fn fn, uint64_t first_ms, uint64_t period_ms);
void gs_timer_stop(struct gs_timer *t);

bool gs_timer_is_active(const struct gs_timer *t);
// Milliseconds until the callback. 0: it is due, or the timer is not active.
uint64_t gs_timer_due_in(const struct gs_timer *t);
