// SPDX-License-Identifier: Apache-2.0
// A libuv timer on the heap that may be freed at any time, also from its own callback.
#pragma once

#include <stdint.h>
#include <uv.h>

struct local_timer;
struct local_timer *local_timer_new(uv_loop_t *loop, void (*cb)(void *arg), void *arg);
void local_timer_free(struct local_timer *t);               // NULL is fine
void local_timer_start(struct local_timer *t, uint64_t ms); // once; replaces what was set
void local_timer_repeat(struct local_timer *t, uint64_t first_ms, uint64_t period_ms);
void local_timer_stop(struct local_timer *t);
