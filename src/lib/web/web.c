// SPDX-License-Identifier: Apache-2.0
// Routes, headers and files of the web interface.
#include "web/web_private.h"

#include "base/mem.h"
#include "codec/encoding.h"

#include <string.h>

enum { VERSION_LEN = 12 }; // of web_version

// The browser loads nothing from other hosts and runs no script or style inside a page, so that a
// text from a label or an annotation cannot become code.
static const char policy[] = "default-src 'self'; object-src 'none'; base-uri 'none'; "
                             "form-action 'self'; frame-ancestors 'self'";

// These paths are those of Prometheus, except for those of gpuscale. The page reads its
// address to find out what it shows.
static const char *const pages[] = {
    "/graph",       "/query",
    "/alerts",      "/rules",
    "/targets",     "/service-discovery",
    "/config",      "/alertmanager-discovery",
    "/flags",       "/status",
    "/tsdb-status", "/workloads",
    "/workload",    "/gpus",
    "/gpu",         "/nodes",
    "/node",        "/inference",
    "/report",      "/adapter",
    "/dashboards",  "/dashboard",
};

// Addresses of pages in links of other programs, and where they are. Pages are not in folders,
// because their links are relative.
static const struct {
    const char *path, *to;
} moved[] = {
    {"/dashboards/view", "../dashboard"},
    {"/dashboards/import", "../dashboards"},
    {"/dashboard/import", "../dashboards"},
};

static const struct web_file *find_file(struct gs_slice name)
{
    for (size_t i = 0; i < web_n_files; i++)
        if (gs_slice_eq_str(name, web_files[i].name))
            return &web_files[i];
    return NULL;
}

// --- replies ---

static void add_headers(struct http_exchange *x)
{
    http_add_header(x, "Content-Security-Policy", policy);
    http_add_header(x, "X-Content-Type-Options", "nosniff");
    http_add_header(x, "Referrer-Policy", "no-referrer");
}

// Whether a list such as If-None-Match contains the tag. A weak tag is equal here (RFC
// 9110, 13.1.2).
static bool has_tag(const char *list, const char *etag)
{
    struct gs_slice rest = gs_slice_of(list);
    while (rest.data) {
        struct gs_slice tag = gs_slice_trim(gs_slice_cut(&rest, ','));
        if (gs_slice_starts(tag, "W/"))
            tag = gs_slice_make(tag.data + 2, tag.len - 2);
        if (gs_slice_eq_str(tag, etag) || gs_slice_eq_str(tag, "*"))
            return true;
    }
    return false;
}

static void reply_file(struct http_exchange *x, const struct web_file *f, bool fixed)
{
    add_headers(x);
    http_add_header(x, "ETag", f->etag);
    // The browser requests pages each time, and a new version of the program is visible at once.
    http_add_header(x, "Cache-Control",
                    fixed ? "private, max-age=31536000, immutable" : "no-cache");
    http_add_header(x, "Vary", "Accept-Encoding");
    const char *known = http_header(x, "If-None-Match");
    if (known && has_tag(known, f->etag)) {
        http_reply(x, 304, NULL, GS_SLICE(""));
        return;
    }
    struct gs_slice packed = gs_slice_make((const char *)f->gzip, f->gzip_len);
    if (http_accepts_gzip(x)) {
        http_add_header(x, "Content-Encoding", "gzip");
        http_reply(x, 200, f->type, packed);
        return;
    }
    GS_AUTO_BUF struct gs_buf plain = {0};
    struct gs_error *err = codec_gunzip(packed, f->plain_len, NULL, NULL, &plain);
    if (err)
        http_reply_text(x, 500, "%s\n", gs_error_message(err));
    else
        http_reply(x, 200, f->type, gs_buf_slice(&plain));
    gs_error_free(err);
}

// --- routes ---

static bool is_page(struct gs_slice path)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(pages); i++)
        if (gs_slice_eq_str(path, pages[i]))
            return true;
    return false;
}

// With the query of the request. False: the path was not moved.
static bool redirect_moved(struct http_exchange *x, struct gs_slice path)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(moved); i++) {
        if (!gs_slice_eq_str(path, moved[i].path))
            continue;
        const char *query = strchr(http_target(x), '?');
        GS_AUTO_FREE char *to = gs_format("%s%s", moved[i].to, query ? query : "");
        add_headers(x);
        http_add_header(x, "Location", to);
        http_reply_text(x, 302, "the page is at %s\n", moved[i].to);
        return true;
    }
    return false;
}

// The prefix without a slash at its end: relative links of a page would miss its last part.
static void redirect_to_directory(struct http_exchange *x)
{
    const char *last = strrchr(http_path(x), '/');
    GS_AUTO_FREE char *to = gs_format("%s/", last ? last + 1 : "");
    add_headers(x);
    http_add_header(x, "Location", to);
    http_reply_text(x, 302, "%s\n", to);
}

// NULL: the path is not a file or page. ret_fixed: its contents never change.
static const struct web_file *file_of(const struct web *w, struct gs_slice path, bool *ret_fixed)
{
    static const char assets[] = "/assets/";
    if (gs_slice_eq_str(path, "/"))
        return find_file(gs_slice_of(w->o.only_page ? w->o.only_page : "page.html"));
    if (!w->o.only_page && is_page(path))
        return find_file(GS_SLICE("page.html"));
    if (!gs_slice_starts(path, assets))
        return NULL;
    size_t n = sizeof(assets) - 1;
    struct gs_slice name = gs_slice_make(path.data + n, path.len - n);
    if (name.len > VERSION_LEN && name.data[VERSION_LEN] == '/') {
        struct gs_slice version = gs_slice_cut(&name, '/');
        if (strspn(version.data, "0123456789abcdef") < VERSION_LEN)
            return NULL;
        // The page of another version, for example of another replica, gets the files of this one.
        *ret_fixed = gs_slice_eq_str(version, web_version);
    }
    return find_file(name);
}

bool web_handle(struct web *w, struct http_exchange *x, struct gs_slice path)
{
    bool events = !w->o.only_page && gs_slice_eq_str(path, "/events");
    bool fixed = false;
    const struct web_file *f = file_of(w, path, &fixed);
    if (!events && !f)
        return !w->o.only_page && gs_streq(http_method(x), "GET") && redirect_moved(x, path);
    if (!gs_streq(http_method(x), "GET")) {
        add_headers(x);
        http_add_header(x, "Allow", "GET, HEAD");
        http_reply_text(x, 405, "Method Not Allowed\n");
    } else if (events) {
        web_events_open(w, x);
    } else if (gs_slice_eq_str(path, "/") && !gs_ends(http_path(x), "/")) {
        redirect_to_directory(x);
    } else {
        reply_file(x, f, fixed);
    }
    return true;
}

// --- unknown paths ---

static bool is_browser(struct http_exchange *x)
{
    const char *accept = http_header(x, "Accept");
    return gs_streq(http_method(x), "GET") && accept && strstr(accept, "text/html");
}

// Relative, because a proxy may have removed the beginning of the path.
static void add_way_up(struct gs_buf *out, struct gs_slice path)
{
    gs_buf_addf(out, "./");
    for (size_t i = 1; i < path.len; i++)
        if (path.data[i] == '/')
            gs_buf_addf(out, "../");
}

bool web_handle_unknown(struct http_exchange *x, struct gs_slice path)
{
    static const char *const others[] = {"/api/", "/assets/", "/-/"};
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
        if (gs_slice_starts(path, others[i]))
            return false;
    if (!is_browser(x) || !gs_slice_starts(path, "/"))
        return false;
    GS_AUTO_BUF struct gs_buf up = {0}, page = {0};
    add_way_up(&up, path);
    gs_buf_addf(&page,
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<meta name=\"color-scheme\" content=\"light dark\">\n"
                "<title>Page not found – gpuscale</title>\n"
                "<link rel=\"stylesheet\" href=\"%sassets/style.css\">\n</head>\n<body>\n"
                "<main>\n<h1>Page not found</h1>\n"
                "<p>gpuscale has no page at this address.</p>\n"
                "<p><a href=\"%s\">Overview</a></p>\n</main>\n</body>\n</html>\n",
                up.data, up.data);
    add_headers(x);
    http_reply(x, 404, "text/html; charset=utf-8", gs_buf_slice(&page));
    return true;
}

// --- life ---

struct web *web_new(const struct web_options *o)
{
    struct web *w = gs_alloc(sizeof(*w));
    w->o = *o;
    return w;
}

void web_free(struct web *w)
{
    if (!w)
        return;
    web_events_finish(w);
    free(w);
}
