// SPDX-License-Identifier: Apache-2.0
// Finds connections that the server has closed while libcurl kept them for reuse. A request on
// such a connection would fail after it was sent. libcurl shows no descriptors of idle
// connections, so the local port of each descriptor is recorded and compared.
#include "net/http/curl_private.h"

#include "base/mem.h"

#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

static uint16_t local_port(int fd)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof(sa);
    if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
        return 0;
    if (sa.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)(const void *)&sa)->sin_port);
    if (sa.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)(const void *)&sa)->sin6_port);
    return 0;
}

void http_curl_idle_note(struct http_curl_idle *idle, int fd)
{
    if (fd < 0)
        return;
    if ((size_t)fd >= idle->n) {
        size_t n = 2 * (size_t)fd + 1;
        idle->ports = gs_realloc_array(idle->ports, n, sizeof(*idle->ports));
        memset(idle->ports + idle->n, 0, (n - idle->n) * sizeof(*idle->ports));
        idle->n = n;
    }
    idle->ports[fd] = local_port(fd);
}

bool http_curl_idle_is_closed(const struct http_curl_idle *idle, int port)
{
    for (size_t fd = 0; port > 0 && fd < idle->n; fd++) {
        struct pollfd p = {.fd = (int)fd, .events = POLLRDHUP};
        if (idle->ports[fd] == port && local_port((int)fd) == port && poll(&p, 1, 0) > 0)
            return true;
    }
    return false;
}

void http_curl_idle_finish(struct http_curl_idle *idle)
{
    free(idle->ports);
    *idle = (struct http_curl_idle){0};
}
