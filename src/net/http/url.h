// SPDX-License-Identifier: Apache-2.0
// An http:// URL in its parts, as the short way of the HTTP client takes it. Others (another
// scheme, user information, a fragment, characters that want encoding) are refused: libcurl reads
// those. Private to the room.
#pragma once

#include "base/slice.h"

#include <sys/socket.h>

struct http_url {
    struct gs_slice authority; // "node-1:9400", for the Host header; of the text
    struct gs_slice target;    // "/metrics?x=1", "/" when there is none
    char host[256];            // without brackets
    int port;                  // 80 when there is none
};

bool http_url_parse(const char *text, struct http_url *ret);
// "localhost", 127.…, ::1 with or without brackets.
bool http_host_is_loopback(const char *host);
// False when the host is a name.
bool http_url_address(const struct http_url *u, struct sockaddr_storage *ret);
