// SPDX-License-Identifier: Apache-2.0
// Fixture of the tests of the HTTP API: a store with fixed samples, the API, a loopback client.
#pragma once

#include "base/clock.h"
#include "base/mem.h"
#include "doubles.h"
#include "engine/api/api.h"
#include "net/http/client.h"
#include "patience.h"

struct harness {
    uv_loop_t loop;
    struct tsdb *db;
    struct promql_engine *promql;
    struct engine_api *api;
    struct http_client *client;
    int done, status;
    struct gs_buf body;
    int reloads, quits;
    struct gs_error *reload_error; // the result of the next reload
};

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct harness *h = arg;
    h->done++;
    h->status = response->status;
    gs_buf_clear(&h->body);
    gs_buf_add(&h->body, response->body.data, response->body.len);
    if (err)
        fail_msg("%s", gs_error_message(err));
}

static void send_request(struct harness *h, const char *method, const char *path, const char *form)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    struct http_request request = {.method = method, .path = path};
    if (form) {
        request.body = gs_slice_of(form);
        request.content_type = "application/x-www-form-urlencoded; charset=utf-8";
    }
    int before = h->done;
    http_send(h->client, &request, &callbacks, h);
    for (int64_t end = gs_mono_ns() + WAIT_NS; h->done == before && gs_mono_ns() < end;)
        uv_run(&h->loop, UV_RUN_NOWAIT);
    assert_int_equal(h->done, before + 1);
}

static inline void get(struct harness *h, const char *path)
{
    send_request(h, "GET", path, NULL);
}

static inline void post(struct harness *h, const char *path, const char *form)
{
    send_request(h, "POST", path, form);
}

static inline void assert_answer(const struct harness *h, int status, const char *body)
{
    assert_string_equal(h->body.data, body);
    assert_int_equal(h->status, status);
}

static inline void assert_contains(const struct harness *h, int status, const char *text)
{
    if (!strstr(h->body.data, text))
        fail_msg("no %s in %s", text, h->body.data);
    assert_int_equal(h->status, status);
}

static inline void assert_failed(const struct harness *h, int status, const char *type,
                                 const char *error)
{
    json_t *j = NULL;
    assert_ok(codec_json_parse(gs_buf_slice(&h->body), true, &j));
    assert_string_equal(codec_json_str(j, "status", NULL), "error");
    assert_string_equal(codec_json_str(j, "errorType", NULL), type);
    const char *got = codec_json_str(j, "error", NULL);
    if (!got || !strstr(got, error))
        fail_msg("error \"%s\" does not contain \"%s\"", got ? got : "", error);
    assert_int_equal(h->status, status);
    json_decref(j);
}

static inline void add(struct harness *h, const char *name, const char *gpu, int64_t t_s, double v)
{
    const struct metrics_label l[] = {{GS_SLICE("__name__"), gs_slice_of(name)},
                                      {GS_SLICE("gpu"), gs_slice_of(gpu)},
                                      {GS_SLICE("host"), GS_SLICE("a")}};
    assert_ok(tsdb_append(h->db, l, 3, t_s * 1000, v));
}

static struct gs_error *on_reload(void *arg)
{
    struct harness *h = arg;
    h->reloads++;
    return GS_TAKE(h->reload_error);
}

static void on_quit(void *arg)
{
    struct harness *h = arg;
    h->quits++;
}

static int setup_with(void **state, const struct engine_api_config *more)
{
    struct harness *h = gs_alloc(sizeof(*h));
    struct tsdb_config store = {.retention_ms = INT64_MAX / 8};
    struct promql_config query = {0};
    uv_loop_init(&h->loop);
    h->db = tsdb_new(&store);
    h->promql = promql_engine_new(h->db, &query);
    add(h, "temperature", "0", 50, 38);
    add(h, "temperature", "0", 100, 40);
    add(h, "temperature", "1", 100, 41.5);
    const struct metrics_label odd[] = {{GS_SLICE("__name__"), GS_SLICE("odd")},
                                        {GS_SLICE("odd.label"), GS_SLICE("a\"b\n")}};
    assert_ok(tsdb_append(h->db, odd, 2, 100000, 1));
    struct engine_api_config cfg = *more;
    cfg.loop = &h->loop;
    cfg.db = h->db;
    cfg.promql = h->promql;
    cfg.retention_ms = 7200000;
    cfg.lookback_ms = 300000;
    cfg.timeout_ms = WAIT_MS;
    cfg.reload = on_reload;
    cfg.quit = on_quit;
    cfg.arg = h;
    assert_ok(engine_api_new(&cfg, &h->api));
    h->client = http_client_new_loopback(&h->loop, engine_api_handle, h->api, NULL);
    *state = h;
    return 0;
}

static inline int setup(void **state)
{
    return setup_with(state, &(struct engine_api_config){0});
}

static int teardown(void **state)
{
    struct harness *h = *state;
    http_client_free(h->client);
    engine_api_free(h->api);
    promql_engine_free(h->promql);
    tsdb_free(h->db);
    gs_error_free(h->reload_error);
    gs_buf_finish(&h->body);
    uv_run(&h->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&h->loop), 0);
    free(h);
    return 0;
}
