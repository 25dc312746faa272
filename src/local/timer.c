// SPDX-License-Identifier: Apache-2.0
#include "local/timer.h"

#include "base/mem.h"

struct local_timer {
    uv_timer_t handle;
    void (*cb)(void *arg);
    void *arg;
};

static void on_timer(uv_timer_t *handle)
{
    struct local_timer *t = handle->data;
    t->cb(t->arg);
}

struct local_timer *local_timer_new(uv_loop_t *loop, void (*cb)(void *arg), void *arg)
{
    struct local_timer *t = gs_alloc(sizeof(*t));
    *t = (struct local_timer){.cb = cb, .arg = arg};
    uv_timer_init(loop, &t->handle);
    t->handle.data = t;
    return t;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void local_timer_free(struct local_timer *t)
{
    if (t)
        uv_close((uv_handle_t *)&t->handle, on_closed);
}

// libuv counts from the loop's cached time, which a long turn leaves behind.
void local_timer_start(struct local_timer *t, uint64_t ms)
{
    uv_update_time(t->handle.loop);
    uv_timer_start(&t->handle, on_timer, ms, 0);
}

void local_timer_repeat(struct local_timer *t, uint64_t first_ms, uint64_t period_ms)
{
    uv_update_time(t->handle.loop);
    uv_timer_start(&t->handle, on_timer, first_ms, period_ms);
}

void local_timer_stop(struct local_timer *t)
{
    uv_timer_stop(&t->handle);
}
