// SPDX-License-Identifier: Apache-2.0
// Finds the row of a request, and answers requests that no row takes.
#include "net/http/routes.h"

#include "base/mem.h"

static const struct {
    const char *name;
    enum http_methods bit;
} methods[] = {
    // in the order of the header Allow
    {"GET", HTTP_GET},   {"HEAD", HTTP_HEAD}, {"OPTIONS", HTTP_OPTIONS},
    {"POST", HTTP_POST}, {"PUT", HTTP_PUT},
};

static unsigned methods_of(const struct http_route *r)
{
    return r->methods ? r->methods : HTTP_READ;
}

bool http_route_allows(const struct http_route *r, const char *method)
{
    if (methods_of(r) == (unsigned)HTTP_ANY)
        return true;
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++)
        if (gs_streq(method, methods[i].name))
            return methods_of(r) & methods[i].bit;
    return false;
}

bool http_route_matches(const struct http_route *r, struct gs_slice path)
{
    const char *star = strchr(r->path, '*');
    if (!star)
        return gs_slice_eq_str(path, r->path);
    size_t head = (size_t)(star - r->path);
    if (path.len < head || memcmp(path.data, r->path, head) != 0)
        return false;
    if (star[1] == '*')
        return true;
    size_t tail = strlen(star + 1);
    return path.len > head + tail && gs_slice_ends(path, star + 1) &&
           !memchr(path.data + head, '/', path.len - head - tail);
}

void http_route_add_allow(const struct http_route *r, struct http_exchange *x)
{
    GS_AUTO_BUF struct gs_buf allow = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++)
        if (methods_of(r) & methods[i].bit)
            gs_buf_addf(&allow, "%s%s", allow.len ? ", " : "", methods[i].name);
    http_add_header(x, "Allow", allow.data);
}

static void run_route(const struct http_route *r, void *ctx, struct http_exchange *x)
{
    if (!http_route_allows(r, http_method(x))) {
        http_route_add_allow(r, x);
        http_reply_text(x, 405, "Method Not Allowed\n");
    } else if (r->max_body && http_body(x).len > r->max_body) {
        http_reply_text(x, 413, "the body has more than %zu bytes\n", r->max_body);
    } else if (r->handle) {
        r->handle(ctx, x);
    } else {
        GS_AUTO_BUF struct gs_buf body = {0};
        r->write(ctx, &body);
        http_reply(x, 200, r->type, gs_buf_slice(&body));
    }
}

static void add_paths(const struct http_routes *routes, struct gs_buf *out)
{
    for (; routes; routes = routes->more)
        for (const struct http_route *r = routes->rows; r->path; r++)
            if (!r->unlisted)
                gs_buf_addf(out, "%s%s", out->len ? ", " : "", r->path);
}

static void reply_not_found(const struct http_routes *routes, struct http_exchange *x)
{
    GS_AUTO_BUF struct gs_buf paths = {0};
    if (routes->not_found) {
        http_reply_text(x, 404, "%s", routes->not_found);
        return;
    }
    add_paths(routes, &paths);
    http_reply_text(x, 404, "not found; the paths are %s\n", paths.data);
}

bool http_routes_try(const struct http_routes *routes, struct http_exchange *x,
                     struct gs_slice path)
{
    for (; routes; routes = routes->more)
        for (const struct http_route *r = routes->rows; r->path; r++)
            if (http_route_matches(r, path)) {
                run_route(r, routes->ctx, x);
                return true;
            }
    return false;
}

void http_routes_handle(void *routes, struct http_exchange *x)
{
    if (!http_routes_try(routes, x, gs_slice_of(http_path(x))))
        reply_not_found(routes, x);
}
