// SPDX-License-Identifier: Apache-2.0
// Easy handles of completed requests, by URL, so that repeated requests need no new handle. At
// most HTTP_CURL_SPARES are kept; the oldest is replaced.
#include "net/http/curl_private.h"

#include "base/mem.h"

#include <string.h>

struct http_curl_spare http_curl_spares_take(struct http_curl_spares *s, const char *url)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->items[i].url, url) != 0)
            continue;
        struct http_curl_spare found = s->items[i];
        free(GS_TAKE(found.url));
        s->items[i] = s->items[--s->n];
        return found;
    }
    return (struct http_curl_spare){0};
}

void http_curl_spares_put(struct http_curl_spares *s, const struct http_curl_lib *curl, CURL *easy,
                          const char *url, size_t body)
{
    size_t at = s->n;
    if (s->n < HTTP_CURL_SPARES) {
        s->n++;
    } else {
        at = s->next_out++ % HTTP_CURL_SPARES;
        curl->easy_cleanup(s->items[at].easy);
        free(s->items[at].url);
    }
    s->items[at] = (struct http_curl_spare){easy, gs_strdup(url), body};
}

void http_curl_spares_finish(struct http_curl_spares *s, const struct http_curl_lib *curl)
{
    for (size_t i = 0; i < s->n; i++) {
        curl->easy_cleanup(s->items[i].easy);
        free(s->items[i].url);
    }
    s->n = 0;
}
