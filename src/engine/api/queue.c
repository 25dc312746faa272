// SPDX-License-Identifier: Apache-2.0
// Runs requests that can take long in time slices, so that scrapes, rules and short requests are
// not delayed. Each request runs in a fiber, and its query pauses after some milliseconds. In one
// iteration of the loop, requests run for some turns (base/turn.h) in total. At most max_begun
// requests run concurrently; others wait. The connection limit of the server bounds the number of
// waiting requests. The waiting time counts towards the timeout.
#include "engine/api/api_private.h"

#include "base/clock.h"
#include "base/fiber.h"
#include "base/turn.h"

#include <sys/queue.h>

struct job {
    TAILQ_ENTRY(job) entry;
    struct engine_api_queue *queue;
    struct engine_api_request request; // its exchange is NULL after the client has disconnected
    // A query of this process instead of a request; invalid after its result is reported.
    struct engine_api_local_query *local;
    bool disconnected;      // the client has disconnected, or the query was cancelled
    struct fiber_entry *on; // NULL: not started
};

TAILQ_HEAD(jobs, job);

struct fiber_entry {
    TAILQ_ENTRY(fiber_entry) entry;
    struct gs_fiber *fiber;
};

struct engine_api_queue {
    struct engine_api_queue_options options;
    struct jobs waiting, begun;
    TAILQ_HEAD(, fiber_entry) idle;
    struct job *running;
    uv_check_t *turn; // runs at the start of each loop iteration
    uv_idle_t *next;  // active while requests wait or run
    int64_t spent_ns; // in this loop iteration
    size_t len, n_begun;
};

static void free_handle(uv_handle_t *h)
{
    free(h);
}

static void on_turn(uv_check_t *h)
{
    struct engine_api_queue *q = h->data;
    q->spent_ns = 0;
}

static void remove_job(struct job *j)
{
    struct engine_api_queue *q = j->queue;
    if (j->on) {
        TAILQ_REMOVE(&q->begun, j, entry);
        TAILQ_INSERT_HEAD(&q->idle, j->on, entry);
        q->n_begun--;
    } else {
        TAILQ_REMOVE(&q->waiting, j, entry);
    }
    if (--q->len == 0)
        uv_idle_stop(q->next);
    free(j);
}

// --- a job's turns ---

static void run_job(void *arg)
{
    struct job *j = arg;
    if (j->local)
        engine_api_local_query_run(j->local);
    else
        engine_api_run(&j->request);
}

bool engine_api_queue_pause(void *arg)
{
    struct engine_api_queue *q = arg;
    struct job *j = q->running;
    if (!j)
        return true; // the query of a rule
    if (!j->disconnected)
        gs_fiber_pause(j->on->fiber);
    return !j->disconnected;
}

struct engine_api_slice engine_api_slice_begin(const struct engine_api *api)
{
    return (struct engine_api_slice){api->queue, gs_mono_ns()};
}

bool engine_api_slice_go_on(void *arg)
{
    struct engine_api_slice *s = arg;
    if (gs_mono_ns() - s->begun_ns < gs_turn_ns())
        return true;
    bool ok = engine_api_queue_pause(s->queue);
    s->begun_ns = gs_mono_ns();
    return ok;
}

static void on_client_disconnected(void *arg);

// Runs the first time slice or the next one after a pause.
static void take_turn(struct job *j, bool first)
{
    struct engine_api_queue *q = j->queue;
    int64_t begun = gs_mono_ns();
    struct http_exchange *x = j->request.x;
    if (x)
        http_on_abort(x, NULL, NULL);
    q->running = j;
    bool done = first ? gs_fiber_start(j->on->fiber, run_job, j) : gs_fiber_resume(j->on->fiber);
    q->running = NULL;
    q->spent_ns += gs_mono_ns() - begun;
    if (done)
        remove_job(j);
    else if (x)
        http_on_abort(x, on_client_disconnected, j);
}

static struct fiber_entry *take_fiber(struct engine_api_queue *q)
{
    struct fiber_entry *f = TAILQ_FIRST(&q->idle);
    if (f) {
        TAILQ_REMOVE(&q->idle, f, entry);
        return f;
    }
    struct gs_fiber *fiber;
    struct gs_error *err = gs_fiber_new(&fiber);
    if (err) {
        gs_error_free(err); // the client has received it
        return NULL;
    }
    f = gs_alloc(sizeof(*f));
    f->fiber = fiber;
    return f;
}

static void refuse_job(struct job *j, bool late)
{
    struct engine_api_request r = j->request;
    struct engine_api_local_query *local = j->local;
    void (*refuse)(struct engine_api_request *, enum engine_api_error, const char *) =
        j->queue->options.refuse;
    if (r.x)
        http_on_abort(r.x, NULL, NULL);
    remove_job(j);
    const char *why = late ? "query timed out in query queue" : "no memory for another query";
    if (local)
        engine_api_local_query_refuse(local,
                                      gs_error_new(late ? GS_ETIMEOUT : GS_ELIMIT, "%s", why));
    else
        refuse(&r, late ? ENGINE_API_TIMEOUT : ENGINE_API_INTERNAL, why);
}

static void begin_job(struct job *j)
{
    struct engine_api_queue *q = j->queue;
    struct engine_api_request r = j->request;
    struct engine_api *api = r.api;
    int64_t begun_ns = j->local ? engine_api_local_query_begun_ns(j->local) : r.begun_ns;
    bool late = gs_mono_ns() - begun_ns > api->cfg.timeout_ms * GS_NS_PER_MS;
    struct fiber_entry *f = late ? NULL : take_fiber(q);
    if (!f) {
        refuse_job(j, late);
        return;
    }
    TAILQ_REMOVE(&q->waiting, j, entry);
    TAILQ_INSERT_TAIL(&q->begun, j, entry);
    j->on = f;
    q->n_begun++;
    take_turn(j, true);
}

// --- who is next ---

// At least one runs in each iteration of the loop.
static bool has_time(const struct engine_api_queue *q)
{
    return q->spent_ns == 0 || q->spent_ns < q->options.turns * gs_turn_ns();
}

// Alternates between a waiting request and a started one, so that neither delays the others.
static void on_next(uv_idle_t *h)
{
    struct engine_api_queue *q = h->data;
    while (q->len && has_time(q)) {
        struct job *old = TAILQ_FIRST(&q->begun), *fresh = TAILQ_FIRST(&q->waiting);
        if (fresh && q->n_begun < q->options.max_begun)
            begin_job(fresh);
        if (!old)
            continue;
        TAILQ_REMOVE(&q->begun, old, entry);
        TAILQ_INSERT_TAIL(&q->begun, old, entry);
        take_turn(old, false);
    }
}

// A started request cannot be freed here: its next pause returns false, and it ends itself.
static void on_client_disconnected(void *arg)
{
    struct job *j = arg;
    j->request.x = NULL;
    j->disconnected = true;
    if (j->on) {
        take_turn(j, false);
        return;
    }
    if (j->local)
        engine_api_local_query_free(j->local);
    remove_job(j);
}

static void add_job(struct job *j)
{
    struct engine_api_queue *q = j->queue;
    TAILQ_INSERT_TAIL(&q->waiting, j, entry);
    if (q->len++ == 0)
        uv_idle_start(q->next, on_next);
    if (q->len == 1 && has_time(q))
        begin_job(j);
    else if (j->request.x)
        http_on_abort(j->request.x, on_client_disconnected, j);
}

void engine_api_queue_run(struct engine_api_queue *q, struct engine_api_request *r)
{
    struct job *j = gs_alloc(sizeof(*j));
    j->queue = q;
    j->request = *r;
    add_job(j);
}

void engine_api_queue_run_local(struct engine_api_queue *q, struct engine_api *api,
                                struct engine_api_local_query *local)
{
    struct job *j = gs_alloc(sizeof(*j));
    j->queue = q;
    j->request.api = api;
    j->local = local;
    add_job(j);
}

void engine_api_queue_cancel(struct engine_api_queue *q, struct engine_api_local_query *local)
{
    struct jobs *lists[] = {&q->waiting, &q->begun};
    struct job *j;
    for (size_t i = 0; i < GS_ARRAY_LEN(lists); i++)
        TAILQ_FOREACH (j, lists[i], entry)
            if (j->local == local) {
                on_client_disconnected(j);
                return;
            }
}

size_t engine_api_queue_len(const struct engine_api_queue *q)
{
    return q->len;
}

static size_t bytes_of(const struct jobs *list)
{
    size_t bytes = 0;
    const struct job *j;
    TAILQ_FOREACH (j, list, entry)
        bytes += j->request.x ? http_body(j->request.x).len : 0;
    return bytes;
}

size_t engine_api_queue_bytes(const struct engine_api_queue *q)
{
    return bytes_of(&q->waiting) + bytes_of(&q->begun);
}

struct engine_api_queue *engine_api_queue_new(uv_loop_t *loop,
                                              const struct engine_api_queue_options *o)
{
    struct engine_api_queue *q = gs_alloc(sizeof(*q));
    q->options = *o;
    TAILQ_INIT(&q->waiting);
    TAILQ_INIT(&q->begun);
    TAILQ_INIT(&q->idle);
    q->turn = gs_alloc(sizeof(*q->turn));
    q->next = gs_alloc(sizeof(*q->next));
    uv_check_init(loop, q->turn);
    uv_idle_init(loop, q->next);
    q->turn->data = q->next->data = q;
    uv_check_start(q->turn, on_turn);
    uv_unref((uv_handle_t *)q->turn);
    return q;
}

static void drop_jobs(struct jobs *list)
{
    for (struct job *j = TAILQ_FIRST(list), *next; j; j = next) {
        next = TAILQ_NEXT(j, entry);
        on_client_disconnected(j);
    }
}

void engine_api_queue_free(struct engine_api_queue *q)
{
    if (!q)
        return;
    drop_jobs(&q->begun);
    drop_jobs(&q->waiting);
    struct fiber_entry *f;
    while ((f = TAILQ_FIRST(&q->idle))) {
        TAILQ_REMOVE(&q->idle, f, entry);
        gs_fiber_free(f->fiber);
        free(f);
    }
    uv_close((uv_handle_t *)q->turn, free_handle);
    uv_close((uv_handle_t *)q->next, free_handle);
    free(q);
}
