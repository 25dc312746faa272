// SPDX-License-Identifier: Apache-2.0
// The steps of a request: parse the path, authenticate and authorize the caller, dispatch.
#include "adapter/api/api_private.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "base/random.h"
#include "kube/status.h"

#include <stdio.h>

// What was cached for requests is older than the samples that were just reported.
static void on_values_changed(void *arg)
{
    struct adapter_api *a = arg;
    adapter_api_response_cache_clear(a->responses);
    if (a->generation.source)
        source_expire(a->generation.source);
}

struct adapter_api *adapter_api_new(const struct adapter_api_options *o)
{
    struct adapter_api *a = gs_alloc(sizeof(*a));
    a->o = *o;
    a->responses = adapter_api_response_cache_new();
    TAILQ_INIT(&a->calls);
    a->changes = o->follows ? metric_changes_new(o->loop, on_values_changed, a) : NULL;
    a->status = o->loop ? adapter_api_status_new(a) : NULL;
    a->id_seed = gs_random_hex(16);
    return a;
}

static void api_call_free(struct adapter_api_call *c)
{
    TAILQ_REMOVE(&c->a->calls, c, all);
    adapter_api_end_timeout(c);
    adapter_api_auth_cancel(c->auth);
    provider_cancel(c->value_call);
    provider_pod_facts_cancel(c->pod_facts);
    json_decref(c->explanation);
    adapter_api_usage_cancel(c->usage);
    adapter_api_audit_end(c->audit);
    adapter_api_delegate_cancel(c->forwarded);
    free(c->forward_cause);
    adapter_api_drop_user(c);
    kube_selector_finish(&c->metric_selector);
    adapter_api_path_finish(&c->path);
    free(c);
}

void adapter_api_call_end(struct adapter_api_call *c)
{
    c->a->counts.answered++;
    api_call_free(c);
}

void adapter_api_free(struct adapter_api *a)
{
    if (!a)
        return;
    for (struct adapter_api_call *c = TAILQ_FIRST(&a->calls), *next; c; c = next) {
        next = TAILQ_NEXT(c, all);
        api_call_free(c);
    }
    metric_changes_free(a->changes);
    adapter_api_status_free(a->status);
    adapter_api_response_cache_free(a->responses);
    free(a->id_seed);
    free(a);
}

void adapter_api_set_generation(struct adapter_api *a, const struct adapter_api_generation *g)
{
    a->generation = *g;
    adapter_api_response_cache_clear(a->responses);
}

void adapter_api_stopping(struct adapter_api *a)
{
    a->stopping = true;
}

void adapter_api_new_samples(struct adapter_api *a)
{
    metric_changes_new_samples(a->changes);
}

struct metric_changes *adapter_api_changes(const struct adapter_api *a)
{
    return a->changes;
}

void adapter_api_forget_old(struct adapter_api *a)
{
    adapter_api_response_cache_expire(a->responses);
    if (a->generation.source)
        source_forget_old(a->generation.source);
}

bool adapter_api_has_group(const struct adapter_api *a, const char *group)
{
    const struct adapter_config *c = a->generation.config;
    if (!c)
        return false;
    if (adapter_api_delegate(a, group))
        return true;
    if (gs_streq(group, ADAPTER_API_CUSTOM))
        return c->n_custom > 0 || c->custom_listed || a->generation.gpu || a->generation.pod_series;
    if (gs_streq(group, ADAPTER_API_EXTERNAL))
        return c->n_rules > c->n_custom || c->external_listed ||
               (a->generation.gpu && provider_registry_nth(a->generation.gpu, true, 0));
    return gs_streq(group, ADAPTER_API_RESOURCE) && a->generation.resource;
}

static void on_gone(void *arg)
{
    api_call_free(arg);
}

static void serve_group(struct adapter_api_call *c)
{
    if (adapter_api_refuse_list(c))
        adapter_api_call_end(c);
    else if (c->path.kind == ADAPTER_API_METRIC)
        adapter_api_metric(c);
    else
        adapter_api_usage(c);
}

static void serve_changes(struct adapter_api_call *c)
{
    const char *watch = http_query(c->x, "watch");
    if (!watch || gs_streq(watch, "false") || gs_streq(watch, "0"))
        kube_reply_failure(c->x, 400, "BadRequest", "changes are a stream: add ?watch=true");
    else
        metric_changes_open(c->a->changes, c->x, c->path.object_ns);
    adapter_api_call_end(c);
}

static void dispatch(struct adapter_api_call *c)
{
    struct http_exchange *x = c->x;
    bool ours = c->path.group && adapter_api_has_group(c->a, c->path.group);
    if (adapter_api_refuse_request(c)) {
        adapter_api_call_end(c);
        return;
    }
    if (ours && c->path.kind == ADAPTER_API_USAGE && !c->a->generation.resource &&
        adapter_api_forward(c, ""))
        return;
    if (ours && !adapter_api_accepts(x, &c->path) && !adapter_api_delegate(c->a, c->path.group)) {
        kube_reply_failure(x, 406, "NotAcceptable",
                           "only the following media types are accepted: application/json");
        adapter_api_call_end(c);
        return;
    }
    if (ours && (c->path.kind == ADAPTER_API_METRIC || c->path.kind == ADAPTER_API_USAGE)) {
        serve_group(c);
        return;
    }
    if (ours && c->path.kind == ADAPTER_API_CHANGES && c->a->changes) {
        serve_changes(c);
        return;
    }
    if (!c->path.group && adapter_api_page(c))
        return;
    if (ours && c->path.kind == ADAPTER_API_BAD_PATH)
        kube_reply_failure(x, 400, "BadRequest", "invalid request path");
    else if (!adapter_api_health(c) && !adapter_api_discovery(c) && !adapter_api_reply_openapi(c)) {
        if (ours)
            kube_reply_status(
                x, kube_status_failure(404, "NotFound",
                                       "the server could not find the requested resource",
                                       json_object()));
        else
            http_reply_text(x, 404, "404 page not found\n");
    }
    adapter_api_call_end(c);
}

static void on_checked(void *arg, const struct adapter_api_auth_decision *d)
{
    struct adapter_api_call *c = arg;
    c->auth = NULL;
    if (c->audit)
        adapter_api_audit_decided(c->audit, d);
    adapter_api_keep_user(c, d->user);
    if (d->allowed)
        dispatch(c);
    else
        adapter_api_call_end(c);
}

enum { ID_SIZE = 37, ID_MAX = 64 };

// Makes a unique UUID from a random seed and a counter.
static void make_id(struct adapter_api *a, char ret[ID_SIZE])
{
    uint64_t n = a->id_count++, h[2];
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_addf(&text, "%s%llu", a->id_seed, (unsigned long long)n);
    h[0] = gs_hash(text.data, text.len);
    h[1] = gs_hash(text.data + 1, text.len - 1);
    (void)snprintf(ret, ID_SIZE, "%08llx-%04llx-4%03llx-%04llx-%012llx",
                   (unsigned long long)(h[0] >> 32), (unsigned long long)(h[0] >> 16 & 0xffff),
                   (unsigned long long)(h[0] & 0xfff),
                   (unsigned long long)(0x8000 | (h[1] >> 48 & 0x3fff)),
                   (unsigned long long)(h[1] & 0xffffffffffff));
}

// As the generic API server: uses the request's Audit-ID if it has one.
static const char *give_id(struct adapter_api *a, struct http_exchange *x, char made[ID_SIZE])
{
    const char *id = http_header(x, "Audit-ID");
    if (!id || !*id || strlen(id) > ID_MAX) {
        make_id(a, made);
        id = made;
    }
    http_add_header(x, "Audit-Id", id);
    return id;
}

// Answers from the caches if the body and the decision for this caller are cached.
static bool answer_at_once(struct adapter_api *a, struct http_exchange *x)
{
    char made[ID_SIZE];
    if (a->o.audit || !gs_streq(http_method(x), "GET"))
        return false;
    struct http_bytes *body = adapter_api_response_cache_find(a->responses, x);
    if (!body || kube_wants_pretty(x) || !adapter_api_auth_cached(a->o.auth, x))
        return false;
    give_id(a, x, made);
    kube_reply_bytes(x, 200, body);
    a->counts.answered++;
    return true;
}

void adapter_api_handle(void *api, struct http_exchange *x)
{
    struct adapter_api *a = api;
    char made[ID_SIZE];
    if (answer_at_once(a, x))
        return;
    struct adapter_api_call *c = gs_alloc(sizeof(*c));
    c->a = a;
    c->x = x;
    TAILQ_INSERT_TAIL(&a->calls, c, all);
    http_on_abort(x, on_gone, c);
    const char *id = give_id(a, x, made);
    if (a->o.audit)
        c->audit = adapter_api_audit_begin(a->o.audit, x, id);
    struct gs_error *err = adapter_api_path_read(http_path(x), &c->path);
    if (err) {
        kube_reply_failure(x, 400, "BadRequest", "%s", gs_error_message(err));
        gs_error_free(err);
        adapter_api_call_end(c);
        return;
    }
    // The check may free c before it returns.
    struct adapter_api_auth_op *op = adapter_api_auth_check(a->o.auth, x, &c->path, on_checked, c);
    if (op)
        c->auth = op;
}
