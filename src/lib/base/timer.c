// SPDX-License-Identifier: Apache-2.0
// Timers on the loop whose memory outlives their handle: a callback may free its own timer.
#include "base/timer.h"

#include "base/assert.h"
#include "base/mem.h"

struct gs_timer {
    uv_timer_t handle;
    gs_timer_fn fn;
    void *arg;
    bool in_callback;
    void (*closed)(void *arg); // NULL: nothing follows
};

struct gs_timer *gs_timer_new(uv_loop_t *loop, void *arg)
{
    struct gs_timer *t = gs_alloc(sizeof(*t));
    *t = (struct gs_timer){.arg = arg};
    uv_timer_init(loop, &t->handle);
    t->handle.data = t;
    return t;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct gs_timer *t = handle->data;
    if (t->closed)
        t->closed(t->arg);
    free(t);
}

void gs_timer_close(struct gs_timer *t, void (*closed)(void *arg))
{
    gs_assert(!uv_is_closing((uv_handle_t *)&t->handle));
    t->closed = closed;
    uv_close((uv_handle_t *)&t->handle, on_timer_closed);
}

void gs_timer_free(struct gs_timer *t)
{
    if (t)
        gs_timer_close(t, NULL);
}

void gs_timer_unref(struct gs_timer *t)
{
    uv_unref((uv_handle_t *)&t->handle);
}

static void on_timer_due(uv_timer_t *handle)
{
    struct gs_timer *t = handle->data;
    t->in_callback = true;
    t->fn(t->arg); // which may free the timer; its memory stays until the handle is closed
    t->in_callback = false;
}

// libuv counts from the loop's cached time, which is outdated after a long turn. A timer of 0 ms
// that its own callback starts would be due in the same turn, again and again, before anything
// else.
static void start_timer(struct gs_timer *t, gs_timer_fn fn, uint64_t first_ms, uint64_t period_ms)
{
    gs_assert(fn && !uv_is_closing((uv_handle_t *)&t->handle));
    t->fn = fn;
    uv_update_time(t->handle.loop);
    uv_timer_start(&t->handle, on_timer_due, t->in_callback && !first_ms ? 1 : first_ms, period_ms);
}

void gs_timer_start(struct gs_timer *t, gs_timer_fn fn, uint64_t ms)
{
    start_timer(t, fn, ms, 0);
}

void gs_timer_repeat(struct gs_timer *t, gs_timer_fn fn, uint64_t first_ms, uint64_t period_ms)
{
    start_timer(t, fn, first_ms, period_ms ? period_ms : 1);
}

void gs_timer_stop(struct gs_timer *t)
{
    gs_assert(t->handle.data == t); // not freed; sanitizers do not see what libuv reads
    uv_timer_stop(&t->handle);
}

bool gs_timer_is_active(const struct gs_timer *t)
{
    return uv_is_active((const uv_handle_t *)&t->handle);
}

uint64_t gs_timer_due_in(const struct gs_timer *t)
{
    return gs_timer_is_active(t) ? uv_timer_get_due_in(&t->handle) : 0;
}
