// SPDX-License-Identifier: Apache-2.0
// The way of a request to its verdict: authenticate, then authorize, then one callback. An
// operation that the callback has not ended yet can be cancelled; all results may also arrive at
// once.
#include "adapter/api/api_private.h"

#include "base/mem.h"
#include "kube/cache.h"

#include <ctype.h>

static bool token_is_good(const json_t *status)
{
    return codec_json_bool(status, false, "authenticated", NULL);
}

static bool access_is_good(const json_t *status)
{
    return codec_json_bool(status, false, "allowed", NULL);
}

struct gs_error *adapter_api_auth_new(uv_loop_t *loop, const struct adapter_api_auth_options *o,
                                      void (*on_ready)(void *arg, struct gs_error *err), void *arg,
                                      struct adapter_api_auth **ret)
{
    struct adapter_api_auth *a = gs_alloc(sizeof(*a));
    a->loop = loop;
    a->o = *o;
    a->verdicts = gs_hmap_new(adapter_api_auth_verdict_free);
    a->cache = gs_hmap_new(free);
    a->on_ready = on_ready;
    a->ready_arg = arg;
    struct gs_error *err = adapter_api_front_proxy_take_flags(a);
    if (err) {
        adapter_api_auth_free(a);
        return err;
    }
    if (o->authn) {
        const struct adapter_api_reviews_options tokens = {
            .kube = o->authn,
            .gvr = {"authentication.k8s.io", "v1", "tokenreviews"},
            .kind = "TokenReview",
            .good_ttl_ms = o->token_ttl_ms,
            .bad_ttl_ms = o->token_ttl_ms,
            .is_good = token_is_good,
        };
        a->tokens = adapter_api_reviews_new(loop, &tokens);
    }
    if (o->authz) {
        const struct adapter_api_reviews_options access = {
            .kube = o->authz,
            .gvr = {"authorization.k8s.io", "v1", "subjectaccessreviews"},
            .kind = "SubjectAccessReview",
            .good_ttl_ms = o->allowed_ttl_ms,
            .bad_ttl_ms = o->denied_ttl_ms,
            .is_good = access_is_good,
        };
        a->access = adapter_api_reviews_new(loop, &access);
    }
    *ret = a;
    if (o->authn && !o->skip_lookup && !o->off)
        adapter_api_front_proxy_follow(a);
    else
        on_ready(arg, NULL);
    return NULL;
}

void adapter_api_auth_free(struct adapter_api_auth *a)
{
    if (!a)
        return;
    kube_request_cancel(a->first);
    if (a->map)
        kube_cache_free(a->map);
    adapter_api_reviews_free(a->tokens);
    adapter_api_reviews_free(a->access);
    adapter_api_ca_set_free(a->client_ca);
    adapter_api_front_proxy_finish(&a->proxy);
    gs_hmap_free(a->verdicts);
    gs_hmap_free(a->cache);
    gs_buf_finish(&a->key);
    free(a);
}

static void op_free(struct adapter_api_auth_op *op)
{
    adapter_api_reviews_cancel(op->review);
    free(op->user.name);
    free(op->user.uid);
    json_decref(op->user.groups);
    json_decref(op->user.extra);
    char *texts[] = {op->verb,     op->group, op->version,     op->ns,
                     op->resource, op->name,  op->subresource, op->path};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        free(texts[i]);
    free(op->cache_key);
    free(op);
}

void adapter_api_auth_finish(struct adapter_api_auth_op *op, bool allowed, const char *reason)
{
    const struct adapter_api_auth_attributes attributes = {
        op->is_resource, op->verb, op->group,       op->version, op->ns,
        op->resource,    op->name, op->subresource, op->path};
    const struct adapter_api_auth_decision d = {allowed, &op->user, &attributes, reason};
    op->done = true;
    if (allowed)
        adapter_api_auth_cache_put(op);
    op->cb(op->arg, &d);
    if (!op->inside)
        op_free(op);
}

static const char *verb_of(const struct http_exchange *x, const struct adapter_api_path *p)
{
    static const struct {
        const char *method, *verb;
    } verbs[] = {{"POST", "create"}, {"PUT", "update"}, {"PATCH", "patch"}};
    const char *watch = http_query(x, "watch");
    for (size_t i = 0; i < GS_ARRAY_LEN(verbs); i++)
        if (gs_streq(http_method(x), verbs[i].method))
            return p->resource ? verbs[i].verb : NULL;
    if (gs_streq(http_method(x), "DELETE"))
        return !p->resource ? NULL : p->name ? "delete" : "deletecollection";
    if (!p->resource || p->name)
        return "get";
    return watch && !gs_streq(watch, "false") && !gs_streq(watch, "0") ? "watch" : "list";
}

static char *lower_method(const struct http_exchange *x)
{
    char *text = gs_strdup(http_method(x));
    for (char *p = text; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return text;
}

struct adapter_api_auth_op *adapter_api_auth_check(struct adapter_api_auth *a,
                                                   struct http_exchange *x,
                                                   const struct adapter_api_path *path,
                                                   adapter_api_auth_fn cb, void *arg)
{
    struct adapter_api_auth_op *op = gs_alloc(sizeof(*op));
    const char *verb = verb_of(x, path);
    op->a = a;
    op->x = x;
    op->user.groups = json_array();
    op->user.extra = json_object();
    op->is_resource = path->resource != NULL;
    op->verb = verb ? gs_strdup(verb) : lower_method(x);
    op->path = gs_strdup(http_path(x));
    op->group = gs_strdup(path->group);
    op->version = gs_strdup(path->version);
    op->ns = gs_strdup(path->ns);
    op->resource = gs_strdup(path->resource);
    op->name = gs_strdup(path->name);
    op->subresource = gs_strdup(path->subresource);
    op->cb = cb;
    op->arg = arg;
    op->inside = true;
    adapter_api_auth_cache_begin(op);
    adapter_api_auth_authenticate(op);
    op->inside = false;
    if (!op->done)
        return op;
    op_free(op);
    return NULL;
}

void adapter_api_auth_cancel(struct adapter_api_auth_op *op)
{
    if (op)
        op_free(op);
}

void adapter_api_auth_stats(const struct adapter_api_auth *a, struct adapter_api_auth_stats *ret)
{
    struct adapter_api_reviews_stats s = {0};
    *ret = a->stats;
    if (a->tokens) {
        adapter_api_reviews_stats(a->tokens, &s);
        ret->token_reviews = s.sent;
    }
    if (a->access) {
        adapter_api_reviews_stats(a->access, &s);
        ret->access_reviews = s.sent;
    }
}
