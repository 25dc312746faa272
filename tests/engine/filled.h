// SPDX-License-Identifier: Apache-2.0
// Configurations with addresses and files that are known at run time.
#pragma once

#include "base/buf.h"
#include "net/http/server.h"

// Replaces PORT by the port of the server and DIR by the directory of the test.
static char *filled_in(struct http_server *server, const char *dir, const char *text)
{
    struct gs_buf out = {0};
    for (const char *c = text; *c;) {
        if (gs_starts(c, "PORT")) {
            gs_buf_addf(&out, "%d", http_server_port(server));
            c += 4;
        } else if (gs_starts(c, "DIR")) {
            gs_buf_add_str(&out, dir);
            c += 3;
        } else {
            gs_buf_add_char(&out, *c++);
        }
    }
    return gs_buf_take(&out);
}
