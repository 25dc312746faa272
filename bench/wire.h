// SPDX-License-Identifier: Apache-2.0
// A blocking HTTP/1.1 client on one kept-alive connection to 127.0.0.1: as little work as can be on
// the measuring side.
#pragma once

#include "base/buf.h"

struct wire {
    int fd;
    struct gs_buf reply;
};

void wire_connect(struct wire *w, uint16_t port); // fails the program
void wire_close(struct wire *w);
// Whether the reply was 200. Its body is borrowed until the next call. Fails the program when the
// connection breaks.
bool wire_get(struct wire *w, const char *path, struct gs_slice *ret_body);
