// SPDX-License-Identifier: Apache-2.0
// Errors from responses of a Kubernetes API: the message of the Status, or without one the text
// that apimachinery's NewGenericServerResponse has for the code.
#include "kube/kube_private.h"

#include "base/mem.h"

#include <ctype.h>

#define MAX_SHOWN ((size_t)200)

static enum gs_code code_of_status(int status, const char *reason)
{
    switch (status) {
    case 400:
    case 415:
    case 422:
        return GS_EINVAL;
    case 401:
    case 403:
        return GS_EPERM;
    case 404:
        return GS_ENOTFOUND;
    case 409:
        return gs_streq(reason, "AlreadyExists") ? GS_EEXIST : GS_ECONFLICT;
    case 405:
    case 501:
        return GS_ENOTSUP;
    case 410:
        return GS_ELIMIT;
    case 408:
    case 504:
        return GS_ETIMEOUT;
    case 413:
        return GS_ELIMIT;
    default:
        return GS_EUNAVAIL;
    }
}

// Returns Kubernetes' text for a response without a Status. NULL: this code has none.
static const char *known_text(int status)
{
    switch (status) {
    case 400:
        return "the server rejected our request for an unknown reason";
    case 401:
        return "the server has asked for the client to provide credentials";
    case 404:
        return "the server could not find the requested resource";
    case 405:
        return "the server does not allow this method on the requested resource";
    case 409:
        return "the server reported a conflict";
    case 422:
        return "the server rejected our request due to an error in our request";
    case 429:
        return "the server has received too many requests and has asked us to try again later";
    case 503:
        return "the server is currently unable to handle the request";
    case 504:
        return "the server was unable to return a response in the time allotted, but may still be "
               "processing the request";
    default:
        return NULL;
    }
}

static void add_status_text(int status, struct gs_slice body, struct gs_buf *out)
{
    const char *known = known_text(status);
    if (body.len > MAX_SHOWN)
        body.len = MAX_SHOWN;
    if (known)
        gs_buf_add_str(out, known);
    else if (status >= 500)
        gs_buf_addf(out,
                    "an error on the server (\"" GS_SLICE_FMT
                    "\") has prevented the request from succeeding",
                    GS_SLICE_ARG(body));
    else if (body.len)
        gs_buf_add_slice(out, body);
    else
        gs_buf_addf(out,
                    "the server responded with the status code %d but did not return more "
                    "information",
                    status);
}

static char *next_segment(struct gs_slice *rest)
{
    char *text = NULL;
    struct gs_slice part = gs_slice_cut(rest, '/');
    gs_error_free(part.len ? http_decode_segment(part, &text) : NULL);
    return text;
}

// " (get pods.custom.metrics.k8s.io *)" from
// "/apis/custom.metrics.k8s.io/v1beta1/namespaces/x/pods/%2A/m".
static void add_resource_name(const char *method, const char *path, struct gs_buf *out)
{
    struct gs_slice rest = gs_slice_make(path, strcspn(path, "?"));
    bool core = gs_slice_starts(rest, "/api/");
    if (!core && !gs_slice_starts(rest, "/apis/"))
        return;
    (void)gs_slice_cut(&rest, '/');
    (void)gs_slice_cut(&rest, '/');
    GS_AUTO_FREE char *group = core ? NULL : next_segment(&rest);
    GS_AUTO_FREE char *version = next_segment(&rest);
    struct gs_slice behind_namespace = rest;
    GS_AUTO_FREE char *first = next_segment(&behind_namespace);
    GS_AUTO_FREE char *ns = next_segment(&behind_namespace);
    if (gs_streq(first, "namespaces") && ns && behind_namespace.len)
        rest = behind_namespace;
    GS_AUTO_FREE char *resource = next_segment(&rest);
    GS_AUTO_FREE char *name = next_segment(&rest);
    if (!version || !resource)
        return;
    gs_buf_add_str(out, " (");
    for (; *method; method++)
        gs_buf_add_char(out, (char)tolower((unsigned char)*method));
    gs_buf_addf(out, " %s%s%s%s%s)", resource, group ? "." : "", group ? group : "",
                name ? " " : "", name ? name : "");
}

struct gs_error *kube_response_error(const char *method, const char *path,
                                     const struct http_response *a, const json_t *body)
{
    const char *message = codec_json_str(body, "message", NULL);
    enum gs_code code = code_of_status(a->status, codec_json_str(body, "reason", NULL));
    if (message && *message)
        return gs_error_new(code, "%s", message);
    GS_AUTO_BUF struct gs_buf text = {0};
    add_status_text(a->status, gs_slice_trim(a->body), &text);
    add_resource_name(method, path, &text);
    return gs_error_new(code, "%s", text.data);
}
