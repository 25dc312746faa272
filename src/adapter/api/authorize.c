// SPDX-License-Identifier: Apache-2.0
// Whether a user may do what a request does: always-allowed paths and system:masters at once,
// others by SubjectAccessReview. Responses and texts are those of kube-apiserver.
#include "adapter/api/api_private.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/names.h"
#include "kube/status.h"

// --- refusals ---

void adapter_api_auth_refuse_401(struct adapter_api_auth_op *op)
{
    op->a->stats.unauthenticated++;
    kube_reply_failure(op->x, 401, "Unauthorized", "Unauthorized");
    adapter_api_auth_finish(op, false, NULL);
}

static void refuse_500(struct adapter_api_auth_op *op, struct gs_error *err)
{
    gs_warn("adapter", "%s: %s", op->path, gs_error_message(err));
    http_reply_text(op->x, 500, "Internal Server Error: \"%s\": %s\n", op->path,
                    gs_error_message(err));
    gs_error_free(err);
    adapter_api_auth_finish(op, false, NULL);
}

static void refuse_403(struct adapter_api_auth_op *op, const char *reason)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    op->a->stats.forbidden++;
    json_t *details = json_object();
    if (op->is_resource) {
        gs_buf_addf(&text, "%s%s%s", op->resource, op->group ? "." : "",
                    op->group ? op->group : "");
        if (op->name) {
            gs_buf_add_char(&text, ' ');
            kube_quote(gs_slice_of(op->name), &text);
        }
        gs_buf_add_str(&text, " is forbidden: User ");
        kube_quote(gs_slice_of(op->user.name), &text);
        gs_buf_addf(&text, " cannot %s resource \"%s%s%s\" in API group \"%s\" %s", op->verb,
                    op->resource, op->subresource ? "/" : "",
                    op->subresource ? op->subresource : "", op->group ? op->group : "",
                    op->ns ? "in the namespace " : "at the cluster scope");
        if (op->ns)
            kube_quote(gs_slice_of(op->ns), &text);
        codec_json_set_str(details, "name", op->name);
        codec_json_set_str(details, "group", op->group);
        codec_json_set_str(details, "kind", op->resource);
    } else {
        gs_buf_add_str(&text, "forbidden: User ");
        kube_quote(gs_slice_of(op->user.name), &text);
        gs_buf_addf(&text, " cannot %s path ", op->verb);
        kube_quote(gs_slice_of(op->path), &text);
    }
    if (reason && *reason)
        gs_buf_addf(&text, ": %s", reason);
    http_add_header(op->x, "X-Content-Type-Options", "nosniff");
    kube_reply_status(op->x, kube_status_failure(403, "Forbidden", text.data, details));
    adapter_api_auth_finish(op, false, reason);
}

// --- access reviews ---

static bool always_allowed(const struct adapter_api_auth_op *op)
{
    const struct adapter_api_auth_options *o = &op->a->o;
    for (size_t i = 0; i < o->n_always_allow_paths && !op->is_resource; i++) {
        const char *p = o->always_allow_paths[i];
        size_t n = strlen(p);
        bool prefix = n && p[n - 1] == '*';
        if (prefix ? strncmp(op->path, p, n - 1) == 0 : strcmp(op->path, p) == 0)
            return true;
    }
    return false;
}

static json_t *access_spec(const struct adapter_api_auth_op *op)
{
    json_t *spec = json_object();
    if (op->is_resource) {
        json_t *r = json_object();
        codec_json_set_str(r, "namespace", op->ns);
        codec_json_set_str(r, "verb", op->verb);
        codec_json_set_str(r, "group", op->group);
        codec_json_set_str(r, "version", op->version);
        codec_json_set_str(r, "resource", op->resource);
        codec_json_set_str(r, "subresource", op->subresource);
        codec_json_set_str(r, "name", op->name);
        json_object_set_new(spec, "resourceAttributes", r);
    } else {
        json_object_set_new(spec, "nonResourceAttributes",
                            json_pack("{s:s, s:s}", "path", op->path, "verb", op->verb));
    }
    codec_json_set_str(spec, "user", op->user.name);
    json_object_set(spec, "groups", op->user.groups);
    if (json_object_size(op->user.extra))
        json_object_set(spec, "extra", op->user.extra);
    codec_json_set_str(spec, "uid", op->user.uid);
    return spec;
}

static void on_access(void *arg, const json_t *status, int64_t until_ns, struct gs_error *err)
{
    struct adapter_api_auth_op *op = arg;
    if (until_ns < op->until_ns)
        op->until_ns = until_ns;
    op->review = NULL;
    if (err) {
        op->a->stats.access_review_failures++;
        refuse_500(op, err);
    } else if (codec_json_bool(status, false, "allowed", NULL)) {
        adapter_api_auth_finish(op, true, codec_json_str(status, "reason", NULL));
    } else {
        refuse_403(op, codec_json_str(status, "reason", NULL));
    }
}

void adapter_api_auth_authorize(struct adapter_api_auth_op *op)
{
    struct adapter_api_auth *a = op->a;
    if (a->o.off || codec_json_has_string(op->user.groups, "system:masters") ||
        always_allowed(op)) {
        adapter_api_auth_finish(op, true, NULL);
        return;
    }
    if (!a->access) {
        refuse_403(op, "authorization is unavailable: no API server is configured");
        return;
    }
    // op may be freed already if the callback has run.
    struct adapter_api_reviews_op *review =
        adapter_api_reviews_send(a->access, access_spec(op), on_access, op);
    if (review)
        op->review = review;
}
