// SPDX-License-Identifier: Apache-2.0
// A libuv timer on the heap that may be freed at any time, also in its own callback. libuv closes
// handles later than gs_timer_free() returns; the object of the callback is not touched meanwhile.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct gs_timer;
typedef void (*gs_timer_fn)(void *arg);

// arg is given to every callback. Only the thread of the loop may use the timer.
struct gs_timer *gs_timer_new(uv_loop_t *loop, void *arg);
void gs_timer_free(struct gs_timer *t); // NULL is fine
// As gs_timer_free, and calls closed(arg) in a later turn of the loop: to free an owner that
// functions on the stack still use.
void gs_timer_close(struct gs_timer *t, void (*closed)(void *arg));
// A timer that is referenced, as all are at first, keeps uv_run() from returning while it is
// active.
void gs_timer_unref(struct gs_timer *t);

// Calls fn once, ms from now, out of the loop. Replaces what was
// started before.
void gs_timer_start(struct gs_timer *t, gs_timer_fn fn, uint64_t ms);
// Calls fn first_ms from now, then every period_ms (0: once).
void gs_timer_repeat(struct gs_timer *t, gs_timer_fn fn, uint64_t first_ms, uint64_t period_ms);
void gs_timer_stop(struct gs_timer *t);

bool gs_timer_is_active(const struct gs_timer *t);
// Milliseconds until the callback; 0: it is due, or the timer is not active.
uint64_t gs_timer_due_in(const struct gs_timer *t);
