// SPDX-License-Identifier: Apache-2.0
#include "wire.h"

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

static bool open_socket(struct wire *w, uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    *w = (struct wire){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (w->fd < 0 || connect(w->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        return false;
    setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return true;
}

bool wire_try_connect(struct wire *w, uint16_t port)
{
    bool ok = open_socket(w, port);
    if (!ok)
        wire_close(w);
    return ok;
}

void wire_connect(struct wire *w, uint16_t port)
{
    if (!open_socket(w, port))
        bench_fail("127.0.0.1:%u: %s", port, strerror(errno));
}

bool wire_try_tls(struct wire *w, uint16_t port, gnutls_certificate_credentials_t credentials)
{
    int rc = -1;
    if (open_socket(w, port) && gnutls_init(&w->tls, GNUTLS_CLIENT) == 0) {
        gnutls_set_default_priority(w->tls);
        gnutls_credentials_set(w->tls, GNUTLS_CRD_CERTIFICATE, credentials);
        gnutls_transport_set_int(w->tls, w->fd);
        do
            rc = gnutls_handshake(w->tls);
        while (rc < 0 && !gnutls_error_is_fatal(rc));
    }
    if (rc < 0)
        wire_close(w);
    return rc >= 0;
}

void wire_close(struct wire *w)
{
    if (w->tls)
        gnutls_deinit(w->tls);
    if (w->fd >= 0)
        close(w->fd);
    gs_buf_finish(&w->reply);
    *w = (struct wire){.fd = -1};
}

static bool send_all(struct wire *w, const char *data, size_t len)
{
    for (size_t sent = 0; sent < len;) {
        ssize_t n = w->tls ? gnutls_record_send(w->tls, data + sent, len - sent)
                           : send(w->fd, data + sent, len - sent, MSG_NOSIGNAL);
        if (n < 0 && (!w->tls || gnutls_error_is_fatal((int)n)))
            return false;
        sent += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool receive_more(struct wire *w)
{
    char chunk[65536];
    ssize_t n;
    do
        n = w->tls ? gnutls_record_recv(w->tls, chunk, sizeof(chunk))
                   : recv(w->fd, chunk, sizeof(chunk), 0);
    while (w->tls && n < 0 && !gnutls_error_is_fatal((int)n));
    if (n > 0)
        gs_buf_add(&w->reply, chunk, (size_t)n);
    return n > 0;
}

// The value of the header NAME; NULL: absent.
static const char *header_value(const char *header, size_t len, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = header; line && (size_t)(line - header) < len;) {
        if (strncasecmp(line, name, n) == 0)
            return line + n;
        line = strstr(line, "\r\n");
        line = line ? line + 2 : NULL;
    }
    return NULL;
}

// Go sends long bodies in chunks: they are joined in place. False: the connection broke.
static bool join_chunks(struct wire *w, size_t from)
{
    size_t in = from, out = from;
    for (;;) {
        char *end;
        while (!(end = memmem(w->reply.data + in, w->reply.len - in, "\r\n", 2)))
            if (!receive_more(w))
                return false;
        size_t n = strtoull(w->reply.data + in, NULL, 16);
        in = (size_t)(end - w->reply.data) + 2;
        while (w->reply.len < in + n + 2)
            if (!receive_more(w))
                return false;
        memmove(w->reply.data + out, w->reply.data + in, n);
        in += n + 2;
        out += n;
        if (!n)
            break;
    }
    w->reply.len = out;
    w->reply.data[out] = '\0';
    return true;
}

static bool receive_body(struct wire *w, size_t header)
{
    const char *length = header_value(w->reply.data, header, "Content-Length:");
    if (!length)
        return header_value(w->reply.data, header, "Transfer-Encoding:") && join_chunks(w, header);
    size_t body = strtoull(length, NULL, 10);
    while (w->reply.len < header + body)
        if (!receive_more(w))
            return false;
    return true;
}

static int receive_reply(struct wire *w, struct gs_slice *ret_body)
{
    const char *end = NULL;
    do {
        if (!receive_more(w))
            return 0;
        end = memmem(w->reply.data, w->reply.len, "\r\n\r\n", 4);
    } while (!end);
    size_t header = (size_t)(end - w->reply.data) + 4;
    int status = (int)strtol(w->reply.data + strlen("HTTP/1.1 "), NULL, 10);
    if (status != 204 && !receive_body(w, header))
        return 0;
    *ret_body = gs_slice_make(w->reply.data + header, w->reply.len - header);
    return status;
}

int wire_try_get(struct wire *w, const char *path, struct gs_slice *ret_body)
{
    char request[4096];
    int n = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", path,
                     w->headers ? w->headers : "");
    gs_buf_clear(&w->reply);
    if (n >= (int)sizeof(request) || !send_all(w, request, (size_t)n))
        return 0;
    return receive_reply(w, ret_body);
}

int wire_try_post(struct wire *w, const char *path, struct gs_slice content,
                  struct gs_slice *ret_body)
{
    char request[4096];
    int n = snprintf(request, sizeof(request),
                     "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n%s\r\n", path,
                     content.len, w->headers ? w->headers : "");
    gs_buf_clear(&w->reply);
    if (n >= (int)sizeof(request) || !send_all(w, request, (size_t)n) ||
        !send_all(w, content.data, content.len))
        return 0;
    return receive_reply(w, ret_body);
}

bool wire_get(struct wire *w, const char *path, struct gs_slice *ret_body)
{
    int status = wire_try_get(w, path, ret_body);
    if (!status)
        bench_fail("the server ended the connection: %s", strerror(errno));
    return status == 200;
}
