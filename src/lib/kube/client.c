// SPDX-License-Identifier: Apache-2.0
// Requests to a Kubernetes API: one callback per request, with the decoded body and the status.
// Freeing a client cancels its requests; their callbacks are not called. Runs on the loop's
// thread.
#include "kube/client.h"

#include "base/mem.h"
#include "kube/kube_private.h"

// All pods of a large cluster. 64 MiB, the default of the client, are fifty pods of the size that
// an API server takes at most: whoever may create them would stop all lists.
#define MAX_LIST_BYTES ((size_t)512 << 20)

// A list is requested in pages, of as many objects as Kubernetes' clients request: the text of a
// page is freed before the next one comes.
#define PAGE_OBJECTS    500
#define MAX_PAGES_BYTES ((size_t)4 << 30)
#define MIN_PAGE_BYTES  1024   // as which an empty page counts
#define PAGE_TIMEOUT_MS 120000 // an API server that has just started, or has much to do
#define PAGE_TRIES      3      // of a page after the first one: the pages before are kept

struct kube_client {
    struct http_client *http;
    struct kube_request *requests; // in progress
    bool urgent;
};

struct kube_request {
    struct kube_client *client;
    struct kube_request *prev, *next;
    struct http_op *op;
    kube_done cb;
    void *arg;
    bool in_callback;
    char *method, *path; // for error texts
    // Of a list in pages.
    bool is_list, paged; // not paged: a page has expired, or the caller wants one page
    json_t *items;       // of the pages before; NULL: none
    size_t bytes;        // of these pages
    char *token;         // of the page in progress; NULL: the first one
    unsigned failures;   // of this page
    kube_take take;      // NULL: none
};

struct kube_client *kube_client_new(struct http_client *client)
{
    struct kube_client *c = gs_alloc(sizeof(*c));
    c->http = client;
    return c;
}

struct http_client *kube_client_http(const struct kube_client *c)
{
    return c->http;
}

struct kube_client *kube_client_new_urgent(struct http_client *client)
{
    struct kube_client *c = kube_client_new(client);
    c->urgent = true;
    return c;
}

void kube_client_free(struct kube_client *c)
{
    if (!c)
        return;
    for (struct kube_request *r = c->requests, *next; r; r = next) {
        next = r->next;
        kube_request_cancel(r);
    }
    free(c);
}

static void request_free(struct kube_request *r)
{
    json_decref(r->items);
    free(r->token);
    free(r->method);
    free(r->path);
    free(r);
}

static void request_unlink(struct kube_request *r)
{
    if (r->prev)
        r->prev->next = r->next;
    else
        r->client->requests = r->next;
    if (r->next)
        r->next->prev = r->prev;
}

void kube_request_cancel(struct kube_request *r)
{
    if (!r || r->in_callback)
        return;
    request_unlink(r);
    http_op_cancel(r->op);
    request_free(r);
}

// --- pages of a list ---

static const struct http_callbacks request_callbacks;

static const struct http_header accept_json[] = {{"Accept", "application/json"}, {NULL, NULL}};

static void send_page(struct kube_request *r)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    gs_buf_add_str(&path, r->path);
    if (r->paged)
        gs_buf_addf(&path, "%climit=%d", strchr(r->path, '?') ? '&' : '?', PAGE_OBJECTS);
    if (r->token) {
        gs_buf_add_str(&path, "&continue=");
        http_encode(gs_slice_of(r->token), &path);
    }
    const struct http_request request = {.path = path.data,
                                         .headers = accept_json,
                                         .max_reply = MAX_LIST_BYTES,
                                         .timeout_ms = PAGE_TIMEOUT_MS,
                                         .urgent = r->client->urgent};
    r->op = http_send(r->client->http, &request, &request_callbacks, r);
}

static bool is_expired_page(const struct kube_request *r, int status)
{
    return r->items && status == 410;
}

static void next_page(struct kube_request *r, const char *token)
{
    free(r->token);
    r->token = gs_strdup(token);
    r->failures = 0;
    send_page(r);
}

// After a page that has failed. False: the list has failed.
static bool repeat_page(struct kube_request *r, int status)
{
    if (is_expired_page(r, status)) { // as in Kubernetes' clients, all in one response then
        json_decref(GS_TAKE(r->items));
        r->bytes = 0;
        r->paged = false;
        next_page(r, NULL);
        return true;
    }
    bool passes = status == 0 || status == 429 || status >= 500;
    if (!r->items || !passes || ++r->failures == PAGE_TRIES)
        return false;
    send_page(r);
    return true;
}

// False: this page was the last one.
static bool request_next_page(struct kube_request *r, const json_t *body)
{
    const char *token = codec_json_str(body, "metadata", "continue", NULL);
    if (!token || !*token)
        return false;
    next_page(r, token);
    return true;
}

// Moves the items of the page to those of the pages before, and all of them into the last one.
static struct gs_error *take_page(struct kube_request *r, size_t bytes, json_t *body)
{
    json_t *items = json_object_get(body, "items");
    r->bytes += bytes + MIN_PAGE_BYTES;
    if (r->bytes > MAX_PAGES_BYTES)
        return gs_error_new(GS_ELIMIT, "the list %s has more than %zu bytes", r->path,
                            MAX_PAGES_BYTES);
    if (r->items)
        json_array_extend(r->items, items);
    else
        r->items = json_incref(items);
    json_object_set(body, "items", r->items);
    return NULL;
}

static bool is_page(const struct kube_request *r, int status, const json_t *body)
{
    return r->is_list && status == 200 && json_is_array(json_object_get(body, "items"));
}

// Objects of a list in pages are read one by one; others only if one of them cannot be parsed.
static struct gs_error *read_body(const struct kube_request *r, int status, struct gs_slice text,
                                  json_t **ret)
{
    GS_AUTO_BUF struct gs_buf cut = {0};
    if (r->take && kube_cut_managed_fields(text, &cut))
        text = gs_buf_slice(&cut);
    if (r->is_list && status < 400)
        *ret = kube_read_list(text, r->path, r->take, r->arg);
    if (*ret)
        return NULL;
    struct gs_error *bad = codec_json_parse_accepted(text, ret);
    if (bad && status < 400 && !r->is_list)
        *ret = kube_read_list(text, r->path, NULL, NULL);
    if (bad && status < 400 && !*ret)
        return gs_error_wrap(bad, "reading the API server's reply");
    gs_error_free(bad);
    return NULL;
}

static void request_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct kube_request *r = arg;
    CODEC_AUTO_JSON json_t *body = NULL;
    int status = 0;

    r->op = NULL;
    if (!err) {
        status = response->status;
        if (response->body.len > 0)
            err = read_body(r, status, response->body, &body);
        if (status >= 400)
            err = kube_response_error(r->method, r->path, response, body);
    }
    bool page = !err && is_page(r, status, body);
    if (page)
        err = take_page(r, response->body.len, body);
    if (r->paged && (err ? repeat_page(r, status) : page && request_next_page(r, body))) {
        gs_error_free(err);
        return;
    }
    request_unlink(r);
    r->in_callback = true;
    if (r->cb)
        r->cb(r->arg, status, body, err);
    else
        gs_error_free(err);
    request_free(r);
}

static const struct http_callbacks request_callbacks = {.on_done = request_done};

static struct kube_request *new_request(struct kube_client *c, const char *method, const char *path,
                                        kube_done cb, void *arg)
{
    struct kube_request *r = gs_alloc(sizeof(*r));
    r->client = c;
    r->cb = cb;
    r->arg = arg;
    r->method = gs_strdup(method ? method : "GET");
    r->path = gs_strdup(path);
    r->next = c->requests;
    if (r->next)
        r->next->prev = r;
    c->requests = r;
    return r;
}

static struct kube_request *request_send(struct kube_client *c, const struct http_request *request,
                                         kube_done cb, void *arg)
{
    struct kube_request *r = new_request(c, request->method, request->path, cb, arg);
    struct http_request sent = *request;
    sent.urgent = c->urgent;
    r->op = http_send(c->http, &sent, &request_callbacks, r);
    return r;
}

static void add_segment(struct gs_buf *out, const char *text)
{
    gs_buf_add_char(out, '/');
    http_encode(gs_slice_of(text), out);
}

void kube_path(struct gs_buf *out, struct kube_gvr r, const char *ns, const char *name,
               const char *subresource)
{
    if (*r.group) {
        gs_buf_add_str(out, "/apis");
        add_segment(out, r.group);
    } else {
        gs_buf_add_str(out, "/api");
    }
    add_segment(out, r.version);
    if (ns) {
        gs_buf_add_str(out, "/namespaces");
        add_segment(out, ns);
    }
    add_segment(out, r.resource);
    if (name)
        add_segment(out, name);
    if (subresource)
        add_segment(out, subresource);
}

struct kube_request *kube_raw_get(struct kube_client *c, const char *path, kube_done cb, void *arg)
{
    struct http_request request = {
        .path = path, .headers = accept_json, .max_reply = MAX_LIST_BYTES};
    return request_send(c, &request, cb, arg);
}

static bool has_limit(const char *path)
{
    return strstr(path, "?limit=") || strstr(path, "&limit=");
}

struct kube_request *kube_list_pages(struct kube_client *c, const char *path, kube_take take,
                                     kube_done cb, void *arg)
{
    struct kube_request *r = new_request(c, NULL, path, cb, arg);
    r->is_list = true;
    r->paged = !has_limit(path);
    r->take = take;
    send_page(r);
    return r;
}

struct kube_request *kube_get(struct kube_client *c, struct kube_gvr r, const char *ns,
                              const char *name, const char *subresource, kube_done cb, void *arg)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, r, ns, name, subresource);
    return kube_raw_get(c, path.data, cb, arg);
}

struct kube_request *kube_list(struct kube_client *c, struct kube_gvr r, const char *ns,
                               const char *query, kube_done cb, void *arg)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, r, ns, NULL, NULL);
    if (query && *query)
        gs_buf_addf(&path, "?%s", query);
    return kube_raw_get(c, path.data, cb, arg);
}

static struct kube_request *send_json(struct kube_client *c, const char *method, const char *path,
                                      const char *content_type, const json_t *body, kube_done cb,
                                      void *arg)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (body)
        codec_json_dump(body, &text);
    struct http_request request = {
        .method = method,
        .path = path,
        .headers = accept_json,
        .body = gs_buf_slice(&text),
        .content_type = content_type,
    };
    return request_send(c, &request, cb, arg);
}

struct kube_request *kube_create_sub(struct kube_client *c, struct kube_gvr r, const char *ns,
                                     const char *name, const char *subresource, const json_t *obj,
                                     kube_done cb, void *arg)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, r, ns, name, subresource);
    return send_json(c, "POST", path.data, "application/json", obj, cb, arg);
}

struct kube_request *kube_create(struct kube_client *c, struct kube_gvr r, const char *ns,
                                 const json_t *obj, kube_done cb, void *arg)
{
    return kube_create_sub(c, r, ns, NULL, NULL, obj, cb, arg);
}

struct kube_request *kube_update(struct kube_client *c, struct kube_gvr r, const char *ns,
                                 const char *name, const char *subresource, const json_t *obj,
                                 kube_done cb, void *arg)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, r, ns, name, subresource);
    return send_json(c, "PUT", path.data, "application/json", obj, cb, arg);
}

struct kube_request *kube_patch(struct kube_client *c, struct kube_gvr r, const char *ns,
                                const char *name, const char *subresource, const char *content_type,
                                const json_t *patch, kube_done cb, void *arg)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, r, ns, name, subresource);
    return send_json(c, "PATCH", path.data, content_type, patch, cb, arg);
}

struct kube_request *kube_delete_with(struct kube_client *c, struct kube_gvr r, const char *ns,
                                      const char *name, int grace_seconds, const char *policy,
                                      kube_done cb, void *arg)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, r, ns, name, NULL);
    CODEC_AUTO_JSON json_t *options = json_object();
    codec_json_set_str(options, "kind", "DeleteOptions");
    codec_json_set_str(options, "apiVersion", "v1");
    if (grace_seconds >= 0)
        codec_json_set_int(options, "gracePeriodSeconds", grace_seconds);
    codec_json_set_str(options, "propagationPolicy", policy);
    return send_json(c, "DELETE", path.data, "application/json", options, cb, arg);
}

// The policy is given, because that of Jobs is Orphan by default.
struct kube_request *kube_delete(struct kube_client *c, struct kube_gvr r, const char *ns,
                                 const char *name, int grace_seconds, kube_done cb, void *arg)
{
    return kube_delete_with(c, r, ns, name, grace_seconds, "Background", cb, arg);
}
