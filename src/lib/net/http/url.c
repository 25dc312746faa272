// SPDX-License-Identifier: Apache-2.0
// URLs of plain HTTP for the short path. What it does not accept is not necessarily invalid:
// libcurl gets it.
#include "net/http/http_private.h"

#include "base/num.h"

#include <stdint.h>
#include <strings.h>
#include <uv.h>

static bool is_host_char(char c, bool bracketed)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || (bracketed && c == ':');
}

static bool take_host(struct gs_slice host, bool bracketed, struct http_url *ret)
{
    if (!host.len || host.len >= sizeof(ret->host))
        return false;
    for (size_t i = 0; i < host.len; i++)
        if (!is_host_char(host.data[i], bracketed))
            return false;
    memcpy(ret->host, host.data, host.len);
    ret->host[host.len] = '\0';
    return true;
}

static bool take_port(struct gs_slice port, struct http_url *ret)
{
    uint64_t n = 80;
    struct gs_error *err = port.len ? gs_parse_u64(port, UINT16_MAX, &n) : NULL;
    bool right = !err && n;
    gs_error_free(err);
    ret->port = (int)n;
    return right;
}

static bool take_authority(struct http_url *ret)
{
    struct gs_slice host = ret->authority, port = {0};
    bool bracketed = host.len && host.data[0] == '[';
    const char *end = bracketed ? memchr(host.data, ']', host.len) : NULL;
    if (bracketed && !end)
        return false;
    if (bracketed) {
        port = gs_slice_make(end + 1, host.len - (size_t)(end + 1 - host.data));
        host = gs_slice_make(host.data + 1, (size_t)(end - host.data) - 1);
        if (port.len && port.data[0] != ':')
            return false;
        if (port.len)
            port = gs_slice_make(port.data + 1, port.len - 1);
    } else {
        port = host;
        host = gs_slice_cut(&port, ':');
    }
    return take_host(host, bracketed, ret) && take_port(port, ret);
}

bool http_url_parse(const char *text, struct http_url *ret)
{
    static const char scheme[] = "http://";
    if (strncasecmp(text, scheme, sizeof(scheme) - 1) != 0)
        return false;
    text += sizeof(scheme) - 1;
    size_t n = strcspn(text, "/?#");
    ret->authority = gs_slice_make(text, n);
    ret->target = gs_slice_of(text[n] ? text + n : "/");
    for (size_t i = 0; i < ret->target.len; i++)
        if (ret->target.data[i] <= ' ' || ret->target.data[i] > '~' || ret->target.data[i] == '#')
            return false;
    return ret->target.data[0] == '/' && take_authority(ret);
}

bool http_host_is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || gs_starts(host, "127.") ||
           strcmp(host, "::1") == 0 || strcmp(host, "[::1]") == 0;
}

bool http_url_address(const struct http_url *u, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof(*ret));
    return uv_ip4_addr(u->host, u->port, (struct sockaddr_in *)ret) == 0 ||
           uv_ip6_addr(u->host, u->port, (struct sockaddr_in6 *)ret) == 0;
}
