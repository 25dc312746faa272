// SPDX-License-Identifier: Apache-2.0
// Sockets that speak to a server byte by byte, as no HTTP client would.
#pragma once

#include "net/http/server.h"
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>

// Connected to the server on 127.0.0.1, not blocking.
static inline int raw_connect(const struct http_server *server)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons(http_server_port(server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

// False: the server has closed the connection.
static inline bool raw_send(int fd, const char *text)
{
    return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}
