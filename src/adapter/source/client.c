// SPDX-License-Identifier: Apache-2.0
// Prometheus' HTTP API as a source. Equal queries that are asked at the same time are sent once,
// and an answer is shared for max_age_ms: requests of many autoscalers in one sync period read one
// answer.
#include "adapter/source/answer.h"
#include "adapter/source/source.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/base64.h"
#include "net/http_client.h"

#include <stdio.h>
#include <strings.h>
#include <sys/queue.h>

enum {
    MAX_HEADERS = 32,
    MAX_GET = 6000, // bytes of parameters; longer ones are posted
    MAX_CACHED = 4096,
    TOKEN_AGE_MS = 10000,
    DEFAULT_TIMEOUT_MS = 30000,
};
#define MAX_ANSWER ((size_t)512 * 1024 * 1024)
#define MAX_SECRET ((size_t)1024 * 1024)

struct fetch;

// One caller.
struct source_op {
    TAILQ_ENTRY(source_op) peers;
    struct fetch *fetch;          // under way; NULL: ready
    struct source *source;        // of a ready one
    struct source_result *result; // of a ready one
    source_vector_fn on_vector;
    source_shapes_fn on_shapes;
    void *arg;
};
TAILQ_HEAD(op_list, source_op);

// One question to the server, and its answer for a while.
struct fetch {
    struct source *source;
    TAILQ_ENTRY(fetch) all;
    char *key; // the query text; NULL: not shared (series, or another time than now)
    struct http_op *http;
    struct op_list ops;
    struct source_result *result;
    int64_t started_ns, done_ns;
    bool series;
};
TAILQ_HEAD(fetch_list, fetch);

struct source {
    uv_loop_t *loop;
    struct http_client *client;
    bool owns_client, post;
    char *prefix, *name;
    char *token_file;
    struct http_header headers[MAX_HEADERS + 2];
    size_t n_headers, own_headers; // without and with a token from a file
    char *authorization;
    int64_t token_read_ns;
    int64_t timeout_ms, max_age_ns;
    struct fetch_list fetches;
    struct gs_hmap *shared; // key -> struct fetch
    struct op_list ready;   // answered from what is there, told in the next turn
    size_t n_ready;
    uv_idle_t *idle;
    struct source_stats stats;
    char *last_error;
};

// --- credentials ---

static void read_token(struct source *s)
{
    int64_t now = gs_mono_ns();
    if (!s->token_file ||
        (s->token_read_ns && now - s->token_read_ns < TOKEN_AGE_MS * GS_NS_PER_MS))
        return;
    s->token_read_ns = now;
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(s->token_file, MAX_SECRET, &text);
    if (err) { // the last one may still be good
        gs_warn("adapter", "--prometheus-token-file: %s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    struct gs_slice token = gs_slice_trim(gs_buf_slice(&text));
    free(s->authorization);
    s->authorization = gs_format("Bearer " GS_SLICE_FMT, GS_SLICE_ARG(token));
    s->headers[s->n_headers] = (struct http_header){"Authorization", s->authorization};
}

// --- ends ---

static void fetch_free(struct fetch *f)
{
    if (f->key && gs_hmap_get_str(f->source->shared, f->key) == f)
        gs_hmap_remove_str(f->source->shared, f->key);
    http_op_cancel(f->http);
    source_result_unref(f->result);
    free(f->key);
    free(f);
}

static struct gs_error *copy_error(const struct gs_error *err)
{
    return err ? gs_error_new(gs_error_code(err), "%s", gs_error_message(err)) : NULL;
}

// Tells all callers. They may ask again from inside.
static void tell(struct fetch *f, struct gs_error *err)
{
    struct source_op *op;
    while ((op = TAILQ_FIRST(&f->ops))) {
        TAILQ_REMOVE(&f->ops, op, peers);
        if (op->on_vector)
            op->on_vector(op->arg, f->result, copy_error(err));
        free(op);
    }
}

static void note(struct source *s, const struct fetch *f, const struct gs_error *err)
{
    s->stats.queries++;
    s->stats.seconds += (double)(gs_mono_ns() - f->started_ns) / 1e9;
    if (err)
        s->stats.failures++;
    else
        s->stats.last_ok_ms = gs_unix_ms();
    free(s->last_error);
    s->last_error = err ? gs_strdup(gs_error_message(err)) : NULL;
    s->stats.last_error = s->last_error;
}

// What libcurl reports as input or output trouble is a peer that cannot be reached. Its texts read
// "GET URL: reason", and the URL is named here.
static struct gs_error *answer_error(const struct source *s, struct gs_error *err)
{
    enum gs_code code = gs_error_code(err);
    const char *text = gs_error_message(err);
    const char *reason =
        gs_starts(text, "GET ") || gs_starts(text, "POST ") ? strstr(text, ": ") : NULL;
    struct gs_error *told =
        gs_error_new(code == GS_EIO || code == GS_ENOTFOUND ? GS_EUNAVAIL : code, "%s: %s", s->name,
                     reason ? reason + 2 : text);
    gs_error_free(err);
    return told;
}

static void finish_series(struct fetch *f, const struct http_answer *a, struct gs_error *err)
{
    struct source *s = f->source;
    struct source_shapes *shapes = NULL;
    if (!err) {
        err = source_read_series(a->status, a->body, &shapes);
        if (err)
            err = gs_error_wrap(err, "%s", s->name);
    }
    note(s, f, err);
    struct source_op *op = TAILQ_FIRST(&f->ops);
    TAILQ_REMOVE(&s->fetches, f, all);
    if (op) {
        TAILQ_REMOVE(&f->ops, op, peers);
        op->on_shapes(op->arg, shapes, err);
        free(op);
    } else {
        source_shapes_free(shapes);
        gs_error_free(err);
    }
    fetch_free(f);
}

// Answers that are too old to be given again. The list is in the order of asking, so they are in
// front; what is under way there holds them up no longer than its timeout.
static void drop_old(struct source *s)
{
    struct fetch *f;
    int64_t now = gs_mono_ns();
    while ((f = TAILQ_FIRST(&s->fetches)) && f->done_ns && TAILQ_EMPTY(&f->ops) &&
           (now - f->done_ns > s->max_age_ns || gs_hmap_len(s->shared) > MAX_CACHED)) {
        TAILQ_REMOVE(&s->fetches, f, all);
        fetch_free(f);
    }
}

static void on_done(void *arg, const struct http_answer *a, struct gs_error *err)
{
    struct fetch *f = arg;
    struct source *s = f->source;
    f->http = NULL;
    if (err)
        err = answer_error(s, err);
    if (f->series) {
        finish_series(f, a, err);
        return;
    }
    if (!err) {
        err = source_read_query(a->status, a->body, &f->result);
        if (err)
            err = gs_error_wrap(err, "%s", s->name);
    }
    note(s, f, err);
    f->done_ns = gs_mono_ns();
    bool stays = !err && f->key && s->max_age_ns > 0;
    if (!stays) {
        TAILQ_REMOVE(&s->fetches, f, all);
        if (f->key)
            gs_hmap_remove_str(s->shared, f->key);
    }
    tell(f, err);
    gs_error_free(err);
    if (!stays) {
        free(GS_TAKE(f->key));
        fetch_free(f);
    }
    drop_old(s);
}

// --- asking ---

static void add_parameter(struct gs_buf *out, const char *name, const char *value)
{
    gs_buf_addf(out, "%s%s=", out->len ? "&" : "", name);
    http_encode(gs_slice_of(value), out);
}

static void add_time(struct gs_buf *out, const char *name, int64_t ms)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld.%03d", (long long)(ms / 1000), (int)(ms % 1000));
    add_parameter(out, name, text);
}

static void ask(struct fetch *f, const char *endpoint, const struct gs_buf *parameters)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    struct source *s = f->source;
    bool post = s->post || parameters->len > MAX_GET;
    GS_AUTO_FREE char *path = gs_format("%s/api/v1/%s%s%s", s->prefix, endpoint, post ? "" : "?",
                                        post ? "" : parameters->data);
    read_token(s);
    struct http_call call = {
        .method = post ? "POST" : "GET",
        .path = path,
        .headers = s->headers,
        .body = post ? gs_buf_slice(parameters) : (struct gs_slice){0},
        .content_type = post ? "application/x-www-form-urlencoded" : NULL,
        .timeout_ms = (unsigned)s->timeout_ms,
        .max_reply = MAX_ANSWER,
    };
    f->started_ns = gs_mono_ns();
    gs_debug("adapter", "%s %s%s", call.method, s->name, path);
    f->http = http_send(s->client, &call, &callbacks, f);
}

static struct fetch *fetch_new(struct source *s)
{
    struct fetch *f = gs_alloc(sizeof(*f));
    f->source = s;
    TAILQ_INIT(&f->ops);
    TAILQ_INSERT_TAIL(&s->fetches, f, all);
    return f;
}

static void on_idle(uv_idle_t *h)
{
    struct source *s = h->data;
    uv_idle_stop(h);
    for (size_t n = s->n_ready; n && s->n_ready; n--) {
        struct source_op *op = TAILQ_FIRST(&s->ready);
        TAILQ_REMOVE(&s->ready, op, peers);
        s->n_ready--;
        op->on_vector(op->arg, op->result, NULL);
        source_result_unref(op->result);
        free(op);
    }
    if (s->n_ready)
        uv_idle_start(h, on_idle);
}

// An answer that is there already, told in the next turn of the loop.
static struct source_op *take_ready(struct source *s, struct fetch *f, source_vector_fn cb,
                                    void *arg)
{
    struct source_op *op = gs_alloc(sizeof(*op));
    op->source = s;
    op->result = source_result_ref(f->result);
    op->on_vector = cb;
    op->arg = arg;
    TAILQ_INSERT_TAIL(&s->ready, op, peers);
    s->n_ready++;
    uv_idle_start(s->idle, on_idle);
    return op;
}

static struct source_op *join(struct fetch *f, source_vector_fn cb, void *arg)
{
    struct source_op *op = gs_alloc(sizeof(*op));
    op->fetch = f;
    op->on_vector = cb;
    op->arg = arg;
    TAILQ_INSERT_TAIL(&f->ops, op, peers);
    return op;
}

struct source_op *source_query(struct source *s, const char *promql, int64_t time_ms,
                               source_vector_fn cb, void *arg)
{
    struct fetch *f = time_ms ? NULL : gs_hmap_get_str(s->shared, promql);
    if (f && f->done_ns && gs_mono_ns() - f->done_ns > s->max_age_ns && TAILQ_EMPTY(&f->ops)) {
        TAILQ_REMOVE(&s->fetches, f, all);
        fetch_free(f);
        f = NULL;
    }
    if (f) {
        s->stats.shared++;
        return f->done_ns ? take_ready(s, f, cb, arg) : join(f, cb, arg);
    }
    f = fetch_new(s);
    if (!time_ms) {
        f->key = gs_strdup(promql);
        gs_hmap_put_str(s->shared, promql, f);
    }
    struct source_op *op = join(f, cb, arg);
    GS_AUTO_BUF struct gs_buf parameters = {0};
    add_parameter(&parameters, "query", promql);
    add_time(&parameters, "time", time_ms ? time_ms : gs_unix_ms());
    ask(f, "query", &parameters);
    return op;
}

struct source_op *source_series(struct source *s, const char *selector, int64_t start_ms,
                                source_shapes_fn cb, void *arg)
{
    struct fetch *f = fetch_new(s);
    f->series = true;
    struct source_op *op = join(f, NULL, arg);
    op->on_shapes = cb;
    GS_AUTO_BUF struct gs_buf parameters = {0};
    add_parameter(&parameters, "match[]", selector);
    add_time(&parameters, "start", start_ms);
    ask(f, "series", &parameters);
    return op;
}

void source_cancel(struct source_op *op)
{
    if (!op)
        return;
    struct fetch *f = op->fetch;
    if (f) {
        TAILQ_REMOVE(&f->ops, op, peers);
    } else {
        TAILQ_REMOVE(&op->source->ready, op, peers);
        op->source->n_ready--;
        source_result_unref(op->result);
    }
    if (f && TAILQ_EMPTY(&f->ops) && f->http) {
        TAILQ_REMOVE(&f->source->fetches, f, all);
        fetch_free(f);
    }
    free(op);
}

// --- set-up ---

static void add_header(struct source *s, const char *name, const char *value)
{
    if (s->n_headers < MAX_HEADERS)
        s->headers[s->n_headers++] = (struct http_header){gs_strdup(name), gs_strdup(value)};
}

static struct gs_error *add_headers(struct source *s, const struct source_options *o)
{
    if (o->n_headers > MAX_HEADERS - 2)
        return gs_error_new(GS_EINVAL, "--prometheus-header: at most %d", MAX_HEADERS - 2);
    for (size_t i = 0; i < o->n_headers; i++) {
        const char *equals = strchr(o->headers[i], '=');
        GS_AUTO_FREE char *name =
            gs_strndup(o->headers[i], equals ? (size_t)(equals - o->headers[i]) : SIZE_MAX / 2);
        if (!*name)
            return gs_error_new(GS_EINVAL, "--prometheus-header \"%s\": want Key=Value",
                                o->headers[i]);
        add_header(s, name, equals ? equals + 1 : "");
    }
    if (o->token) {
        GS_AUTO_FREE char *value = gs_format("Bearer %s", o->token);
        add_header(s, "Authorization", value);
    }
    return NULL;
}

static void idle_closed(uv_handle_t *h)
{
    free(h);
}

struct source *source_new_client(uv_loop_t *loop, struct http_client *client, const char *prefix,
                                 const struct source_options *o)
{
    struct source *s = gs_alloc(sizeof(*s));
    s->loop = loop;
    s->client = client;
    s->prefix = gs_strdup(prefix);
    s->name = gs_strdup(o->url ? o->url : "the engine");
    s->post = o->post;
    s->timeout_ms = o->timeout_ms ? o->timeout_ms : DEFAULT_TIMEOUT_MS;
    s->max_age_ns = o->max_age_ms * GS_NS_PER_MS;
    s->shared = gs_hmap_new(NULL);
    s->idle = gs_alloc(sizeof(*s->idle));
    uv_idle_init(loop, s->idle);
    s->idle->data = s;
    TAILQ_INIT(&s->fetches);
    TAILQ_INIT(&s->ready);
    return s;
}

// Cuts user:password@ out of the URL; the path stays in *ret_path, the query string is dropped.
static struct gs_error *split_url(const char *url, char **ret_base, char **ret_user,
                                  char **ret_path)
{
    const char *host = strstr(url, "://");
    if (!host || (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0))
        return gs_error_new(GS_EINVAL, "\"%s\": want http://HOST[:PORT][/PATH] or https://…", url);
    host += 3;
    size_t n = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', n);
    const char *rest = host + n;
    const char *from = at ? at + 1 : host;
    if (from == rest)
        return gs_error_new(GS_EINVAL, "\"%s\": the host is missing", url);
    size_t path = strcspn(rest, "?#");
    while (path && rest[path - 1] == '/')
        path--;
    *ret_base = gs_format("%.*s%.*s", (int)(host - url), url, (int)(rest - from), from);
    *ret_path = gs_strndup(rest, path);
    if (at) {
        GS_AUTO_FREE char *raw = gs_strndup(host, (size_t)(at - host));
        struct gs_error *err = http_decode_segment(gs_slice_of(raw), ret_user);
        if (err)
            return gs_error_wrap(err, "user and password of the URL");
    }
    return NULL;
}

static struct gs_error *read_pem(const char *path, const char *text, char **ret)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    if (!path || !*path) {
        *ret = gs_strdup(text);
        return NULL;
    }
    struct gs_error *err = gs_file_read(path, MAX_SECRET, &b);
    if (!err)
        *ret = gs_buf_take(&b);
    return err;
}

static struct gs_error *make_client(uv_loop_t *loop, const char *base,
                                    const struct source_options *o, struct http_client **ret)
{
    GS_AUTO_FREE char *ca = NULL, *cert = NULL, *key = NULL;
    struct gs_error *err = read_pem(o->ca_file, o->ca_pem, &ca);
    if (!err)
        err = read_pem(o->cert_file, o->cert_pem, &cert);
    if (!err)
        err = read_pem(o->key_file, o->key_pem, &key);
    if (err)
        return err;
    struct http_client_config cfg = {
        .base_url = base,
        .ca_pem = ca,
        .cert_pem = cert,
        .key_pem = key,
        .insecure = o->insecure,
        .user_agent = "gpuscale-adapter/" GPUSCALE_VERSION,
    };
    return http_client_new_curl(loop, &cfg, ret);
}

struct gs_error *source_new_remote(uv_loop_t *loop, const struct source_options *o,
                                   struct source **ret)
{
    GS_AUTO_FREE char *base = NULL, *user = NULL, *path = NULL;
    struct http_client *client = NULL;
    struct gs_error *err = split_url(o->url, &base, &user, &path);
    if (!err)
        err = make_client(loop, base, o, &client);
    if (err)
        return gs_error_wrap(err, "Prometheus");
    GS_AUTO_FREE char *shown = gs_format("%s%s", base, path);
    struct source_options named = *o;
    named.url = shown;
    struct source *s = source_new_client(loop, client, path, &named);
    s->owns_client = true;
    err = add_headers(s, o);
    if (err) {
        source_free(s);
        return err;
    }
    if (user) {
        GS_AUTO_BUF struct gs_buf text = {0};
        gs_buf_add_str(&text, "Basic ");
        gs_base64_encode(gs_slice_of(user), &text);
        add_header(s, "Authorization", text.data);
    }
    s->token_file = o->token_file && *o->token_file ? gs_strdup(o->token_file) : NULL;
    *ret = s;
    return NULL;
}

void source_free(struct source *s)
{
    if (!s)
        return;
    struct fetch *f;
    struct source_op *op;
    while ((f = TAILQ_FIRST(&s->fetches))) {
        while ((op = TAILQ_FIRST(&f->ops))) {
            TAILQ_REMOVE(&f->ops, op, peers);
            free(op);
        }
        TAILQ_REMOVE(&s->fetches, f, all);
        fetch_free(f);
    }
    while ((op = TAILQ_FIRST(&s->ready))) {
        TAILQ_REMOVE(&s->ready, op, peers);
        source_result_unref(op->result);
        free(op);
    }
    if (s->owns_client)
        http_client_free(s->client);
    for (size_t i = 0; i < s->n_headers; i++) {
        free((char *)(uintptr_t)s->headers[i].name);
        free((char *)(uintptr_t)s->headers[i].value);
    }
    gs_hmap_free(s->shared);
    uv_close((uv_handle_t *)s->idle, idle_closed);
    free(s->authorization);
    free(s->token_file);
    free(s->prefix);
    free(s->name);
    free(s->last_error);
    free(s);
}

const char *source_name(const struct source *s)
{
    return s->name;
}

void source_stats(const struct source *s, struct source_stats *ret)
{
    *ret = s->stats;
}
