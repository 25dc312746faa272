// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "net/http/http.h"

struct mux_route {
    char *prefix;
    size_t len;
    http_handler fn;
    void *ctx;
};

struct http_mux {
    struct mux_route *routes;
    size_t len, cap;
};

struct http_mux *http_mux_new(void)
{
    return gs_alloc(sizeof(struct http_mux));
}

void http_mux_free(struct http_mux *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->len; i++)
        free(m->routes[i].prefix);
    free(m->routes);
    free(m);
}

void http_mux_add(struct http_mux *m, const char *prefix, http_handler fn, void *ctx)
{
    gs_grow(&m->routes, &m->cap, m->len, sizeof(*m->routes));
    m->routes[m->len++] = (struct mux_route){gs_strdup(prefix), strlen(prefix), fn, ctx};
}

static bool route_matches(const struct mux_route *r, const char *path)
{
    if (r->len > 0 && r->prefix[r->len - 1] == '/')
        return strncmp(path, r->prefix, r->len) == 0;
    return strcmp(path, r->prefix) == 0;
}

void http_mux_handle(void *mux, struct http_exchange *x)
{
    const struct http_mux *m = mux;
    const struct mux_route *best = NULL;
    for (size_t i = 0; i < m->len; i++)
        if (route_matches(&m->routes[i], http_path(x)) && (!best || m->routes[i].len > best->len))
            best = &m->routes[i];
    if (best)
        best->fn(best->ctx, x);
    else
        http_reply_text(x, 404, "404 page not found\n");
}
