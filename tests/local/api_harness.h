// SPDX-License-Identifier: Apache-2.0
// An API server on a memory store (or a directory) behind the loopback client, and requests that
// wait for their reply.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "codec/json.h"
#include "local/api.h"
#include "net/http/client.h"

struct harness {
    uv_loop_t loop;
    struct local_api *api;
    struct http_client *client;
};

struct reply {
    int status;
    json_t *body;         // NULL when it is not JSON
    char *text, *warning; // warning: of the header, only from request_as()
    bool done;
};

static void harness_open_with(struct harness *h, const struct local_api_config *cfg)
{
    static const char *const groups[] = {"system:masters"};
    const struct http_identity admin = {"system:admin", groups, 1};

    assert_int_equal(uv_loop_init(&h->loop), 0);
    struct gs_error *err = local_api_new(&h->loop, cfg, &h->api);
    if (err)
        fail_msg("%s", gs_error_message(err));
    h->client = http_client_new_loopback(&h->loop, local_api_handle, h->api, &admin);
}

static inline void harness_open(struct harness *h, const char *data_dir)
{
    harness_open_with(h, &(struct local_api_config){.data_dir = data_dir, .node_name = "here"});
}

static void harness_close(struct harness *h)
{
    http_client_free(h->client);
    local_api_free(h->api);
    while (uv_run(&h->loop, UV_RUN_NOWAIT))
        ;
    uv_run(&h->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&h->loop), 0);
}

static void reply_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct reply *r = arg;

    r->done = true;
    r->status = response->status;
    r->text = gs_strndup(response->body.data ? response->body.data : "", response->body.len);
    GS_AUTO_ERROR struct gs_error *bad = codec_json_parse(response->body, false, &r->body);
    gs_error_free(err);
}

static inline struct reply request_with(struct harness *h, const char *method, const char *path,
                                        const char *content_type, const char *accept,
                                        const char *body)
{
    const struct http_header headers[] = {{accept ? "Accept" : NULL, accept}, {NULL, NULL}};
    const struct http_callbacks cb = {.on_done = reply_done};
    struct reply r = {0};

    http_send(h->client,
              &(struct http_request){.method = method,
                                     .path = path,
                                     .headers = headers,
                                     .content_type = content_type,
                                     .body = gs_slice_of(body)},
              &cb, &r);
    while (!r.done)
        uv_run(&h->loop, UV_RUN_ONCE);
    return r;
}

static inline struct reply request(struct harness *h, const char *method, const char *path,
                                   const char *body)
{
    return request_with(h, method, path, body ? "application/json" : NULL, NULL, body);
}

static inline void reply_with_warning_done(void *arg, const struct http_response *response,
                                           struct gs_error *err)
{
    struct reply *r = arg;
    struct gs_slice warning = http_response_header(response, "warning");

    r->warning = warning.data ? gs_slice_dup(warning) : NULL;
    reply_done(arg, response, err);
}

// The same from a client that names itself.
static inline struct reply request_as(struct harness *h, const char *agent, const char *method,
                                      const char *path, const char *body)
{
    const struct http_header headers[] = {{"User-Agent", agent}, {NULL, NULL}};
    struct reply r = {0};

    http_send(h->client,
              &(struct http_request){.method = method,
                                     .path = path,
                                     .headers = headers,
                                     .content_type = body ? "application/json" : NULL,
                                     .body = gs_slice_of(body),
                                     .keep_headers = true},
              &(struct http_callbacks){.on_done = reply_with_warning_done}, &r);
    while (!r.done)
        uv_run(&h->loop, UV_RUN_ONCE);
    return r;
}

static inline void reply_finish(struct reply *r)
{
    json_decref(r->body);
    free(r->text);
    free(r->warning);
    *r = (struct reply){0};
}
#define AUTO_REPLY GS_CLEANUP(reply_finish)

// The reply must have this HTTP status.
#define assert_status(r, want)                                                                     \
    do {                                                                                           \
        if ((r).status != (want))                                                                  \
            fail_msg("HTTP %d, wanted %d: %s", (r).status, (want), (r).text);                      \
    } while (0)
// A string of the reply at a path of members.
#define assert_member(r, want, ...)                                                                \
    assert_string_equal(codec_json_str((r).body, __VA_ARGS__, NULL)                                \
                            ? codec_json_str((r).body, __VA_ARGS__, NULL)                          \
                            : "(absent)",                                                          \
                        want)
#define assert_number(r, want, ...)                                                                \
    assert_int_equal(codec_json_int((r).body, -4711, __VA_ARGS__, NULL), want)
// The Status message contains a text.
#define assert_message(r, part)                                                                    \
    do {                                                                                           \
        const char *message_ = codec_json_str((r).body, "message", NULL);                          \
        if (!message_ || !strstr(message_, part))                                                  \
            fail_msg("message \"%s\" lacks \"%s\"", message_ ? message_ : "", part);               \
    } while (0)

// --- watches ---

struct watched {
    struct harness *h;
    struct http_op *op;
    struct gs_buf text;
    bool ended;
};

static inline void watch_data(void *arg, struct gs_slice bytes)
{
    struct watched *w = arg;
    gs_buf_add_slice(&w->text, bytes);
}

static inline void watch_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct watched *w = arg;
    w->ended = true;
    gs_error_free(err);
}

static inline void watch_start(struct harness *h, struct watched *w, const char *path,
                               const char *accept)
{
    const struct http_header headers[] = {{accept ? "Accept" : NULL, accept}, {NULL, NULL}};
    const struct http_callbacks cb = {.on_data = watch_data, .on_done = watch_done};

    *w = (struct watched){.h = h};
    w->op = http_send(
        h->client,
        &(struct http_request){.path = path, .headers = headers, .timeout_ms = HTTP_NO_TIMEOUT},
        &cb, w);
}

// The next event, waiting for it; NULL when the watch has ended.
static inline json_t *watch_next(struct watched *w)
{
    char *end;
    json_t *event = NULL;

    while (!(end = w->text.data ? memchr(w->text.data, '\n', w->text.len) : NULL)) {
        if (w->ended)
            return NULL;
        uv_run(&w->h->loop, UV_RUN_ONCE);
    }
    size_t len = (size_t)(end - w->text.data);
    assert_null(codec_json_parse(gs_slice_make(w->text.data, len), false, &event));
    gs_buf_consume(&w->text, len + 1);
    return event;
}

static inline void watch_stop(struct watched *w)
{
    if (!w->ended)
        http_op_cancel(w->op);
    gs_buf_finish(&w->text);
}

static inline void assert_event(struct watched *w, const char *type, const char *name)
{
    CODEC_AUTO_JSON json_t *event = watch_next(w);
    assert_non_null(event);
    assert_string_equal(codec_json_str(event, "type", NULL), type);
    if (name)
        assert_string_equal(codec_json_str(event, "object", "metadata", "name", NULL), name);
}
