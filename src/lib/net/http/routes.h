// SPDX-License-Identifier: Apache-2.0
// The paths of a server as rows of a table. A server whose handler is http_routes_handle() answers
// by them, and other requests with 404, 405 or 413. Modules with rows of their own, such as the
// engine, use the functions for one row.
#pragma once

#include "net/http/http.h"

// Handlers get HEAD requests as GET; HTTP_HEAD only adds it to the header Allow.
enum http_methods {
    HTTP_GET = 1,
    HTTP_HEAD = 2,
    HTTP_OPTIONS = 4,
    HTTP_POST = 8,
    HTTP_PUT = 16,
    HTTP_READ = HTTP_GET | HTTP_HEAD,
    HTTP_ANY = ~0, // the handler checks the method
};

#define HTTP_TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8" // of Prometheus' text format
#define HTTP_TYPE_JSON    "application/json"

// Has `handle` or `write`.
struct http_route {
    const char *path; // "*" is one segment, "/**" at its end everything below
    http_handler handle;
    void (*write)(void *ctx, struct gs_buf *out); // appends the body of a response with status 200
    const char *type;                             // of this body
    unsigned methods;                             // 0: HTTP_READ
    size_t max_body;                              // bytes of the request's; 0: that of the server
    bool unlisted;                                // not in the text of a 404
};

struct http_routes {
    const struct http_route *rows;  // the last has no path
    void *ctx;                      // of their handlers
    const struct http_routes *more; // further rows with another ctx; NULL: none
    const char *not_found;          // text of a 404; NULL: the list of the paths
};

void http_routes_handle(void *routes, struct http_exchange *x); // an http_handler
// False if no row has the path: the exchange is still to be answered.
bool http_routes_try(const struct http_routes *routes, struct http_exchange *x,
                     struct gs_slice path);

bool http_route_matches(const struct http_route *r, struct gs_slice path);
bool http_route_allows(const struct http_route *r, const char *method);
// Adds the header Allow, of a reply with the status 405.
void http_route_add_allow(const struct http_route *r, struct http_exchange *x);
