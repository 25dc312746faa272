// SPDX-License-Identifier: Apache-2.0
// An HTTP client whose credentials and certificates come from settings, files included. Files are
// read again while the client lives: credentials at most every refresh_ms, and certificates when
// they change, which starts a new generation of the client beneath. Operations keep the generation
// that they began with, so a rotation cuts no request.
#include "net/endpoint/endpoint.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/file_watch.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "codec/encoding.h"
#include "net/endpoint/endpoint_private.h"
#include "net/http/client.h"
#include "net/tls/tls.h"

#include <strings.h>
#include <sys/queue.h>

enum { CA, CERT, KEY, N_PEMS };
#define MAX_SECRET ((size_t)1024 * 1024)

LIST_HEAD(endpoint_ops, endpoint_op);

// A client with one version of the certificates, used until its last operation has ended.
struct generation {
    struct http_client *client;
    unsigned refs;
};

struct endpoint {
    struct http_client base;
    uv_loop_t *loop;
    struct gs_arena mem; // storage of the settings and options
    struct endpoint_settings settings;
    struct endpoint_options options;
    const char *base_url; // without the query string
    const char *query;    // added to each request; NULL: none
    struct endpoint_tokens *tokens;
    struct generation *current;
    struct gs_file_watch *pem_watch; // NULL: no PEM is in a file
    bool pems_failed;                // the next request reads the files again
    struct gs_arena header_mem;
    struct http_header *headers; // with the credentials; NULL: not read yet
    size_t n_headers;
    bool has_files;
    int64_t read_ns;
    struct endpoint_ops ops;
};

// A request that keeps its generation, or that failed before it was sent. Other requests are sent
// directly by the current client.
struct endpoint_op {
    struct http_op base;
    LIST_ENTRY(endpoint_op) all;
    struct generation *generation;
    struct http_op *inner;
    struct http_callbacks cb;
    void *arg;
    struct gs_error *err;
    struct gs_timer *failure; // reports err in the next turn of the loop
};

// --- secrets ---

// first: there are no earlier contents, so the text is used if the file cannot be read.
static struct gs_error *read_secret(const struct endpoint_secret *s, bool first, struct gs_buf *out)
{
    if (s->current) {
        const char *text = s->current(s->arg);
        gs_buf_add_str(out, text ? text : "");
        return text ? NULL : gs_error_new(GS_EUNAVAIL, "the credential is not available");
    }
    struct gs_error *err = s->file ? gs_file_read(s->file, MAX_SECRET, out) : NULL;
    if (err && !(first && s->text))
        return err;
    if (err)
        gs_buf_clear(out);
    if ((err || !s->file) && s->text)
        gs_buf_add_str(out, s->text);
    gs_error_free(err);
    return NULL;
}

static void add_header_line(struct gs_arena *mem, struct http_header *list, size_t *n,
                            const char *name, const struct gs_buf *text)
{
    const char *value = gs_arena_strndup(mem, text->data ? text->data : "", text->len);
    list[(*n)++] = (struct http_header){name, value};
}

static struct gs_error *add_authorization(struct endpoint *e, struct gs_arena *mem,
                                          struct http_header *list, size_t *n)
{
    const struct endpoint_settings *s = &e->settings;
    GS_AUTO_BUF struct gs_buf secret = {0}, user = {0}, plain = {0}, text = {0};
    bool first = e->options.refresh_ms && !e->headers;
    if (endpoint_secret_is_set(&s->credentials)) {
        struct gs_error *err = read_secret(&s->credentials, first, &secret);
        struct gs_slice token = gs_slice_trim(gs_buf_slice(&secret));
        if (!err && e->options.refresh_ms && s->credentials.file && !token.len)
            err = gs_error_new(GS_EINVAL, "%s is empty", s->credentials.file);
        if (err)
            return err;
        gs_buf_addf(&text, "%s ", s->auth_type ? s->auth_type : "Bearer");
        gs_buf_add_slice(&text, token);
    } else if (endpoint_secret_is_set(&s->user)) {
        struct gs_error *err = read_secret(&s->user, first, &user);
        if (!err)
            err = read_secret(&s->password, first, &secret);
        if (err)
            return err;
        gs_buf_add_slice(&plain, gs_slice_trim(gs_buf_slice(&user)));
        gs_buf_add_char(&plain, ':');
        gs_buf_add_slice(&plain, gs_slice_trim(gs_buf_slice(&secret)));
        gs_buf_add_str(&text, "Basic ");
        codec_base64_encode(gs_buf_slice(&plain), &text);
    }
    if (text.len)
        add_header_line(mem, list, n, "Authorization", &text);
    return NULL;
}

static struct gs_error *add_settings_header(struct endpoint *e, const struct endpoint_header *h,
                                            struct gs_arena *mem, struct http_header *list,
                                            size_t *n)
{
    GS_AUTO_BUF struct gs_buf secret = {0}, text = {0};
    struct gs_error *err = read_secret(&h->value, e->options.refresh_ms && !e->headers, &secret);
    if (err)
        return err;
    gs_buf_add_slice(&text, gs_slice_trim(gs_buf_slice(&secret)));
    if (text.len && (memchr(text.data, '\n', text.len) || memchr(text.data, '\r', text.len)))
        return gs_error_new(GS_EINVAL, "the value of header %s has several lines", h->name);
    add_header_line(mem, list, n, h->name, &text);
    return NULL;
}

static struct gs_error *read_endpoint_headers(struct endpoint *e)
{
    const struct endpoint_settings *s = &e->settings;
    struct gs_arena mem = {0};
    size_t n = 0;
    struct http_header *list = gs_arena_alloc(&mem, (s->n_headers + 1) * sizeof(*list));
    struct gs_error *err = add_authorization(e, &mem, list, &n);
    for (size_t i = 0; i < s->n_headers && !err; i++)
        err = add_settings_header(e, &s->headers[i], &mem, list, &n);
    if (err) {
        gs_arena_finish(&mem);
        return err;
    }
    gs_arena_finish(&e->header_mem);
    e->header_mem = mem;
    e->headers = list;
    e->n_headers = n;
    return NULL;
}

// --- TLS ---

static void generation_unref(struct generation *g)
{
    if (!g || --g->refs)
        return;
    http_client_free(g->client);
    free(g);
}

static const struct endpoint_secret *pem_of(const struct endpoint *e, int i)
{
    const struct endpoint_settings *s = &e->settings;
    return i == CA ? &s->ca : i == CERT ? &s->cert : &s->key;
}

// The time before the files are read, so that later changes are detected.
static void watch_pems(struct endpoint *e)
{
    const struct gs_file_watch_options o = {.missing_is_change = true};
    const char *files[N_PEMS];
    bool any = false;
    for (int i = 0; i < N_PEMS; i++) {
        files[i] = pem_of(e, i)->file;
        any |= files[i] != NULL;
    }
    if (!any)
        return;
    e->pem_watch = gs_file_watch_new(&o);
    gs_file_watch_set(e->pem_watch, files, N_PEMS);
}

static bool pems_changed(struct endpoint *e)
{
    bool changed = gs_file_watch_check(e->pem_watch);
    return changed || e->pems_failed;
}

static struct gs_error *read_pem(const struct endpoint_secret *s, char **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = read_secret(s, false, &text);
    if (!err && text.len)
        *ret = gs_buf_take(&text);
    return err;
}

// Errors name the file, if the certificate is in a file.
static struct gs_error *check_pems(const struct endpoint_settings *s, char *const pems[N_PEMS])
{
    struct gs_error *err = pems[CA] ? tls_check_certificates(pems[CA]) : NULL;
    if (err)
        return gs_error_wrap(err, "%s", s->ca.file ? s->ca.file : "the CA certificate");
    err = pems[CERT] && pems[KEY] ? tls_check_pair(pems[CERT], pems[KEY]) : NULL;
    return err ? gs_error_wrap(err, "%s", s->cert.file ? s->cert.file : "the client certificate")
               : NULL;
}

static struct gs_error *make_client(struct endpoint *e, char *const pems[N_PEMS],
                                    struct http_client **ret)
{
    const struct endpoint_settings *s = &e->settings;
    const struct http_client_config cfg = {
        .base_url = e->base_url,
        .unix_socket = e->options.unix_socket,
        .ca_pem = pems[CA],
        .cert_pem = pems[CERT],
        .key_pem = pems[KEY],
        .insecure = s->insecure_skip_verify,
        .tls_min = s->tls_min,
        .tls_max = s->tls_max,
        .server_name = s->server_name,
        .proxy = s->proxy_url                ? s->proxy_url
                 : s->proxy_from_environment ? NULL
                                             : "",
        .no_proxy = s->no_proxy,
        .proxy_headers = s->proxy_headers,
        .follow_redirects = s->follow_redirects,
        .connect_timeout_ms = e->options.connect_timeout_ms,
        .idle_connections = e->options.idle_connections,
        .max_requests = e->options.max_requests,
        .user_agent = e->options.user_agent,
    };
    struct gs_error *err = check_pems(s, pems);
    if (!err)
        err = http_client_new_direct(e->loop, &cfg, ret);
    if (!err && e->tokens)
        *ret = endpoint_oauth2_client_new(*ret, e->tokens);
    return err;
}

// Creates a client with the current contents of the files.
static struct gs_error *connect_again(struct endpoint *e)
{
    char *pems[N_PEMS] = {0};
    struct http_client *client = NULL;
    struct gs_error *err = NULL;
    for (int i = 0; i < N_PEMS && !err; i++)
        err = read_pem(pem_of(e, i), &pems[i]);
    if (!err)
        err = make_client(e, pems, &client);
    if (pems[KEY])
        explicit_bzero(pems[KEY], strlen(pems[KEY]));
    for (int i = 0; i < N_PEMS; i++)
        free(pems[i]);
    e->pems_failed = err && !e->options.refresh_ms; // an invalid file is reported once
    if (err)
        return err;
    generation_unref(e->current);
    e->current = gs_alloc(sizeof(*e->current));
    *e->current = (struct generation){client, 1};
    return NULL;
}

// --- requests ---

static void warn_of_files(const struct endpoint *e, struct gs_error *err)
{
    const struct endpoint_options *o = &e->options;
    if (err)
        gs_warn(o->component ? o->component : "http", "credentials for %s: %s",
                o->name ? o->name : e->base_url, gs_error_message(err));
    gs_error_free(err);
}

static struct gs_error *refresh_files(struct endpoint *e)
{
    int64_t now = gs_mono_ns(), age_ns = e->options.refresh_ms * GS_NS_PER_MS;
    if (e->headers && (!e->has_files || now - e->read_ns < age_ns))
        return NULL;
    e->read_ns = now;
    struct gs_error *err = read_endpoint_headers(e);
    if (age_ns) {
        warn_of_files(e, err);
        err = NULL;
    }
    if (!err && e->pem_watch && pems_changed(e))
        err = connect_again(e);
    if (!age_ns)
        return err;
    warn_of_files(e, err);
    return NULL;
}

static void endpoint_op_free(struct endpoint_op *op)
{
    LIST_REMOVE(op, all);
    gs_timer_free(op->failure);
    gs_error_free(op->err);
    generation_unref(op->generation);
    free(op);
}

static void on_endpoint_data(void *arg, struct gs_slice bytes)
{
    struct endpoint_op *op = arg;
    op->cb.on_data(op->arg, bytes);
}

// The callback may free the endpoint: the operation is already removed from it, and the response
// lives as long as its generation.
static void end_endpoint_op(struct endpoint_op *op, const struct http_response *response,
                            struct gs_error *err)
{
    const struct http_callbacks cb = op->cb;
    void *arg = op->arg;
    struct generation *g = GS_TAKE(op->generation);
    endpoint_op_free(op);
    cb.on_done(arg, response, err);
    generation_unref(g);
}

static void on_endpoint_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    end_endpoint_op(arg, response, err);
}

static void report_failure(void *arg)
{
    static const struct http_response none = {0};
    struct endpoint_op *op = arg;
    end_endpoint_op(op, &none, GS_TAKE(op->err));
}

static struct endpoint_op *endpoint_op_new(struct endpoint *e, const struct http_callbacks *cb,
                                           void *arg)
{
    struct endpoint_op *op = gs_alloc(sizeof(*op));
    op->base.client = &e->base;
    op->cb = *cb;
    op->arg = arg;
    LIST_INSERT_HEAD(&e->ops, op, all);
    return op;
}

static struct http_op *fail_later(struct endpoint *e, struct gs_error *err,
                                  const struct http_callbacks *cb, void *arg)
{
    struct endpoint_op *op = endpoint_op_new(e, cb, arg);
    op->err = err;
    op->failure = gs_timer_new(e->loop, op);
    gs_timer_start(op->failure, report_failure, 0);
    return &op->base;
}

static struct http_header *join_headers(const struct endpoint *e, const struct http_header *more)
{
    size_t n = 0;
    while (more && more[n].name)
        n++;
    struct http_header *all = gs_alloc_array(e->n_headers + n + 1, sizeof(*all));
    memcpy(all, e->headers, e->n_headers * sizeof(*all));
    if (n)
        memcpy(all + e->n_headers, more, n * sizeof(*all));
    return all;
}

// The path with the parameters of the base URL. NULL: there are none. Caller frees.
static char *path_with_query(const struct endpoint *e, const char *path)
{
    return e->query ? gs_format("%s%c%s", path, strchr(path, '?') ? '&' : '?', e->query) : NULL;
}

static struct http_op *endpoint_send(struct http_client *base, const struct http_request *request,
                                     const struct http_callbacks *cb, void *arg)
{
    struct endpoint *e = GS_CONTAINER_OF(base, struct endpoint, base);
    struct gs_error *err = refresh_files(e);
    if (err)
        return fail_later(e, err, cb, arg);
    struct http_request whole = *request;
    GS_AUTO_FREE struct http_header *headers =
        e->n_headers ? join_headers(e, request->headers) : NULL;
    GS_AUTO_FREE char *path = path_with_query(e, request->path);
    if (headers)
        whole.headers = headers;
    if (path)
        whole.path = path;
    if (!e->pem_watch)
        return http_send(e->current->client, &whole, cb, arg);
    const struct http_callbacks callbacks = {cb->on_data ? on_endpoint_data : NULL,
                                             on_endpoint_done};
    struct endpoint_op *op = endpoint_op_new(e, cb, arg);
    op->generation = e->current;
    op->generation->refs++;
    op->inner = http_send(op->generation->client, &whole, &callbacks, op);
    return &op->base;
}

static void endpoint_cancel(struct http_op *base)
{
    struct endpoint_op *op = GS_CONTAINER_OF(base, struct endpoint_op, base);
    http_op_cancel(op->inner);
    endpoint_op_free(op);
}

// --- life ---

static void endpoint_free(struct http_client *base)
{
    struct endpoint *e = GS_CONTAINER_OF(base, struct endpoint, base);
    for (struct endpoint_op *op = LIST_FIRST(&e->ops), *next; op; op = next) {
        next = LIST_NEXT(op, all);
        endpoint_cancel(&op->base);
    }
    gs_file_watch_free(e->pem_watch);
    generation_unref(e->current);
    endpoint_tokens_unref(e->tokens);
    gs_arena_finish(&e->header_mem);
    gs_arena_finish(&e->mem);
    free(e);
}

static struct gs_error *take_tokens(struct endpoint *e, const struct endpoint_oauth2 *o,
                                    struct endpoint_tokens **shared)
{
    struct http_client *client = NULL;
    if (shared && *shared) {
        e->tokens = endpoint_tokens_ref(*shared);
        return NULL;
    }
    const struct endpoint_options options = {.user_agent = e->options.user_agent};
    struct gs_error *err = endpoint_client_new(e->loop, "", &o->server, &options, &client);
    if (err)
        return gs_error_wrap(err, "oauth2");
    e->tokens = endpoint_tokens_new(e->loop, o, client);
    if (shared)
        *shared = endpoint_tokens_ref(e->tokens);
    return NULL;
}

// "http://host/prefix/?tenant=a" is "http://host/prefix" and "tenant=a".
static void split_base(struct endpoint *e, const char *url)
{
    size_t n = strcspn(url, "?#"), end = n;
    size_t query = url[n] == '?' ? strcspn(url + n + 1, "#") : 0;
    while (url[n] && end && url[end - 1] == '/')
        end--;
    e->base_url = gs_arena_strndup(&e->mem, url, end);
    e->query = query ? gs_arena_strndup(&e->mem, url + n + 1, query) : NULL;
}

struct gs_error *endpoint_client_new(uv_loop_t *loop, const char *base_url,
                                     const struct endpoint_settings *settings,
                                     const struct endpoint_options *options,
                                     struct http_client **ret)
{
    static const struct http_client_ops ops = {
        .send = endpoint_send, .cancel = endpoint_cancel, .free = endpoint_free};
    struct endpoint *e = gs_alloc(sizeof(*e));
    struct gs_error *err = NULL;
    e->base.ops = &ops;
    e->loop = loop;
    split_base(e, base_url);
    LIST_INIT(&e->ops);
    e->has_files = endpoint_settings_copy(settings, &e->mem, &e->settings);
    endpoint_options_copy(options, &e->mem, &e->options);
    watch_pems(e);
    if (settings->oauth2)
        err = take_tokens(e, settings->oauth2, options->tokens);
    if (!err)
        err = connect_again(e);
    // If each request reports its own failure, the files may appear later.
    if (!err && (options->refresh_ms || !e->has_files))
        err = read_endpoint_headers(e);
    if (err) {
        endpoint_free(&e->base);
        return err;
    }
    e->read_ns = gs_mono_ns();
    *ret = &e->base;
    return NULL;
}
