// SPDX-License-Identifier: Apache-2.0
// A request forwarded to an aggregated server carries the caller's identity in the headers of an
// authenticating proxy, as kube-apiserver does. Headers of that kind from the caller are not
// forwarded.
#include "local/api/aggregate.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/status.h"
#include "local/api/api_private.h"

#include <strings.h>

#define MAX_OPEN_REQUESTS  256 // of one server
#define REQUEST_TIMEOUT_MS 60000
#define MAX_GROUPS         64

struct local_api_proxied {
    struct local_api_proxied *prev, *next;
    struct local_api_proxy *proxy;
    struct http_exchange *x;    // NULL once answered
    struct http_stream *stream; // of a watch or a log that is followed
    struct http_op *op;         // NULL once done
    bool streamed;
    // Of the subresource proxy, for redirects of the server; prefix NULL: of an aggregated server.
    char *prefix, *ip;
    uint16_t port;
};

static void proxied_unlink(struct local_api_proxied *r)
{
    gs_assert(r->proxy);
    if (r->prev)
        r->prev->next = r->next;
    else
        r->proxy->first = r->next;
    if (r->next)
        r->next->prev = r->prev;
    r->proxy->n--;
    r->proxy = NULL;
}

static void proxied_free(struct local_api_proxied *r)
{
    free(r->prefix);
    free(r->ip);
    free(r);
}

static void on_client_gone(void *arg)
{
    struct local_api_proxied *r = arg;

    http_op_cancel(r->op);
    proxied_unlink(r);
    proxied_free(r);
}

static void on_stream_closed(void *arg)
{
    struct local_api_proxied *r = arg;

    if (r->proxy) {
        http_op_cancel(r->op);
        proxied_unlink(r);
    }
    proxied_free(r);
}

static void on_proxied_data(void *arg, struct gs_slice bytes)
{
    struct local_api_proxied *r = arg;

    if (!r->stream) {
        r->stream = http_reply_stream(r->x, 200, "application/json", on_stream_closed, r);
        r->x = NULL;
    }
    http_stream_write(r->stream, bytes);
}

// Headers of the reply that mean something to the client of the subresource proxy.
static void add_reply_headers(const struct local_api_proxied *r,
                              const struct http_response *response)
{
    static const struct http_header names[] = {{"cache-control", "Cache-Control"},
                                               {"content-disposition", "Content-Disposition"},
                                               {"etag", "ETag"},
                                               {"last-modified", "Last-Modified"},
                                               {"set-cookie", "Set-Cookie"},
                                               {"www-authenticate", "WWW-Authenticate"}};
    const struct local_api_forward to = {.ip = r->ip, .port = r->port, .prefix = r->prefix};

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        GS_AUTO_FREE char *value = gs_slice_dup(http_response_header(response, names[i].name));
        if (value && *value)
            http_add_header(r->x, names[i].value, value);
    }
    GS_AUTO_FREE char *location = gs_slice_dup(http_response_header(response, "location"));
    if (!location || !*location)
        return;
    GS_AUTO_FREE char *shown = local_api_forward_location(&to, location, http_header(r->x, "Host"));
    http_add_header(r->x, "Location", shown);
}

static void on_proxied_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct local_api_proxied *r = arg;
    struct http_exchange *x = r->x;
    struct http_stream *stream = r->stream;
    GS_AUTO_ERROR struct gs_error *owned = err;

    proxied_unlink(r);
    r->op = NULL;
    if (stream) { // on_stream_closed frees the request
        http_stream_end(stream);
        return;
    }
    if (!err && r->prefix)
        add_reply_headers(r, response);
    proxied_free(r);
    if (err)
        kube_reply_failure(x, 503, "ServiceUnavailable", "error trying to reach service: %s",
                           gs_error_message(err));
    else
        http_reply(x, response->status, response->content_type, response->body);
}

// --- headers ---

struct header_list {
    struct http_header items[8 + MAX_GROUPS];
    size_t n;
};

static void add_header(struct header_list *l, const char *name, const char *value)
{
    if (value && l->n + 1 < GS_ARRAY_LEN(l->items))
        l->items[l->n++] = (struct http_header){name, value};
}

// All but those of the connection and those that the client library sets.
static void copy_headers(struct header_list *l, const struct http_exchange *x)
{
    static const char *const own[] = {"Accept-Encoding",    "Connection", "Content-Length",
                                      "Content-Type",       "Expect",     "Host",
                                      "Keep-Alive",         "TE",         "Trailer",
                                      "Transfer-Encoding",  "Upgrade",    "Proxy-Connection",
                                      "Proxy-Authorization"};
    const char *name, *value;

    for (size_t i = 0; (value = http_header_nth(x, i, &name)); i++) {
        bool kept = !local_api_is_credential(name) && !gs_has_control(value) &&
                    !gs_lists_word(http_header(x, "Connection"), name);
        for (size_t k = 0; kept && k < GS_ARRAY_LEN(own); k++)
            kept = strcasecmp(name, own[k]) != 0;
        if (kept)
            add_header(l, name, value);
    }
}

static void fill_headers(struct header_list *l, const struct http_exchange *x)
{
    const struct http_identity *who = http_identity(x);

    add_header(l, "Accept", http_header(x, "Accept"));
    add_header(l, "If-None-Match", http_header(x, "If-None-Match"));
    add_header(l, "User-Agent", http_header(x, "User-Agent"));
    if (who)
        add_header(l, "X-Remote-User", who->user);
    for (size_t i = 0; who && i < who->n_groups && i < MAX_GROUPS; i++)
        add_header(l, "X-Remote-Group", who->groups[i]);
}

static bool is_streamed(const struct http_exchange *x)
{
    return local_api_query_bool(x, "watch") || local_api_query_bool(x, "follow");
}

void local_api_proxy_forward(struct local_api_proxy *p, struct http_exchange *x,
                             const struct local_api_forward *to)
{
    struct header_list headers = {0};

    if (p->n >= MAX_OPEN_REQUESTS) {
        kube_reply_failure(x, 429, "TooManyRequests",
                           "too many requests are waiting for this service");
        return;
    }
    struct local_api_proxied *r = gs_alloc(sizeof *r);
    r->proxy = p;
    r->x = x;
    r->streamed = is_streamed(x);
    r->next = p->first;
    if (r->next)
        r->next->prev = r;
    p->first = r;
    p->n++;
    if (to) {
        r->prefix = gs_strdup(to->prefix);
        r->ip = gs_strdup(to->ip);
        r->port = to->port;
        copy_headers(&headers, x);
    } else {
        fill_headers(&headers, x);
    }
    http_on_abort(x, on_client_gone, r);
    r->op = http_send(
        p->client,
        &(struct http_request){.method = http_method(x),
                               .path = to ? to->target : http_target(x),
                               .headers = headers.items,
                               .body = http_body(x),
                               .content_type = http_header(x, "Content-Type"),
                               .keep_headers = to != NULL,
                               .timeout_ms = r->streamed ? HTTP_NO_TIMEOUT : REQUEST_TIMEOUT_MS},
        &(struct http_callbacks){.on_data = r->streamed ? on_proxied_data : NULL,
                                 .on_done = on_proxied_done},
        r);
}

void local_api_proxy_finish(struct local_api_proxy *p)
{
    while (p->first) {
        struct local_api_proxied *r = p->first;
        struct http_exchange *x =
            r->x; // NOLINT(clang-analyzer-unix.Malloc): freed ones are unlinked
        struct http_stream *stream = r->stream;
        http_op_cancel(r->op);
        proxied_unlink(r);
        if (stream) {
            http_stream_end(stream); // on_stream_closed frees the request
            continue;
        }
        proxied_free(r);
        http_reply_text(x, 503, "service unavailable\n");
    }
    http_client_free(p->client);
    p->client = NULL;
}
