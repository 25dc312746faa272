// SPDX-License-Identifier: Apache-2.0
#include "net/curl_spares.h"

#include "base/mem.h"

#include <string.h>

struct curl_spare curl_spares_take(struct curl_spares *s, const char *url)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->items[i].url, url) != 0)
            continue;
        struct curl_spare found = s->items[i];
        free(GS_TAKE(found.url));
        s->items[i] = s->items[--s->n];
        return found;
    }
    return (struct curl_spare){0};
}

void curl_spares_put(struct curl_spares *s, const struct curl_lib *curl, CURL *easy,
                     const char *url, size_t body)
{
    size_t at = s->n;
    if (s->n < CURL_SPARES) {
        s->n++;
    } else {
        at = s->next_out++ % CURL_SPARES;
        curl->easy_cleanup(s->items[at].easy);
        free(s->items[at].url);
    }
    s->items[at] = (struct curl_spare){easy, gs_strdup(url), body};
}

void curl_spares_finish(struct curl_spares *s, const struct curl_lib *curl)
{
    for (size_t i = 0; i < s->n; i++) {
        curl->easy_cleanup(s->items[i].easy);
        free(s->items[i].url);
    }
    s->n = 0;
}
