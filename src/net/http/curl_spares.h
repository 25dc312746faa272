// SPDX-License-Identifier: Apache-2.0
// Handles of finished GETs, kept for the next one of the same URL: who asks a peer each second (a
// scrape) pays for making and filling a handle once. Private to the room.
#pragma once

#include "net/http/curl_lib.h"

#include <stddef.h>

enum { HTTP_CURL_SPARES = 32 };

struct http_curl_spare {
    CURL *easy;
    char *url;
    size_t body; // bytes of its last reply
};

struct http_curl_spares {
    struct http_curl_spare items[HTTP_CURL_SPARES];
    size_t n, next_out; // the one that goes when all places are taken
};

// easy NULL: none of this URL. Otherwise the caller's.
struct http_curl_spare http_curl_spares_take(struct http_curl_spares *s, const char *url);
// Takes easy; url is copied.
void http_curl_spares_put(struct http_curl_spares *s, const struct http_curl_lib *curl, CURL *easy,
                          const char *url, size_t body);
void http_curl_spares_finish(struct http_curl_spares *s, const struct http_curl_lib *curl);
