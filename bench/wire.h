// SPDX-License-Identifier: Apache-2.0
// A blocking HTTP/1.1 client on one keep-alive connection to 127.0.0.1, optionally with TLS. It
// uses as little CPU as possible.
#pragma once

#include "base/buf.h"

#include <gnutls/gnutls.h>

struct wire {
    int fd;
    gnutls_session_t tls; // NULL: plain
    const char *headers;  // added to each request: "Name: value\r\n…"; NULL: none
    struct gs_buf reply;
};

void wire_connect(struct wire *w, uint16_t port); // fails the program
bool wire_try_connect(struct wire *w, uint16_t port);
// False: no connection, or the handshake failed. The peer's certificate is not verified.
bool wire_try_tls(struct wire *w, uint16_t port, gnutls_certificate_credentials_t credentials);
void wire_close(struct wire *w);
// Whether the reply was 200. Its body is borrowed until the next call. Fails the program when the
// connection breaks.
bool wire_get(struct wire *w, const char *path, struct gs_slice *ret_body);
// The status; 0: the connection broke.
int wire_try_get(struct wire *w, const char *path, struct gs_slice *ret_body);
int wire_try_post(struct wire *w, const char *path, struct gs_slice content,
                  struct gs_slice *ret_body);
