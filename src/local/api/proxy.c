// SPDX-License-Identifier: Apache-2.0
// The subresource proxy: [SCHEME:]NAME[:PORT]/proxy/PATH of pods, Services and nodes. All methods
// are allowed, and the path is passed on as it was sent. Source: ResourceLocation of
// kube-apiserver's registries.
#include "local/api/proxy.h"

#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "local/api/admission.h"
#include "local/api/api_private.h"
#include "local/cluster.h"
#include "local/ports.h"

#include <inttypes.h>
#include <strings.h>

// --- the path ---

void local_api_proxy_path_finish(struct local_api_proxy_path *p)
{
    free(p->ns);
    free(p->id);
    free(p->prefix);
    *p = (struct local_api_proxy_path){0};
}

// The next segment, decoded. NULL: no segment is left, or it is malformed.
static char *next_segment(struct gs_slice *rest)
{
    char *segment = NULL;
    struct gs_slice part = {0};

    while (rest->data && part.len == 0)
        part = gs_slice_cut(rest, '/');
    if (part.len == 0)
        return NULL;
    gs_error_free(http_decode_segment(part, &segment));
    return segment;
}

static bool next_is(struct gs_slice *rest, const char *word)
{
    GS_AUTO_FREE char *segment = next_segment(rest);
    return gs_streq(segment, word);
}

static bool read_path(const char *path, struct local_api_proxy_path *p)
{
    static const char *const kinds[] = {"nodes", "pods", "services"};
    struct gs_slice rest = gs_slice_of(path);

    if (!next_is(&rest, "api") || !next_is(&rest, "v1"))
        return false;
    GS_AUTO_FREE char *first = next_segment(&rest);
    bool of_namespace = gs_streq(first, "namespaces");
    p->ns = of_namespace ? next_segment(&rest) : gs_strdup("");
    GS_AUTO_FREE char *kind = of_namespace ? next_segment(&rest) : gs_strdup(first);
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++)
        if (gs_streq(kind, kinds[i]) && of_namespace == (i > 0))
            p->kind = kinds[i];
    p->id = next_segment(&rest);
    if (!p->kind || !p->ns || !p->id || !next_is(&rest, "proxy"))
        return false;
    // `rest` begins after the slash that follows the word.
    p->path = rest.data ? rest.data - 1 : "";
    p->prefix = gs_strndup(path, rest.data ? (size_t)(p->path - path) : strlen(path));
    return true;
}

bool local_api_proxy_parse(const char *path, struct local_api_proxy_path *ret)
{
    struct local_api_proxy_path p = {0};
    bool found = read_path(path, &p);

    if (found)
        *ret = p;
    else
        local_api_proxy_path_finish(&p);
    return found;
}

// --- where it goes ---

struct destination {
    char *id, *name, *port; // parts of the path's identifier; id owns the text
    bool tls;
    char *ip;
    int number;
};

static void destination_finish(struct destination *d)
{
    free(d->id);
    free(d->ip);
}

// NAME, NAME:PORT or SCHEME:NAME:PORT.
static bool split_id(struct destination *d, const char *id)
{
    d->id = gs_strdup(id);
    char *first = strchr(d->id, ':'), *second = first ? strchr(first + 1, ':') : NULL;

    if (first)
        *first++ = '\0';
    if (second)
        *second++ = '\0';
    d->name = second ? first : d->id;
    d->port = second ? second : first ? first : d->id + strlen(d->name);
    d->tls = second && strcmp(d->id, "https") == 0;
    bool known = !second || d->tls || strcmp(d->id, "http") == 0 || *d->id == '\0';
    return known && *d->name && !strchr(d->port, ':');
}

static json_t *unavailable(const char *fmt, ...) GS_PRINTF(1, 2);
static json_t *unavailable(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    GS_AUTO_FREE char *why = gs_vformat(fmt, ap);
    va_end(ap);
    return kube_status_failure(503, "ServiceUnavailable", why, NULL);
}

static bool is_number(const char *text, int *ret)
{
    int64_t n = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_i64(gs_slice_of(text), 1, UINT16_MAX, &n);

    *ret = (int)n;
    return !err;
}

static json_t *bad_port(const struct destination *d)
{
    GS_AUTO_FREE char *why = gs_format("the port \"%s\" is not a number from 1 to 65535", d->port);
    return kube_status_failure(400, "BadRequest", why, NULL);
}

static int default_port(const struct destination *d)
{
    return d->tls ? 443 : 80;
}

// The first port that a container declares; 0: none.
static int64_t declared_port(const json_t *pod)
{
    size_t i;
    json_t *container;

    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, container) {
        const json_t *port = json_array_get(json_object_get(container, "ports"), 0);
        if (port)
            return codec_json_int(port, 0, "containerPort", NULL);
    }
    return 0;
}

static json_t *find_pod(const struct local_api *api, const char *ns, struct destination *d)
{
    const json_t *pod = local_api_stored(api, "", "pods", ns, d->name);
    const char *ip = codec_json_str(pod, "status", "podIP", NULL);
    int number = default_port(d);

    if (!pod)
        return kube_status_not_found("pods", d->name);
    if (*d->port && !is_number(d->port, &number))
        return bad_port(d);
    if (!*d->port && declared_port(pod))
        number = (int)declared_port(pod);
    if (!ip || !*ip)
        return kube_status_failure(400, "BadRequest", "address not allowed", NULL);
    d->ip = gs_strdup(ip);
    d->number = local_pod_port(pod, number);
    return NULL;
}

static json_t *find_service_port(const json_t *service, struct destination *d)
{
    size_t i;
    json_t *port;
    int number;

    if (!is_number(d->port, &number))
        return NULL; // a name
    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, port)
        if (codec_json_int(port, 0, "port", NULL) == number) {
            const char *name = codec_json_str(port, "name", NULL);
            d->port = (char *)(name ? name : "");
            return NULL;
        }
    return unavailable("no service port %d found for service \"%s\"", number, d->name);
}

// Takes the addresses of an Endpoints object in turn.
static bool take_endpoint(struct local_api *api, const json_t *endpoints, struct destination *d)
{
    size_t i, j;
    json_t *subset, *port;

    json_array_foreach (json_object_get(endpoints, "subsets"), i, subset) {
        const json_t *addresses = json_object_get(subset, "addresses");
        size_t n = json_array_size(addresses);
        json_array_foreach (json_object_get(subset, "ports"), j, port) {
            const char *name = codec_json_str(port, "name", NULL);
            if (n == 0 || strcmp(name ? name : "", d->port) != 0)
                continue;
            const json_t *address = json_array_get(addresses, api->proxy_turn++ % n);
            d->ip = gs_strdup(codec_json_str(address, "ip", NULL));
            d->number = (int)codec_json_int(port, 0, "port", NULL);
            return d->ip != NULL;
        }
    }
    return false;
}

static json_t *find_service(struct local_api *api, const char *ns, const char *id,
                            struct destination *d)
{
    const json_t *service = local_api_stored(api, "", "services", ns, d->name);
    const json_t *endpoints = local_api_stored(api, "", "endpoints", ns, d->name);

    if (!service)
        return kube_status_not_found("services", d->name);
    json_t *status = find_service_port(service, d);
    if (status)
        return status;
    if (!endpoints)
        return kube_status_not_found("endpoints", d->name);
    if (json_array_size(json_object_get(endpoints, "subsets")) == 0)
        return unavailable("no endpoints available for service \"%s\"", d->name);
    return take_endpoint(api, endpoints, d)
               ? NULL
               : unavailable("no endpoints available for service \"%s\"", id);
}

static json_t *find_node(const struct local_api *api, struct destination *d)
{
    const json_t *node = local_api_stored(api, "", "nodes", "", d->name);
    const char *ip = node ? local_node_ip(node) : NULL;

    if (!node)
        return kube_status_not_found("nodes", d->name);
    if (!is_number(d->port, &d->number))
        return bad_port(d);
    if (!ip)
        return kube_status_failure(400, "BadRequest", "address not allowed", NULL);
    d->ip = gs_strdup(ip);
    return NULL;
}

// --- the request ---

// Browsers of such pages resolve relative links correctly only behind a slash.
static bool redirect_root(const struct local_api_proxy_path *p, struct http_exchange *x)
{
    const char *query = strchr(http_target(x), '?');
    GS_AUTO_FREE char *location = gs_format("%s/%s", http_path(x), query ? query : "");

    if (*p->path || strcmp(http_method(x), "GET") != 0 || http_header(x, "Upgrade"))
        return false;
    http_add_header(x, "Location", location);
    http_reply(x, 301, NULL, (struct gs_slice){0});
    return true;
}

static void send_to(struct local_api *api, const struct local_api_proxy_path *p,
                    const struct destination *d, struct http_exchange *x)
{
    const char *query = strchr(http_target(x), '?');
    GS_AUTO_FREE char *target = gs_format("%s%s", *p->path ? p->path : "/", query ? query : "");
    const struct local_api_forward to = {
        .ip = d->ip, .port = (uint16_t)d->number, .target = target, .prefix = p->prefix};

    if (redirect_root(p, x))
        return;
    if (d->tls)
        local_api_tls_servers_forward(api->tls_servers, x, &to);
    else if (api->forwarder.forward)
        api->forwarder.forward(api->forwarder.ctx, x, &to);
    else
        kube_reply_status(x, unavailable("nothing forwards requests here"));
}

static const struct local_api_kubelet *find_kubelet(const struct local_api *api, const char *name)
{
    for (size_t i = 0; i < api->n_nodes; i++)
        if (gs_streq(api->nodes[i].name, name))
            return &api->nodes[i].kubelet;
    return NULL;
}

static bool is_kubelet_port(const struct local_api *api, const struct destination *d)
{
    const json_t *node = local_api_stored(api, "", "nodes", "", d->name);
    GS_AUTO_FREE char *port =
        gs_format("%" PRId64, codec_json_int(node, 0, "status", "daemonEndpoints",
                                             "kubeletEndpoint", "Port", NULL));
    return node && (!*d->port || strcmp(d->port, port) == 0);
}

static json_t *serve_kubelet(struct local_api *api, const struct local_api_proxy_path *p,
                             const struct destination *d, struct http_exchange *x)
{
    const struct local_api_kubelet *k = find_kubelet(api, d->name);

    if (!k || !k->serve)
        return unavailable("no kubelet runs the node \"%s\"", d->name);
    if (!redirect_root(p, x))
        k->serve(k->ctx, p->path, x);
    return NULL;
}

void local_api_serve_proxy(struct local_api *api, struct http_exchange *x,
                           const struct local_api_proxy_path *p)
{
    GS_CLEANUP(destination_finish) struct destination d = {0};
    json_t *status = NULL;

    if (!split_id(&d, p->id)) {
        kube_reply_failure(x, 400, "BadRequest", "invalid %.*s request \"%s\"",
                           (int)strlen(p->kind) - 1, p->kind, p->id);
        return;
    }
    if (strcmp(p->kind, "nodes") == 0 && is_kubelet_port(api, &d)) {
        status = serve_kubelet(api, p, &d, x);
    } else {
        status = strcmp(p->kind, "pods") == 0       ? find_pod(api, p->ns, &d)
                 : strcmp(p->kind, "services") == 0 ? find_service(api, p->ns, p->id, &d)
                                                    : find_node(api, &d);
        if (!status)
            send_to(api, p, &d, x);
    }
    if (status)
        kube_reply_status(x, status);
}

// --- for those who forward ---

// The host of a URL with one; empty: it has none.
static struct gs_slice host_of(const char *url, const char **ret_path)
{
    const char *at = strstr(url, "://");
    size_t plain = strcspn(url, "/?#");
    if (at && at < url + plain)
        at += 3;
    else if (strncmp(url, "//", 2) == 0)
        at = url + 2;
    else
        at = NULL;
    size_t len = at ? strcspn(at, "/?#") : 0;
    *ret_path = at ? at + len : url;
    return gs_slice_make(at, len);
}

char *local_api_forward_location(const struct local_api_forward *to, const char *location,
                                 const char *host)
{
    const char *path;
    struct gs_slice target = host_of(location, &path);
    GS_AUTO_FREE char *server = gs_format("%s:%u", to->ip, to->port);
    bool elsewhere =
        target.len && !gs_slice_eq_str(target, server) && !(host && gs_slice_eq_str(target, host));
    size_t len = strlen(to->prefix);
    if (elsewhere || *path != '/')
        return gs_strdup(location);
    bool prefixed = strncmp(path, to->prefix, len) == 0;
    return gs_format("%s%s", prefixed ? "" : to->prefix, path);
}

void local_api_set_forwarder(struct local_api *api, const struct local_api_forwarder *f)
{
    api->forwarder = f ? *f : (struct local_api_forwarder){0};
}

bool local_api_is_credential(const char *header)
{
    return strcasecmp(header, "Authorization") == 0 ||
           strncasecmp(header, "Impersonate-", strlen("Impersonate-")) == 0 ||
           strncasecmp(header, "X-Remote-", strlen("X-Remote-")) == 0;
}
