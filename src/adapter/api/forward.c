// SPDX-License-Identifier: Apache-2.0
// Forwards requests that no rule serves to the delegate of their API group.
#include "adapter/api/api_private.h"

#include "base/mem.h"
#include "kube/status.h"

struct adapter_api_delegate *adapter_api_delegate(const struct adapter_api *a, const char *group)
{
    return gs_streq(group, ADAPTER_API_CUSTOM)     ? a->o.delegate_custom
           : gs_streq(group, ADAPTER_API_EXTERNAL) ? a->o.delegate_external
           : gs_streq(group, ADAPTER_API_RESOURCE) ? a->o.delegate_resource
                                                   : NULL;
}

void adapter_api_keep_user(struct adapter_api_call *c, const struct adapter_api_auth_user *u)
{
    const struct adapter_api_delegate *p =
        c->path.group ? adapter_api_delegate(c->a, c->path.group) : NULL;
    if (!p || !adapter_api_delegate_wants_user(p))
        return;
    c->user = (struct adapter_api_auth_user){.name = gs_strdup(u->name),
                                             .uid = gs_strdup(u->uid),
                                             .groups = json_incref(u->groups),
                                             .extra = json_incref(u->extra)};
}

void adapter_api_drop_user(struct adapter_api_call *c)
{
    free(c->user.name);
    free(c->user.uid);
    json_decref(c->user.groups);
    json_decref(c->user.extra);
}

static void reply_unavailable(struct adapter_api_call *c, struct gs_error *err)
{
    const char *name = adapter_api_delegate_name(adapter_api_delegate(c->a, c->path.group));
    kube_reply_failure(c->x, 503, "ServiceUnavailable",
                       "%s%sthe request to the previous owner of %s at %s failed: %s",
                       c->forward_cause, *c->forward_cause ? "; " : "", c->path.group, name,
                       gs_error_message(err));
    gs_error_free(err);
}

// The causes for which neither the adapter nor the delegate serves the metric.
static void reply_neither(struct adapter_api_call *c, const struct http_response *a)
{
    CODEC_AUTO_JSON json_t *body = NULL;
    gs_error_free(codec_json_parse(a->body, false, &body));
    const char *message = codec_json_str(body, "message", NULL);
    GS_AUTO_FREE char *theirs = gs_format("the previous owner of %s: %s", c->path.group,
                                          message ? message : "no such path (HTTP status 404)");
    adapter_api_reply_not_found(c, c->forward_cause, theirs);
}

static void on_forwarded_response(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct adapter_api_call *c = arg;
    c->forwarded = NULL;
    if (!err && a->status == 401)
        err =
            gs_error_new(GS_EPERM, "it rejected the credentials of the adapter (HTTP status 401)");
    if (err)
        reply_unavailable(c, err);
    else if (a->status == 404 && c->path.kind == ADAPTER_API_METRIC)
        reply_neither(c, a);
    else
        http_reply(c->x, a->status, a->content_type ? a->content_type : "application/json",
                   a->body);
    adapter_api_call_end(c);
}

// The delegate could resolve '..', '.' or an encoded '/' to another path than the authorized one.
static bool is_plain_path(const struct adapter_api_path *p)
{
    for (size_t i = 0; i < p->n_segments; i++)
        if (gs_streq(p->segments[i], ".") || gs_streq(p->segments[i], "..") ||
            strchr(p->segments[i], '/'))
            return false;
    return true;
}

bool adapter_api_forward(struct adapter_api_call *c, const char *cause)
{
    struct adapter_api_delegate *p = adapter_api_delegate(c->a, c->path.group);
    if (!p || !is_plain_path(&c->path) || http_header(c->x, ADAPTER_API_FORWARDED_HEADER))
        return false;
    c->forward_cause = gs_strdup(cause);
    struct gs_error *err =
        adapter_api_delegate_send(p, c->x, &c->user, on_forwarded_response, c, &c->forwarded);
    if (!err)
        return true;
    bool many = gs_error_code(err) == GS_ELIMIT;
    kube_reply_failure(c->x, many ? 429 : 500, many ? "TooManyRequests" : "InternalError", "%s",
                       gs_error_message(err));
    gs_error_free(err);
    adapter_api_call_end(c);
    return true;
}
