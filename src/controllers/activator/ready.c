// SPDX-License-Identifier: Apache-2.0
// Which endpoints have loaded their model: those whose first port has answered a GET of the path
// with 200. A pod can be ready before that. Each is queried until it has answered once.
#include "activator/activator_private.h"

#include "base/mem.h"
#include "net/http/client.h"

#define INTERVAL_MS 500
#define TIMEOUT_MS  5000
#define MAX_REPLY   ((size_t)1024 * 1024)

struct check {
    struct activator_ready *ready;
    struct check *next;
    struct activator_address at;
    struct http_client *client;
    struct http_op *op;
    struct gs_timer *timer;
    bool loaded, seen;
};

struct activator_ready {
    uv_loop_t *loop;
    char *path;
    struct check *checks;
    void (*on_change)(void *arg);
    void *arg;
};

static void query(void *arg);

static void on_reply(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct check *c = arg;
    c->op = NULL;
    c->loaded = !err && response->status == 200;
    gs_error_free(err);
    if (c->loaded)
        c->ready->on_change(c->ready->arg); // may free it
    else
        gs_timer_start(c->timer, query, INTERVAL_MS);
}

static void query(void *arg)
{
    struct check *c = arg;
    const struct http_request request = {
        .path = c->ready->path, .timeout_ms = TIMEOUT_MS, .max_reply = MAX_REPLY};
    const struct http_callbacks callbacks = {.on_done = on_reply};
    c->op = http_send(c->client, &request, &callbacks, c);
}

static void check_free(struct check *c)
{
    http_op_cancel(c->op);
    http_client_free(c->client);
    gs_timer_free(c->timer);
    free(c);
}

// NULL: the client cannot be created, so that the endpoint is not checked.
static struct check *check_new(struct activator_ready *r, const struct activator_address *at)
{
    bool six = strchr(at->ip, ':') != NULL;
    GS_AUTO_FREE char *url =
        gs_format("http://%s%s%s:%u", six ? "[" : "", at->ip, six ? "]" : "", at->port);
    const struct http_client_config cfg = {.base_url = url, .proxy = ""};
    struct http_client *client = NULL;
    GS_AUTO_ERROR struct gs_error *err = http_client_new_direct(r->loop, &cfg, &client);
    if (err)
        return NULL;
    struct check *c = gs_alloc(sizeof(*c));
    *c = (struct check){.ready = r, .next = r->checks, .at = *at, .client = client};
    c->timer = gs_timer_new(r->loop, c);
    r->checks = c;
    gs_timer_start(c->timer, query, 0);
    return c;
}

// port 0: any.
static struct check *find(const struct activator_ready *r, const char *ip, uint16_t port)
{
    for (struct check *c = r->checks; c; c = c->next)
        if (gs_streq(c->at.ip, ip) && (!port || c->at.port == port))
            return c;
    return NULL;
}

static void free_unseen(struct activator_ready *r)
{
    for (struct check **at = &r->checks; *at;) {
        struct check *c = *at;
        if (c->seen) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        check_free(c);
    }
}

// --- public ---

struct activator_ready *activator_ready_new(uv_loop_t *loop, void (*on_change)(void *arg),
                                            void *arg)
{
    struct activator_ready *r = gs_alloc(sizeof(*r));
    *r = (struct activator_ready){.loop = loop, .on_change = on_change, .arg = arg};
    return r;
}

void activator_ready_set(struct activator_ready *r, const char *path,
                         const struct activator_address *items, size_t n)
{
    bool same = gs_streq(path, r->path);
    for (struct check *c = r->checks; c; c = c->next)
        c->seen = false;
    if (!same) {
        free_unseen(r);
        free(r->path);
        r->path = gs_strdup(path);
    }
    for (size_t i = 0; path && i < n; i++) {
        struct check *c = find(r, items[i].ip, items[i].port);
        c = c ? c : check_new(r, &items[i]);
        if (c)
            c->seen = true;
    }
    free_unseen(r);
}

size_t activator_ready_keep(const struct activator_ready *r, struct activator_address *items,
                            size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const struct check *c = find(r, items[i].ip, 0);
        if (!c || c->loaded)
            items[kept++] = items[i];
    }
    return kept;
}

void activator_ready_free(struct activator_ready *r)
{
    if (!r)
        return;
    for (struct check *c = r->checks; c; c = c->next)
        c->seen = false;
    free_unseen(r);
    free(r->path);
    free(r);
}
