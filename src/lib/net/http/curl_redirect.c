// SPDX-License-Identifier: Apache-2.0
// Redirects as Go's client follows them. libcurl compares ports, too, so that a redirect to another
// port loses credentials, and sends them again when a later redirect returns to the first host.
#include "base/mem.h"
#include "net/http/curl_private.h"

#include <string.h>
#include <strings.h>

enum { MAX_REQUESTS = 10 };

bool http_curl_redirect_is(const char *method, long status)
{
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    return status == 307 || status == 308 ||
           (reads && (status == 301 || status == 302 || status == 303));
}

// "a.example.com" is within "example.com".
static bool is_within(const char *host, const char *domain)
{
    size_t n = strlen(host), m = strlen(domain);
    if (strcasecmp(host, domain) == 0)
        return true;
    if (strpbrk(host, ":%")) // an IPv6 address, whose zone could look like a domain
        return false;
    return n > m && host[n - m - 1] == '.' && strcasecmp(host + n - m, domain) == 0;
}

static bool is_header(const char *line, const char *name)
{
    size_t n = strlen(name);
    return strncasecmp(line, name, n) == 0 && (line[n] == ':' || line[n] == ';');
}

static bool is_sensitive(const char *line)
{
    static const char *const names[] = {
        "Authorization", "WWW-Authenticate",    "Cookie",
        "Cookie2",       "Proxy-Authorization", "Proxy-Authenticate"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (is_header(line, names[i]))
            return true;
    return false;
}

// Replaces the headers by those of the next request. referer NULL: none.
static void copy_headers(const struct http_curl_redirect *r, const struct http_curl_lib *curl,
                         const char *referer, struct curl_slist **headers)
{
    struct curl_slist *next = NULL;
    for (const struct curl_slist *h = *headers; h; h = h->next) {
        // The host is that of the new URL.
        bool renewed = is_header(h->data, "Host") || is_header(h->data, "Referer");
        if (!renewed && !(r->left_host && is_sensitive(h->data)))
            next = curl->slist_append(next, h->data);
    }
    if (referer) {
        GS_AUTO_FREE char *line = gs_format("Referer: %s", referer);
        next = curl->slist_append(next, line);
    }
    curl->slist_free_all(*headers);
    *headers = next;
}

static char *url_part(const struct http_curl_lib *curl, CURLU *u, CURLUPart part)
{
    char *text = NULL;
    if (curl->url_get(u, part, &text, 0) != CURLUE_OK)
        return NULL;
    char *copy = gs_strdup(text);
    curl->free(text);
    return copy;
}

// The URL without user, password and fragment; NULL if the next request must not have it.
static char *referer_of(const struct http_curl_lib *curl, const char *url, const char *next)
{
    CURLU *u = strncasecmp(url, "https:", 6) == 0 && strncasecmp(next, "https:", 6) != 0
                   ? NULL
                   : curl->url();
    char *text = NULL;
    if (u && curl->url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK) {
        (void)curl->url_set(u, CURLUPART_USER, NULL, 0);
        (void)curl->url_set(u, CURLUPART_PASSWORD, NULL, 0);
        (void)curl->url_set(u, CURLUPART_FRAGMENT, NULL, 0);
        text = url_part(curl, u, CURLUPART_URL);
    }
    curl->url_cleanup(u);
    return text;
}

// Resolves the location. *ret_left: the host is neither the first one nor within its domain.
static char *resolve(const struct http_curl_redirect *r, const struct http_curl_lib *curl,
                     bool *ret_left)
{
    CURLU *first = curl->url(), *u = curl->url();
    char *url = NULL, *host = NULL, *first_host = NULL;
    if (first && u && curl->url_set(first, CURLUPART_URL, r->first, 0) == CURLUE_OK &&
        curl->url_set(u, CURLUPART_URL, r->url, 0) == CURLUE_OK &&
        curl->url_set(u, CURLUPART_URL, r->location, CURLU_URLENCODE) == CURLUE_OK) {
        host = url_part(curl, u, CURLUPART_HOST);
        first_host = url_part(curl, first, CURLUPART_HOST);
        url = url_part(curl, u, CURLUPART_URL);
    }
    *ret_left = !host || !first_host || !is_within(host, first_host);
    curl->url_cleanup(first);
    curl->url_cleanup(u);
    free(host);
    free(first_host);
    return url;
}

struct gs_error *http_curl_redirect_next(struct http_curl_redirect *r,
                                         const struct http_curl_lib *curl,
                                         struct curl_slist **headers)
{
    bool left = false;
    if (++r->n >= MAX_REQUESTS)
        return gs_error_new(GS_ELIMIT, "stopped after %d redirects", MAX_REQUESTS);
    char *url = resolve(r, curl, &left);
    if (!url)
        return gs_error_new(GS_EPROTO, "the redirect has the invalid location \"%.200s\"",
                            r->location);
    GS_AUTO_FREE char *referer = referer_of(curl, r->url, url);
    r->left_host = r->left_host || left;
    free(r->url);
    r->url = url;
    free(GS_TAKE(r->location));
    copy_headers(r, curl, referer, headers);
    return NULL;
}

void http_curl_redirect_note(struct http_curl_redirect *r, struct gs_slice line)
{
    static const char name[] = "location:";
    if (gs_slice_starts(line, "HTTP/"))
        free(GS_TAKE(r->location));
    if (r->location || line.len < sizeof(name) ||
        strncasecmp(line.data, name, sizeof(name) - 1) != 0)
        return;
    struct gs_slice value =
        gs_slice_trim(gs_slice_make(line.data + sizeof(name) - 1, line.len - (sizeof(name) - 1)));
    if (value.len)
        r->location = gs_slice_dup(value);
}

void http_curl_redirect_finish(struct http_curl_redirect *r)
{
    free(r->first);
    free(r->url);
    free(r->location);
}
