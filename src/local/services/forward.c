// SPDX-License-Identifier: Apache-2.0
// Requests of the API's proxy to pods, Services and nodes: the caller's credentials stay here,
// redirects of the server lead through the proxy, and failures are those of Kubernetes. Source: the
// proxy package of apimachinery. A difference: links in HTML pages are not rewritten.
#include "base/mem.h"
#include "kube/status.h"
#include "local/services/services_private.h"

#include <strings.h>

struct services_forward {
    struct services_balancer_address to;
    char *target, *prefix;
};

struct services_forward *services_forward_new(const struct local_api_forward *given)
{
    struct services_forward *f = gs_alloc(sizeof(*f));
    snprintf(f->to.ip, sizeof(f->to.ip), "%s", given->ip);
    f->to.port = given->port;
    f->target = gs_strdup(given->target);
    f->prefix = gs_strdup(given->prefix);
    return f;
}

void services_forward_free(struct services_forward *f)
{
    if (!f)
        return;
    free(f->target);
    free(f->prefix);
    free(f);
}

struct services_balancer_address services_forward_address(const struct services_forward *f)
{
    return f->to;
}

const char *services_forward_target(const struct services_forward *f)
{
    return f->target;
}

// --- request headers ---

bool services_forward_hides(const char *name)
{
    return local_api_is_credential(name) || strcasecmp(name, "X-Forwarded-For") == 0 ||
           strcasecmp(name, "X-Forwarded-Uri") == 0;
}

void services_forward_add_headers(const struct services_forward *f, const struct http_exchange *x,
                                  struct gs_buf *out)
{
    const char *peer = http_peer(x), *colon = strrchr(peer, ':');
    const char *before = http_header(x, "X-Forwarded-For");
    int len = colon ? (int)(colon - peer) : (int)strlen(peer);
    if (before && gs_has_control(before))
        before = NULL;
    if (!http_header(x, "Host")) // of a caller in this process
        gs_buf_addf(out, "Host: %s:%u\r\n", f->to.ip, f->to.port);
    gs_buf_addf(out, "X-Forwarded-For: %s%s%.*s\r\n", before ? before : "", before ? ", " : "", len,
                peer);
    gs_buf_addf(out, "X-Forwarded-Uri: %s%.*s\r\n", f->prefix, (int)strcspn(f->target, "?"),
                f->target);
}

// --- reply headers ---

void services_forward_reply_header(const struct services_forward *f, struct http_exchange *x,
                                   const struct http_header *header)
{
    static const char cors[] = "Access-Control-Allow-";
    if (strncasecmp(header->name, cors, strlen(cors)) == 0)
        return;
    if (strcasecmp(header->name, "Location") != 0) {
        http_add_header(x, header->name, header->value);
        return;
    }
    const struct local_api_forward to = {f->to.ip, f->to.port, f->target, f->prefix};
    GS_AUTO_FREE char *location =
        local_api_forward_location(&to, header->value, http_header(x, "Host"));
    http_add_header(x, header->name, location);
}

// --- failures ---

void services_forward_refuse(const struct services_forward *f, struct http_exchange *x, int error)
{
    if (error == UV_ETIMEDOUT)
        kube_reply_failure(x, 503, "ServiceUnavailable",
                           "error trying to reach service: dial tcp %s:%u: i/o timeout", f->to.ip,
                           f->to.port);
    else if (error)
        kube_reply_failure(x, 503, "ServiceUnavailable",
                           "error trying to reach service: dial tcp %s:%u: connect: %s", f->to.ip,
                           f->to.port, uv_strerror(error));
    else
        kube_reply_failure(x, 503, "ServiceUnavailable",
                           "error trying to reach service: the reply of %s:%u is not valid HTTP",
                           f->to.ip, f->to.port);
}
