// SPDX-License-Identifier: Apache-2.0
// Calculations on recorded history over HTTP: one at a time, in a thread of libuv's pool.
#include "base/mem.h"
#include "base/slice.h"
#include "replay/history.h"
#include "web/reply.h"

enum { MAX_WAITING = 8 };

struct calculation {
    struct replay_history_api *api; // NULL: it was freed
    struct http_exchange *x;        // NULL: the peer has left
    struct replay_history *history;
    uv_work_t work;
    struct calculation *next;
};

struct replay_history_api {
    uv_loop_t *loop;
    struct hpa_config cfg;
    int64_t sync_ms;
    struct calculation *waiting; // the first one is running
    size_t n_waiting;
};

static void on_peer_gone(void *arg)
{
    struct calculation *c = arg;
    c->x = NULL;
}

static void free_calculation(struct calculation *c)
{
    replay_history_free(c->history);
    free(c);
}

static void run(uv_work_t *work)
{
    const struct calculation *c = work->data;
    replay_history_run(c->history);
}

static void start(struct replay_history_api *api);

static void on_finished(uv_work_t *work, int status)
{
    struct calculation *c = work->data;
    struct replay_history_api *api = c->api;
    (void)status;
    if (c->x) {
        http_on_abort(c->x, NULL, NULL);
        web_reply_data(c->x, replay_history_answer(c->history));
    }
    if (api) {
        api->waiting = c->next;
        api->n_waiting--;
    }
    free_calculation(c);
    if (api)
        start(api);
}

// Starts the first calculation. Those whose peer has left are dropped.
static void start(struct replay_history_api *api)
{
    while (api->waiting && !api->waiting->x) {
        struct calculation *c = api->waiting;
        api->waiting = c->next;
        api->n_waiting--;
        free_calculation(c);
    }
    if (api->waiting)
        uv_queue_work(api->loop, &api->waiting->work, run, on_finished);
}

static void enqueue(struct replay_history_api *api, struct http_exchange *x,
                    struct replay_history *history)
{
    struct calculation *c = gs_alloc(sizeof(*c)), **end = &api->waiting;
    bool idle = !api->waiting;
    c->api = api;
    c->x = x;
    c->history = history;
    c->work.data = c;
    while (*end)
        end = &(*end)->next;
    *end = c;
    api->n_waiting++;
    http_on_abort(x, on_peer_gone, c);
    if (idle)
        start(api);
}

void replay_history_api_handle(struct replay_history_api *api, struct http_exchange *x)
{
    CODEC_AUTO_JSON json_t *question = NULL;
    struct replay_history *history = NULL;
    if (!gs_streq(http_method(x), "POST")) {
        http_add_header(x, "Allow", "POST");
        web_reply_error(x, 405, "bad_data", "the method must be POST");
        return;
    }
    if (api->n_waiting >= MAX_WAITING) {
        http_add_header(x, "Retry-After", "1");
        web_reply_error(x, 429, "unavailable", "too many calculations wait: try again later");
        return;
    }
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(http_body(x), true, &question);
    if (!err)
        err = replay_history_new(question, &api->cfg, api->sync_ms, &history);
    if (err)
        web_reply_failure(x, err);
    else
        enqueue(api, x, history);
}

struct replay_history_api *replay_history_api_new(uv_loop_t *loop, const struct hpa_config *cfg,
                                                  int64_t sync_ms)
{
    struct replay_history_api *api = gs_alloc(sizeof(*api));
    api->loop = loop;
    api->cfg = *cfg;
    api->sync_ms = sync_ms;
    return api;
}

void replay_history_api_free(struct replay_history_api *api)
{
    if (!api)
        return;
    for (struct calculation *c = api->waiting, *next; c; c = next) {
        next = c->next;
        if (c->x) {
            http_on_abort(c->x, NULL, NULL);
            web_reply_error(c->x, 503, "unavailable", "the server stops");
        }
        c->x = NULL;
        c->api = NULL;
        if (c != api->waiting) // the first one is in the pool; on_finished() frees it
            free_calculation(c);
    }
    free(api);
}
