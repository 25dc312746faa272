// SPDX-License-Identifier: Apache-2.0
// Routes from Ingress objects, and which one a request takes, by Kubernetes' rules: exact hosts
// first, then the longest path, then exact paths before prefixes. Request paths are decoded and
// normalized first, so that "/a/../b" cannot reach a route that it does not name.
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "local/services/services_private.h"

#include <strings.h>

void services_ingress_routes_finish(struct services_ingress_routes *r)
{
    for (size_t i = 0; i < r->len; i++) {
        free(r->items[i].host);
        free(r->items[i].path);
        free(r->items[i].ns);
        free(r->items[i].service);
        free(r->items[i].port_name);
    }
    free(r->items);
    *r = (struct services_ingress_routes){0};
}

// --- from an Ingress ---

static enum services_ingress_path_type path_type(const char *type, const char *path)
{
    if (gs_streq(type, "Exact"))
        return SERVICES_INGRESS_EXACT;
    // Patterns of AWS Application Load Balancers.
    if (gs_streq(type, "ImplementationSpecific") && strpbrk(path, "*?"))
        return SERVICES_INGRESS_PATTERN;
    return SERVICES_INGRESS_PREFIX;
}

// --- paths ---

// The byte of "%41". -1: no escape, or NUL.
static int escaped(struct gs_slice s)
{
    int high = s.len >= 3 ? gs_hex_digit(s.data[1]) : -1;
    int low = high >= 0 ? gs_hex_digit(s.data[2]) : -1;
    return low >= 0 && (high || low) ? high * 16 + low : -1;
}

static bool decode_path(const char *raw, struct gs_buf *out)
{
    struct gs_slice rest = gs_slice_of(raw);
    while (rest.len) {
        int c = *rest.data == '%' ? escaped(rest) : (unsigned char)*rest.data;
        size_t taken = *rest.data == '%' ? 3 : 1;
        if (c < 0)
            return false;
        gs_buf_add_char(out, (char)c);
        rest = gs_slice_make(rest.data + taken, rest.len - taken);
    }
    return true;
}

char *services_ingress_path(const char *raw)
{
    GS_AUTO_BUF struct gs_buf decoded = {0}, out = {0};
    if (!decode_path(raw, &decoded) || !decoded.len || decoded.data[0] != '/')
        return NULL;
    struct gs_slice rest = gs_buf_slice(&decoded);
    gs_slice_cut(&rest, '/');
    gs_buf_add_char(&out, '/');
    while (rest.data) {
        struct gs_slice element = gs_slice_cut(&rest, '/');
        if (gs_slice_eq_str(element, "..")) {
            if (out.len == 1)
                return NULL;
            do
                out.len--;
            while (out.data[out.len - 1] != '/');
        } else if (element.len && !gs_slice_eq_str(element, ".")) {
            gs_buf_add_slice(&out, element);
            if (rest.data)
                gs_buf_add_char(&out, '/');
        }
    }
    out.data[out.len] = '\0';
    return gs_buf_take(&out);
}

static char *path_of_rule(enum services_ingress_path_type type, const char *text)
{
    char *path = type == SERVICES_INGRESS_PATTERN ? NULL : services_ingress_path(text);
    return path ? path : gs_strdup(text);
}

// --- rules ---

// A backend that is no Service ("resource") has a route without a service.
static void add_route(struct services_ingress_routes *r, const json_t *ingress, const char *host,
                      const json_t *path, const json_t *backend)
{
    const json_t *service = json_object_get(backend, "service");
    const char *text = codec_json_str(path, "path", NULL);

    text = text && *text ? text : "/";
    gs_grow(&r->items, &r->cap, r->len, sizeof(*r->items));
    r->items[r->len] = (struct services_ingress_route){
        .host = gs_strdup(host && *host ? host : NULL),
        .path = path_of_rule(path_type(codec_json_str(path, "pathType", NULL), text), text),
        .type = path_type(codec_json_str(path, "pathType", NULL), text),
        .is_default = path == NULL,
        .order = r->len,
        .ns = gs_strdup(kube_namespace(ingress)),
        .service = gs_strdup(codec_json_str(service, "name", NULL)),
        .port_name = gs_strdup(codec_json_str(service, "port", "name", NULL)),
        .port = (int)codec_json_int(service, 0, "port", "number", NULL),
    };
    r->len++;
}

void services_ingress_routes_add(struct services_ingress_routes *r, const json_t *ingress)
{
    const json_t *fallback = codec_json_get(ingress, "spec", "defaultBackend", NULL);
    size_t i, k;
    json_t *rule, *path;

    json_array_foreach (codec_json_get(ingress, "spec", "rules", NULL), i, rule) {
        const char *host = codec_json_str(rule, "host", NULL);
        json_array_foreach (codec_json_get(rule, "http", "paths", NULL), k, path)
            add_route(r, ingress, host, path, json_object_get(path, "backend"));
        // A rule without paths sends all requests to the default backend.
        if (fallback && json_array_size(codec_json_get(rule, "http", "paths", NULL)) == 0)
            add_route(r, ingress, host, NULL, fallback);
    }
    if (fallback)
        add_route(r, ingress, NULL, NULL, fallback);
}

// --- order: default backends last, exact hosts first, long paths first, exact before prefix ---

static int host_rank(const struct services_ingress_route *r)
{
    if (!r->host)
        return 2;
    return r->host[0] == '*' ? 1 : 0;
}

static int compare_routes(const void *pa, const void *pb)
{
    const struct services_ingress_route *a = pa, *b = pb;
    if (a->is_default != b->is_default)
        return a->is_default ? 1 : -1;
    int rank = host_rank(a) - host_rank(b);
    if (rank)
        return rank;
    size_t la = strlen(a->path), lb = strlen(b->path);
    if (la != lb)
        return la > lb ? -1 : 1;
    if (a->type != b->type)
        return (int)a->type - (int)b->type;
    return a->order < b->order ? -1 : a->order > b->order;
}

void services_ingress_routes_sort(struct services_ingress_routes *r)
{
    if (r->len)
        qsort(r->items, r->len, sizeof(*r->items), compare_routes);
}

// --- matching ---

// "*.example.com" matches one label: "a.example.com", not "a.b.example.com".
static bool host_matches(const char *pattern, struct gs_slice host)
{
    if (!pattern)
        return true;
    if (pattern[0] == '*') {
        const char *dot = memchr(host.data, '.', host.len);
        if (!dot || dot == host.data)
            return false;
        host = gs_slice_make(dot, host.len - (size_t)(dot - host.data));
        pattern++;
    }
    return strlen(pattern) == host.len && strncasecmp(pattern, host.data, host.len) == 0;
}

// By elements of the path: "/a" matches "/a", "/a/" and "/a/b", not "/ab".
static bool prefix_matches(const char *prefix, const char *path)
{
    size_t len = strlen(prefix);
    while (len && prefix[len - 1] == '/')
        len--;
    return strncmp(prefix, path, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

// '*' matches any characters, '?' one.
static bool pattern_matches(const char *pattern, const char *path)
{
    const char *star = NULL, *resume = NULL;
    while (*path) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = path;
        } else if (*pattern == '?' || *pattern == *path) {
            pattern++;
            path++;
        } else if (star) {
            pattern = star;
            path = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool path_matches(const struct services_ingress_route *r, const char *path)
{
    switch (r->type) {
    case SERVICES_INGRESS_EXACT:
        return strcmp(r->path, path) == 0;
    case SERVICES_INGRESS_PATTERN:
        return pattern_matches(r->path, path);
    case SERVICES_INGRESS_PREFIX:
        break;
    }
    return prefix_matches(r->path, path);
}

// Without its port: "a:80", "[::1]:80".
static struct gs_slice host_of(const char *header)
{
    size_t len = strlen(header);
    const char *colon = strrchr(header, ':');
    if (colon && !strchr(colon, ']'))
        len = (size_t)(colon - header);
    while (len && header[len - 1] == '.')
        len--;
    return gs_slice_make(header, len);
}

const struct services_ingress_route *
services_ingress_routes_find(const struct services_ingress_routes *r, const char *host,
                             const char *path)
{
    struct gs_slice name = host_of(host ? host : "");
    for (size_t i = 0; i < r->len; i++)
        if (host_matches(r->items[i].host, name) && path_matches(&r->items[i], path))
            return &r->items[i];
    return NULL;
}
