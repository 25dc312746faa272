// SPDX-License-Identifier: Apache-2.0
// OAuth 2.0 client credentials (RFC 6749 section 4.4) around another client, with the behavior of
// Go's oauth2 package as Prometheus uses it. Clients can share tokens.
// A request without a valid token waits in a queue; one fetch serves all that wait. A token is
// fetched again 10 s before it expires, or when the file of the secret has other contents.
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/timer.h"
#include "net/endpoint/endpoint_private.h"
#include "net/http/client.h"

#include <sys/queue.h>

#define MAX_SECRET   ((size_t)1 << 20)
#define EXPIRE_EARLY (10 * GS_NS_PER_SEC) // as Go's oauth2

LIST_HEAD(oauth2_ops, oauth2_op);

struct endpoint_tokens {
    unsigned refs;
    struct gs_arena mem; // of cfg
    struct endpoint_oauth2 cfg;
    struct http_client *client;
    struct gs_timer *begin; // starts the next fetch in a later turn of the loop
    struct http_op *op;
    char *secret; // the secret of the last token request
    char *authorization;
    int64_t expires_ns; // monotonic; 0: never
    enum endpoint_token_style style;
    bool style_known;
    int64_t timeout_ms;        // of the fetch
    struct oauth2_ops waiting; // by `queue`
};

struct oauth2_client {
    struct http_client base;
    struct http_client *inner;
    struct endpoint_tokens *tokens;
    struct oauth2_ops ops; // that wait, or have waited, for a token
};

// A request that had to wait for a token. Other requests are sent directly by the inner client.
struct oauth2_op {
    struct http_op base;
    LIST_ENTRY(oauth2_op) all, queue;
    struct http_op *inner; // NULL: waits
    struct http_callbacks cb;
    void *arg;
    struct http_request request; // a copy
    struct http_header *headers;
    size_t n_headers;
    char *method, *path, *content_type;
    struct gs_buf body;
    int64_t begun_ns;
};

static void oauth2_op_free(struct oauth2_op *op)
{
    LIST_REMOVE(op, all);
    if (!op->inner)
        LIST_REMOVE(op, queue);
    for (size_t i = 0; i < op->n_headers; i++) {
        free((char *)(uintptr_t)op->headers[i].name);
        free((char *)(uintptr_t)op->headers[i].value);
    }
    free(op->headers);
    free(op->method);
    free(op->path);
    free(op->content_type);
    gs_buf_finish(&op->body);
    free(op);
}

// --- requests with the token ---

static size_t count_headers(const struct http_header *h)
{
    size_t n = 0;
    while (h && h[n].name)
        n++;
    return n;
}

static struct http_op *send_with_token(struct oauth2_client *c, const struct http_request *request,
                                       const struct http_callbacks *cb, void *arg)
{
    size_t n = count_headers(request->headers);
    GS_AUTO_FREE struct http_header *headers = gs_alloc_array(n + 2, sizeof(*headers));
    struct http_request with_token = *request;
    if (n)
        memcpy(headers, request->headers, n * sizeof(*headers));
    headers[n] = (struct http_header){"Authorization", c->tokens->authorization};
    with_token.headers = headers;
    return http_send(c->inner, &with_token, cb, arg);
}

static void on_oauth2_data(void *arg, struct gs_slice bytes)
{
    struct oauth2_op *op = arg;
    op->cb.on_data(op->arg, bytes);
}

static void on_oauth2_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct oauth2_op *op = arg;
    const struct http_callbacks cb = op->cb;
    void *cb_arg = op->arg;
    oauth2_op_free(op);
    cb.on_done(cb_arg, response, err);
}

// Returns the remaining time of the request.
static int64_t time_left(const struct oauth2_op *op)
{
    return http_time_left_ms(http_request_timeout_ms(&op->request), op->begun_ns);
}

static void resume_waiting_op(struct oauth2_op *op)
{
    const struct http_callbacks cb = {.on_data = op->cb.on_data ? on_oauth2_data : NULL,
                                      .on_done = on_oauth2_done};
    LIST_REMOVE(op, queue);
    op->request.timeout_ms = time_left(op);
    op->inner = send_with_token(GS_CONTAINER_OF(op->base.client, struct oauth2_client, base),
                                &op->request, &cb, op);
}

static void resume_all(struct endpoint_tokens *t)
{
    struct oauth2_op *op;
    while ((op = LIST_FIRST(&t->waiting)))
        resume_waiting_op(op);
}

// --- tokens ---

static void token_drop(struct endpoint_tokens *t)
{
    free(t->authorization);
    t->authorization = NULL;
}

// Callbacks may cancel and send requests, so the waiting ones are moved to a separate list first.
// Takes err.
static void fail_all(struct endpoint_tokens *t, struct gs_error *err)
{
    struct oauth2_ops failed = LIST_HEAD_INITIALIZER(failed);
    const struct http_response none = {0};
    struct oauth2_op *op;
    while ((op = LIST_FIRST(&t->waiting))) {
        LIST_REMOVE(op, queue);
        LIST_INSERT_HEAD(&failed, op, queue);
    }
    while ((op = LIST_FIRST(&failed)))
        on_oauth2_done(op, &none, gs_error_new(gs_error_code(err), "%s", gs_error_message(err)));
    gs_error_free(err);
}

static void on_token(void *arg, const struct http_response *response, struct gs_error *err);

static struct gs_error *request_token(struct endpoint_tokens *t)
{
    static const struct http_callbacks callbacks = {.on_done = on_token};
    GS_AUTO_BUF struct gs_buf body = {0}, authorization = {0};
    struct http_header headers[3] = {{"Accept", "application/json"}};
    struct gs_error *err = endpoint_token_request_body(&t->cfg, t->secret, t->style, &body);
    if (err)
        return err;
    if (t->style == ENDPOINT_TOKEN_IN_HEADER) {
        endpoint_token_request_header(&t->cfg, t->secret, &authorization);
        headers[1] = (struct http_header){"Authorization", authorization.data};
    }
    const struct http_request request = {.method = "POST",
                                         .path = t->cfg.token_url,
                                         .headers = headers,
                                         .body = gs_buf_slice(&body),
                                         .content_type = "application/x-www-form-urlencoded",
                                         .timeout_ms = t->timeout_ms,
                                         .max_reply = ENDPOINT_MAX_TOKEN_REPLY};
    t->op = http_send(t->client, &request, &callbacks, t);
    return NULL;
}

static void take_token(struct endpoint_tokens *t, struct endpoint_token *token)
{
    token_drop(t);
    t->authorization = GS_TAKE(token->authorization);
    t->expires_ns = token->expires ? gs_mono_ns() + token->lifetime_s * GS_NS_PER_SEC : 0;
    t->style_known = true;
    resume_all(t);
}

// A server that rejects the request may expect the secret in the other place. The request is
// repeated once, until one form has succeeded.
static void on_token(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct endpoint_tokens *t = arg;
    struct endpoint_token token = {0};
    t->op = NULL;
    if (err)
        err = gs_error_wrap(err, "oauth2: cannot fetch token");
    else
        err = endpoint_token_read_answer(response, &token);
    if (!err) {
        take_token(t, &token);
        return;
    }
    if (!t->style_known && t->style == ENDPOINT_TOKEN_IN_HEADER && LIST_FIRST(&t->waiting)) {
        gs_error_free(err);
        t->style = ENDPOINT_TOKEN_IN_BODY;
        err = request_token(t);
        if (!err)
            return;
    }
    if (!t->style_known)
        t->style = ENDPOINT_TOKEN_IN_HEADER;
    endpoint_tokens_ref(t);
    fail_all(t, err);
    endpoint_tokens_unref(t);
}

static struct gs_error *read_secret(struct endpoint_tokens *t, char **ret)
{
    if (!t->cfg.client_secret.file) {
        *ret = gs_strdup(t->cfg.client_secret.text ? t->cfg.client_secret.text : "");
        return NULL;
    }
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(t->cfg.client_secret.file, MAX_SECRET, &text);
    if (err)
        return gs_error_wrap(err, "unable to read oauth2 client secret");
    *ret = gs_slice_dup(gs_slice_trim(gs_buf_slice(&text)));
    return NULL;
}

// False: a token must be fetched, or the secret cannot be read, which the fetch reports.
static bool has_token(struct endpoint_tokens *t)
{
    GS_AUTO_FREE char *secret = NULL;
    GS_AUTO_ERROR struct gs_error *err = read_secret(t, &secret);
    if (err || !gs_streq(secret, t->secret))
        token_drop(t);
    return t->authorization && (!t->expires_ns || gs_mono_ns() < t->expires_ns - EXPIRE_EARLY);
}

static void on_begin(void *arg)
{
    struct endpoint_tokens *t = arg;
    char *secret = NULL;
    if (t->op || !LIST_FIRST(&t->waiting))
        return;
    struct gs_error *err = read_secret(t, &secret);
    if (!err) {
        free(t->secret);
        t->secret = secret;
        err = request_token(t);
    }
    if (!err)
        return;
    endpoint_tokens_ref(t);
    fail_all(t, err);
    endpoint_tokens_unref(t);
}

static void copy_oauth2_config(struct endpoint_tokens *t, const struct endpoint_oauth2 *cfg)
{
    const char **scopes = gs_arena_alloc(&t->mem, (cfg->n_scopes + 1) * sizeof(*scopes));
    struct http_header *params = gs_arena_alloc(&t->mem, (cfg->n_params + 1) * sizeof(*params));
    for (size_t i = 0; i < cfg->n_scopes; i++)
        scopes[i] = gs_arena_strdup(&t->mem, cfg->scopes[i]);
    for (size_t i = 0; i < cfg->n_params; i++)
        params[i] = (struct http_header){gs_arena_strdup(&t->mem, cfg->params[i].name),
                                         gs_arena_strdup(&t->mem, cfg->params[i].value)};
    t->cfg = (struct endpoint_oauth2){
        .token_url = gs_arena_strdup(&t->mem, cfg->token_url),
        .client_id = gs_arena_strdup(&t->mem, cfg->client_id),
        .client_secret = {.text = gs_arena_strdup(&t->mem, cfg->client_secret.text),
                          .file = gs_arena_strdup(&t->mem, cfg->client_secret.file)},
        .scopes = scopes,
        .n_scopes = cfg->n_scopes,
        .params = params,
        .n_params = cfg->n_params,
    };
}

struct endpoint_tokens *endpoint_tokens_new(uv_loop_t *loop, const struct endpoint_oauth2 *cfg,
                                            struct http_client *client)
{
    struct endpoint_tokens *t = gs_alloc(sizeof(*t));
    t->refs = 1;
    copy_oauth2_config(t, cfg);
    t->client = client;
    LIST_INIT(&t->waiting);
    t->begin = gs_timer_new(loop, t);
    return t;
}

struct endpoint_tokens *endpoint_tokens_ref(struct endpoint_tokens *t)
{
    t->refs++;
    return t;
}

static void free_tokens(void *arg)
{
    struct endpoint_tokens *t = arg;
    free(t->secret);
    free(t->authorization);
    gs_arena_finish(&t->mem);
    free(t);
}

void endpoint_tokens_unref(struct endpoint_tokens *t)
{
    gs_assert(!t || t->refs > 0);
    if (!t || --t->refs)
        return;
    http_op_cancel(t->op);
    http_client_free(t->client);
    gs_timer_close(t->begin, free_tokens);
}

// --- the client ---

static void copy_request(struct oauth2_op *op, const struct http_request *request)
{
    op->request = *request;
    op->n_headers = count_headers(request->headers);
    op->headers = gs_alloc_array(op->n_headers + 1, sizeof(*op->headers));
    for (size_t i = 0; i < op->n_headers; i++)
        op->headers[i] = (struct http_header){gs_strdup(request->headers[i].name),
                                              gs_strdup(request->headers[i].value)};
    op->request.headers = op->headers;
    op->request.method = op->method = gs_strdup(request->method);
    op->request.path = op->path = gs_strdup(request->path);
    op->request.content_type = op->content_type = gs_strdup(request->content_type);
    gs_buf_add_slice(&op->body, request->body);
    op->request.body = gs_buf_slice(&op->body);
}

static struct http_op *oauth2_send(struct http_client *base, const struct http_request *request,
                                   const struct http_callbacks *cb, void *arg)
{
    struct oauth2_client *c = GS_CONTAINER_OF(base, struct oauth2_client, base);
    struct endpoint_tokens *t = c->tokens;
    if (has_token(t))
        return send_with_token(c, request, cb, arg);
    struct oauth2_op *op = gs_alloc(sizeof(*op));
    op->base.client = base;
    op->cb = *cb;
    op->arg = arg;
    op->begun_ns = gs_mono_ns();
    copy_request(op, request);
    LIST_INSERT_HEAD(&c->ops, op, all);
    LIST_INSERT_HEAD(&t->waiting, op, queue);
    if (!t->op && !gs_timer_is_active(t->begin)) {
        int64_t left = time_left(op);
        t->timeout_ms = left < HTTP_DEFAULT_TIMEOUT_MS ? left : HTTP_DEFAULT_TIMEOUT_MS;
        gs_timer_start(t->begin, on_begin, 0);
    }
    return &op->base;
}

static void oauth2_cancel(struct http_op *base)
{
    struct oauth2_op *op = GS_CONTAINER_OF(base, struct oauth2_op, base);
    http_op_cancel(op->inner);
    oauth2_op_free(op);
}

static void oauth2_free(struct http_client *base)
{
    struct oauth2_client *c = GS_CONTAINER_OF(base, struct oauth2_client, base);
    for (struct oauth2_op *op = LIST_FIRST(&c->ops), *next; op; op = next) {
        next = LIST_NEXT(op, all);
        oauth2_cancel(&op->base);
    }
    http_client_free(c->inner);
    endpoint_tokens_unref(c->tokens);
    free(c);
}

struct http_client *endpoint_oauth2_client_new(struct http_client *inner,
                                               struct endpoint_tokens *tokens)
{
    static const struct http_client_ops ops = {
        .send = oauth2_send, .cancel = oauth2_cancel, .free = oauth2_free};
    struct oauth2_client *c = gs_alloc(sizeof(*c));
    c->base.ops = &ops;
    c->inner = inner;
    c->tokens = endpoint_tokens_ref(tokens);
    LIST_INIT(&c->ops);
    return &c->base;
}
