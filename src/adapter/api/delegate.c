// SPDX-License-Identifier: Apache-2.0
// Requests for metrics that this adapter does not have go to the previous owner of the APIService,
// such as prometheus-adapter or KEDA. The user is passed on as by a front proxy. A request that
// was itself passed on is marked by a header, so that two adapters cannot ask each other in a
// circle.
#include "adapter/api/delegate.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"

enum {
    RELIST_MS = 30000,
    TIMEOUT_MS = 30000,
    REFRESH_MS = 10000, // interval of reading secrets and certificates again
    MAX_UNDER_WAY = 512,
    MAX_LISTS = 8,
    MAX_RESOURCES = 100000,
    MAX_USER_HEADERS = 2000,
};
#define MAX_ANSWER ((size_t)64 * 1024 * 1024)

struct list {
    struct adapter_api_delegate *p;
    char *group_version;
    json_t *resources; // of the last successful list
    struct http_op *op;
};

struct adapter_api_delegate {
    struct http_client *client;
    char *name; // the URL without secrets
    bool front_proxy;
    int64_t timeout_ms;
    uint64_t relist_ms;
    struct gs_timer *timer;
    struct list lists[MAX_LISTS];
    size_t n_lists, under_way;
    struct adapter_api_delegate_stats stats;
};

struct adapter_api_delegate_op {
    struct adapter_api_delegate *p;
    struct http_op *op;
    void (*cb)(void *arg, const struct http_response *a, struct gs_error *err);
    void *arg;
};

static void record_result(struct adapter_api_delegate *p, const struct gs_error *err)
{
    if (err && p->stats.up)
        gs_warn("adapter", "the request to the previous owner %s failed: %s", p->name,
                gs_error_message(err));
    p->stats.up = !err;
}

// --- resource lists ---

static void take_list(struct list *l, const struct http_response *a)
{
    CODEC_AUTO_JSON json_t *body = NULL;
    gs_error_free(codec_json_parse(a->body, false, &body));
    json_t *resources = json_object_get(body, "resources");
    if (!json_is_array(resources) || json_array_size(resources) > MAX_RESOURCES)
        return;
    json_decref(l->resources);
    l->resources = json_incref(resources);
}

static void on_resources_response(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct list *l = arg;
    l->op = NULL;
    if (!err && a->status == 404) // it does not serve this version
        json_decref(GS_TAKE(l->resources));
    else if (!err && a->status == 200)
        take_list(l, a);
    else if (!err)
        err = gs_error_new(GS_EUNAVAIL, "HTTP status %d", a->status);
    record_result(l->p, err);
    gs_error_free(err);
}

static void request_resource_list(struct list *l)
{
    static const struct http_callbacks callbacks = {.on_done = on_resources_response};
    static const struct http_header headers[] = {
        {"Accept", "application/json"}, {ADAPTER_API_FORWARDED_HEADER, "1"}, {0}};
    if (l->op)
        return;
    GS_AUTO_FREE char *path = gs_format("/apis/%s", l->group_version);
    const struct http_request request = {
        .path = path, .headers = headers, .timeout_ms = l->p->timeout_ms, .max_reply = MAX_ANSWER};
    l->op = http_send(l->p->client, &request, &callbacks, l);
}

static void on_delegate_timer(void *arg)
{
    struct adapter_api_delegate *p = arg;
    for (size_t i = 0; i < p->n_lists; i++)
        request_resource_list(&p->lists[i]);
}

void adapter_api_delegate_follow(struct adapter_api_delegate *p, const char *group_version)
{
    for (size_t i = 0; i < p->n_lists; i++)
        if (strcmp(p->lists[i].group_version, group_version) == 0)
            return;
    if (p->n_lists == MAX_LISTS)
        return;
    struct list *l = &p->lists[p->n_lists++];
    *l = (struct list){.p = p, .group_version = gs_strdup(group_version)};
    request_resource_list(l);
}

const json_t *adapter_api_delegate_resources(const struct adapter_api_delegate *p,
                                             const char *group_version)
{
    for (size_t i = 0; i < p->n_lists; i++)
        if (strcmp(p->lists[i].group_version, group_version) == 0)
            return p->lists[i].resources;
    return NULL;
}

// --- forwarding ---

struct header_list {
    struct http_header *items;
    size_t n, cap;
    struct gs_arena arena;
};

// False: the value contains control characters, or there are too many headers.
static bool add_header(struct header_list *l, const char *name, const char *value)
{
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return false;
    gs_grow(&l->items, &l->cap, l->n + 1, sizeof(*l->items));
    l->items[l->n++] =
        (struct http_header){gs_arena_strdup(&l->arena, name), gs_arena_strdup(&l->arena, value)};
    l->items[l->n] = (struct http_header){0};
    return l->n <= MAX_USER_HEADERS;
}

static bool add_user(struct header_list *l, const struct adapter_api_auth_user *u)
{
    size_t i;
    json_t *item, *values;
    const char *key;
    bool ok = u->name && add_header(l, "X-Remote-User", u->name);
    if (u->uid)
        ok = ok && add_header(l, "X-Remote-Uid", u->uid);
    json_array_foreach (u->groups, i, item)
        ok = ok && add_header(l, "X-Remote-Group", json_string_value(item));
    json_object_foreach (u->extra, key, values) {
        GS_AUTO_BUF struct gs_buf name = {0};
        gs_buf_add_str(&name, "X-Remote-Extra-");
        http_encode(gs_slice_of(key), &name);
        json_array_foreach (values, i, item)
            ok = ok && json_is_string(item) && add_header(l, name.data, json_string_value(item));
    }
    return ok;
}

static void on_delegate_response(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct adapter_api_delegate_op *op = arg;
    struct adapter_api_delegate *p = op->p;
    p->under_way--;
    p->stats.failures += err != NULL;
    record_result(p, err);
    op->cb(op->arg, a, err);
    free(op);
}

static void send_request(struct adapter_api_delegate_op *op, const struct http_exchange *x,
                         const struct http_header *headers)
{
    static const struct http_callbacks callbacks = {.on_done = on_delegate_response};
    const struct http_request request = {.path = http_target(x),
                                         .headers = headers,
                                         .timeout_ms = op->p->timeout_ms,
                                         .max_reply = MAX_ANSWER};
    op->op = http_send(op->p->client, &request, &callbacks, op);
}

struct gs_error *adapter_api_delegate_send(struct adapter_api_delegate *p,
                                           const struct http_exchange *x,
                                           const struct adapter_api_auth_user *user,
                                           void (*cb)(void *arg, const struct http_response *a,
                                                      struct gs_error *err),
                                           void *arg, struct adapter_api_delegate_op **ret)
{
    static const char *const copied[] = {"Accept", "User-Agent", "Audit-ID"};
    struct header_list l = {0};
    if (p->under_way >= MAX_UNDER_WAY)
        return gs_error_new(GS_ELIMIT,
                            "too many requests to the previous owner: %d are in progress",
                            MAX_UNDER_WAY);
    bool ok = add_header(&l, ADAPTER_API_FORWARDED_HEADER, "1");
    for (size_t i = 0; i < GS_ARRAY_LEN(copied); i++)
        if (http_header(x, copied[i]))
            ok = ok && add_header(&l, copied[i], http_header(x, copied[i]));
    if (p->front_proxy)
        ok = ok && add_user(&l, user);
    if (ok) {
        struct adapter_api_delegate_op *op = gs_alloc(sizeof(*op));
        *op = (struct adapter_api_delegate_op){.p = p, .cb = cb, .arg = arg};
        p->under_way++;
        p->stats.requests++;
        *ret = op;
        send_request(op, x, l.items);
    }
    free(l.items);
    gs_arena_finish(&l.arena);
    return ok ? NULL
              : gs_error_new(GS_EINVAL, "the user's name or groups contain characters that an HTTP "
                                        "header cannot contain");
}

void adapter_api_delegate_cancel(struct adapter_api_delegate_op *op)
{
    if (!op)
        return;
    op->p->under_way--;
    http_op_cancel(op->op);
    free(op);
}

// --- setup ---

struct gs_error *adapter_api_delegate_new(uv_loop_t *loop,
                                          const struct adapter_api_delegate_options *o,
                                          struct adapter_api_delegate **ret)
{
    const struct endpoint_options options = {.user_agent = "gpuscale-adapter/" GPUSCALE_VERSION,
                                             .refresh_ms = REFRESH_MS,
                                             .component = "adapter"};
    struct http_client *client = NULL;
    char *name = NULL;
    if (!gs_starts(o->url, "https://"))
        return gs_error_new(GS_EINVAL, "URL of the previous owner \"%s\": want https://…", o->url);
    struct gs_error *err =
        endpoint_client_open(loop, o->url, &o->endpoint, &options, &client, &name);
    if (err)
        return err;
    struct adapter_api_delegate *p = gs_alloc(sizeof(*p));
    p->client = client;
    p->name = name;
    p->front_proxy = o->front_proxy;
    p->timeout_ms = o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
    p->relist_ms = (uint64_t)(o->relist_ms ? o->relist_ms : RELIST_MS);
    p->stats.up = true; // so that the first failure is logged
    p->timer = gs_timer_new(loop, p);
    gs_timer_repeat(p->timer, on_delegate_timer, p->relist_ms, p->relist_ms);
    *ret = p;
    return NULL;
}

void adapter_api_delegate_free(struct adapter_api_delegate *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_lists; i++) {
        http_op_cancel(p->lists[i].op);
        json_decref(p->lists[i].resources);
        free(p->lists[i].group_version);
    }
    gs_timer_free(p->timer);
    http_client_free(p->client);
    free(p->name);
    free(p);
}

const char *adapter_api_delegate_name(const struct adapter_api_delegate *p)
{
    return p->name;
}

bool adapter_api_delegate_wants_user(const struct adapter_api_delegate *p)
{
    return p->front_proxy;
}

void adapter_api_delegate_stats(const struct adapter_api_delegate *p,
                                struct adapter_api_delegate_stats *ret)
{
    *ret = p->stats;
}
