// SPDX-License-Identifier: Apache-2.0
#include "wire.h"

#include "base/num.h"
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

void wire_connect(struct wire *w, uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    *w = (struct wire){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (w->fd < 0 || connect(w->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        bench_fail("127.0.0.1:%u: %s", port, strerror(errno));
    setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void wire_close(struct wire *w)
{
    close(w->fd);
    gs_buf_finish(&w->reply);
}

static void receive_more(struct wire *w)
{
    char chunk[65536];
    ssize_t n = recv(w->fd, chunk, sizeof(chunk), 0);
    if (n <= 0)
        bench_fail("the server ended the connection: %s", n < 0 ? strerror(errno) : "closed");
    gs_buf_add(&w->reply, chunk, (size_t)n);
}

// Bytes of the body, from the header; the server always gives a length for what is asked here.
static size_t content_length(const char *header, size_t len)
{
    static const char name[] = "Content-Length:";
    for (const char *line = header; line && (size_t)(line - header) < len;) {
        if (strncasecmp(line, name, sizeof(name) - 1) == 0)
            return (size_t)strtoull(line + sizeof(name) - 1, NULL, 10);
        line = strstr(line, "\r\n");
        line = line ? line + 2 : NULL;
    }
    bench_fail("a reply without Content-Length");
}

bool wire_get(struct wire *w, const char *path, struct gs_slice *ret_body)
{
    char request[1024];
    int n = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
    if (send(w->fd, request, (size_t)n, MSG_NOSIGNAL) != n)
        bench_fail("sending a request: %s", strerror(errno));
    gs_buf_clear(&w->reply);
    const char *end = NULL;
    do {
        receive_more(w);
        end = memmem(w->reply.data, w->reply.len, "\r\n\r\n", 4);
    } while (!end);
    size_t header = (size_t)(end - w->reply.data) + 4;
    size_t body = content_length(w->reply.data, header);
    while (w->reply.len < header + body)
        receive_more(w);
    *ret_body = gs_slice_make(w->reply.data + header, body);
    return strncmp(w->reply.data, "HTTP/1.1 200", 12) == 0;
}
