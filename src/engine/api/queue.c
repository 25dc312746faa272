// SPDX-License-Identifier: Apache-2.0
// Requests that may take long wait for each other, so that scrapes, rules and short requests get
// their turn in between: in one turn of the loop such requests run for TURN_NS, the others wait.
// How many wait is bounded by the server's connections; the wait counts into the query's timeout.
#include "engine/api/api_private.h"

#include "base/clock.h"

#include <sys/queue.h>

#define TURN_NS (20 * GS_NS_PER_MS)

struct waiting {
    TAILQ_ENTRY(waiting) entry;
    struct api_queue *queue;
    struct api_request request;
};

struct api_queue {
    TAILQ_HEAD(, waiting) list;
    uv_check_t *turn; // a turn of the loop begins
    uv_idle_t *next;  // runs while somebody waits
    int64_t spent_ns; // in this turn
    size_t len;
};

static void free_handle(uv_handle_t *h)
{
    free(h);
}

static void on_turn(uv_check_t *h)
{
    struct api_queue *q = h->data;
    q->spent_ns = 0;
}

static void run(struct api_queue *q, struct api_request *r)
{
    int64_t begun = gs_mono_ns();
    if (begun - r->begun_ns > r->api->cfg.timeout_ms * GS_NS_PER_MS)
        api_fail(r, API_TIMEOUT, "query timed out in query queue");
    else
        api_run(r);
    q->spent_ns += gs_mono_ns() - begun;
}

static void take_out(struct waiting *w)
{
    struct api_queue *q = w->queue;
    TAILQ_REMOVE(&q->list, w, entry);
    if (--q->len == 0)
        uv_idle_stop(q->next);
}

static void on_next(uv_idle_t *h)
{
    struct api_queue *q = h->data;
    while (q->len && q->spent_ns < TURN_NS) {
        struct waiting *w = TAILQ_FIRST(&q->list);
        struct api_request r = w->request;
        http_on_abort(r.x, NULL, NULL);
        take_out(w);
        free(w);
        run(q, &r);
    }
}

static void on_peer_left(void *arg)
{
    struct waiting *w = arg;
    take_out(w);
    free(w);
}

void api_queue_run(struct api_queue *q, struct api_request *r)
{
    if (q->len == 0 && q->spent_ns < TURN_NS) {
        run(q, r);
        return;
    }
    struct waiting *w = gs_alloc(sizeof(*w));
    w->queue = q;
    w->request = *r;
    TAILQ_INSERT_TAIL(&q->list, w, entry);
    if (q->len++ == 0)
        uv_idle_start(q->next, on_next);
    http_on_abort(r->x, on_peer_left, w);
}

size_t api_queue_len(const struct api_queue *q)
{
    return q->len;
}

struct api_queue *api_queue_new(uv_loop_t *loop)
{
    struct api_queue *q = gs_alloc(sizeof(*q));
    TAILQ_INIT(&q->list);
    q->turn = gs_alloc(sizeof(*q->turn));
    q->next = gs_alloc(sizeof(*q->next));
    uv_check_init(loop, q->turn);
    uv_idle_init(loop, q->next);
    q->turn->data = q->next->data = q;
    uv_check_start(q->turn, on_turn);
    uv_unref((uv_handle_t *)q->turn);
    return q;
}

void api_queue_free(struct api_queue *q)
{
    if (!q)
        return;
    while (q->len) {
        struct waiting *w = TAILQ_FIRST(&q->list);
        take_out(w);
        free(w);
    }
    uv_close((uv_handle_t *)q->turn, free_handle);
    uv_close((uv_handle_t *)q->next, free_handle);
    free(q);
}
