// SPDX-License-Identifier: Apache-2.0
#include "differential.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <unistd.h>

void peer_form(struct gs_buf *form, const char *name, const char *value)
{
    gs_buf_addf(form, "%s%s=", form->len ? "&" : "", name);
    for (const char *c = value; *c; c++)
        gs_buf_addf(form, "%%%02X", (unsigned char)*c);
}

static void lost(const char *what)
{
    perror(what);
    exit(2);
}

json_t *peer_post(int port, const char *path, const char *form)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
        lost("connect to the peer");
    GS_AUTO_BUF struct gs_buf b = {0};
    gs_buf_addf(&b,
                "POST %s HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n"
                "Content-Type: application/x-www-form-urlencoded\r\n\r\n%s",
                path, strlen(form), form);
    for (size_t done = 0; done < b.len;) {
        ssize_t n = write(fd, b.data + done, b.len - done);
        if (n <= 0)
            lost("write to the peer");
        done += (size_t)n;
    }
    gs_buf_clear(&b);
    char part[65536];
    ssize_t n;
    while ((n = read(fd, part, sizeof(part))) > 0)
        gs_buf_add(&b, part, (size_t)n);
    close(fd);
    const char *body = b.len ? strstr(b.data, "\r\n\r\n") : NULL;
    json_t *reply = body ? json_loads(body + 4, JSON_DECODE_ANY, NULL) : NULL;
    if (!reply)
        lost("the peer's reply is no JSON");
    return reply;
}
