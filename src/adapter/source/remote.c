// SPDX-License-Identifier: Apache-2.0
// The backend for Prometheus' HTTP API. Lists of series are parsed incrementally, and the total
// size of all other pending responses is limited.
#include "adapter/source/source.h"
#include "adapter/source/source_private.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>

enum {
    MAX_GET = 6000, // bytes of parameters; longer ones are posted
    DEFAULT_TIMEOUT_MS = 30000,
    REFRESH_MS = 10000, // interval of reading secrets and certificates again
};
#define MAX_ANSWER ((size_t)128 * 1024 * 1024)
#define MAX_HELD   ((size_t)192 * 1024 * 1024) // total of pending responses
#define MAX_ERROR  ((size_t)1024 * 1024)       // of a response with a status other than 200

struct remote {
    struct source_backend base;
    struct http_client *client;
    bool owns_client;
    char *name;   // the URL without secrets
    char *prefix; // of paths
    bool post;
    int64_t timeout_ms;
    size_t held;
};

struct request {
    struct remote *remote;
    struct http_op *op;
    struct gs_buf body; // of queries
    struct source_series_reader *series;
    bool names; // the response is a list of names
    source_backend_result_fn on_result;
    source_shapes_fn on_shapes;
    source_type_fn on_type;
    char *metric; // of on_type
    void *arg;
};

static void remote_call_free(struct request *c)
{
    c->remote->held -= c->body.len;
    gs_buf_finish(&c->body);
    source_series_reader_free(c->series);
    free(c->metric);
    free(c);
}

// Maps libcurl's I/O errors to "cannot be reached". Its texts are "GET URL: reason"; the method and
// URL are removed because the caller adds the name of the source.
static struct gs_error *transport_error(const struct remote *r, struct gs_error *err)
{
    enum gs_code code = gs_error_code(err);
    const char *text = gs_error_message(err);
    const char *reason =
        gs_starts(text, "GET ") || gs_starts(text, "POST ") ? strstr(text, ": ") : NULL;
    struct gs_error *mapped =
        gs_error_new(code == GS_EIO || code == GS_ENOTFOUND ? GS_EUNAVAIL : code, "%s: %s", r->name,
                     reason ? reason + 2 : text);
    gs_error_free(err);
    return mapped;
}

static struct gs_error *answer_error(const struct remote *r, struct gs_error *err)
{
    return err ? gs_error_wrap(err, "%s", r->name) : NULL;
}

static void finish_remote_call(struct request *c, struct source_result *r, struct source_shapes *s,
                               struct gs_error *err)
{
    source_backend_result_fn on_result = c->on_result;
    source_shapes_fn on_shapes = c->on_shapes;
    source_type_fn on_type = c->on_type;
    void *arg = c->arg;
    remote_call_free(c);
    if (on_result)
        on_result(arg, r, err);
    else if (on_shapes)
        on_shapes(arg, s, err);
    else
        on_type(arg, NULL, err);
}

static void fail_remote_call(struct request *c, struct gs_error *err)
{
    http_op_cancel(GS_TAKE(c->op));
    finish_remote_call(c, NULL, NULL, answer_error(c->remote, err));
}

static void on_data(void *arg, struct gs_slice bytes)
{
    struct request *c = arg;
    if (c->series) {
        struct gs_error *err = source_series_reader_feed(c->series, bytes);
        if (err)
            fail_remote_call(c, err);
        return;
    }
    if (bytes.len > MAX_ANSWER - c->body.len || bytes.len > MAX_HELD - c->remote->held) {
        fail_remote_call(c, gs_error_new(GS_ELIMIT, "its responses exceed the memory limit"));
        return;
    }
    c->remote->held += bytes.len;
    gs_buf_add_slice(&c->body, bytes);
}

// Takes the body of c.
static void finish_type(struct request *c, int status)
{
    struct gs_arena arena = {.limit = MAX_ERROR};
    const char *type = NULL;
    source_type_fn on_type = c->on_type;
    void *arg = c->arg;
    struct gs_error *err =
        answer_error(c->remote, source_read_type(status, gs_buf_slice(&c->body),
                                                 gs_slice_of(c->metric), &arena, &type));
    remote_call_free(c);
    on_type(arg, err ? NULL : type, err);
    gs_arena_finish(&arena);
}

static void on_done(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct request *c = arg;
    struct source_result *result = NULL;
    struct source_shapes *shapes = NULL;
    c->op = NULL;
    if (err) {
        err = transport_error(c->remote, err);
    } else if (c->series) {
        err = a->body.len ? source_series_reader_feed(c->series, a->body) : NULL;
        if (err && a->status != 200) { // the status is the error
            gs_error_free(err);
            err = NULL;
        }
        if (!err)
            err = source_series_reader_end(c->series, a->status, &shapes);
        err = answer_error(c->remote, err);
    } else if (c->on_type) {
        gs_buf_add_slice(&c->body, a->body);
        c->remote->held += a->body.len;
        finish_type(c, a->status);
        return;
    } else {
        c->remote->held -= c->body.len;
        if (a->body.len)
            gs_buf_add_slice(&c->body, a->body);
        err = c->names ? source_read_names(a->status, gs_buf_slice(&c->body), &shapes)
                       : source_take_query(a->status, &c->body, &result);
        if (c->names) // c->remote->held no longer counts it
            gs_buf_finish(&c->body);
        err = answer_error(c->remote, err);
    }
    finish_remote_call(c, result, shapes, err);
}

// --- calls ---

static void add_parameter(struct gs_buf *out, const char *name, const char *value)
{
    gs_buf_addf(out, "%s%s=", out->len ? "&" : "", name);
    http_encode(gs_slice_of(value), out);
}

static void add_time_parameter(struct gs_buf *out, const char *name, int64_t ms)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld.%03d", (long long)(ms / 1000), (int)(ms % 1000));
    add_parameter(out, name, text);
}

static void send_remote(struct request *c, const char *endpoint, const struct gs_buf *parameters,
                        bool post)
{
    static const struct http_callbacks callbacks = {on_data, on_done};
    struct remote *r = c->remote;
    GS_AUTO_FREE char *path = gs_format("%s/api/v1/%s%s%s", r->prefix, endpoint, post ? "" : "?",
                                        post ? "" : parameters->data);
    struct http_request request = {
        .method = post ? "POST" : "GET",
        .path = path,
        .body = post ? gs_buf_slice(parameters) : (struct gs_slice){0},
        .content_type = post ? "application/x-www-form-urlencoded" : NULL,
        .timeout_ms = r->timeout_ms,
        .max_reply = MAX_ERROR,
    };
    gs_debug("adapter", "%s %s%s", request.method, r->name, path + strlen(r->prefix));
    c->op = http_send(r->client, &request, &callbacks, c);
}

static void send_remote_call(struct request *c, const char *endpoint,
                             const struct gs_buf *parameters)
{
    send_remote(c, endpoint, parameters, c->remote->post || parameters->len > MAX_GET);
}

static void *remote_query(struct source_backend *b, const char *promql, int64_t time_ms,
                          source_backend_result_fn done, void *arg)
{
    struct request *c = gs_alloc(sizeof(*c));
    *c = (struct request){
        .remote = GS_CONTAINER_OF(b, struct remote, base), .on_result = done, .arg = arg};
    GS_AUTO_BUF struct gs_buf parameters = {0};
    add_parameter(&parameters, "query", promql);
    add_time_parameter(&parameters, "time", time_ms);
    send_remote_call(c, "query", &parameters);
    return c;
}

static void *remote_series(struct source_backend *b, const char *selector, int64_t start_ms,
                           source_shapes_fn done, void *arg)
{
    struct request *c = gs_alloc(sizeof(*c));
    *c = (struct request){.remote = GS_CONTAINER_OF(b, struct remote, base),
                          .series = source_series_reader_new(),
                          .on_shapes = done,
                          .arg = arg};
    GS_AUTO_BUF struct gs_buf parameters = {0};
    add_parameter(&parameters, "match[]", selector);
    add_time_parameter(&parameters, "start", start_ms);
    send_remote_call(c, "series", &parameters);
    return c;
}

static void *remote_names(struct source_backend *b, const char *selector, int64_t start_ms,
                          source_shapes_fn done, void *arg)
{
    struct request *c = gs_alloc(sizeof(*c));
    *c = (struct request){.remote = GS_CONTAINER_OF(b, struct remote, base),
                          .names = true,
                          .on_shapes = done,
                          .arg = arg};
    GS_AUTO_BUF struct gs_buf parameters = {0};
    add_parameter(&parameters, "match[]", selector);
    add_time_parameter(&parameters, "start", start_ms);
    send_remote(c, "label/__name__/values", &parameters, false); // POST is not possible
    return c;
}

static void *remote_type(struct source_backend *b, const char *metric, source_type_fn done,
                         void *arg)
{
    struct request *c = gs_alloc(sizeof(*c));
    *c = (struct request){.remote = GS_CONTAINER_OF(b, struct remote, base),
                          .on_type = done,
                          .metric = gs_strdup(metric),
                          .arg = arg};
    GS_AUTO_BUF struct gs_buf parameters = {0};
    add_parameter(&parameters, "metric", metric);
    send_remote(c, "metadata", &parameters, false); // POST is not possible
    return c;
}

static void remote_cancel(struct source_backend *b, void *request)
{
    struct request *c = request;
    (void)b;
    http_op_cancel(c->op);
    remote_call_free(c);
}

// --- setup ---

static const char *remote_name(const struct source_backend *b)
{
    return GS_CONTAINER_OF(b, const struct remote, base)->name;
}

static void remote_free(struct source_backend *b)
{
    struct remote *r = GS_CONTAINER_OF(b, struct remote, base);
    if (r->owns_client)
        http_client_free(r->client);
    free(r->name);
    free(r->prefix);
    free(r);
}

static struct remote *remote_new(struct http_client *client, const struct source_options *o)
{
    static const struct source_backend_ops ops = {.name = remote_name,
                                                  .query = remote_query,
                                                  .series = remote_series,
                                                  .names = remote_names,
                                                  .type = remote_type,
                                                  .cancel = remote_cancel,
                                                  .free = remote_free};
    struct remote *r = gs_alloc(sizeof(*r));
    r->base.ops = &ops;
    r->client = client;
    r->post = o->post;
    r->timeout_ms = o->timeout_ms ? o->timeout_ms : DEFAULT_TIMEOUT_MS;
    return r;
}

struct source *source_new_client(uv_loop_t *loop, struct http_client *client, const char *prefix,
                                 const struct source_options *o)
{
    struct remote *r = remote_new(client, o);
    r->name = gs_strdup(o->url ? o->url : "the engine");
    r->prefix = gs_strdup(prefix);
    r->base.near = true;
    return source_new(loop, &r->base, o->max_age_ms);
}

struct gs_error *source_new_remote(uv_loop_t *loop, const struct source_options *o,
                                   struct source **ret)
{
    const struct endpoint_options options = {.user_agent = "gpuscale-adapter/" GPUSCALE_VERSION,
                                             .refresh_ms = REFRESH_MS,
                                             .component = "adapter"};
    struct http_client *client = NULL;
    char *name = NULL;
    struct gs_error *err =
        endpoint_client_open(loop, o->url, &o->endpoint, &options, &client, &name);
    if (err)
        return gs_error_wrap(err, "Prometheus");
    struct remote *r = remote_new(client, o);
    r->owns_client = true;
    r->name = name;
    r->prefix = gs_strdup("");
    *ret = source_new(loop, &r->base, o->max_age_ms);
    return NULL;
}
