// SPDX-License-Identifier: Apache-2.0
// Runs tasks that may take longer than a turn of the loop, such as parsing a large body: each in a
// fiber, one slice per iteration. Cancelling resumes the task once, so that it can end itself.
#include "engine/scrape/scrape_private.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/fiber.h"
#include "base/mem.h"
#include "base/turn.h"

struct scrape_scheduler {
    TAILQ_HEAD(, scrape_task) paused;
    struct gs_fiber *spare;
    uv_idle_t next; // active while a task is paused
};

struct scrape_scheduler *scrape_scheduler_new(uv_loop_t *loop)
{
    struct scrape_scheduler *s = gs_alloc(sizeof(*s));
    TAILQ_INIT(&s->paused);
    uv_idle_init(loop, &s->next);
    s->next.data = s;
    return s;
}

static void free_scheduler(uv_handle_t *h)
{
    free(h->data);
}

void scrape_scheduler_free(struct scrape_scheduler *s)
{
    if (!s)
        return;
    gs_assert(TAILQ_EMPTY(&s->paused));
    gs_fiber_free(s->spare);
    uv_close((uv_handle_t *)&s->next, free_scheduler);
}

static void give_fiber_back(struct scrape_task *t)
{
    struct gs_fiber *f = GS_TAKE(t->fiber);
    if (t->scheduler->spare)
        gs_fiber_free(f);
    else
        t->scheduler->spare = f;
}

// Runs the task until its next pause or its end. Returns true if it has ended.
static bool run_slice(struct scrape_task *t, bool first)
{
    t->begun_ns = gs_mono_ns();
    bool done = first ? gs_fiber_start(t->fiber, t->run, t->arg) : gs_fiber_resume(t->fiber);
    if (done)
        give_fiber_back(t);
    return done;
}

// One time slice in each iteration of the loop, so that other handles run too.
static void on_scheduler_idle(uv_idle_t *h)
{
    struct scrape_scheduler *s = h->data;
    struct scrape_task *t = TAILQ_FIRST(&s->paused);
    TAILQ_REMOVE(&s->paused, t, link);
    bool done = run_slice(t, false);
    if (!done)
        TAILQ_INSERT_TAIL(&s->paused, t, link);
    if (TAILQ_EMPTY(&s->paused))
        uv_idle_stop(h);
    if (done)
        t->done(t->arg);
}

void scrape_scheduler_start(struct scrape_scheduler *s, struct scrape_task *t)
{
    gs_assert(!t->fiber);
    t->scheduler = s;
    t->canceled = false;
    t->fiber = GS_TAKE(s->spare);
    struct gs_error *err = t->fiber ? NULL : gs_fiber_new(&t->fiber);
    if (err) {
        gs_error_free(err);
        t->run(t->arg);
        t->done(t->arg);
    } else if (run_slice(t, true)) {
        t->done(t->arg);
    } else {
        TAILQ_INSERT_TAIL(&s->paused, t, link);
        uv_idle_start(&s->next, on_scheduler_idle);
    }
}

bool scrape_task_yield(struct scrape_task *t)
{
    if (t->fiber && !t->canceled && gs_mono_ns() - t->begun_ns >= gs_turn_ns())
        gs_fiber_pause(t->fiber);
    return !t->canceled;
}

void scrape_task_cancel(struct scrape_task *t)
{
    if (!t->fiber)
        return;
    TAILQ_REMOVE(&t->scheduler->paused, t, link);
    if (TAILQ_EMPTY(&t->scheduler->paused))
        uv_idle_stop(&t->scheduler->next);
    t->canceled = true;
    (void)run_slice(t, false);
}
