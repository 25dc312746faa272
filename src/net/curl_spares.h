// SPDX-License-Identifier: Apache-2.0
// Handles of finished GETs, kept for the next one of the same URL: who asks a peer each second (a
// scrape) pays for making and filling a handle once. Private to the room.
#pragma once

#include "net/curl_lib.h"

#include <stddef.h>

enum { CURL_SPARES = 32 };

struct curl_spare {
    CURL *easy;
    char *url;
    size_t body; // bytes of its last reply
};

struct curl_spares {
    struct curl_spare items[CURL_SPARES];
    size_t n, next_out; // the one that goes when all places are taken
};

// easy NULL: none of this URL. Otherwise the caller's.
struct curl_spare curl_spares_take(struct curl_spares *s, const char *url);
// Takes easy; url is copied.
void curl_spares_put(struct curl_spares *s, const struct curl_lib *curl, CURL *easy,
                     const char *url, size_t body);
void curl_spares_finish(struct curl_spares *s, const struct curl_lib *curl);
